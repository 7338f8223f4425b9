// SPDX-License-Identifier: Apache-2.0
// libhearth_s3.so. This file alone uses Arrow's S3 (the pyarrow wheel): for reads, lists and credentials. The other
// sources of this folder are also linked with tests.
#include <arrow/buffer.h>
#include <arrow/filesystem/s3fs.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/future.h>
#include <arrow/util/key_value_metadata.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "base/object_store.h"
#include "s3/request.h"
#include "s3/settings.h"
#include "s3/upload.h"

namespace hearth::s3 {
namespace {

using Kind = StoreResult::Kind;

// Requests for one range: as many side by side as Arrow has threads for I/O.
constexpr int64_t kRequestBytes = int64_t{8} << 20;
constexpr size_t kRequestsAtOnce = 8;

// What Arrow says, in one line and without the request's details.
std::string text_of(const arrow::Status& status) {
  std::string text = status.message();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() > 500) text = text.substr(0, 500) + "...";
  return text;
}

// Arrow gives the kind of an error of the SDK only as a part of its message.
StoreResult result_of(const arrow::Status& status) {
  if (status.ok()) return {};
  const std::string text = text_of(status);
  const auto says_one_of = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(words, [&](std::string_view word) { return text.find(word) != std::string::npos; });
  };
  if (says_one_of({"NoSuchKey", "NoSuchBucket", "NO_SUCH_KEY", "NO_SUCH_BUCKET", "RESOURCE_NOT_FOUND",
                   "HTTP status 404", "does not exist"}))
    return {Kind::kMissing, text};
  const bool is_refused = says_one_of({"ACCESS_DENIED", "AccessDenied", "INVALID_ACCESS_KEY_ID", "InvalidAccessKeyId",
                                       "SIGNATURE_DOES_NOT_MATCH", "SignatureDoesNotMatch", "INVALID_CLIENT_TOKEN_ID",
                                       "MISSING_AUTHENTICATION", "HTTP status 403", "HTTP status 401",
                                       "HTTP status 301", "ExpiredToken", "InvalidBucketName", "No credentials"});
  return {is_refused || status.IsInvalid() || status.IsNotImplemented() ? Kind::kRefused : Kind::kUnreachable, text};
}

ObjectInfo info_of(const arrow::fs::FileInfo& file) {
  const bool is_folder = file.type() == arrow::fs::FileType::Directory;
  return {.name = file.base_name(), .is_folder = is_folder, .bytes = is_folder ? 0 : file.size()};
}

class Reader final : public ObjectReader {
 public:
  Reader(std::shared_ptr<arrow::io::RandomAccessFile> file, int64_t size_bytes, std::string version)
      : file_(std::move(file)), size_bytes_(size_bytes), version_(std::move(version)) {}
  int64_t size_bytes() const override { return size_bytes_; }
  const std::string& version() const override { return version_; }

  StoreResult read(int64_t offset, std::span<std::byte> bytes) override {
    struct Part {
      std::span<std::byte> to;
      arrow::Future<std::shared_ptr<arrow::Buffer>> from;
    };
    std::deque<Part> parts;
    StoreResult result;
    while (!bytes.empty() || !parts.empty()) {
      if (!bytes.empty() && parts.size() < kRequestsAtOnce) {
        const auto to = bytes.first(std::min(bytes.size(), static_cast<size_t>(kRequestBytes)));
        parts.push_back({to, file_->ReadAsync(arrow::io::default_io_context(), offset, std::ssize(to))});
        bytes = bytes.subspan(to.size());
        offset += std::ssize(to);
        continue;
      }
      const Part part = std::move(parts.front());
      parts.pop_front();
      const auto buffer = part.from.result();  // waits
      if (!buffer.ok()) {
        result = result_of(buffer.status());
        bytes = {};  // the requests under way are waited for
      } else if ((*buffer)->size() != std::ssize(part.to)) {
        result = {Kind::kUnreachable, "the store sent fewer bytes than it has"};
        bytes = {};
      } else {
        std::memcpy(part.to.data(), (*buffer)->data(), part.to.size());
      }
    }
    return result;
  }

 private:
  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  const int64_t size_bytes_;
  const std::string version_;
};

class Store final : public ObjectStore {
 public:
  Store(std::shared_ptr<arrow::fs::S3FileSystem> files, Settings settings)
      : files_(std::move(files)), settings_(std::move(settings)) {}
  Store(const Store&) = delete;

  StoreResult find(const std::string& name, ObjectInfo& info) const override {
    const auto file = files()->GetFileInfo(name);
    if (!file.ok()) return result_of(file.status());
    if (file->type() == arrow::fs::FileType::NotFound) return {Kind::kMissing, name};
    info = info_of(*file);
    return {};
  }

  StoreResult open(const std::string& name, std::unique_ptr<ObjectReader>& reader) const override {
    const auto file = files()->OpenInputFile(name);
    if (!file.ok()) return result_of(file.status());
    const auto size = (*file)->GetSize();
    const auto metadata = (*file)->ReadMetadata();
    if (!size.ok()) return result_of(size.status());
    if (!metadata.ok()) return result_of(metadata.status());
    const auto tag = *metadata == nullptr ? arrow::Result<std::string>("") : (*metadata)->Get("ETag");
    reader = std::make_unique<Reader>(*file, *size, tag.ok() ? *tag : "");
    return {};
  }

  StoreResult create(const std::string& name, const std::string& replaced_version,
                     std::unique_ptr<ObjectWriter>& writer) const override {
    writer = std::make_unique<Upload>([this, name] { return place(name); }, name, Precondition{replaced_version});
    return {};
  }

