#include "data/source/discover.h"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "base/quantity.h"
#include "base/text.h"
#include "data/formats/indexed_file.h"
#include "data/formats/saved_dataset.h"
#include "data/source/array_labels.h"
#include "data/source/label_file.h"

namespace hearth::data {
namespace {

namespace fs = std::filesystem;

// Walks the paths. Each real path is kept once, with the first path to it.
class Walk {
 public:
  Walk(const DiscoverOptions& options, Discovery& found) : options_(options), found_(found) {
    if (!options.exclude.empty() && path_exists(options.exclude)) excluded_ = fs::canonical(options.exclude);
  }

  void visit(const Path& given, bool given_by_user) {
    const Path path = given_by_user ? token_file_of(given) : given;
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    const bool wrong_kind = !fs::is_directory(status) && !fs::is_regular_file(status);
    if (given_by_user && error) throw system_error(fmt::format("cannot read {}", path.string()), error.value());
    if (given_by_user && wrong_kind) throw user_error(fmt::format("{} is neither a file nor a folder", path.string()));
    if (error && error.value() != ENOENT && error.value() != ELOOP)
      throw system_error(fmt::format("cannot read {}", path.string()), error.value());
    if (wrong_kind) {  // a dangling link, a socket
      ++found_.skipped;
      return;
    }
    if (!fs::is_directory(status) && !given_by_user && !included(path)) return;
    if (!fs::is_directory(status) && (is_index_beside_tokens(path) || is_labels_file(path))) return;
    const Path real = fs::canonical(path);
    if (real == excluded_) return;
    if (!fs::is_directory(status))
      add(real, path, real.string());
    else if (folders_.insert(real.string()).second)
      visit_folder(path, real);
    else
      ++found_.links_resolved;
  }

  // In the corpus's order: by real path, but files of a saved dataset as its list has them.
  std::vector<std::pair<std::string, std::string>> files() const {  // real path, path
    std::map<std::string, std::pair<std::string, std::string>> by_rank;
    for (const auto& [real, file] : files_) by_rank[file.rank] = {real, file.path};
    std::vector<std::pair<std::string, std::string>> sorted;
    for (const auto& [rank, file] : by_rank) sorted.push_back(file);
    return sorted;
  }

 private:
  struct WalkedFile {
    std::string path;  // the first path to it
    std::string rank;  // different for each file; the corpus is sorted by it
  };

  // No real path has a zero byte.
  static std::string rank_in_list(const Path& folder, size_t i) {
    return fmt::format("{}/{}{:08}", folder.string(), '\0', i);
  }

  void add(const Path& real, const Path& path, const std::string& rank) {
    const auto [file, is_new] = files_.try_emplace(real.string(), WalkedFile{path.string(), rank});
    if (is_new) return;
    ++found_.links_resolved;
    file->second.rank = std::min(file->second.rank, rank);  // the lower of the two
  }

  void visit_folder(const Path& path, const Path& real) {
    const std::string& format = options_.read.format;
    if (format.empty() || format == format_name(Format::kArrow)) {
      if (const auto splits = splits_of_saved_dict(path)) {
        if (splits->size() > 1)
          throw user_error(
              fmt::format("{} holds several splits: {}", path.string(), join(*splits)),
              "training on all of them would include the documents meant for tests",
              fmt::format("name the folders of the splits to train on: {}", (path / splits->front()).string()));
        for (const std::string& split : *splits) visit(path / split, false);
        return;
      }
      if (const auto files = files_of_saved_dataset(path)) {
        for (size_t i = 0; i < files->size(); ++i) {
          const Path file = path / (*files)[i];
          if (included(file)) add(fs::canonical(file), file, rank_in_list(real, i));
        }
        return;
      }
    }
    for (const std::string& name : list_folder(path)) visit(path / name, false);
  }

  static bool is_index_beside_tokens(const Path& path) {
    Path bin = path;
    return path.extension() == ".idx" && path_exists(bin.replace_extension(".bin")) && is_index_file(path);
  }

  bool included(const Path& path) const {
    const std::string name = path.filename().string();
    const auto matches = [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0; };
    return options_.include.empty() || std::any_of(options_.include.begin(), options_.include.end(), matches);
  }

