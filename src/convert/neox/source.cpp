// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX's checkpoints: dicts of tensors of its layers, one file for each layer and rank, or one for each rank.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "convert/names.h"
#include "convert/neox/files.h"
#include "convert/neox/rank.h"
#include "convert/neox/zero_state.h"
#include "convert/rank_parts.h"
#include "convert/source.h"
#include "formats/torch_file.h"
#include "plan/parameters.h"
#include "plan/tensor_names.h"

namespace hearth::convert {
namespace {

using checkpoint::OutsideTensor;

// By layer and name in the layer.
using Parts = std::map<std::pair<int64_t, std::string>, RankParts>;

// The files of layers where there are any, else those of ranks.
Parts read_parts(const Path& folder) {
  Parts parts;
  const std::vector<std::string> names = list_folder(folder);
  const bool by_layer =
      std::any_of(names.begin(), names.end(), [](const std::string& name) { return name.starts_with("layer_"); });
  for (const std::string& name : names) {
    if (!name.starts_with(by_layer ? "layer_" : "mp_rank_") || !name.ends_with("model_states.pt")) continue;
    const std::string origin = (folder / name).string();
    const std::optional<NeoxFile> file = neox_file(name);
    if (!file) throw user_error(fmt::format("{} belongs to no layer or rank", origin), "GPT-NeoX's names have numbers");
    const formats::TorchFile found =
        formats::read_torch_file(File::open_read(folder / name), origin, by_layer ? "" : "module");
    for (const formats::TorchTensor& tensor : found.tensors) {
      const auto place = by_layer ? NeoxTensorName{file->layer, tensor.name} : neox_tensor_name(tensor.name);
      if (!place)
        throw user_error(fmt::format("{}: {} belongs to no layer", origin, tensor.name),
                         "GPT-NeoX's names have numbers");
      if (!is_computed("." + place->rest)) parts[{place->layer, place->rest}][file->rank] = {name, tensor.layout};
    }
  }
  return parts;
}

int64_t ranks_of(const Parts& parts) {
  int64_t ranks = 0;
  for (const auto& [key, of_ranks] : parts) ranks = std::max(ranks, std::ssize(of_ranks));
  return ranks;
}

using ZeroParts = std::map<std::pair<int64_t, std::string>, std::map<int64_t, const ZeroParameter*>>;

// The optimizer's parameters by layer and name in the layer, and by rank of tensor parallel.
ZeroParts zero_parts(const ZeroState& zero, const Parts& model, const Path& folder) {
  ZeroParts parts;
  const int64_t ranks = ranks_of(model);
  for (const auto& [rank, parameters] : zero.parameters) {
    for (const auto& [name, parameter] : parameters) {
      const std::optional<NeoxTensorName> place = neox_tensor_name(name);
      if (!place || !model.contains({place->layer, place->rest}))
        throw user_error(fmt::format("{}: the model has no {}, whose moments are there", folder.string(), name),
                         "weights are never dropped silently", "copy all files");
      // The last stage has tied weights again. Those of the first stage are in the layer's file, too.
      const bool is_new = parts[{place->layer, place->rest}].emplace(rank % ranks, &parameter).second;
      if (!is_new && !name.starts_with(kNeoxTied))
        throw user_error(fmt::format("{}: two stages have the moments of {}", folder.string(), name),
                         "the files are of two saves with other numbers of stages", "keep one set of files");
    }
  }
  return parts;
}

// The same tensors with other values of the same shapes: runs of ZeRO's slices.
Parts parts_of(const ZeroState& zero, std::vector<FileRun> ZeroParameter::*runs, const Parts& model,
               const Path& folder) {
  ZeroParts by_place = zero_parts(zero, model, folder);
  Parts parts;
  for (const auto& [key, of_ranks] : model) {
    for (const auto& [rank, part] : of_ranks) {
      const auto found = by_place[key].find(rank);
      const std::vector<FileRun> none;
      const std::vector<FileRun>& there = found == by_place[key].end() ? none : found->second->*runs;
      const int64_t numel = mesh::Box{{}, part.layout.sizes}.numel(),
                    covered = there.empty() ? 0 : there.back().begin + there.back().count;
      if (covered != numel)
        throw user_error(fmt::format("{} has {} of {} elements of the moments of {} in layer {}", folder.string(),
                                     covered, numel, key.second, key.first),
                         "the optimizer's files of a rank are missing, or of another model", "copy all files");
      RankPart& slices = parts[key][rank];
      slices.layout = {found->second->dtype, part.layout.sizes, {}, 0};
      slices.layout.strides.assign(part.layout.sizes.size(), 1);
      for (size_t d = part.layout.sizes.size(); d-- > 1;)
        slices.layout.strides[d - 1] = slices.layout.strides[d] * part.layout.sizes[d];
      slices.runs = there;
    }
  }
  return parts;
}

// Whether the first block has the names of the feed-forward llama.
bool has_llama_rows(const Parts& parts) {
  const std::vector<RankRow>& rows = rank_table("neox").block;
  return std::any_of(rows.begin(), rows.end(), [&](const RankRow& row) {
    return row.variant == "llama" && parts.contains({2, row.name});
  });
}

// With as many keys as queries all versions have slots: [q | k | v] of a head.
bool has_slots(const plan::ModelShape& s, std::optional<QkvLayout> layout, bool is_llama, const Path& folder) {
  if (s.H == s.G) return true;
  if (!is_llama && !layout)
    throw user_error(fmt::format("{}: the order of queries, keys and values is not known", folder.string()),
                     "versions of GPT-NeoX before and after November 2024 differ, and shapes are equal",
                     "give `hearth convert` --qkv-layout split or slots; the right one has the lower loss");
  return layout ? *layout == QkvLayout::kSlots : is_llama;
}

// The tensors under Hearth's names, joined from the parts of all ranks.
std::vector<OutsideTensor> joined_layers(const Path& folder, Parts all, const plan::ModelShape& s,
                                         std::optional<QkvLayout> qkv_layout) {
  const int64_t ranks = ranks_of(all);
  if (ranks == 0 || s.H % ranks != 0 || s.G % ranks != 0)
    throw user_error(
        fmt::format("{} has the files of {} ranks, which do not divide the heads of [model]", folder.string(), ranks));
  const bool is_llama = has_llama_rows(all);
  const NeoxLayers layers(s, has_slots(s, qkv_layout, is_llama, folder), is_llama);
  const RankLayout layout(s.H, s.G, ranks);
  std::vector<OutsideTensor> tensors;
  for (const int64_t number : layers.numbers()) {
    for (const RankRow& row : layers.rows(number)) {
      const auto found = all.find({number, row.name});
      if (number == s.L() + 4 && found == all.end())
        throw user_error(fmt::format("{} has no {}", folder.string(), row.name),
                         "its weights are tied, or a file is missing",
                         "set model.enable_weight_tying = true in the run file, or copy all files");
      if (found == all.end() || std::ssize(found->second) != ranks || found->second.rbegin()->first != ranks - 1)
        throw user_error(fmt::format("{} lacks {} of layer {}", folder.string(), row.name, number),
                         "a file is missing, or [model] is another model's", "copy all files, and check --config");
      const RankParts parts = std::move(all.extract(found).mapped());
      check_parts(parts, ranks, folder, row.name);
      const std::vector<int64_t> sizes = required_sizes(row, layout, parts, s, folder, row.name);
      if (row.alternate_by != HeadKind::kNone && s.G * s.K % s.H != 0)
        throw user_error(fmt::format("{}: {} heads cannot share {} keys in slots", folder.string(), s.H, s.G));
      for (OutsideTensor& tensor : joined(row, layout, parts, sizes).tensors) tensors.push_back(std::move(tensor));
    }
  }
  if (!all.empty())
    throw user_error(fmt::format("{}: layer {} has {}, which Hearth's model lacks", folder.string(),
                                 all.begin()->first.first, all.begin()->first.second),
                     "weights are never dropped silently", "give --config the keys of this model");
  return tensors;
}

// The folder of a step. In the folder above, `latest` names it.
Path step_folder_of(const Path& folder) {
  if (!path_exists(folder / "latest")) return folder;
  std::string name = read_file(folder / "latest");
  while (!name.empty() && (name.back() == '\n' || name.back() == ' ')) name.pop_back();
  if (name.empty() || name.find('/') != std::string::npos || name.starts_with(".") || !path_exists(folder / name))
    throw user_error(fmt::format("{} names \"{}\", which is no folder there", (folder / "latest").string(), name), {},
                     "give the folder of a step, such as global_step1000");
  return folder / name;
}

}  // namespace

Source open_neox(const Path& folder, const Description* described, std::optional<QkvLayout> layout) {
  Description description =
      require_described(folder, described, "GPT-NeoX joins matrices, and only the numbers of heads tell them apart");
  const Path step = step_folder_of(folder);
  const plan::ModelShape shape = plan::model_shape(description.model, 0);
  const Parts parts = read_parts(step);
  const std::optional<ZeroState> zero = read_zero_state(step);
  const auto read = [&](Parts of) { return joined_layers(step, std::move(of), shape, layout); };
  if (!zero) return {Kind::kNeox, checkpoint::Reader::over(step, read(parts)), std::move(description), {}};
  // The training computes with the optimizer's weights: those of the model's files are rounded from them.
  std::vector<OutsideTensor> tensors = read(parts_of(*zero, &ZeroParameter::weight, parts, step));
  using Name = std::string (*)(const std::string&);
  for (const auto& [runs, name] :
       {std::pair<std::vector<FileRun> ZeroParameter::*, Name>{&ZeroParameter::exp_avg, plan::exp_avg_name},
        {&ZeroParameter::exp_avg_sq, plan::exp_avg_sq_name}}) {
    for (OutsideTensor& tensor : read(parts_of(*zero, runs, parts, step))) {
      tensor.info.name = name(tensor.info.name);
      tensors.push_back(std::move(tensor));
    }
  }
  return {Kind::kNeox, checkpoint::Reader::over(step, std::move(tensors)), std::move(description), {}, zero->training};
}

}  // namespace hearth::convert
