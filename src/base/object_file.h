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

// The part of a File that reads or writes an object.
class ObjectFile {
 public:
  static std::unique_ptr<ObjectFile> open(const Path& path);
  // `replaced_version`: the version() of the content that may be replaced. Empty: the object must not exist yet.
  static std::unique_ptr<ObjectFile> create(const Path& path, const std::string& replaced_version = {});

  // A small range is copied from a window: a part of the object in memory, fetched by one request. The window is larger
  // when a read begins where the last one ended. Thread-safe.
  void read_at(int64_t offset, std::span<std::byte> bytes);
  // Fetches this range as the window, so that later small reads in it need no request. Does nothing above
  // kMostWindowBytes.
  void read_ahead(int64_t offset, int64_t length);
  int64_t size_bytes() const;
  const std::string& version() const { return reader_->version(); }

  void write(std::span<const std::byte> bytes);
  void finish();  // when this returns, the whole object is visible

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
  int64_t last_end_ = -1;  // end of the last read
};

std::optional<ObjectInfo> find_object(const Path& path);   // an object, or a folder with objects
std::vector<ObjectInfo> list_objects(const Path& folder);  // throws user_error for a missing folder
void remove_object(const Path& path);
void remove_objects(const Path& folder);
// Creates an object. Throws an Error (kHardware) if it exists already. Some stores cannot check that: they replace it.
void put_new_object(const Path& path, std::string_view content);

}  // namespace hearth
