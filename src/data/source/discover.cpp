// SPDX-License-Identifier: Apache-2.0
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
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "base/quantity.h"
#include "base/text.h"
#include "data/formats/indexed_file.h"
#include "data/formats/saved_dataset.h"
#include "data/source/beside_records.h"
#include "data/source/label_file.h"
#include "recordings/labels_file.h"

namespace hearth::data {
namespace {

namespace fs = std::filesystem;

// Walks the paths. Each real path is kept once, with the first path to it.
class Walk {
 public:
  Walk(const DiscoverOptions& options, Discovery& found) : options_(options), found_(found) {
    if (!options.output.empty() && path_exists(options.output)) output_ = fs::canonical(options.output);
  }

  // `pattern` is the last part of the pattern that names the path; null: the user named it.
  void start(const Path& path, const std::string* pattern) {
    pattern_ = pattern != nullptr ? *pattern : "";
    const Path folder = pattern != nullptr || !path.has_filename() ? path.parent_path() : path;
    root_ = folder.empty() ? "." : folder.string();
    visit(path, pattern == nullptr);
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
    if (wrong_kind && fs::is_symlink(fs::symlink_status(path, error))) {
      if (!is_left_out(path, /*is_folder=*/false) && included(path)) missing_.push_back(path);
      return;
    }
    if (wrong_kind) {  // a socket
      ++found_.skipped;
      return;
    }
    const bool is_folder = fs::is_directory(status);
    if (!given_by_user && is_left_out(path, is_folder)) return;
    if (!is_folder && !given_by_user && !included(path)) {
      ++not_included_;
      return;
    }
    if (!is_folder && (is_index_beside_tokens(path) || recordings::is_labels_file(path))) return;
    const Path real = fs::canonical(path);
    if (real == output_) return;
    if (!is_folder)
      add(named(path, real, given_by_user));
    else if (folders_.insert(real.string()).second)
      visit_folder(path, real);
    else
      ++found_.links_resolved;
  }

  // In the corpus's order: by real path, but files of a saved dataset as its list has them.
  std::vector<FoundFile> files() const {
    std::vector<FoundFile> sorted;
    for (const auto& [real, file] : files_) sorted.push_back(file);
    std::ranges::sort(sorted, {}, &FoundFile::rank);
    return sorted;
  }
  int64_t not_included() const { return not_included_; }  // files of folders that match no pattern of --include

  // Throws for links to files that are not here: a clone without its data would be a part of the dataset.
  void refuse_missing() const {
    if (missing_.empty()) return;
    std::error_code error;
    const Path& first = missing_.front();
    const std::string target = fs::read_symlink(first, error).string(), shown = shell_word(first.string());
    const bool in_annex = target.find("annex/objects/") != std::string::npos;
    std::string why = fmt::format("it leads to {}", printable(target));
    if (missing_.size() > 1) why += fmt::format("; {} without a file", counted(std::ssize(missing_) - 1, "more link"));
    throw user_error(fmt::format("{} is a link to a file that is not here", printable(first.string())), why,
                     fmt::format("{}, or leave it out: --exclude {}",
                                 in_annex ? "get the data: git annex get " + shown : "get the data again",
                                 shell_word(first.filename().string())));
  }

 private:
  // No real path has a zero byte.
  static std::string rank_in_list(const Path& folder, size_t i) {
    return fmt::format("{}/{}{:08}", folder.string(), '\0', i);
  }

  static FoundFile found_at(const Path& path, const Path& real, std::string root, std::string rank) {
    FoundFile file;
    file.source.path = path.string();
    file.source.real_path = real.string();
    file.root = std::move(root);
    file.rank = std::move(rank);
    return file;
  }

  FoundFile named(const Path& path, const Path& real, bool given_by_user) const {
    FoundFile file = found_at(path, real, given_by_user ? "" : root_, real.string());
    if (given_by_user || is_requested(path)) return file;
    const std::string ending = Path(pattern_).extension().string();
    const bool has_its_ending = !ending.empty() && ending.find_first_of("*?[") == std::string::npos;
    file.is_about = is_about_data(path);
    file.is_page = has_page_ending(path) && !has_its_ending;
    return file;
  }

