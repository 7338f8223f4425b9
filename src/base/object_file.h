// SPDX-License-Identifier: Apache-2.0
// What base/file.h does with paths of a store (base/object_store.h). Every function throws an Error that names the
// path: user_error where another try will not help, hardware (4) where it may.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/object_store.h"

namespace hearth {

// BUCKET/KEY of a path of a store. Throws user_error without a bucket.
std::string object_name(const Path& path);

// The end behind a File.
class ObjectFile {
 public:
  static std::unique_ptr<ObjectFile> open(const Path& path);
  // `replaced_version`: what version() says of the content that may be replaced. Empty: there must be no such object.
  static std::unique_ptr<ObjectFile> create(const Path& path, const std::string& replaced_version = {});

  // Small ranges come from a window of the object in memory, which is read as a whole, and is large where a read begins
  // at the end of the one before. Thread-safe.
  void read_at(int64_t offset, std::span<std::byte> bytes);
  // Makes this range the window. Does nothing above kMostWindowBytes.
  void read_ahead(int64_t offset, int64_t length);
  int64_t size_bytes() const;
  const std::string& version() const { return reader_->version(); }

  void write(std::span<const std::byte> bytes);
  void finish();  // the object is there, whole, at the return

  static constexpr int64_t kMostWindowBytes = int64_t{1} << 30;

 private:
  explicit ObjectFile(Path path) : path_(std::move(path)) {}
  void fetch(int64_t offset, std::span<std::byte> bytes);
  bool holds(int64_t offset, int64_t length) const;
  void move_window(int64_t offset, int64_t length);

  const Path path_;
  std::unique_ptr<ObjectReader> reader_;
  std::unique_ptr<ObjectWriter> writer_;
  int64_t written_bytes_ = 0;
  std::mutex mutex_;  // of the window
  std::vector<std::byte> window_;
  int64_t window_begin_ = 0;
  int64_t last_end_ = -1;  // of the read before
};

std::optional<ObjectInfo> find_object(const Path& path);   // an object, or a folder with objects
std::vector<ObjectInfo> list_objects(const Path& folder);  // throws user_error for a missing folder
void remove_object(const Path& path);
void remove_objects(const Path& folder);
// Creates an object that is not there yet. Throws an Error (kHardware) if it is; only a store that can tell does.
void put_new_object(const Path& path, std::string_view content);

}  // namespace hearth
