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
    for (Path outer = absolute_path(root); outer != outer.parent_path(); outer = outer.parent_path()) {
      if (is_hub(outer)) return root;
    }
    return {};
  }

 private:
  std::map<std::string, bool> known_;
};

constexpr std::array<std::string_view, 2> kTrainWords = {"train", "training"};
constexpr std::array<std::string_view, 8> kHeldOutWords = {"test", "testing", "validation", "valid",
                                                           "val",  "dev",     "eval",       "evaluation"};

// Whether the name is such a word, or begins with one and goes on with no letter: test-00000-of-00001.parquet.
template <size_t N>
bool begins_with(const std::array<std::string_view, N>& words, const std::string& name, bool is_folder) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    if (!name.starts_with(word)) return false;
    return name.size() == word.size() ||
           (!is_folder && std::isalpha(static_cast<unsigned char>(name[word.size()])) == 0);
  });
}

struct SplitNames {
  std::vector<std::string> train, held_out;
  bool are_folders = false;  // of train
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
  std::map<std::string, SplitNames> folders;
  std::map<std::string, std::string> roots;
  for (const FoundFile& file : files) {
    if (file.root.empty() || file.is_page || file.source.size_bytes == 0) continue;
    bool is_folder = false;
    for (Path path = file.source.path; path != Path(file.root) && path.has_filename(); path = folder_of(path)) {
      const std::string name = path.filename().string(), folder = folder_of(path).string();
      const bool is_train = begins_with(kTrainWords, name, is_folder);
      if (is_train || begins_with(kHeldOutWords, name, is_folder)) {
        SplitNames& split = folders[folder];
        std::vector<std::string>& names = is_train ? split.train : split.held_out;
        if (names.empty() || names.back() != name) names.push_back(name);
        split.are_folders = split.are_folders || (is_train && is_folder);
        roots[folder] = file.root;
      }
      is_folder = true;
      if (folder == ".") break;
    }
  }
  HubFolders hub;
  for (const auto& [folder, split] : folders) {
    if (split.train.empty() || split.held_out.empty() || !hub.above(folder, roots[folder])) continue;
    refuse_splits(folder, {split.train.front(), split.held_out.front()},
                  split.are_folders
                      ? fmt::format("name the folders of the splits to train on: {}",
                                    shell_word((Path(folder) / split.train.front()).string()))
                      : "give --include 'train*' to train on that split, or --include '*' to train on all");
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

std::string describe_texts_beside(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  names.reserve(paths.size());
  for (const std::string& path : paths) names.push_back(printable(Path(path).filename().string()));
  return fmt::format("read whole as texts beside records: {} ({})", paths.size(), join_first(names, kNamedTexts));
}

}  // namespace hearth::data
