// SPDX-License-Identifier: Apache-2.0
#include "convert/nxd.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace hearth::convert {
namespace {

constexpr const char* kNewest = "newest";

// The number after `key`; nullopt without one.
std::optional<int64_t> number_after(std::string_view name, std::string_view key) {
  const size_t at = name.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = name.substr(at + key.size());
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  return error == std::errc() ? std::optional<int64_t>(number) : std::nullopt;
}

// Not a file of the model: the tensors of xser, and NxD's list of shapes.
bool is_beside(std::string_view name) { return name.ends_with(".tensors") || name.ends_with(".info.pt"); }

bool has_ranks(const Path& folder) {
  if (!folder_exists(folder)) return false;
  const std::vector<std::string> names = list_folder(folder);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return number_after(name, "tp_rank_") && number_after(name, "_pp_rank_") && !is_beside(name);
  });
}

}  // namespace

std::string nxd_file_name(const NxdLayout& layout, int64_t tp, int64_t pp) {
  const std::string ranks = fmt::format("tp_rank_{:02}_pp_rank_{:02}", tp, pp);
  switch (layout.names) {
    case NxdNames::kV1:
      return ranks + ".pt";
    case NxdNames::kV2:
      return "dp_rank_00_" + ranks + ".pt";
    case NxdNames::kV3:
      return "dp_rank_00_ep_rank_00_" + ranks + ".pt";
    case NxdNames::kPretrained:
      break;
  }
  return layout.xser ? ranks : ranks + "/checkpoint.pt";
}

std::string nxd_optimizer_file_name(int64_t dp, int64_t tp, int64_t pp) {
  return fmt::format("dp_rank_{:02}_tp_rank_{:02}_pp_rank_{:02}.pt", dp, tp, pp);
}

bool is_in_second_group(std::string_view name, std::string_view word) {
  return name.find("bias") != std::string_view::npos || name.find(word) != std::string_view::npos;
}

void write_nxd_file(const Path& path, const PythonValue& value, const NxdLayout& layout) {
  if (!layout.xser) return write_python_file(path, value);
  const std::vector<mesh::TensorInfo> tensors = write_python_references(path, value);
  if (layout.names != NxdNames::kV3) return;
  PythonDict list;
  for (const mesh::TensorInfo& tensor : tensors)
    list.push_back(
        {std::ssize(list), PythonDict{{"dtype", PythonGlobal{"torch", std::string(dtype_name(tensor.dtype))}},
                                      {"shape", PythonSize{tensor.shape}},
                                      {"expert_model_parallel", false}}});
  write_python_values(path.string() + ".info.pt", list);
}

bool is_nxd(const Path& folder) {
  return has_ranks(folder) || has_ranks(folder / "model") || path_exists(folder / kNewest);
}

Path nxd_model_folder(const Path& folder) {
  Path step = folder;
  if (path_exists(folder / kNewest)) {
    std::string text = read_file(folder / kNewest);
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    const std::string name = text.substr(text.rfind('\n') + 1);
    if (name.empty() || name.find('/') != std::string::npos || name.starts_with(".") || !path_exists(folder / name))
      throw user_error(fmt::format("{} names \"{}\", which is no folder there", (folder / kNewest).string(), name), {},
                       "give the folder of a step, such as step_1000");
    step = folder / name;
  }
  // NxD 0.7 and later: `checkpoint` is written first, `done` last.
  if (path_exists(step / "checkpoint") && !path_exists(step / "done"))
    throw user_error(fmt::format("{} was not saved to its end", step.string()), "it has no file `done`",
                     "give the folder of an earlier step");
  return has_ranks(step / "model") ? step / "model" : step;
}

std::vector<NxdFile> nxd_files(const Path& folder) {
  std::vector<NxdFile> files;
  for (const std::string& name : list_folder(folder)) {
    const auto tp = number_after(name, "tp_rank_"), pp = number_after(name, "_pp_rank_");
    if (!tp || !pp || is_beside(name)) continue;
    if (number_after(name, "ep_rank_").value_or(0) > 0)
      throw user_error(fmt::format("{} is a rank of expert parallel", (folder / name).string()),
                       "Hearth has no models with experts");
    if (number_after(name, "dp_rank_").value_or(0) > 0) continue;  // a copy
    const bool is_folder = folder_exists(folder / name);
    files.push_back({is_folder ? name + "/checkpoint.pt" : name, *tp, *pp});
  }
  if (files.empty())
    throw user_error(fmt::format("{} has no files of a model", folder.string()),
                     "NxD names them like dp_rank_00_tp_rank_00_pp_rank_00.pt");
  return files;
}

}  // namespace hearth::convert
