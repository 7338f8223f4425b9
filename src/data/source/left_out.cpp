#include "data/source/left_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "base/text.h"
#include "hub/record.h"

namespace hearth::data {
namespace {

constexpr size_t kNamedEntries = 4;  // of each reason

// In the order of the enum.
constexpr std::array<std::string_view, 5> kReasons = {"hidden", "unfinished", "made by tools", "about the data",
                                                      "excluded"};

constexpr std::array<std::string_view, 3> kUnfinishedEndings = {".incomplete", ".part", ".crdownload"};
// Other names in underscores are folders of source code: __tests__, __mocks__, __fixtures__.
constexpr std::array<std::string_view, 2> kFoldersOfTools = {"__pycache__", "__MACOSX"};

// Without their endings, in upper case.
constexpr std::array<std::string_view, 13> kAboutNames = {
    "README",   "LICENSE",   "LICENCE",   "COPYING",      "NOTICE",          "CITATION", "CHANGELOG",
    "SECURITY", "DATASHEET", "DATA_CARD", "CONTRIBUTING", "CODE_OF_CONDUCT", "AUTHORS"};
// What `datasets` writes beside data, or never reads as data.
constexpr std::array<std::string_view, 7> kDescriptions = {
    "config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json",
    "state.json",  "dummy_data.zip",    "croissant.json"};

// Keys that cards of datasets have, and the headers of other pages hardly.
constexpr std::array<std::string_view, 10> kCardKeys = {
    "annotations_creators", "configs",         "dataset_info",    "language",        "license",
    "multilinguality",      "size_categories", "source_datasets", "task_categories", "task_ids"};

std::string beginning_of(const Path& path) {
  constexpr int64_t kMostHeader = 64 << 10;
  if (!std::filesystem::is_regular_file(path)) return {};
  const File file = File::open_read(path);
  std::string text(static_cast<size_t>(std::min(file.size_bytes(), kMostHeader)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

// A card begins with YAML between two lines of three dashes.
bool is_card(const Path& path) {
  const std::vector<std::string> lines = split_lines(beginning_of(path));
  const auto is_dashes = [](std::string_view line) { return line == "---" || line == "---\r"; };
  if (lines.empty() || !is_dashes(lines[0])) return false;
  for (size_t i = 1; i < lines.size() && !is_dashes(lines[i]); ++i) {
    const std::string_view line = lines[i];
    const auto has_key = [&](std::string_view key) {
      return line.starts_with(key) && line.substr(key.size()).starts_with(':');
    };
    if (std::any_of(kCardKeys.begin(), kCardKeys.end(), has_key)) return true;
  }
  return false;
}

// Whether it is the lock of a download: beside the file with an ending that it locks, or anywhere in a cache of Hugging
// Face's libraries. Package managers write other files with this ending: Cargo.lock, and Gemfile.lock beside Gemfile.
bool is_lock(const Path& path) {
  if (path.extension() != ".lock") return false;
  const Path locked = path.parent_path() / path.stem();
  return (locked.has_extension() && path_exists(locked)) ||
         absolute_path(path).string().find("/.cache/huggingface/") != std::string::npos;
}

}  // namespace

std::optional<LeftOutReason> never_data(const Path& path, bool is_folder) {
  const std::string name = path.filename().string();
  if (name.starts_with('.')) return LeftOutReason::kHidden;
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  if (!is_folder && (std::any_of(kUnfinishedEndings.begin(), kUnfinishedEndings.end(), ends) || is_lock(path)))
    return LeftOutReason::kUnfinished;
  if (is_folder && std::find(kFoldersOfTools.begin(), kFoldersOfTools.end(), name) != kFoldersOfTools.end())
    return LeftOutReason::kOfTools;
  if (is_folder && (name == "blobs" || name == "refs") && folder_exists(path.parent_path() / "snapshots"))
    return LeftOutReason::kOfTools;
  return {};
}

bool is_about_data(const Path& path) {
  const std::string name = path.filename().string();
  if (std::find(kDescriptions.begin(), kDescriptions.end(), name) != kDescriptions.end()) return true;
  std::string upper = name;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  // LICENSE, LICENSE.txt, LICENSE-MIT, README.zh-CN.md; not READMES or license_texts.jsonl.
  const bool is_named = std::any_of(kAboutNames.begin(), kAboutNames.end(), [&](std::string_view about) {
    return upper.starts_with(about) &&
           (upper.size() == about.size() || upper[about.size()] == '.' || upper[about.size()] == '-');
  });
  const std::string ending = Path(upper).extension().string();
  const bool is_page = ending.size() <= 1 || ending == ".MD" || ending == ".TXT" || ending == ".RST" ||
                       ending == ".HTML" || ending == ".CFF" || ending == ".BIB";
  // The program that loads a dataset of the Hub has the name of its folder.
  return (is_named && is_page) || (ending == ".PY" && path.stem() == path.parent_path().filename());
}

bool is_hub_folder(const Path& folder) {
  return path_exists(folder / hub::kRecordFile) || folder_exists(folder / ".cache" / "huggingface") ||
         beginning_of(folder / ".gitattributes").find("filter=lfs") != std::string::npos ||
         beginning_of(folder / ".git" / "config").find("huggingface.co") != std::string::npos ||
         is_card(folder / "README.md");
}

std::string describe_left_out(const std::vector<LeftOut>& entries) {
  std::vector<std::string> parts;
  for (size_t reason = 0; reason < kReasons.size(); ++reason) {
    std::vector<std::string> names;
    size_t count = 0;
    for (const LeftOut& entry : entries) {
      if (static_cast<size_t>(entry.reason) != reason) continue;
      ++count;
      const std::string name = printable(Path(entry.path).filename().string());
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    if (count > 0)
      parts.push_back(fmt::format("{} {} ({})", count, kReasons[reason], join_first(names, kNamedEntries)));
  }
  return join(parts);
}

}  // namespace hearth::data
