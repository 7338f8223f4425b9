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

constexpr int64_t kCopyBytes = int64_t{64} << 20;
constexpr int kCopyAttempts = 3;

void list_files(const Path& folder, const Path& under, std::vector<Path>& files) {
  for (const std::string& name : list_folder(folder / under)) {
    if (folder_exists(folder / under / name))
      list_files(folder, under / name, files);
    else
      files.push_back(under / name);
  }
}

// 0: the weights and shards, 1: files that name others, 2: the one that makes the folder whole.
int rank_of(const Path& file) {
  const std::string name = file.filename().string();
  if (name == "hearth.json" || name == "manifest.json" || name == "config.json" || name == "latest") return 2;
  return name == ".metadata" || name.ends_with(".index.json") || name == "params.json" ? 1 : 0;
}

std::string hash_of(const Path& path) {
  const File file = File::open_read(path);
  StreamingHash hash;
  std::vector<std::byte> portion;
  const int64_t size = file.size_bytes();
  for (int64_t at = 0; at < size; at += std::ssize(portion)) {
    portion.resize(static_cast<size_t>(std::min(kCopyBytes, size - at)));
    file.read_at(at, portion);
    hash.update(portion);
  }
  return hash.digest_128_hex();
}

// Returns the hash of what was read.
std::string copy_file(const File& source, const Path& to) {
  Path temporary = to;
  if (!is_object(to)) temporary += ".tmp";
  File target = File::create(temporary);
  StreamingHash hash;
  std::vector<std::byte> portion;
  const int64_t size = source.size_bytes();
  for (int64_t at = 0; at < size; at += std::ssize(portion)) {
    portion.resize(static_cast<size_t>(std::min(kCopyBytes, size - at)));
    source.read_at(at, portion);
    hash.update(portion);
    target.write(portion);
  }
  target.sync();
  target.close();
  if (!is_object(to)) rename_path(temporary, to);
  return hash.digest_128_hex();
}

bool is_there(const Path& from, const Path& to, int64_t size) {
  return path_exists(to) && File::open_read(to).size_bytes() == size && hash_of(to) == hash_of(from);
}

void copy_checked(const Path& from, const Path& to) {
  for (int attempt = 0; attempt < kCopyAttempts; ++attempt) {
    const File source = File::open_read(from);  // anew: it may hold what was read
    // Two reads of the source, so that a bit that flipped on the way from a store is seen, too.
    const std::string written = copy_file(source, to);
    if (written == hash_of(to) && (!is_object(from) || written == hash_of(from))) return;
  }
  throw Error(ExitCode::kHardware,
              fmt::format("{} was copied to {} and reads back differently", from.string(), to.string()),
              fmt::format("{} times", kCopyAttempts), "check the disk, the memory and the network");
}

}  // namespace

std::vector<Path> files_under(const Path& folder) {
  std::vector<Path> files;
  list_files(folder, {}, files);
  return files;
}

CopyResult copy_tree(const Path& from, const Path& to, CopyProgress& progress) {
  if (!folder_exists(from)) throw user_error(fmt::format("there is no folder {}", from.string()));
  std::vector<Path> files = files_under(from);
  if (files.empty()) throw user_error(fmt::format("{} is empty", from.string()));
  std::stable_sort(files.begin(), files.end(), [](const Path& a, const Path& b) { return rank_of(a) < rank_of(b); });
  CopyResult result;
  for (const Path& file : files) progress.all_bytes += File::open_read(from / file).size_bytes();
  for (const Path& file : files) {
    const Path source = from / file, target = to / file;
    const int64_t size = File::open_read(source).size_bytes();
    make_folders(target.parent_path());
    ++result.files;
    result.bytes += size;
    if (is_there(source, target, size))
      ++result.there;
    else
      copy_checked(source, target);
    progress.done_bytes += size;
  }
  return result;
}

}  // namespace hearth