  StoreResult put_new(const std::string& name, std::string_view content) const override {
    const StoreResult result = s3::put(place(name), name, content, {});
    // A lost answer: the first try may have created it.
    if (result.kind == Kind::kThere && holds(name, content)) return {};
    return result;
  }

  StoreResult list(const std::string& name, std::vector<ObjectInfo>& found) const override {
    arrow::fs::FileSelector under;
    under.base_dir = name;
    const auto listed = files()->GetFileInfo(under);
    if (!listed.ok()) return result_of(listed.status());
    for (const arrow::fs::FileInfo& file : *listed) found.push_back(info_of(file));
    std::sort(found.begin(), found.end(), [](const ObjectInfo& a, const ObjectInfo& b) { return a.name < b.name; });
    return {};
  }

  StoreResult remove(const std::string& name) const override { return s3::remove(place(name), name); }

  StoreResult remove_folder(const std::string& name) const override {
    arrow::fs::FileSelector under;
    under.base_dir = name;
    under.recursive = true;
    under.allow_not_found = true;
    const auto listed = files()->GetFileInfo(under);
    if (!listed.ok()) return result_of(listed.status());
    const StoreAccess at = place(name);
    for (const arrow::fs::FileInfo& file : *listed) {
      // Other programs mark a folder by an empty object of its name.
      const StoreResult result = s3::remove(at, file.path() + (file.IsDirectory() ? "/" : ""));
      if (!result.is_done()) return result;
    }
    const StoreResult result = s3::remove(at, name + "/");
    return result.is_done() ? s3::remove(at, name) : result;
  }

 private:
  StoreAccess place(const std::string& name) const {
    const std::shared_ptr<arrow::fs::S3FileSystem> there = files();
    const arrow::fs::S3Options options = there->options();
    const std::string region = there->region();
    // A certificate of Amazon's holds for one more name before its own, and a bucket with a dot has two.
    const bool is_virtual = settings_.is_amazon() && name.substr(0, name.find('/')).find('.') == std::string::npos;
    return {.endpoint =
                options.scheme + "://" + (settings_.is_amazon() ? "s3." + region + ".amazonaws.com" : settings_.host),
            .is_virtual = is_virtual,
            .credentials = {options.GetAccessKey(), options.GetSecretKey(), options.GetSessionToken(), region},
            .attempts = settings_.attempts,
            .connect_timeout_s = settings_.connect_timeout_s,
            .request_timeout_s = settings_.request_timeout_s};
  }

  bool holds(const std::string& name, std::string_view content) const {
    std::unique_ptr<ObjectReader> reader;
    if (!open(name, reader).is_done() || reader->size_bytes() != std::ssize(content)) return false;
    std::string there(content.size(), '\0');
    return reader->read(0, std::as_writable_bytes(std::span(there))).is_done() && there == content;
  }

  // A rank may be forked from a process that has used the store already. It has connections of its own: two processes
  // on one would read each other's answers.
  std::shared_ptr<arrow::fs::S3FileSystem> files() const {
    const std::lock_guard lock(mutex_);
    if (owner_ != ::getpid()) {
      auto fresh = arrow::fs::S3FileSystem::Make(files_->options());
      // The old one is never destroyed: its connections are the parent's.
      if (fresh.ok()) {
        new std::shared_ptr<arrow::fs::S3FileSystem>(std::exchange(files_, *fresh));
        owner_ = ::getpid();
      }
    }
    return files_;
  }

  mutable std::mutex mutex_;
  mutable std::shared_ptr<arrow::fs::S3FileSystem> files_;
  mutable pid_t owner_ = ::getpid();
  const Settings settings_;
};

arrow::fs::S3Options options_of(const Settings& settings) {
  arrow::fs::S3Options options;
  options.ConfigureDefaultCredentials();
  options.region = settings.region;
  if (!settings.is_amazon()) {
    options.scheme = settings.scheme;
    options.endpoint_override = settings.host;
  }
  options.connect_timeout = static_cast<double>(settings.connect_timeout_s);
  options.request_timeout = static_cast<double>(settings.request_timeout_s);  // without any byte
  options.retry_strategy = arrow::fs::S3RetryStrategy::GetAwsStandardRetryStrategy(settings.attempts);
  return options;
}

const ObjectStore* open_store(StoreResult& result) {
  const auto fail = [&](std::string why) {
    result = {Kind::kRefused, std::move(why)};
    return nullptr;
  };
  Settings settings;
  if (std::string why = read_settings(settings); !why.empty()) return fail(std::move(why));
  arrow::fs::S3GlobalOptions global{.log_level = arrow::fs::S3LogLevel::Off};
  global.install_sigpipe_handler = true;
  if (const arrow::Status status = arrow::fs::InitializeS3(global); !status.ok()) return fail(text_of(status));
  const auto files = arrow::fs::S3FileSystem::Make(options_of(settings));
  if (!files.ok()) return fail(text_of(files.status()));
  // Arrow's threads end before the program does, or it may crash at its end.
  static const pid_t owner = ::getpid();
  std::atexit([] {
    if (owner == ::getpid()) static_cast<void>(arrow::fs::EnsureS3Finalized());
  });
  // Never destroyed: at the program's end Arrow's part of it is gone already.
  return new Store(*files, std::move(settings));
}

}  // namespace
}  // namespace hearth::s3

extern "C" __attribute__((visibility("default"))) const hearth::ObjectStore* HEARTH_S3_ENTRY(
    hearth::StoreResult& result) {
  return hearth::s3::open_store(result);
}
