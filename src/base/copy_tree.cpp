// SPDX-License-Identifier: Apache-2.0
#include "base/copy_tree.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/object_file.h"

namespace hearth {
namespace {

constexpr int kCopyAttempts = 3;

// 0: the weights and shards, 1: files that name others, 2: the one that makes the folder whole.
int rank_of(const Path& file) {
  const std::string name = file.filename().string();
  if (name == "hearth.json" || name == "manifest.json" || name == "config.json" || name == "latest") return 2;
  return name == ".metadata" || name.ends_with(".index.json") || name == "params.json" ? 1 : 0;
}

std::string hash_of(const Path& path) {
  StreamingHash hash;
  read_in_portions(File::open_read(path), [&](std::span<const std::byte> portion) { hash.update(portion); });
  return hash.digest_128_hex();
}

// These return the hash of what was read.
std::string copy_to_disk(const Path& from, const Path& to, CopyProgress& progress) {
  const Path temporary = to.native() + ".tmp";
  File target = File::create(temporary);
  StreamingHash hash;
  read_in_portions(File::open_read(from), [&](std::span<const std::byte> portion) {
    hash.update(portion);
    target.write(portion);
    progress.done_bytes += std::ssize(portion);
  });
  target.sync();
  target.close();
  rename_path(temporary, to);
  return hash.digest_128_hex();
}

// `damaged_version`: of what the try before has left there; empty: none.
std::string copy_to_store(const Path& from, const Path& to, const std::string& damaged_version,
                          CopyProgress& progress) {
  const std::unique_ptr<ObjectFile> target = ObjectFile::create(to, damaged_version);
  StreamingHash hash;
  read_in_portions(File::open_read(from), [&](std::span<const std::byte> portion) {
    hash.update(portion);
    target->write(portion);
    progress.done_bytes += std::ssize(portion);
  });
  target->finish();
  return hash.digest_128_hex();
}

bool is_there(const Path& from, const Path& to, int64_t bytes) {
  if (!path_exists(to)) return false;
  if (File::open_read(to).size_bytes() == bytes && hash_of(to) == hash_of(from)) return true;
  if (!is_object(to)) return false;
  throw user_error(fmt::format("{} is there already, with another content than {}", to.string(), from.string()),
                   "in a store no object is replaced: late requests of an earlier copy could come after the new ones",
                   "copy to another folder, or remove the object first");
}

}  // namespace

void copy_checked(const Path& from, const Path& to, CopyProgress& progress) {
  const int64_t bytes = File::open_read(from).size_bytes();
  for (int attempt = 0; attempt < kCopyAttempts; ++attempt) {
    if (attempt > 0) progress.done_bytes -= bytes;
    const std::string damaged_version = is_object(to) && attempt > 0 ? ObjectFile::open(to)->version() : "";
    // A store is read twice, so that a bit that flipped on the way here is seen, too.
    const std::string written =
        is_object(to) ? copy_to_store(from, to, damaged_version, progress) : copy_to_disk(from, to, progress);
    if (written == hash_of(to) && (!is_object(from) || written == hash_of(from))) return;
  }
  throw Error(ExitCode::kHardware,
              fmt::format("{} was copied to {} and reads back differently", from.string(), to.string()),
              fmt::format("{} times", kCopyAttempts), "check the disk, the memory and the network");
}

void require_content(const Path& path, const std::string& hash) {
  const std::string found = hash_of(path);
  if (found == hash) return;
  throw Error(ExitCode::kHardware, fmt::format("{} was written and reads back differently", path.string()),
              fmt::format("XXH3-128 {}, expected {}", found, hash), "check the disk, the memory and the network");
}

CopyResult copy_tree(const Path& from, const Path& to, CopyProgress& progress) {
  if (!folder_exists(from)) throw user_error(fmt::format("there is no folder {}", from.string()));
  std::vector<FileEntry> files = files_under(from);
  if (files.empty()) throw user_error(fmt::format("{} is empty", from.string()));
  std::ranges::stable_sort(files, {}, [](const FileEntry& file) { return rank_of(file.path); });
  CopyResult result;
  for (const FileEntry& file : files) result.bytes += file.bytes;
  progress.all_bytes += result.bytes;
  for (const FileEntry& file : files) {
    const Path source = from / file.path, target = to / file.path;
    make_folders(target.parent_path());
    ++result.files;
    if (is_there(source, target, file.bytes)) {
      ++result.there;
      progress.done_bytes += file.bytes;
    } else {
      copy_checked(source, target, progress);
    }
  }
  return result;
}

}  // namespace hearth
