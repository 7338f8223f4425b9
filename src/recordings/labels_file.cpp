// SPDX-License-Identifier: Apache-2.0
#include "recordings/labels_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"

namespace hearth::recordings {
namespace {

using Json = nlohmann::json;

std::string text_at(const Json& json, std::string_view key, const std::string& place) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string())
    throw user_error(fmt::format("{}: {}", place,
                                 found == json.end() ? fmt::format("there is no \"{}\"", key)
                                                     : fmt::format("\"{}\" is not a string", key)),
                     fmt::format("each line is an object with the strings \"file_name\", {}",
                                 join(std::vector<std::string>(kLabelNames.begin(), kLabelNames.end()))),
                     "correct the line");
  return found->get<std::string>();
}

}  // namespace

LabelsFiles::FolderLabels LabelsFiles::parse(const Path& path) {
  FolderLabels all;
  const std::string content = read_file(path);
  int64_t number = 0;
  for (const std::string& line : split_lines(content)) {
    const std::string place = fmt::format("{}:{}", path.string(), ++number);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object())
      throw user_error(fmt::format("{}: the line is not a JSON object", place), "", "correct the line");
    auto labels = std::make_shared<ArrayLabels>();
    for (size_t i = 0; i < kLabelNames.size(); ++i) (*labels)[i] = text_at(json, kLabelNames[i], place);
    if (!all.emplace(text_at(json, "file_name", place), std::move(labels)).second)
      throw user_error(fmt::format("{}: an earlier line names the file", place), "", "remove one of the lines");
  }
  return all;
}

bool is_labels_file(const Path& path) {
  if (path.filename() != kLabelsFile) return false;
  const std::vector<std::string> names = list_folder(path.parent_path().empty() ? "." : path.parent_path());
  return std::ranges::any_of(names, [](const std::string& name) { return name.ends_with(".npy"); });
}

std::shared_ptr<const ArrayLabels> LabelsFiles::labels_of(const Path& path) {
  const Path labels = path.parent_path() / kLabelsFile;
  auto folder = folders_.find(path.parent_path());
  if (folder == folders_.end())
    folder =
        folders_.emplace(path.parent_path(), path_exists(labels) ? std::optional(parse(labels)) : std::nullopt).first;
  if (!folder->second) return nullptr;
  const auto found = folder->second->find(path.filename().string());
  if (found == folder->second->end())
    throw user_error(fmt::format("{} has no line for {}", labels.string(), path.filename().string()), "",
                     "add one, or leave the array out");
  return found->second;
}

}  // namespace hearth::recordings
