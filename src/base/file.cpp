// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/object_cache.h"
#include "base/object_file.h"
#include "base/program.h"

namespace hearth {

namespace {

[[noreturn]] void fail(std::string_view verb, const Path& path, int error_number = errno) {
  throw system_error(fmt::format("cannot {} {}", verb, path.string()), error_number);
}

Descriptor open_or_throw(const Path& path, int flags, std::string_view verb) {
  const int number = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (number < 0) fail(verb, path);
  return Descriptor(number);
}

// Opening a pipe waits for a writer, and opening a device may do anything.
void require_file(const Path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return;  // open() says what is missing
  const mode_t mode = info.st_mode;
  const char* kind = S_ISDIR(mode) ? "folder" : S_ISFIFO(mode) ? "pipe" : S_ISSOCK(mode) ? "socket" : "device";
  throw user_error(fmt::format("{} is a {}, not a file", path.string(), kind),
                   "Hearth reads its content in parts, from any place", "put a file in its place");
}

// Appends what the descriptor gives until its end.
void read_to_end(int fd, std::string& content, const Path& path) {
  char part[4096];
  for (ssize_t n; (n = ::read(fd, part, sizeof part)) != 0;) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", path);
    content.append(part, static_cast<size_t>(n));
  }
}

void write_fully(int fd, std::span<const std::byte> bytes, int64_t offset, const Path& path) {
  while (!bytes.empty()) {
    const ssize_t n =
        offset < 0 ? ::write(fd, bytes.data(), bytes.size()) : ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", path);
    bytes = bytes.subspan(static_cast<size_t>(n));
    if (offset >= 0) offset += n;
  }
}

}  // namespace

bool Descriptor::close() { return number_ < 0 || ::close(std::exchange(number_, -1)) == 0; }

File File::open_read(const Path& path) {
  if (!is_object(path)) {
    require_file(path);
    return {open_or_throw(path, O_RDONLY, "open"), path};
  }
  File file(Descriptor(), path);
  file.object_ = ObjectFile::open(path);
  return file;
}
File File::create(const Path& path) {
  if (!is_object(path)) return {open_or_throw(path, O_RDWR | O_CREAT | O_TRUNC, "create"), path};
  File file(Descriptor(), path);
  file.object_ = ObjectFile::create(path);
  return file;
}
File File::open_append(const Path& path) { return {open_or_throw(path, O_WRONLY | O_CREAT | O_APPEND, "open"), path}; }

void File::write(std::span<const std::byte> bytes) {
  if (object_ != nullptr)
    object_->write(bytes);
  else
    write_fully(descriptor(), bytes, -1, path_);
  note_progress();
}
void File::write(std::string_view bytes) { write(std::as_bytes(std::span(bytes))); }
void File::write_at(int64_t offset, std::span<const std::byte> bytes) {
  HEARTH_CHECK(object_ == nullptr, "{}: an object is written from begin to end", path_.string());
  write_fully(descriptor(), bytes, offset, path_);
  note_progress();
}

