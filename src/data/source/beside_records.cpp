// SPDX-License-Identifier: Apache-2.0
#include "data/source/beside_records.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace hearth::data {
namespace {

constexpr size_t kNamedTexts = 4, kNamedSplits = 3;

Path folder_of(const Path& path) { return path.has_parent_path() ? path.parent_path() : Path("."); }

bool is_below(const Path& path, const Path& folder) {
  return absolute_path(path).string().starts_with(absolute_path(folder).string() + "/");
}

// Where the records are, among the files of a search.
class Records {
 public:
  explicit Records(const std::vector<FoundFile>& files) {
    for (const FoundFile& file : files) {
      if (file.is_about || file.is_page || file.refusal || file.source.size_bytes == 0) continue;
      if (file.source.format == Format::kText) continue;
      paths_.insert(file.source.path);
      if (!file.root.empty()) roots_.insert(file.root);
    }
  }
  bool in_root(const std::string& root) const { return roots_.contains(root); }
  bool in_folder(const Path& folder) const {
    if (in_root(folder.string())) return true;
    const std::string above = folder.string() + "/";
    const auto first = paths_.lower_bound(above);
    return first != paths_.end() && first->starts_with(above);
  }

 private:
  std::set<std::string> paths_, roots_;
};

// Repositories of the Hub. A folder is looked at once.
class HubFolders {
 public:
  bool is_hub(const Path& folder) {
    const auto [known, is_new] = known_.try_emplace(folder.string(), false);
    if (is_new) known->second = is_hub_folder(folder);
    return known->second;
  }
  // The repository that has the folder; the root of the search, where it is only a part of a repository: clone/data.
  std::optional<Path> above(Path folder, const Path& root) {
    for (;; folder = folder_of(folder)) {
      if (is_hub(folder)) return folder;
      if (folder == root || folder == folder_of(folder)) break;
    }
    return around(root) ? std::optional(root) : std::nullopt;
  }
  // The repository that has the folder with all folders of the search: the outermost one in the search, or the nearest
  // one around it.
  std::optional<Path> whole(Path folder, const Path& root) {
    if (is_hub(root)) return root;
    if (auto outer = around(root)) return outer;
    std::optional<Path> found;
    for (;; folder = folder_of(folder)) {
      if (is_hub(folder)) found = folder;
      if (folder == root || folder == folder_of(folder)) return found;
    }
  }

 private:
  std::optional<Path> around(const Path& root) {
    for (Path outer = absolute_path(root); outer != outer.parent_path(); outer = outer.parent_path()) {
      if (is_hub(outer)) return outer;
    }
    return {};
  }
  std::map<std::string, bool> known_;
};

constexpr std::array<std::string_view, 2> kTrainWords = {"train", "training"};
constexpr std::array<std::string_view, 8> kHeldOutWords = {"test", "testing", "validation", "valid",
                                                           "val",  "dev",     "eval",       "evaluation"};

// Whether the name has such a word with no letter beside it: test-00000-of-00001.parquet, en.test.jsonl. `datasets`
// takes it for the name of a split there.
template <size_t N>
bool has_word(const std::array<std::string_view, N>& words, std::string_view name) {
  const auto is_letter = [&](size_t i) {
    const auto c = static_cast<unsigned char>(i < name.size() ? name[i] : ' ');
    return c >= 0x80 || std::isalpha(c) != 0;
  };
  return std::ranges::any_of(words, [&](std::string_view word) {
    size_t at = name.find(word);
    while (at != std::string_view::npos && (is_letter(at - 1) || is_letter(at + word.size())))
      at = name.find(word, at + 1);
    return at != std::string_view::npos;
  });
}

// "2 (LICENSE, README.md)"
std::string count_and_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  names.reserve(paths.size());
  for (const std::string& path : paths) names.push_back(printable(Path(path).filename().string()));
  return fmt::format("{} ({})", paths.size(), join_first(names, kNamedTexts));
}

// Files and folders whose names say that they belong to a split, in one folder or in a whole repository.
struct SplitPaths {
  std::vector<Path> train, held_out;
  bool has_folder = false;  // among `train`

