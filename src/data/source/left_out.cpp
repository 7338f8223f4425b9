// SPDX-License-Identifier: Apache-2.0
#include "data/source/left_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "base/text.h"
#include "data/formats/stream_buffer.h"
#include "hub/manifest.h"

namespace hearth::data {
namespace {

constexpr size_t kNamedEntries = 4;  // of each reason

// In the order of the enum.
constexpr std::array<std::string_view, 5> kReasons = {"hidden", "unfinished", "made by tools", "about the data",
                                                      "excluded"};

// Browsers, wget, aria2, FileZilla, Hadoop, Flink and others write under such a name, and rename the file at the end.
constexpr std::array<std::string_view, 10> kUnfinishedEndings = {
    ".incomplete", ".part",     ".partial", ".crdownload", ".opdownload",
    ".aria2",      ".filepart", ".tmp",     "._COPYING_",  ".inprogress"};
// Where Spark and Hadoop write the parts of a table before the job is done.
constexpr std::string_view kUnfinishedFolder = "_temporary";
// Other names in underscores are folders of source code: __tests__, __mocks__, __fixtures__.
constexpr std::array<std::string_view, 3> kFoldersOfTools = {"__pycache__", "__MACOSX", "_darcs"};
// Behind the name of the file that an editor, patch or a user kept as it was.
constexpr std::array<std::string_view, 4> kEndingsOfCopies = {"~", ".bak", ".orig", ".old"};
// A file's history, of RCS and CVS.
constexpr std::string_view kHistoryEnding = ",v";
// Windows writes the first two, and Spark the others beside the parts of a table.
constexpr std::array<std::string_view, 5> kFilesOfTools = {"desktop.ini", "Thumbs.db", "_SUCCESS", "_metadata",
                                                           "_common_metadata"};
// Databricks' transactions, with a number behind.
constexpr std::array<std::string_view, 2> kTransactions = {"_committed_", "_started_"};

// Without their endings, in upper case. More may follow behind a separator: LICENSE_MIT.txt.
constexpr std::array<std::string_view, 24> kAboutNames = {
    "README",    "LICENSE",    "LICENCE",      "UNLICENSE",    "MIT-LICENSE",     "COPYING",
    "NOTICE",    "CITATION",   "CHANGELOG",    "SECURITY",     "DATASHEET",       "DATA_CARD",
    "DATA-CARD", "DATACARD",   "DATASET_CARD", "CONTRIBUTING", "CODE_OF_CONDUCT", "AUTHORS",
    "SHA256SUM", "SHA256SUMS", "MD5SUM",       "MD5SUMS",      "CHECKSUMS",       "TERMS_OF_USE"};
// The same for common words, which may begin the name of a text: history_of_rome.txt. Only an ending may follow.
constexpr std::array<std::string_view, 5> kAboutWords = {"TERMS", "HISTORY", "CHANGES", "USAGE", "REQUIREMENTS"};
constexpr std::string_view kNameSeparators = "._- ";
// Files of programs, settings and pages. Nothing: no ending.
constexpr std::array<std::string_view, 11> kPageEndings = {"",     ".md",   ".py",  ".ipynb", ".json", ".yaml",
                                                           ".yml", ".toml", ".cfg", ".sh",    ".html"};
// What `datasets` and Kaggle write beside data, or never read as data.
constexpr std::array<std::string_view, 8> kDescriptions = {
    "config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json",
    "state.json",  "dummy_data.zip",    "croissant.json",     "dataset-metadata.json"};

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
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
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
    if (std::ranges::any_of(kCardKeys, has_key)) return true;
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

// A repository of git without a work tree: `git clone --mirror`. In others these are in .git.
bool is_bare_repository(const Path& folder) {
  return path_exists(folder / "HEAD") && folder_exists(folder / "objects") && folder_exists(folder / "refs");
}

// CVS keeps the state of a folder in it.
bool is_cvs_folder(const Path& folder) {
  return folder.filename() == "CVS" && (path_exists(folder / "Entries") || path_exists(folder / "Root"));
}

// Whether it is an older copy: foo~ beside foo. Without foo the name tells only if it has an ending of its own, as
// foo.txt.bak has: foo.bak may be anything.
bool is_older_copy(const Path& path) {
  const std::string name = path.filename().string();
  return std::ranges::any_of(kEndingsOfCopies, [&](std::string_view ending) {
    if (name.size() <= ending.size() || !name.ends_with(ending)) return false;
    const Path kept = path.parent_path() / name.substr(0, name.size() - ending.size());
    return kept.has_extension() || path_exists(kept);
  });
}

// Whether it is not whole: by its ending, by Emacs's #foo#, or because aria2 still keeps its state beside it.
bool is_unfinished(const Path& path) {
  const std::string name = path.filename().string();
  if (name.size() > 2 && name.starts_with('#') && name.ends_with('#')) return true;
  return std::ranges::any_of(kUnfinishedEndings, [&](std::string_view ending) { return name.ends_with(ending); }) ||
         path_exists(path.parent_path() / (name + ".aria2"));
}

// Whether a program wrote it beside data.
bool is_of_tools(const Path& path) {
  const std::string name = path.filename().string();
  if (std::ranges::find(kFilesOfTools, name) != kFilesOfTools.end()) return true;
  const auto is_transaction = [&](std::string_view beginning) {
    return name.size() > beginning.size() && name.starts_with(beginning) &&
           name.find_first_not_of("0123456789", beginning.size()) == std::string::npos;
  };
  if (std::ranges::any_of(kTransactions, is_transaction)) return true;
  if (name.ends_with(kHistoryEnding) || is_older_copy(path)) return true;
  return path.extension() == ".dvc" && path_exists(path.parent_path() / path.stem());  // DVC's, beside the data
}

}  // namespace

std::optional<LeftOutReason> never_data(const Path& path, bool is_folder) {
  const std::string name = path.filename().string();
  if (name.starts_with('.')) return LeftOutReason::kHidden;
  if (is_folder ? name == kUnfinishedFolder : is_unfinished(path) || is_lock(path)) return LeftOutReason::kUnfinished;
  if (is_folder && std::ranges::find(kFoldersOfTools, name) != kFoldersOfTools.end()) return LeftOutReason::kOfTools;
  if (is_folder ? is_bare_repository(path) || is_cvs_folder(path) : is_of_tools(path)) return LeftOutReason::kOfTools;
  if (is_folder && (name == "blobs" || name == "refs") && folder_exists(path.parent_path() / "snapshots"))
    return LeftOutReason::kOfTools;
  return {};
}

bool is_about_data(const Path& path) {
  const std::string name = path.filename().string();
  if (std::ranges::find(kDescriptions, name) != kDescriptions.end()) return true;
  std::string upper = name;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  // LICENSE, LICENSE.txt, LICENSE-MIT, README.zh-CN.md, README_EN.md; not READMES or license_texts.jsonl.
  const auto begins = [&](std::string_view about, std::string_view separators) {
    return upper.starts_with(about) &&
           (upper.size() == about.size() || separators.find(upper[about.size()]) != std::string_view::npos);
  };
  const bool is_named = std::ranges::any_of(kAboutNames, [&](auto about) { return begins(about, kNameSeparators); }) ||
                        std::ranges::any_of(kAboutWords, [&](auto about) { return begins(about, "."); });
  const std::string ending = Path(upper).extension().string();
  const bool is_page = ending.size() <= 1 || ending == ".MD" || ending == ".TXT" || ending == ".RST" ||
                       ending == ".HTML" || ending == ".CFF" || ending == ".BIB";
  // The program that loads a dataset of the Hub has the name of its folder.
  return (is_named && is_page) || (ending == ".PY" && path.stem() == path.parent_path().filename());
}

bool has_page_ending(const Path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::ranges::find(kPageEndings, ending) != kPageEndings.end();
}

bool is_hub_folder(const Path& folder) {
  return path_exists(folder / hub::kManifestFile) || folder_exists(folder / ".cache" / "huggingface" / "download") ||
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
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    if (count > 0)
      parts.push_back(fmt::format("{} {} ({})", count, kReasons[reason], join_first(names, kNamedEntries)));
  }
  return join(parts);
}

}  // namespace hearth::data
