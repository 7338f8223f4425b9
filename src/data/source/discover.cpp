#include "data/source/discover.h"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
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

struct WalkedFile {
  std::string path;  // the first path to it
  std::string real_path;
  std::string rank;       // different for each file; the corpus is sorted by it
  bool is_about = false;  // by its name a file about data, found in a folder
};

// Walks the paths. Each real path is kept once, with the first path to it.
class Walk {
 public:
  Walk(const DiscoverOptions& options, Discovery& found) : options_(options), found_(found) {
    if (!options.output.empty() && path_exists(options.output)) output_ = fs::canonical(options.output);
  }

  void visit(const Path& given, bool given_by_user) {
    if (is_object(given))
      throw user_error(fmt::format("{} is in a store", given.string()), "sources are read from files of this host",
                       "copy it to this host first; `hearth copy` takes the finished dataset up");
    const Path path = given_by_user ? token_file_of(given) : given;
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    const bool wrong_kind = !fs::is_directory(status) && !fs::is_regular_file(status);
    if (given_by_user && error) throw system_error(fmt::format("cannot read {}", path.string()), error.value());
    if (given_by_user && wrong_kind)
      throw user_error(fmt::format("{} is neither a file nor a folder", path.string()),
                       "a source is read more than once, which a pipe does not allow", "write it to a file first");
    if (error && error.value() != ENOENT && error.value() != ELOOP)
      throw system_error(fmt::format("cannot read {}", path.string()), error.value());
    if (wrong_kind) {  // a dangling link, a socket
      ++found_.skipped;
      return;
    }
    const bool is_folder = fs::is_directory(status);
    if (!given_by_user && is_left_out(path, is_folder)) return;
    if (!is_folder && !given_by_user && !included(path)) {
      ++not_included_;
      return;
    }
    if (!is_folder && (is_index_beside_tokens(path) || is_labels_file(path))) return;
    const Path real = fs::canonical(path);
    if (real == output_) return;
    if (!is_folder)
      add(real, path, real.string(), !given_by_user && is_about_data(path) && !is_requested(path));
    else if (folders_.insert(real.string()).second)
      visit_folder(path, real);
    else
      ++found_.links_resolved;
  }

  // In the corpus's order: by real path, but files of a saved dataset as its list has them.
  std::vector<WalkedFile> files() const {
    std::map<std::string, WalkedFile> by_rank;
    for (const auto& [real, file] : files_) by_rank[file.rank] = file;
    std::vector<WalkedFile> sorted;
    for (const auto& [rank, file] : by_rank) sorted.push_back(file);
    return sorted;
  }
  int64_t not_included() const { return not_included_; }  // files of folders that match no pattern of --include

 private:
  // No real path has a zero byte.
  static std::string rank_in_list(const Path& folder, size_t i) {
    return fmt::format("{}/{}{:08}", folder.string(), '\0', i);
  }

  void add(const Path& real, const Path& path, const std::string& rank, bool is_about = false) {
    const auto [file, is_new] =
        files_.try_emplace(real.string(), WalkedFile{path.string(), real.string(), rank, is_about});
    if (is_new) return;
    ++found_.links_resolved;
    file->second.rank = std::min(file->second.rank, rank);  // the lower of the two
    file->second.is_about = file->second.is_about && is_about;
  }

  bool is_left_out(const Path& path, bool is_folder) {
    const auto leave_out = [&](LeftOutReason reason) {
      found_.left_out.push_back({path.string(), reason});
      return true;
    };
    if (matches_one(options_.exclude, path)) return leave_out(LeftOutReason::kExcluded);
    if (is_requested(path)) return false;
    const auto reason = never_data(path, is_folder);
    return reason.has_value() && leave_out(*reason);
  }

  // Whether --include names the file itself, or hidden files.
  bool is_requested(const Path& path) const {
    const std::string name = path.filename().string();
    return std::any_of(options_.include.begin(), options_.include.end(), [&](const std::string& pattern) {
      return pattern == name || (pattern.starts_with('.') && ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0);
    });
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
    const std::vector<std::string> names = list_folder(path);
    refuse_snapshots(path, names);
    for (const std::string& name : names) visit(path / name, false);
  }

  // A cache of Hugging Face's Hub keeps a folder for each commit that was downloaded.
  static void refuse_snapshots(const Path& folder, const std::vector<std::string>& names) {
    if (folder.filename() != "snapshots" || names.size() < 2 || !folder_exists(folder.parent_path() / "refs")) return;
    throw user_error(fmt::format("{} holds several commits of a dataset: {}", folder.string(), join_first(names, 3)),
                     "training on all of them would repeat documents",
                     fmt::format("name the folder of one: {}", shell_word((folder / names.front()).string())));
  }

  static bool is_index_beside_tokens(const Path& path) {
    Path bin = path;
    return path.extension() == ".idx" && path_exists(bin.replace_extension(".bin")) && is_index_file(path);
  }

  bool included(const Path& path) const { return options_.include.empty() || matches_one(options_.include, path); }