  void add(const Path& path, bool is_train, bool is_folder) {
    std::vector<Path>& paths = is_train ? train : held_out;
    if (paths.empty() || paths.back() != path) paths.push_back(path);
    has_folder = has_folder || (is_train && is_folder);
  }
  bool are_joined() const { return !train.empty() && !held_out.empty(); }
  std::string way_on() const {
    std::vector<std::string> words;
    bool all_begin = true;
    for (const Path& path : train) {
      words.push_back(shell_word(path.string()));
      all_begin = all_begin && path.filename().string().starts_with("train");
    }
    if (has_folder)
      return fmt::format("name the folders of the splits to train on: {}", join_first(words, kNamedSplits));
    return fmt::format("give --include '{}train*' to train on that split, or --include '*' to train on all",
                       all_begin ? "" : "*");
  }
};

}  // namespace

void leave_out_beside_records(std::vector<FoundFile>& files, bool has_keys, std::vector<LeftOut>& left_out) {
  const Records records(files);
  HubFolders hub;
  const auto is_left_out = [&](const FoundFile& file) {
    const Path folder = folder_of(file.source.path);
    if (file.is_about && (has_keys || records.in_folder(folder) || hub.is_hub(folder))) return true;
    if (!file.is_page || !records.in_root(file.root)) return false;
    const auto repository = hub.above(folder, file.root);
    return repository && (*repository == Path(file.root) || records.in_folder(*repository));
  };
  const auto end = std::remove_if(files.begin(), files.end(), [&](const FoundFile& file) {
    if (!is_left_out(file)) return false;
    left_out.push_back({file.source.path, LeftOutReason::kAboutData});
    return true;
  });
  files.erase(end, files.end());
}

void refuse_splits(const Path& folder, const std::vector<std::string>& splits, std::string fix) {
  throw user_error(fmt::format("{} holds several splits: {}", folder.string(), join_first(splits, kNamedSplits)),
                   "training on all of them would include the documents meant for tests", std::move(fix));
}

void refuse_joined_splits(const std::vector<FoundFile>& files) {
  HubFolders hub;
  // By folder: its entries. By repository: what says it of a file, the name nearest to the file.
  std::map<std::string, SplitPaths> folders, repositories;
  for (const FoundFile& file : files) {
    if (file.root.empty() || file.is_page || file.source.size_bytes == 0) continue;
    std::optional<Path> repository;
    bool is_folder = false;
    for (Path path = file.source.path; path != Path(file.root) && path.has_filename(); path = folder_of(path)) {
      const std::string name = path.filename().string(), folder = folder_of(path).string();
      const bool is_train = has_word(kTrainWords, name);
      if (is_train || has_word(kHeldOutWords, name)) {
        const bool is_nearest = !repository;
        if (is_nearest) repository = hub.whole(folder_of(file.source.path), file.root);
        if (!repository || !is_below(path, *repository)) break;
        folders[folder].add(path, is_train, is_folder);
        if (is_nearest) repositories[repository->string()].add(path, is_train, is_folder);
      }
      is_folder = true;
      if (folder == ".") break;
    }
  }
  for (const auto& [folder, split] : folders) {
    if (split.are_joined())
      refuse_splits(folder, {split.train.front().filename().string(), split.held_out.front().filename().string()},
                    split.way_on());
  }
  for (const auto& [repository, split] : repositories) {
    if (split.are_joined())
      refuse_splits(repository, {split.train.front().string(), split.held_out.front().string()}, split.way_on());
  }
}

std::vector<std::string> texts_beside_records(const std::vector<FoundFile>& files) {
  const Records records(files);
  std::vector<std::string> paths;
  for (const FoundFile& file : files) {
    if (file.source.format == Format::kText && file.source.size_bytes > 0 && !file.refusal && !file.root.empty() &&
        records.in_root(file.root))
      paths.push_back(file.source.path);
  }
  return paths;
}

std::vector<std::string> texts_about_data(const std::vector<FoundFile>& files) {
  const Records records(files);
  std::vector<std::string> paths;
  for (const FoundFile& file : files) {
    const bool is_text = file.source.format == Format::kText && file.source.size_bytes > 0 && !file.refusal;
    if (file.is_about && is_text && !records.in_root(file.root)) paths.push_back(file.source.path);
  }
  return paths;
}

std::string describe_texts_beside(const std::vector<std::string>& paths) {
  return fmt::format("read whole as texts beside records: {}", count_and_names(paths));
}

std::string describe_texts_about(const std::vector<std::string>& paths) {
  return fmt::format(
      "read as texts, although their names say that they are about the data: {}; --exclude leaves them out",
      count_and_names(paths));
}

}  // namespace hearth::data
