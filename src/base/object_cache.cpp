// SPDX-License-Identifier: Apache-2.0
#include "base/object_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/object_file.h"
#include "base/program.h"
#include "base/quantity.h"

namespace hearth {
namespace {

constexpr const char* kLimit = "HEARTH_CACHE_LIMIT";
constexpr const char* kCopyEnding = ".object";
constexpr const char* kPartEnding = ".part";  // while it is copied, or left by a killed process

Path cache_folder() {
  if (const std::string own = environment_variable("HEARTH_CACHE"); !own.empty()) return absolute_path(own);
  if (const std::optional<Path> folder = user_cache("objects")) return *folder;
  throw user_error("there is no folder for copies of objects", "neither HEARTH_CACHE nor HOME is set",
                   "set HEARTH_CACHE to a folder on a disk of this host");
}

// Another process holds it only while it copies or removes.
std::unique_ptr<FileLock> wait_for_lock(const Path& path) {
  for (;;) {
    if (auto lock = FileLock::try_lock(path)) return lock;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

struct Copy {
  Path path;
  int64_t bytes = 0, used_ns = 0;
};

std::vector<Copy> copies_in(const Path& folder) {
  std::vector<Copy> copies;
  for (const std::string& name : list_folder(folder)) {
    struct stat status {};
    if ((!name.ends_with(kCopyEnding) && !name.ends_with(kPartEnding)) || ::stat((folder / name).c_str(), &status) != 0)
      continue;
    copies.push_back({folder / name, status.st_size, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec});
  }
  std::sort(copies.begin(), copies.end(), [](const Copy& a, const Copy& b) { return a.used_ns < b.used_ns; });
  return copies;
}

int64_t bytes_of(const std::vector<Copy>& copies) {
  int64_t bytes = 0;
  for (const Copy& copy : copies) bytes += copy.bytes;
  return bytes;
}

int64_t limit_of(const Path& folder, int64_t held_bytes) {
  if (const std::string given = environment_variable(kLimit); !given.empty()) {
    if (const auto bytes = parse_bytes(given)) return *bytes;
    throw user_error(fmt::format("{} = {} is no number of bytes", kLimit, given), {}, "write it as 500GB, or 200 GiB");
  }
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error) throw system_error(fmt::format("cannot ask for the free space of {}", folder.string()), error.value());
  return held_bytes + static_cast<int64_t>(space.available) - static_cast<int64_t>(space.capacity / 10);
}

// Removes copies until `bytes` more fit. Others may still have them mapped: they keep their content.
void make_room(const Path& folder, const Path& object, int64_t bytes) {
  std::vector<Copy> copies = copies_in(folder);
  int64_t held = bytes_of(copies);
  const int64_t limit = limit_of(folder, held);
  if (bytes > limit)
    throw user_error(fmt::format("{} does not fit into {}", object.string(), folder.string()),
                     fmt::format("{} bytes, and the limit is {}", bytes, std::max<int64_t>(limit, 0)),
                     fmt::format("raise {}, or set HEARTH_CACHE to a folder on a larger disk", kLimit));
  for (auto copy = copies.begin(); copy != copies.end() && held + bytes > limit; ++copy) {
    remove_file(copy->path);
    held -= copy->bytes;
  }
}

// Null: there is no copy.
std::optional<File> open_copy(const Path& copy, int64_t bytes) {
  if (!path_exists(copy)) return std::nullopt;
  try {
    File file = File::open_read(copy);
    if (file.size_bytes() != bytes) return std::nullopt;
    ::utimensat(AT_FDCWD, copy.c_str(), nullptr, 0);  // used now
    return file;
  } catch (const Error&) {
    return std::nullopt;  // removed since the look
  }
}

Path copy_of(const Path& path, const ObjectFile& object) {
  const std::string identity = fmt::format("{}\n{}\n{}", object_name(path), object.size_bytes(), object.version());
  return cache_folder() / (xxh3_128_hex(identity) + kCopyEnding);
}

}  // namespace

File cached_copy(const Path& path) {
  const std::unique_ptr<ObjectFile> object = ObjectFile::open(path);
  const int64_t size = object->size_bytes();
  const Path copy = copy_of(path, *object), folder = copy.parent_path();
  if (auto file = open_copy(copy, size)) return std::move(*file);
  make_folders(folder);
  // One process copies, others of this host wait for it.
  const auto copying = wait_for_lock(folder / fmt::format("lock-{}", copy.filename().string().front()));
  if (auto file = open_copy(copy, size)) return std::move(*file);
  {
    const auto removing = wait_for_lock(folder / "lock");
    make_room(folder, path, size);
  }
  const Path part = copy.native() + kPartEnding;
  File file = File::create(part);
  read_in_portions(File::open_read(path), [&](std::span<const std::byte> portion) { file.write(portion); });
  rename_path(part, copy);
  return File::open_read(copy);
}

void forget_copy(const Path& path) { remove_file(copy_of(path, *ObjectFile::open(path))); }

int64_t cache_limit_bytes() {
  const Path folder = cache_folder();
  make_folders(folder);
  return limit_of(folder, bytes_of(copies_in(folder)));
}

std::optional<std::string> cache_doubt(int64_t bytes) {
  const int64_t limit = std::max<int64_t>(cache_limit_bytes(), 0);
  if (bytes <= limit) return std::nullopt;
  const auto [wanted, allowed] = format_bytes_apart(bytes, limit);
  const std::string folder = cache_folder().string();
  const bool is_given = !environment_variable(kLimit).empty();
  return fmt::format(
      "the shards in the store have {}, and their copies in {} may have {} ({}): each is copied again and again, "
      "because samples come from all of them in turn; {} HEARTH_CACHE to a folder on a larger disk",
      wanted, folder, allowed, is_given ? kLimit : "a tenth of the disk stays free",
      is_given ? fmt::format("raise {}, or set", kLimit) : "set");
}

}  // namespace hearth