void File::read_at(int64_t offset, std::span<std::byte> bytes) const {
  note_progress();
  if (object_ != nullptr) return object_->read_at(offset, bytes);
  while (!bytes.empty()) {
    const ssize_t n = ::pread(descriptor(), bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", path_);
    if (n == 0) throw damaged(fmt::format("{} ends at byte {}, {} bytes early", path_.string(), offset, bytes.size()));
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
}

void File::read_ahead(int64_t offset, int64_t length) const {
  if (object_ != nullptr) object_->read_ahead(offset, length);
}

int64_t File::size_bytes() const {
  if (object_ != nullptr) return object_->size_bytes();
  struct stat info {};
  if (::fstat(descriptor(), &info) != 0) fail("stat", path_);
  return info.st_size;
}

void File::sync() {
  if (object_ != nullptr) return;  // close() returns when the store has it
  if (::fsync(descriptor()) != 0) fail("fsync", path_);
}

void File::close() {
  if (object_ != nullptr) object_->finish();
  if (!descriptor_.close()) fail("close", path_);
}

MappedFile::MappedFile(const Path& path) {
  const File file = is_object(path) ? cached_copy(path) : File::open_read(path);
  map(file, 0, static_cast<size_t>(file.size_bytes()));
}
MappedFile::MappedFile(const Path& path, int64_t offset, int64_t size) {
  const File file = File::open_read(path);
  const int64_t there = file.size_bytes();
  if (offset > there || size > there - offset)
    throw damaged(fmt::format("{} has {} bytes instead of at least {}", path.string(), there, offset + size));
  map(file, static_cast<size_t>(offset), static_cast<size_t>(size));
}
void MappedFile::map(const File& file, size_t offset, size_t size) {
  if (size == 0) return;
  const size_t before = offset % static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* address =
      ::mmap(nullptr, before + size, PROT_READ, MAP_SHARED, file.descriptor(), static_cast<off_t>(offset - before));
  if (address == MAP_FAILED) fail("map", file.path());
  mapping_ = {address, [length = before + size](void* begin) { ::munmap(begin, length); }};
  bytes_ = {static_cast<const std::byte*>(address) + before, size};
}

std::string read_file(const Path& path) {
  const File file = File::open_read(path);
  std::string content(static_cast<size_t>(file.size_bytes()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(content)));
  // Files that the kernel generates on reading (/proc, control groups) report size 0.
  if (content.empty() && !is_object(path)) read_to_end(file.descriptor(), content, path);
  return content;
}

std::string read_stream(const Path& path) {
  std::error_code ignored;
  if (is_object(path) || std::filesystem::is_regular_file(path, ignored)) return read_file(path);
  const Descriptor stream = open_or_throw(path, O_RDONLY, "open");
  std::string content;
  read_to_end(stream.number(), content, path);
  return content;
}

void write_file_atomic(const Path& path, std::string_view content) {
  write_file_atomic(path, content, path.native() + ".tmp");
}

void write_file_atomic(const Path& path, std::string_view content, const Path& temporary) {
  File file = File::create(is_object(path) ? path : temporary);
  file.write(content);
  file.sync();
  file.close();
  if (!is_object(path)) rename_path(temporary, path);
}

void rename_path(const Path& from, const Path& to) {
  HEARTH_CHECK(!is_object(from) && !is_object(to), "rename {} to {}", from.string(), to.string());
  if (::rename(from.c_str(), to.c_str()) != 0) fail(fmt::format("rename {} to", from.string()), to);
  sync_folder(to.has_parent_path() ? to.parent_path() : Path("."));
}

void sync_folder(const Path& folder) {
  if (is_object(folder)) return;
  const Descriptor opened = open_or_throw(folder, O_RDONLY | O_DIRECTORY, "open");
  if (::fsync(opened.number()) != 0) fail("fsync", folder);
}

void make_folders(const Path& folder) {
  if (folder.empty() || is_object(folder) || std::filesystem::is_directory(folder)) return;
  if (folder.has_parent_path()) make_folders(folder.parent_path());
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) fail("create folder", folder);
  if (!std::filesystem::is_directory(folder)) fail("create folder", folder, ENOTDIR);
}

bool link_or_copy(const Path& from, const Path& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return true;
  // `to` is on another file system, or links are missing or too many. The copy reports every other error.
  const File source = File::open_read(from);
  File copy = File::create(to);
  read_in_portions(source, [&](std::span<const std::byte> portion) { copy.write(portion); });
  copy.sync();
  copy.close();
  return false;
}
void remove_file(const Path& path) {
  if (is_object(path)) return remove_object(path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail("remove", path);
}

void remove_tree(const Path& folder) {
  if (is_object(folder)) return remove_objects(folder);
  std::error_code error;
  // One after the other: thousands of files of a checkpoint take a network's file system minutes.
  std::filesystem::directory_iterator at, end;
  // The target of a link stays.
  if (!std::filesystem::is_symlink(folder, error)) at = std::filesystem::directory_iterator(folder, error);
  for (; !error && at != end; at.increment(error)) {
    std::filesystem::remove_all(at->path(), error);
    if (error) break;
    note_progress();
  }
  if (!error || error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory)
    std::filesystem::remove_all(folder, error);
  if (error) fail("remove", folder, error.value());
}

void replace_folder(const Path& temporary, const Path& folder, const Path& aside) {
  // Without the new folder the old one stays.
  if (!path_exists(folder) || !path_exists(temporary)) return rename_path(temporary, folder);
  remove_tree(aside);
  rename_path(folder, aside);
  try {
    rename_path(temporary, folder);
  } catch (const Error&) {
    if (!path_exists(folder)) rename_path(aside, folder);
    throw;
  }
  std::error_code ignored;
  std::filesystem::remove_all(aside, ignored);
}

std::vector<std::string> list_folder(const Path& folder) {
  std::vector<std::string> names;
  if (is_object(folder)) {
    for (ObjectInfo& object : list_objects(folder)) names.push_back(std::move(object.name));
    return names;
  }
  DIR* handle = ::opendir(folder.c_str());
  if (handle == nullptr) fail("list", folder);
  while (const dirent* entry = ::readdir(handle)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(handle);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> list_folders(const Path& folder) {
  std::vector<std::string> names;
  if (is_object(folder)) {  // in one request
    for (ObjectInfo& object : list_objects(folder))
      if (object.is_folder) names.push_back(std::move(object.name));
    return names;
  }
  names = list_folder(folder);
  std::erase_if(names, [&](const std::string& name) { return !folder_exists(folder / name); });
  return names;
}

bool path_exists(const Path& path) {
  if (is_object(path)) return find_object(path).has_value();
  std::error_code error;
  return std::filesystem::exists(path, error);
}

bool folder_exists(const Path& path) {
  if (is_object(path)) {
    const auto found = find_object(path);
    return found && found->is_folder;
  }
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

namespace {

void add_objects(const Path& folder, const Path& under, std::vector<FileEntry>& files) {
  for (const ObjectInfo& object : list_objects(folder / under)) {
    if (object.is_folder)
      add_objects(folder, under / object.name, files);
    else
      files.push_back({under / object.name, object.bytes});
  }
}

}  // namespace

std::vector<FileEntry> files_under(const Path& folder) {
  std::vector<FileEntry> files;
  if (is_object(folder)) {
    add_objects(folder, {}, files);
  } else {
    std::error_code error;
    for (auto at = std::filesystem::recursive_directory_iterator(folder, error);
         !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error)) {
      std::error_code vanished;
      const bool is_file = at->is_regular_file(vanished);
      const auto bytes = is_file ? at->file_size(vanished) : 0;
      if (is_file && !vanished) files.push_back({at->path().lexically_relative(folder), static_cast<int64_t>(bytes)});
    }
  }
  std::sort(files.begin(), files.end(), [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; });
  return files;
}

int64_t folder_bytes(const Path& folder) {
  int64_t bytes = 0;
  for (const FileEntry& file : files_under(folder)) bytes += file.bytes;
  return bytes;
}

void read_in_portions(const File& file, const std::function<void(std::span<const std::byte> portion)>& body) {
  // A store gives a long range in several requests side by side.
  const int64_t most = int64_t{is_object(file.path()) ? 64 : 1} << 20, size = file.size_bytes();
  std::vector<std::byte> portion(static_cast<size_t>(std::min(most, size)));
  for (int64_t at = 0; at < size; at += std::ssize(portion)) {
    portion.resize(static_cast<size_t>(std::min(most, size - at)));
    file.read_at(at, portion);
    body(portion);
  }
}

Path join_path(const Path& folder, const Path& given) { return is_object(given) ? given : folder / given; }

Path normal_path(const Path& path) {
  if (!is_object(path)) return path.lexically_normal();
  return "s3://" + object_name(path);
}

Path absolute_path(const Path& path) {
  return is_object(path) ? normal_path(path) : std::filesystem::absolute(path).lexically_normal();
}

std::unique_ptr<FileLock> FileLock::try_lock(const Path& path) {
  Descriptor file = open_or_throw(path, O_RDWR | O_CREAT, "open");
  if (::flock(file.number(), LOCK_EX | LOCK_NB) == 0) return std::unique_ptr<FileLock>(new FileLock(std::move(file)));
  if (errno != EWOULDBLOCK) fail("lock", path);
  return nullptr;
}

}  // namespace hearth
