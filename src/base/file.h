// SPDX-License-Identifier: Apache-2.0
// All writes of Hearth to a disk go through here, so that "written" means "fsynced and renamed".
//
// Every function throws system_error naming the path; none returns an error code.
//
// A path that begins with s3:// names an object in a store (base/object_store.h). Functions that read, list and remove
// take it like any path. A new object must not exist yet; it appears as a whole when close() returns. Folders need not
// be made, and nothing is renamed. MappedFile maps a copy on this host (base/object_cache.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {

using Path = std::filesystem::path;
class ObjectFile;

bool is_object(const Path& path);  // s3://...
// FOLDER/GIVEN, or GIVEN alone if it is absolute or in a store.
Path join_path(const Path& folder, const Path& given);
Path normal_path(const Path& path);    // without "." and ".."; changes the text only, looks up no file
Path absolute_path(const Path& path);  // and normal

// A descriptor of the system, closed by the destructor. Move-only.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }
  int number() const { return number_; }  // -1: no descriptor
  bool close();                           // false: the system reports an error in errno

 private:
  int number_;
};

// A file open for reading or writing. Move-only; the destructor closes and ignores errors, so a writer calls close().
class File {
 public:
  // Throws user_error for a pipe, a socket, a device or a folder, before it is opened.
  static File open_read(const Path& path);
  static File create(const Path& path);       // truncates
  static File open_append(const Path& path);  // creates if missing

  void write(std::span<const std::byte> bytes);  // all of them, at the file's end
  void write(std::string_view bytes);
  void write_at(int64_t offset, std::span<const std::byte> bytes);  // not in a store
  void read_at(int64_t offset, std::span<std::byte> bytes) const;   // all of them; damaged() if the file is too short
  // The range will be read soon. For an object, the range is read into memory at once, unless it is longer than 1 GiB.
  // For a file on a disk, this does nothing.
  void read_ahead(int64_t offset, int64_t length) const;
  int64_t size_bytes() const;
  void sync();  // fsync
  void close();
  const Path& path() const { return path_; }
  int descriptor() const { return descriptor_.number(); }  // -1 in a store

 private:
  File(Descriptor descriptor, Path path) : descriptor_(std::move(descriptor)), path_(std::move(path)) {}
  Descriptor descriptor_;
  Path path_;
  std::shared_ptr<ObjectFile> object_;  // in a store
};

// A file, or a range of one, mapped read-only. An empty file or range maps to an empty span. Copies share the mapping.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const Path& path);
  MappedFile(const Path& path, int64_t offset, int64_t size);  // damaged() if the file is too short
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void map(const File& file, size_t offset, size_t size);

  std::shared_ptr<void> mapping_;  // begins at a page
  std::span<const std::byte> bytes_;
};

std::string read_file(const Path& path);  // also of /proc
// The same for a path that may also be a pipe or a device, such as the shell's <(command) and /dev/stdin.
std::string read_stream(const Path& path);
// Writes PATH.tmp, fsyncs, renames over PATH, fsyncs the folder: readers see the whole old or the whole new content.
void write_file_atomic(const Path& path, std::string_view content);
// As above, with `temporary` in place of PATH.tmp: a name in the same folder, for files with several writers at once.
void write_file_atomic(const Path& path, std::string_view content, const Path& temporary);
void rename_path(const Path& from, const Path& to);  // and fsyncs the folder of `to`
// Gives the file a second name, or copies and fsyncs it if the file system cannot. Returns whether it is a second name.
// `to` must not exist yet. Its folder is not fsynced.
bool link_or_copy(const Path& from, const Path& to);
void sync_folder(const Path& folder);
void make_folders(const Path& folder);
void remove_file(const Path& path);    // missing is fine
void remove_tree(const Path& folder);  // missing is fine
// Gives the folder `temporary` the name `folder`. An older folder of that name is renamed to `aside` first and removed
// last, so that `folder` never has only a part of its files. What cannot be removed remains in `aside`.
void replace_folder(const Path& temporary, const Path& folder, const Path& aside);
std::vector<std::string> list_folder(const Path& folder);   // names, sorted
std::vector<std::string> list_folders(const Path& folder);  // names of folders, sorted
bool path_exists(const Path& path);
bool folder_exists(const Path& path);
struct FileEntry {
  Path path;  // relative to the folder
  int64_t bytes = 0;
};
// The files under a folder and its folders, by path. Files that vanish meanwhile are left out.
std::vector<FileEntry> files_under(const Path& folder);
int64_t folder_bytes(const Path& folder);  // the sum over files_under(folder)
// Calls `body` with the file's bytes, a portion at a time.
void read_in_portions(const File& file, const std::function<void(std::span<const std::byte> portion)>& body);

// An exclusive advisory lock (flock) held while the object lives; the kernel drops it with the process, however it
// ends. try_lock returns null when another process holds it.
class FileLock {
 public:
  static std::unique_ptr<FileLock> try_lock(const Path& path);

 private:
  explicit FileLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

}  // namespace hearth
