// SPDX-License-Identifier: Apache-2.0
#include "data/formats/saved_dataset.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace hearth::data {
namespace {

using nlohmann::json;

json parse(const Path& path) {
  json value = json::parse(read_file(path), nullptr, false);
  if (value.is_discarded())
    throw damaged(fmt::format("{} is not JSON", path.string()), "", "write the dataset again with save_to_disk");
  return value;
}

[[noreturn]] void refuse_list(const Path& path, std::string why) {
  throw damaged(fmt::format("{} is invalid", path.string()), std::move(why),
                "write the dataset again with save_to_disk");
}

// Accepts only the name of an entry of the folder itself.
std::string plain_name(const json& value, const Path& list) {
  if (!value.is_string()) refuse_list(list, "a name is not a string");
  auto name = value.get<std::string>();
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
    refuse_list(list, fmt::format("\"{}\" is not the name of a file in its folder", name));
  return name;
}

}  // namespace

std::optional<std::vector<std::string>> files_of_saved_dataset(const Path& folder) {
  const Path list = folder / "state.json";
  if (!path_exists(list) || !path_exists(folder / "dataset_info.json")) return {};
  const json state = parse(list);
  if (!state.is_object() || !state.contains("_data_files")) return {};
  const auto indices = state.find("_indices_files");  // in versions before 2.0
  if ((indices != state.end() && !indices->is_null() && !indices->empty()) || path_exists(folder / "indices.arrow"))
    throw user_error(fmt::format("{} selects its rows through another file", folder.string()),
                     "its indices (indices.arrow) say which rows of the data files belong to it",
                     "in Python: load_from_disk(...).flatten_indices().save_to_disk(...), and build from that folder");
  if (!state["_data_files"].is_array()) refuse_list(list, "\"_data_files\" is not a list");
  std::vector<std::string> files;
  for (const json& entry : state["_data_files"]) {
    if (!entry.is_object() || !entry.contains("filename")) refuse_list(list, "a data file has no \"filename\"");
    files.push_back(plain_name(entry["filename"], list));
    if (!path_exists(folder / files.back()))
      throw damaged(fmt::format("{} lists {}, which is missing", list.string(), files.back()), "",
                    "get the whole folder");
  }
  return files;
}

std::optional<std::vector<std::string>> splits_of_saved_dict(const Path& folder) {
  const Path list = folder / "dataset_dict.json";
  if (!path_exists(list)) return {};
  const json dict = parse(list);
  if (!dict.is_object() || !dict.contains("splits")) return {};
  if (!dict["splits"].is_array()) refuse_list(list, "\"splits\" is not a list");
  std::vector<std::string> splits;
  for (const json& entry : dict["splits"]) {
    splits.push_back(plain_name(entry, list));
    if (!path_exists(folder / splits.back()))
      throw damaged(fmt::format("{} lists the split {}, which is missing", list.string(), splits.back()), "",
                    "get the whole folder");
  }
  return splits;
}

}  // namespace hearth::data