  const DiscoverOptions& options_;
  Discovery& found_;
  Path excluded_;
  std::set<std::string> folders_;
  std::map<std::string, WalkedFile> files_;  // by real path
};

FileState state_of(const std::string& real_path) {
  struct stat info {};
  if (::stat(real_path.c_str(), &info) != 0) throw system_error(fmt::format("cannot read {}", real_path), errno);
  return {real_path, info.st_size, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
}

// The index of a token file, and its label file if it has one.
std::vector<FileState> files_beside(const SourceFile& source) {
  std::vector<FileState> files;
  if (source.format != Format::kIndexed) return files;
  if (const auto index = index_of(source.real_path)) files.push_back(state_of(index->string()));
  if (source.label_file.empty()) return files;
  files.push_back(state_of(source.label_file));
  files.push_back(state_of(index_of(source.label_file)->string()));
  return files;
}

// Keeps the first of equal files.
void drop_duplicates(Discovery& found, int64_t threads, HashProgress& progress) {
  std::unordered_map<int64_t, int64_t> files_of_size;
  for (const SourceFile& source : found.sources) ++files_of_size[source.size_bytes];
  std::vector<size_t> suspects;
  for (size_t i = 0; i < found.sources.size(); ++i) {
    if (files_of_size[found.sources[i].size_bytes] > 1) suspects.push_back(i);
  }
  hash_sources(found.sources, suspects, threads, progress);
  std::unordered_set<std::string> contents;
  const auto repeated = [&](const SourceFile& source) {
    return !source.hash.empty() && !contents.insert(source.hash).second;
  };
  const auto end = std::remove_if(found.sources.begin(), found.sources.end(), repeated);
  found.duplicates_dropped = found.sources.end() - end;
  found.sources.erase(end, found.sources.end());
}

}  // namespace

Discovery discover(const DiscoverOptions& options, HashProgress& progress) {
  Discovery found;
  Walk walk(options, found);
  for (const Path& path : options.paths) walk.visit(path, true);

  const auto paths = walk.files();
  std::vector<SourceFile> files(paths.size());
  for_each_index(static_cast<int64_t>(paths.size()), options.threads, [&](int64_t i) {
    const auto& [real_path, path] = paths[static_cast<size_t>(i)];
    const FileState state = state_of(real_path);
    SourceFile& file = files[static_cast<size_t>(i)];
    file = {path, real_path, state.size_bytes, {}, Format::kText, Compression::kNone, state.modified_ns};
    if (file.size_bytes == 0) return;
    const Recognised recognised = recognise(real_path, options.read);
    file.format = recognised.format;
    file.compression = recognised.compression;
  });
  for (SourceFile& file : files) {
    if (file.size_bytes == 0)
      ++found.empty_dropped;
    else
      found.sources.push_back(std::move(file));
  }
  read_labels(found.sources);
  if (!options.labels.empty()) attach_label_files(options.paths, options.labels, found.sources);
  for (SourceFile& source : found.sources) source.beside = files_beside(source);
  drop_duplicates(found, options.threads, progress);
  progress.files = static_cast<int64_t>(found.sources.size());
  if (found.sources.empty())
    throw user_error("there is no text to build from",
                     paths.empty() ? "no file was found"
                                   : fmt::format("{} found, without a byte", counted(std::ssize(paths), "file")),
                     options.include.empty() ? "give files or folders that hold text"
                                             : "give other paths, or another --include pattern");
  return found;
}

void hash_sources(std::vector<SourceFile>& sources, const std::vector<size_t>& wanted, int64_t threads,
                  HashProgress& progress) {
  for (const size_t i : wanted) progress.bytes_total += sources[i].hash.empty() ? sources[i].size_bytes : 0;
  for_each_index(static_cast<int64_t>(wanted.size()), threads, [&](int64_t i) {
    SourceFile& source = sources[wanted[static_cast<size_t>(i)]];
    if (!source.hash.empty()) return;
    const MappedFile mapped(source.real_path);
    source.hash = xxh3_128_hex(mapped.bytes());
    if (const auto index = source.format == Format::kIndexed ? index_of(source.real_path) : std::nullopt)
      source.hash = xxh3_128_hex(source.hash + xxh3_128_hex(MappedFile(*index).bytes()));
    if (!source.label_file.empty()) source.hash = xxh3_128_hex(source.hash + label_file_hash(source.label_file));
    if (source.labels != nullptr) {
      for (const std::string& label : *source.labels)
        source.hash = xxh3_128_hex(fmt::format("{} {}", source.hash, label));
    }
    check_unchanged(source);
    progress.bytes_read += source.size_bytes;
  });
}

void check_unchanged(const SourceFile& source) {
  const auto check = [](const std::string& path, const FileState& found) {
    if (state_of(found.real_path) != found)
      throw user_error(fmt::format("{} changed while it was read", path), "", "run the same command again");
  };
  check(source.path, {source.real_path, source.size_bytes, source.modified_ns});
  for (const FileState& file : source.beside) check(file.real_path, file);
}

}  // namespace hearth::data
