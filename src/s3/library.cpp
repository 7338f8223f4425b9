// SPDX-License-Identifier: Apache-2.0
// libhearth_s3.so. The other sources of this folder are also linked with tests.
#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

#include "base/object_store.h"
#include "s3/credentials.h"
#include "s3/list.h"
#include "s3/request.h"
#include "s3/settings.h"
#include "s3/upload.h"

namespace hearth::s3 {
namespace {

using Kind = StoreResult::Kind;

// Requests for one range, side by side.
constexpr int64_t kRequestBytes = int64_t{8} << 20;
constexpr int64_t kRequestsAtOnce = 8;

std::string bucket_of(const std::string& name) { return name.substr(0, name.find('/')); }
// Without the bucket; empty for the bucket itself.
std::string key_of(const std::string& name) {
  const size_t slash = name.find('/');
  return slash == std::string::npos ? "" : name.substr(slash + 1);
}
std::string last_part(const std::string& name) { return name.substr(name.rfind('/') + 1); }
// What the keys of everything under a folder begin with; empty for a bucket.
std::string prefix_of(const std::string& name) {
  const std::string key = key_of(name);
  return key.empty() ? "" : key + "/";
}

// Connections of this process that no request uses.
class Connections {
 public:
  std::unique_ptr<Connection> take() {
    const std::lock_guard lock(mutex_);
    // A rank may be forked from a process that has used the store already. It opens connections of its own: two
    // processes on one would read each other's answers. The old ones are never closed: they are the parent's.
    if (std::exchange(owner_, ::getpid()) != ::getpid())
      for (std::unique_ptr<Connection>& parents : std::exchange(free_, {})) static_cast<void>(parents.release());
    if (free_.empty()) return std::make_unique<Connection>();
    std::unique_ptr<Connection> connection = std::move(free_.back());
    free_.pop_back();
    return connection;
  }
  void give_back(std::unique_ptr<Connection> connection) {
    const std::lock_guard lock(mutex_);
    if (owner_ == ::getpid() && std::ssize(free_) < kRequestsAtOnce) free_.push_back(std::move(connection));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> free_;
  pid_t owner_ = ::getpid();
};

class Store final : public ObjectStore {
 public:
  Store(Settings settings, std::string region) : settings_(std::move(settings)), credentials_(std::move(region)) {}
  Store(const Store&) = delete;

  StoreResult find(const std::string& name, ObjectInfo& info) const override {
    Answer answer;
    const bool is_bucket = key_of(name).empty();
    StoreResult head = send({.method = "HEAD", .name = name}, answer);
    info = {.name = last_part(name), .is_folder = is_bucket, .bytes = 0};
    if (head.is_done() && !is_bucket) return size_of(answer, info.bytes);
    if (head.kind != Kind::kMissing || is_bucket) return head;
    Listing listing;
    StoreResult listed = list_objects(place(name), bucket_of(name), prefix_of(name), /*flat=*/true, 1, listing);
    if (!listed.is_done()) return listed;
    if (listing.objects.empty()) return {Kind::kMissing, name};
    info.is_folder = true;
    return {};
  }

  StoreResult open(const std::string& name, std::unique_ptr<ObjectReader>& reader) const override {
    if (key_of(name).empty()) return {Kind::kRefused, "a bucket is no object"};
    Answer answer;
    int64_t bytes = 0;
    StoreResult result = send({.method = "HEAD", .name = name}, answer);
    if (result.is_done()) result = size_of(answer, bytes);
    if (result.is_done()) reader = std::make_unique<Reader>(*this, name, bytes, answer.headers["etag"]);
    return result;
  }

  StoreResult create(const std::string& name, const std::string& replaced_version,
                     std::unique_ptr<ObjectWriter>& writer) const override {
    writer = std::make_unique<Upload>([this, name] { return place(name); }, name, Precondition{replaced_version});
    return {};
  }

  StoreResult put_new(const std::string& name, std::string_view content) const override {
    StoreResult result = s3::put(place(name), name, content, {});
    // A lost answer: the first try may have created it.
    if (result.kind == Kind::kThere && holds(name, content)) return {};
    return result;
  }

  StoreResult list(const std::string& name, std::vector<ObjectInfo>& found) const override {
    Listing listing;
    const std::string prefix = prefix_of(name);
    if (StoreResult result = list_objects(place(name), bucket_of(name), prefix, /*flat=*/false, 0, listing);
        !result.is_done())
      return result;
    const bool is_there = prefix.empty() || !listing.objects.empty() || !listing.folders.empty();
    if (!is_there) return {Kind::kMissing, name};
    for (const ListedObject& object : listing.objects)
      if (object.key != prefix)  // other programs mark a folder by an empty object of its name
        found.push_back({.name = last_part(object.key), .is_folder = false, .bytes = object.bytes});
    for (const std::string& folder : listing.folders)
      found.push_back({.name = last_part(folder.substr(0, folder.size() - 1)), .is_folder = true, .bytes = 0});
    std::sort(found.begin(), found.end(), [](const ObjectInfo& a, const ObjectInfo& b) { return a.name < b.name; });
    return {};
  }

  StoreResult remove(const std::string& name) const override { return s3::remove(place(name), name); }

  StoreResult remove_folder(const std::string& name) const override {
    if (key_of(name).empty()) return {Kind::kRefused, "a bucket is not removed"};
    Listing listing;
    StoreResult result = list_objects(place(name), bucket_of(name), prefix_of(name), /*flat=*/true, 0, listing);
    if (result.kind == Kind::kMissing) return {};
    for (const ListedObject& object : listing.objects) {
      if (!result.is_done()) return result;
      result = remove(bucket_of(name) + "/" + object.key);
    }
    if (result.is_done()) result = remove(name + "/");  // a mark that the store does not list
    return result.is_done() ? remove(name) : result;
  }