  void add(const FoundFile& file) {
    const auto [known, is_new] = files_.try_emplace(file.source.real_path, file);
    if (is_new) return;
    ++found_.links_resolved;
    FoundFile& first = known->second;
    first.rank = std::min(first.rank, file.rank);  // the lower of the two
    if (file.root.empty()) first.root = "";
    first.is_about = first.is_about && file.is_about;
    first.is_page = first.is_page && file.is_page;
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

  // Whether --include or the pattern names the file itself, or hidden files.
  bool is_requested(const Path& path) const {
    const std::string name = path.filename().string();
    return is_spelled(name) || std::ranges::any_of(options_.include, [&](const std::string& pattern) {
             return pattern == name || (pattern.starts_with('.') && ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0);
           });
  }

  // Whether the pattern has what a file is left out for: clone/README*, clone/.git*, data/*.part, data/#*#.
  bool is_spelled(const std::string& name) const {
    if (pattern_.empty()) return false;
    const std::string beginning = pattern_.substr(0, pattern_.find_first_of("*?["));
    const size_t last = pattern_.find_last_of("*?]");
    const std::string ending = last == std::string::npos ? pattern_ : pattern_.substr(last + 1);
    return pattern_ == name || beginning.starts_with('.') || is_about_data(beginning) ||
           never_data(beginning + "x.x" + ending, false);
  }

  void visit_folder(const Path& path, const Path& real) {
    pattern_.clear();  // it names the folder, not what is in it
    const std::string& format = options_.read.format;
    if (format.empty() || format == format_name(Format::kArrow)) {
      if (const auto splits = splits_of_saved_dict(path)) {
        if (splits->size() > 1)
          refuse_splits(
              path, *splits,
              fmt::format("name the folders of the splits to train on: {}", (path / splits->front()).string()));
        for (const std::string& split : *splits) visit(path / split, false);
        return;
      }
      if (const auto files = files_of_saved_dataset(path)) {
        for (size_t i = 0; i < files->size(); ++i) {
          const Path file = path / (*files)[i];
          if (included(file)) add(found_at(file, fs::canonical(file), root_, rank_in_list(real, i)));
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
    return std::ranges::any_of(patterns, matches);
  }

  const DiscoverOptions& options_;
  Discovery& found_;
  Path output_;
  std::string root_, pattern_;  // of the path that is searched
  int64_t not_included_ = 0;
  std::vector<Path> missing_;  // links that lead to no file
  std::set<std::string> folders_;
  std::map<std::string, FoundFile> files_;  // by real path
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

// The path whose name says what the file is. In a cache of Hugging Face's Hub the real name is a hash, and the link has
// the name.
std::string named_path(const SourceFile& file) {
  const Path real = file.real_path;
  return real.has_extension() && real.filename() != Path(file.path).filename() ? file.real_path : file.path;
}

// Whether it was refused, or taken for a record, only because a key was named.
bool is_text_without_keys(const SourceFile& file, const DiscoverOptions& options) {
  try {
    return recognise(named_path(file), options.read).format == Format::kText;
  } catch (const Error& e) {
    if (e.code() != ExitCode::kUser) throw;
    return false;
  }
}

void recognise_all(std::vector<FoundFile>& files, const DiscoverOptions& options) {
  for_each_index(std::ssize(files), options.threads, [&](int64_t i) {
    FoundFile& file = files[static_cast<size_t>(i)];
    SourceFile& source = file.source;
    const bool named_as_page = std::exchange(file.is_page, false);
    const FileState state = state_of(source.real_path);
    source.size_bytes = state.size_bytes;
    source.modified_ns = state.modified_ns;
    source.any_bytes = options.kinds.as_text;
    if (state.size_bytes == 0) return;
    try {
      const Recognised recognised = recognise(named_path(source), options.read, options.kinds);
      source.format = recognised.format;
      source.compression = recognised.compression;
    } catch (const Error& e) {
      if (e.code() != ExitCode::kUser) throw;
      file.refusal = e;
    }
    const bool is_text = options.kinds.has_keys ? named_as_page && is_text_without_keys(source, options)
                                                : !file.refusal && source.format == Format::kText;
    file.is_page = named_as_page && is_text && !options.kinds.as_text;
  });
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
  for (const Path& path : options.paths) {
    const auto pattern = options.patterns.find(path.string());
    walk.start(path, pattern == options.patterns.end() ? nullptr : &pattern->second);
  }

  walk.refuse_missing();
  std::vector<FoundFile> files = walk.files();
  recognise_all(files, options);
  leave_out_beside_records(files, options.kinds.has_keys, found.left_out);
  if (options.include.empty()) refuse_joined_splits(files);
  refuse(files);
  found.texts_beside = texts_beside_records(files);
  found.texts_about = texts_about_data(files);
  for (FoundFile& file : files) {
    if (file.source.size_bytes == 0)
      ++found.empty_dropped;
    else
      found.sources.push_back(std::move(file.source));
  }
  recordings::LabelsFiles labels;
  for (SourceFile& source : found.sources)
    if (source.format == Format::kNpy) source.labels = labels.labels_of(source.path);
  if (!options.labels.empty()) attach_label_files(options.paths, options.labels, found.sources);
  for (SourceFile& source : found.sources) source.beside = files_beside(source);
  drop_duplicates(found, options.threads, progress);
  progress.files = static_cast<int64_t>(found.sources.size());
  if (found.sources.empty()) refuse_nothing(found, walk.not_included(), !options.include.empty());
  check_options_used(found.sources, options.read);
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
