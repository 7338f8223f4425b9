// SPDX-License-Identifier: Apache-2.0
// Objects in a store that speaks Amazon's S3: paths that begin with s3://, such as s3://BUCKET/runs/a/hearth.json.
// base/file.h says which functions take these paths; they call this header.
//
// The store is reached through a shared object of our own (src/s3), loaded with the first such path. Endpoint, region
// and credentials are those of the AWS tools: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION, AWS_PROFILE,
// AWS_ACCESS_KEY_ID, ~/.aws, and so on. They are never printed. docs/stores.md is the manual.
//
// We rely on two guarantees of a store: an object appears whole or not at all, and a later read or list sees it. We do
// not rely on a store to find flipped bits: no server that we tried noticed one. Our own checksums do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

// The result of a request. No exception leaves the shared object.
struct StoreResult {
  enum class Kind {
    kDone,
    kMissing,      // there is no such object or bucket
    kThere,        // an object that should be new exists already
    kRefused,      // credentials, permissions, a wrong name or setting: another try will not help
    kUnreachable,  // the network or the server: another try may help
  };
  Kind kind = Kind::kDone;
  std::string why = {};
  bool is_done() const { return kind == Kind::kDone; }
};

struct ObjectInfo {
  std::string name;  // the last part of the path
  bool is_folder = false;
  int64_t bytes = 0;
};

// One object, open for reading. Thread-safe.
class ObjectReader {
 public:
  virtual ~ObjectReader() = default;
  virtual int64_t size_bytes() const = 0;
  virtual const std::string& version() const = 0;  // changes with the content: S3's ETag
  // The range must be inside the object. Long ranges are read in several requests side by side.
  virtual StoreResult read(int64_t offset, std::span<std::byte> bytes) = 0;
};

// A new object, written from begin to end. If it is destroyed before finish(), the store keeps what it had under the
// name.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;
  virtual StoreResult write(std::span<const std::byte> bytes) = 0;
  virtual StoreResult finish() = 0;
};

// `name` is BUCKET/KEY. After an error that may pass, each call tries again by itself for a while.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  virtual StoreResult find(const std::string& name, ObjectInfo& info) const = 0;
  virtual StoreResult open(const std::string& name, std::unique_ptr<ObjectReader>& reader) const = 0;
  // Begins an object that must not exist yet, or whose content must still be `replaced_version` (an
  // ObjectReader::version()). Otherwise finish() gives kThere. So a request that the store executes late replaces
  // nothing newer. A store that does not support conditional writes replaces the object in any case.
  virtual StoreResult create(const std::string& name, const std::string& replaced_version,
                             std::unique_ptr<ObjectWriter>& writer) const = 0;
  // Writes an object that must not exist yet, in one request.
  virtual StoreResult put_new(const std::string& name, std::string_view content) const = 0;
  // The objects and folders directly under a folder, sorted by name. A folder exists while objects are under it.
  virtual StoreResult list(const std::string& name, std::vector<ObjectInfo>& found) const = 0;
  virtual StoreResult remove(const std::string& name) const = 0;         // missing is fine
  virtual StoreResult remove_folder(const std::string& name) const = 0;  // and all under it; missing is fine
};

// The entry of the shared object, its only symbol: HEARTH_S3_ENTRY.
using OpenObjectStore = const ObjectStore* (*)(StoreResult& result);
inline constexpr const char* kS3Object = "libhearth_s3.so";

// Loads the shared object on the first call. Throws user_error if this program does not have it. Thread-safe.
const ObjectStore& object_store();

}  // namespace hearth