 private:
  class Reader final : public ObjectReader {
   public:
    Reader(const Store& store, std::string name, int64_t size_bytes, std::string version)
        : store_(store), name_(std::move(name)), size_bytes_(size_bytes), version_(std::move(version)) {}
    int64_t size_bytes() const override { return size_bytes_; }
    const std::string& version() const override { return version_; }

    StoreResult read(int64_t offset, std::span<std::byte> bytes) override {
      const int64_t parts = (std::ssize(bytes) + kRequestBytes - 1) / kRequestBytes;
      std::atomic<int64_t> next{0};
      std::atomic<bool> stop{false};
      const auto work = [&] { return read_parts(offset, bytes, next, stop); };
      std::vector<std::future<StoreResult>> others;
      for (int64_t i = 1; i < std::min(parts, kRequestsAtOnce); ++i)
        others.push_back(std::async(std::launch::async, work));
      StoreResult result = parts > 0 ? work() : StoreResult{};
      for (std::future<StoreResult>& other : others) {
        // The first failure stops the others, whose results then say less.
        if (StoreResult theirs = other.get(); result.is_done() || result.why == kStopped) {
          if (!theirs.is_done()) result = std::move(theirs);
        }
      }
      return result;
    }

   private:
    StoreResult read_parts(int64_t offset, std::span<std::byte> bytes, std::atomic<int64_t>& next,
                           std::atomic<bool>& stop) const {
      std::unique_ptr<Connection> connection = store_.connections_.take();
      StoreResult result;
      while (result.is_done()) {
        const int64_t at = next++ * kRequestBytes;
        if (at >= std::ssize(bytes)) break;
        const auto part = bytes.subspan(static_cast<size_t>(at),
                                        static_cast<size_t>(std::min(kRequestBytes, std::ssize(bytes) - at)));
        result = get_range(*connection, store_.place(name_), name_, offset + at, part, stop);
      }
      if (!result.is_done()) stop = true;
      store_.connections_.give_back(std::move(connection));
      return result;
    }

    const Store& store_;
    const std::string name_;
    const int64_t size_bytes_;
    const std::string version_;
  };

  StoreAccess place(const std::string& name) const {
    FoundCredentials found = credentials_.get();
    Credentials& credentials = found.credentials;
    // A certificate of Amazon's holds for one more name before its own, and a bucket with a dot has two.
    const bool is_virtual = settings_.is_amazon() && bucket_of(name).find('.') == std::string::npos;
    return {.endpoint = settings_.is_amazon()
                            ? "https://s3." + credentials.region + "." + amazon_domain(credentials.region)
                            : settings_.scheme + "://" + settings_.host,
            .is_virtual = is_virtual,
            .credentials = std::move(credentials),
            .no_credentials = {found.failure, std::move(found.why)},
            .attempts = settings_.attempts,
            .connect_timeout_s = settings_.connect_timeout_s,
            .request_timeout_s = settings_.request_timeout_s};
  }

  StoreResult send(const StoreCall& call, Answer& answer) const {
    std::unique_ptr<Connection> connection = connections_.take();
    StoreResult result = connection->send(place(call.name), call, answer);
    connections_.give_back(std::move(connection));
    return result;
  }

  static StoreResult size_of(const Answer& answer, int64_t& bytes) {
    const auto header = answer.headers.find("content-length");
    if (header == answer.headers.end()) return {Kind::kRefused, "the store does not say how large the object is"};
    const std::string& text = header->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
    const bool is_number = error == std::errc() && end == text.data() + text.size() && bytes >= 0;
    return is_number ? StoreResult{}
                     : StoreResult{Kind::kRefused, "the store says that the object has " + text + " bytes"};
  }

  bool holds(const std::string& name, std::string_view content) const {
    std::unique_ptr<ObjectReader> reader;
    if (!open(name, reader).is_done() || reader->size_bytes() != std::ssize(content)) return false;
    std::string there(content.size(), '\0');
    return reader->read(0, std::as_writable_bytes(std::span(there))).is_done() && there == content;
  }

  const Settings settings_;
  mutable CredentialSource credentials_;
  mutable Connections connections_;
};

// A write to a connection that the store has closed would end the program. A handler, because programs that this one
// starts would inherit that the signal is ignored.
void outlive_closed_connections() {
  struct sigaction action {};
  ::sigaction(SIGPIPE, nullptr, &action);
  if (action.sa_handler != SIG_DFL) return;
  action.sa_handler = [](int) {};
  ::sigaction(SIGPIPE, &action, nullptr);
}

const ObjectStore* open_store(StoreResult& result) {
  Settings settings;
  if (std::string why = read_settings(settings); !why.empty()) {
    result = {Kind::kRefused, std::move(why)};
    return nullptr;
  }
  curl_global_init(CURL_GLOBAL_DEFAULT);
  outlive_closed_connections();
  std::string region = settings.region;
  if (region.empty()) region = region_of_machine();
  if (region.empty()) region = "us-east-1";
  // Never destroyed: threads may still use it at the program's end.
  return new Store(std::move(settings), std::move(region));
}

}  // namespace
}  // namespace hearth::s3

extern "C" __attribute__((visibility("default"))) const hearth::ObjectStore* HEARTH_S3_ENTRY(
    hearth::StoreResult& result) {
  return hearth::s3::open_store(result);
}