  static bool matches_one(const std::vector<std::string>& patterns, const Path& path) {
    const std::string name = path.filename().string();
    const auto matches = [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0; };
    return std::any_of(patterns.begin(), patterns.end(), matches);
  }

  const DiscoverOptions& options_;
  Discovery& found_;
  Path output_;
  int64_t not_included_ = 0;
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

struct FoundFile {
  SourceFile source;
  bool is_about = false;
  std::optional<Error> refusal;  // of its kind
};

// The path whose name says what the file is. In a cache of Hugging Face's Hub the real name is a hash, and the link has
// the name.
std::string named_path(const WalkedFile& file) {
  const Path real = file.real_path;
  return real.has_extension() && real.filename() != Path(file.path).filename() ? file.real_path : file.path;
}

std::vector<FoundFile> recognise_all(const std::vector<WalkedFile>& walked, const DiscoverOptions& options) {
  std::vector<FoundFile> files(walked.size());
  for_each_index(std::ssize(walked), options.threads, [&](int64_t i) {
    const WalkedFile& from = walked[static_cast<size_t>(i)];
    FoundFile& file = files[static_cast<size_t>(i)];
    const FileState state = state_of(from.real_path);
    file.is_about = from.is_about;
    file.source.path = from.path;
    file.source.real_path = from.real_path;
    file.source.size_bytes = state.size_bytes;
    file.source.modified_ns = state.modified_ns;
    if (state.size_bytes == 0) return;
    try {
      const Recognised recognised = recognise(named_path(from), options.read, options.kinds);
      file.source.format = recognised.format;
      file.source.compression = recognised.compression;
    } catch (const Error& e) {
      if (e.code() != ExitCode::kUser) throw;
      file.refusal = e;
    }
  });
  return files;
}

// Files about data stay where all that they lie beside and above is text.
void leave_out_about(std::vector<FoundFile>& files, bool has_keys, std::vector<LeftOut>& left_out) {
  std::set<std::string> records;
  std::map<std::string, bool> hub_folders;
  for (const FoundFile& file : files) {
    if (!file.is_about && !file.refusal && file.source.size_bytes > 0 && file.source.format != Format::kText)
      records.insert(file.source.path);
  }
  const auto is_left_out = [&](const FoundFile& file) {
    if (!file.is_about) return false;
    const Path folder = Path(file.source.path).parent_path();
    const std::string above = folder.empty() ? "" : folder.string() + "/";
    const auto first = records.lower_bound(above);
    if (has_keys || (first != records.end() && first->starts_with(above))) return true;
    const auto [known, is_new] = hub_folders.try_emplace(folder.string(), false);
    if (is_new) known->second = is_hub_folder(folder);
    return known->second;
  };
  const auto end = std::remove_if(files.begin(), files.end(), [&](const FoundFile& file) {
    if (!is_left_out(file)) return false;
    left_out.push_back({file.source.path, LeftOutReason::kAboutData});
    return true;
  });
  files.erase(end, files.end());
}

// Throws the first refusal, with the number of others.
void refuse(const std::vector<FoundFile>& files) {
  constexpr size_t kNamed = 3;
  const Error* first = nullptr;
  std::vector<std::string> others;
  for (const FoundFile& file : files) {
    if (file.refusal && first != nullptr) others.push_back(printable(file.source.path));
    if (file.refusal && first == nullptr) first = &*file.refusal;
  }
  if (first == nullptr) return;
  if (others.empty()) throw *first;
  const std::string also =
      fmt::format("{} cannot be read either: {}", counted(std::ssize(others), "more file"), join_first(others, kNamed));
  throw user_error(first->message(), first->why().empty() ? also : fmt::format("{}; {}", first->why(), also),
                   first->fix());
}

[[noreturn]] void refuse_nothing(const Discovery& found, int64_t not_included, bool has_patterns) {
  std::vector<std::string> files;
  if (found.empty_dropped > 0) files.push_back(fmt::format("{} without a byte", counted(found.empty_dropped, "file")));
  if (not_included > 0) files.push_back(fmt::format("{} that no --include matches", counted(not_included, "file")));
  std::string why = files.empty() ? "no file was found" : "found " + join(files, " and ");
  if (!found.left_out.empty()) why += "; left out of folders: " + describe_left_out(found.left_out);
  throw user_error(
      "there is no text to build from", why,
      has_patterns ? "give other paths, or another --include pattern" : "give files or folders that hold text");
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

  std::vector<FoundFile> files = recognise_all(walk.files(), options);
  leave_out_about(files, options.kinds.has_keys, found.left_out);
  refuse(files);
  for (FoundFile& file : files) {
    if (file.source.size_bytes == 0)
      ++found.empty_dropped;
    else
      found.sources.push_back(std::move(file.source));
  }
  read_labels(found.sources);
  if (!options.labels.empty()) attach_label_files(options.paths, options.labels, found.sources);
  for (SourceFile& source : found.sources) source.beside = files_beside(source);
  drop_duplicates(found, options.threads, progress);
  progress.files = static_cast<int64_t>(found.sources.size());
  if (found.sources.empty()) refuse_nothing(found, walk.not_included(), !options.include.empty());
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
