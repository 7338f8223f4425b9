// SPDX-License-Identifier: Apache-2.0
#include "base/object_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"

namespace hearth {
namespace {

constexpr int64_t kWindowBytes = int64_t{1} << 20;
constexpr int64_t kSequentialBytes = int64_t{64} << 20;

void check(const StoreResult& result, std::string_view verb, const Path& path) {
  using Kind = StoreResult::Kind;
  const std::string what = fmt::format("cannot {} {}", verb, path.string());
  switch (result.kind) {
    case Kind::kDone:
      return;
    case Kind::kMissing:
      throw user_error(what, "no such object in the store");
    case Kind::kThere:
      throw Error(ExitCode::kHardware, what, "the store has it already, from another writer",
                  "make sure that only one program writes here");
    case Kind::kRefused:
      throw user_error(what, result.why, "check the credentials and the region that the AWS tools use");
    case Kind::kUnreachable:
      throw Error(ExitCode::kHardware, what, result.why, "check the network, and try again");
  }
}

}  // namespace

bool is_object(const Path& path) { return path.native().starts_with("s3:/"); }

std::string object_name(const Path& path) {
  std::string name = path.lexically_normal().string();
  name.erase(0, name.find_first_not_of('/', std::strlen("s3:")));
  while (name.ends_with('/')) name.pop_back();
  if (name.empty() || name == "s3:")
    throw user_error(fmt::format("{} names no bucket", path.string()), {}, "write s3://BUCKET/FOLDER");
  return name;
}

std::unique_ptr<ObjectFile> ObjectFile::open(const Path& path) {
  std::unique_ptr<ObjectFile> file(new ObjectFile(path));
  check(object_store().open(object_name(path), file->reader_), "open", path);
  return file;
}

std::unique_ptr<ObjectFile> ObjectFile::create(const Path& path, const std::string& replaced_version) {
  std::unique_ptr<ObjectFile> file(new ObjectFile(path));
  check(object_store().create(object_name(path), replaced_version, file->writer_), "create", path);
  return file;
}

void ObjectFile::fetch(int64_t offset, std::span<std::byte> bytes) {
  check(reader_->read(offset, bytes), "read", path_);
}

void ObjectFile::read_at(int64_t offset, std::span<std::byte> bytes) {
  const auto length = static_cast<int64_t>(bytes.size());
  const int64_t size = size_bytes();
  if (length == 0) return;
  if (offset > size || length > size - offset)
    throw damaged(fmt::format("{} ends at byte {}, {} bytes early", path_.string(), size, offset + length - size));
  const std::lock_guard lock(mutex_);
  const int64_t window = std::min(offset == last_end_ ? kSequentialBytes : kWindowBytes, size - offset);
  last_end_ = offset + length;
  if (!holds(offset, length)) {
    if (length >= window) return fetch(offset, bytes);
    move_window(offset, window);
  }
  std::memcpy(bytes.data(), window_.data() + (offset - window_begin_), bytes.size());
}

void ObjectFile::read_ahead(int64_t offset, int64_t length) {
  const std::lock_guard lock(mutex_);
  length = std::min(length, size_bytes() - offset);
  if (length > 0 && length <= kMostWindowBytes && !holds(offset, length)) move_window(offset, length);
}

bool ObjectFile::holds(int64_t offset, int64_t length) const {
  return offset >= window_begin_ && offset + length <= window_begin_ + std::ssize(window_);
}

void ObjectFile::move_window(int64_t offset, int64_t length) {
  window_.clear();  // if the read fails, nothing is held
  std::vector<std::byte> window(static_cast<size_t>(length));
  fetch(offset, window);
  window_ = std::move(window);
  window_begin_ = offset;
}

int64_t ObjectFile::size_bytes() const { return reader_ != nullptr ? reader_->size_bytes() : written_bytes_; }

void ObjectFile::write(std::span<const std::byte> bytes) {
  check(writer_->write(bytes), "write", path_);
  written_bytes_ += static_cast<int64_t>(bytes.size());
}

void ObjectFile::finish() {
  if (writer_ != nullptr) check(std::exchange(writer_, nullptr)->finish(), "write", path_);
}

std::optional<ObjectInfo> find_object(const Path& path) {
  ObjectInfo info;
  const StoreResult result = object_store().find(object_name(path), info);
  if (result.kind == StoreResult::Kind::kMissing) return std::nullopt;
  check(result, "find", path);
  return info;
}

std::vector<ObjectInfo> list_objects(const Path& folder) {
  std::vector<ObjectInfo> found;
  check(object_store().list(object_name(folder), found), "list", folder);
  return found;
}

void remove_object(const Path& path) { check(object_store().remove(object_name(path)), "remove", path); }
void remove_objects(const Path& folder) { check(object_store().remove_folder(object_name(folder)), "remove", folder); }
void put_new_object(const Path& path, std::string_view content) {
  check(object_store().put_new(object_name(path), content), "create", path);
}

}  // namespace hearth
