// libhearth_s3.so: the sources in this folder are the only code that uses Arrow's S3 (the pyarrow wheel) and libcurl.
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
  const auto says = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  const bool is_missing = says("NoSuchKey") || says("NoSuchBucket") || says("NO_SUCH_KEY") || says("NO_SUCH_BUCKET") ||
                          says("RESOURCE_NOT_FOUND") || says("HTTP status 404") || says("Path does not exist") ||
                          says("does not exist");
  if (is_missing) return {Kind::kMissing, text};
  for (const std::string_view word :
       {"ACCESS_DENIED", "AccessDenied", "INVALID_ACCESS_KEY_ID", "InvalidAccessKeyId", "SIGNATURE_DOES_NOT_MATCH",
        "SignatureDoesNotMatch", "INVALID_CLIENT_TOKEN_ID", "MISSING_AUTHENTICATION", "HTTP status 403",
        "HTTP status 401", "HTTP status 301", "ExpiredToken", "InvalidBucketName", "No credentials"})
    if (says(word)) return {Kind::kRefused, text};
  if (status.IsInvalid() || status.IsNotImplemented()) return {Kind::kRefused, text};
  return {Kind::kUnreachable, text};
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

class Writer final : public ObjectWriter {
 public:
  explicit Writer(std::shared_ptr<arrow::io::OutputStream> stream) : stream_(std::move(stream)) {}
  ~Writer() override {
    if (stream_ != nullptr) static_cast<void>(stream_->Abort());  // or the store keeps the parts, and bills them
  }
  StoreResult write(std::span<const std::byte> bytes) override {
    return result_of(stream_->Write(bytes.data(), std::ssize(bytes)));
  }
  StoreResult finish() override {
    const arrow::Status status = stream_->Close();
    if (status.ok()) stream_ = nullptr;
    return result_of(status);
  }

 private:
  std::shared_ptr<arrow::io::OutputStream> stream_;
};

class Store final : public ObjectStore {
 public:
  explicit Store(std::shared_ptr<arrow::fs::S3FileSystem> files) : files_(std::move(files)) {}
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

  StoreResult create(const std::string& name, std::unique_ptr<ObjectWriter>& writer) const override {
    const auto type = arrow::key_value_metadata({{"Content-Type", "application/octet-stream"}});
    const auto stream = files()->OpenOutputStream(name, type);
    if (!stream.ok()) return result_of(stream.status());
    writer = std::make_unique<Writer>(*stream);
    return {};
  }

  StoreResult put_new(const std::string& name, std::string_view content) const override {
    bool is_unknown = false;
    StoreResult result = s3::put_new(place(), name, content, is_unknown);
    if (is_unknown) return put(name, content);
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

  StoreResult remove(const std::string& name) const override { return s3::remove(place(), name); }

  StoreResult remove_folder(const std::string& name) const override {
    arrow::fs::FileSelector under;
    under.base_dir = name;
    under.recursive = true;
    under.allow_not_found = true;
    const auto listed = files()->GetFileInfo(under);
    if (!listed.ok()) return result_of(listed.status());
    const Place at = place();
    for (const arrow::fs::FileInfo& file : *listed) {
      // Other programs mark a folder by an empty object of its name.
      const StoreResult result = s3::remove(at, file.path() + (file.IsDirectory() ? "/" : ""));
      if (!result.is_done()) return result;
    }
    const StoreResult result = s3::remove(at, name + "/");
    return result.is_done() ? s3::remove(at, name) : result;
  }

 private:
  Place place() const {
    const arrow::fs::S3Options options = files()->options();
    const std::string region = files()->region();
    const bool is_amazon = options.endpoint_override.empty();
    return {options.scheme + "://" + (is_amazon ? "s3." + region + ".amazonaws.com" : options.endpoint_override),
            is_amazon || options.force_virtual_addressing,
            {options.GetAccessKey(), options.GetSecretKey(), options.GetSessionToken(), region}};
  }

  StoreResult put(const std::string& name, std::string_view content) const {
    std::unique_ptr<ObjectWriter> writer;
    StoreResult result = create(name, writer);
    if (result.is_done()) result = writer->write(std::as_bytes(std::span(content)));
    return result.is_done() ? writer->finish() : result;
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
};

const ObjectStore* open_store(StoreResult& result) {
  const auto fail = [&](std::string why) {
    result = {Kind::kRefused, std::move(why)};
    return nullptr;
  };
  // Many stores other than Amazon's refuse the checksum that the SDK appends to a body (411). Ours are kept elsewhere.
  if (!endpoint_url().empty()) ::setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "WHEN_REQUIRED", 0);
  arrow::fs::S3GlobalOptions global{.log_level = arrow::fs::S3LogLevel::Off};
  global.install_sigpipe_handler = true;
  if (const arrow::Status status = arrow::fs::InitializeS3(global); !status.ok()) return fail(text_of(status));
  arrow::fs::S3Options options;
  if (std::string why = fill_options(options); !why.empty()) return fail(std::move(why));
  const auto files = arrow::fs::S3FileSystem::Make(options);
  if (!files.ok()) return fail(text_of(files.status()));
  // Arrow's threads end before the program does, or it may crash at its end.
  static const pid_t owner = ::getpid();
  std::atexit([] {
    if (owner == ::getpid()) static_cast<void>(arrow::fs::EnsureS3Finalized());
  });
  // Never destroyed: at the program's end Arrow's part of it is gone already.
  return new Store(*files);
}

}  // namespace
}  // namespace hearth::s3

extern "C" __attribute__((visibility("default"))) const hearth::ObjectStore* HEARTH_S3_ENTRY(
    hearth::StoreResult& result) {
  return hearth::s3::open_store(result);
}
