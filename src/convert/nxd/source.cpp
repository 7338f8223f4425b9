// SPDX-License-Identifier: Apache-2.0
// AWS Neuron's NxD checkpoints: dicts of tensors with Hugging Face's names, one file for each rank of tensor parallel
// and each stage of the pipeline. Source: neuronx_distributed, trainer/checkpoint.py and parallel_layers.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/quantity.h"
#include "convert/names.h"
#include "convert/nxd.h"
#include "convert/rank_parts.h"
#include "convert/source.h"
#include "formats/torch_file.h"
#include "plan/parameters.h"
#include "plan/tensor_names.h"

namespace hearth::convert {
namespace {

using checkpoint::OutsideTensor;

// The tensors of one file, in its order. xser keeps each in a file of its own.
NxdTensors tensors_in(const Path& folder, const std::string& name) {
  const std::string origin = (folder / name).string();
  const File file = File::open_read(folder / name);
  formats::TorchFile found = formats::read_torch_file(file, origin);
  const bool in_model = found.tensors.empty() && found.references.empty() && found.others.size() == 1;
  if (in_model && found.others[0].name == "model") found = formats::read_torch_file(file, origin, "model");
  if (!found.others.empty())
    throw user_error(fmt::format("{}: {} is {}", origin, found.others[0].name, found.others[0].what),
                     "a model of NxD has weights only", "give the files of the model, not of the optimizer");
  NxdTensors tensors;
  for (formats::TorchTensor& tensor : found.tensors)
    tensors.emplace_back(std::move(tensor.name), RankPart{name, std::move(tensor.layout)});
  for (formats::TorchReference& reference : found.references) {
    const std::string part = fmt::format("{}.tensors/tensor_{}.pt", name, reference.id);
    if (!path_exists(folder / part))
      throw user_error(fmt::format("{} is missing", (folder / part).string()),
                       fmt::format("{} names it for {}", origin, reference.name), "copy the whole folder");
    formats::TorchTensor tensor = formats::read_torch_tensor(File::open_read(folder / part), (folder / part).string());
    tensors.emplace_back(std::move(reference.name), RankPart{part, std::move(tensor.layout)});
  }
  std::erase_if(tensors, [](const auto& tensor) { return is_computed(tensor.first); });
  return tensors;
}

// The tensors of all files, whose names begin with `prefix`: the model's folder within `root`.
std::map<NxdPlace, NxdTensors> read_model(const Path& root, const std::string& prefix) {
  std::map<NxdPlace, NxdTensors> model;
  int64_t ranks = 0, stages = 0;
  for (const NxdFile& file : nxd_files(root / prefix)) {
    ranks = std::max(ranks, file.tp + 1);
    stages = std::max(stages, file.pp + 1);
    if (model.contains({file.tp, file.pp}))
      throw user_error(fmt::format("{} has several files of tensor rank {} and stage {}", (root / prefix).string(),
                                   file.tp, file.pp),
                       "it is not known which is the model's", "keep one set of files");
    model[{file.tp, file.pp}] = tensors_in(root, prefix + file.name);
  }
  for (int64_t tp = 0; tp < ranks; ++tp) {
    for (int64_t pp = 0; pp < stages; ++pp) {
      if (!model.contains({tp, pp}))
        throw user_error(
            fmt::format("{} lacks the file of tensor rank {} and stage {}", (root / prefix).string(), tp, pp),
            fmt::format("there are files of {} ranks and {} stages", ranks, stages), "copy all files");
    }
  }
  return model;
}

// By name, then by rank of tensor parallel.
using NxdParts = std::map<std::string, RankParts>;

NxdParts parts_of(const std::map<NxdPlace, NxdTensors>& model, const Path& folder) {
  NxdParts parts;
  for (const auto& [place, tensors] : model) {
    for (const auto& [name, part] : tensors) {
      if (!parts[name].emplace(place.first, part).second)
        throw user_error(fmt::format("{}: {} is in two stages of the pipeline", folder.string(), name),
                         "it is not known which is the model's");
    }
  }
  return parts;
}

// The same of the optimizer's tensors: `part` takes one of a rank's.
template <typename Part>
NxdParts parts_of(const NxdState& state, const Part& part) {
  NxdParts parts;
  for (const auto& [place, moments] : state.moments) {
    for (const auto& [name, of_tensor] : moments) parts[name].emplace(place.first, part(of_tensor));
  }
  return parts;
}

void require_known_keys(const RankRow& row, const RankParts& parts, const plan::ModelShape& s, int64_t ranks,
                        const Path& folder, const std::string& name) {
  if (ranks > s.G && row.variant == "separate")
    throw user_error(fmt::format("{} has the files of {} for {}, and {}", folder.string(),
                                 hearth::counted(ranks, "rank"), hearth::counted(s.G, "key"), name),
                     "only the module qkv_proj has copies of keys", "check --config");
  const std::vector<int64_t>& sizes = parts.begin()->second.layout.sizes;
  const bool is_key = row.sources.size() == 1 && row.sources[0].heads == HeadKind::kKeys;
  if (is_key && !sizes.empty() && sizes[0] > std::max<int64_t>(1, s.G / ranks) * s.K)
    throw user_error(fmt::format("{}: {} has more rows than [model] has keys", folder.string(), name),
                     "kv_size_multiplier copied the keys for fewer ranks than it is read with, or [model] is another "
                     "model's",
                     "merge the copies with NxD's convert_checkpoints.py, or check --config");
}

// The tensors under Hearth's names, joined from those of all ranks.
std::vector<OutsideTensor> joined_tensors(const Path& folder, const NxdParts& all, const plan::ModelShape& s) {
  int64_t ranks = 0;
  for (const auto& [name, parts] : all) ranks = std::max(ranks, parts.rbegin()->first + 1);
  HEARTH_CHECK(ranks > 0);
  if (s.H % ranks != 0 || (s.G % ranks != 0 && ranks % s.G != 0))
    throw user_error(
        fmt::format("{} has the files of {} ranks, which do not divide the heads of [model]", folder.string(), ranks),
        "[model] is another model's", "check --config");
  const RankLayout layout(s.H, s.G, ranks, KeyOrder::kInTurn);
  std::vector<OutsideTensor> tensors;
  for (const auto& [name, parts] : all) {
    check_parts(parts, ranks, folder, name);
    const std::optional<RankRow> row = rank_table("nxd").find(name);
    if (!row)
      throw user_error(fmt::format("{}: {} is no weight of Llama's in NxD's names", folder.string(), name),
                       "weights are never dropped silently");
    require_known_keys(*row, parts, s, ranks, folder, name);
    JoinedRow found = joined(*row, layout, parts, required_sizes(*row, layout, parts, s, folder, name));
    for (const JoinedRow::Copy& copy : found.copies) {
      // Norms are those of the first rank.
      if (row->dimension && !same_elements(folder, copy.part, copy.of_other))
        throw damaged(
            fmt::format("{}: {} differs between ranks {} and {}", folder.string(), name, copy.rank, copy.other),
            "kv_size_multiplier gives both a copy of one part", "take another checkpoint");
    }
    std::move(found.tensors.begin(), found.tensors.end(), std::back_inserter(tensors));
  }
  std::set<std::string> names;
  for (const OutsideTensor& tensor : tensors) {
    if (!names.insert(tensor.info.name).second)
      throw user_error(fmt::format("{} has {} in two ways", folder.string(), tensor.info.name),
                       "it is not known which is the model's");
  }
  return tensors;
}

}  // namespace

Source open_nxd(const Path& folder, const Description* described) {
  Description description =
      require_described(folder, described, "NxD joins matrices, and only the model's sizes tell them apart");
  const plan::ModelShape shape = plan::model_shape(description.model, 0);
  const Path model_folder = nxd_model_folder(folder);
  // The optimizer's folder lies beside the model's.
  const bool in_step = normal_path(model_folder) != normal_path(folder) && model_folder.filename() == "model";
  const Path root = in_step ? model_folder.parent_path() : model_folder;
  const std::map<NxdPlace, NxdTensors> model = read_model(root, in_step ? "model/" : "");
  const auto read = [&](const NxdParts& parts) { return joined_tensors(root, parts, shape); };
  const std::optional<NxdState> state = in_step ? read_nxd_state(root, model) : std::nullopt;
  if (!state)
    return {Kind::kNxd, checkpoint::Reader::over(root, read(parts_of(model, root))), std::move(description), {}};
  // The training computes with the optimizer's weights where it saved them: the model's are rounded from them.
  std::vector<OutsideTensor> tensors = read(
      state->has_weights ? parts_of(*state, [](const NxdMoments& of) { return *of.weight; }) : parts_of(model, root));
  const auto add = [&](std::string (*name)(const std::string&), const NxdParts& parts) {
    for (OutsideTensor& tensor : read(parts)) {
      tensor.info.name = name(tensor.info.name);
      tensors.push_back(std::move(tensor));
    }
  };
  add(plan::exp_avg_name, parts_of(*state, [](const NxdMoments& of) { return of.exp_avg; }));
  add(plan::exp_avg_sq_name, parts_of(*state, [](const NxdMoments& of) { return of.exp_avg_sq; }));
  return {Kind::kNxd, checkpoint::Reader::over(root, std::move(tensors)), std::move(description), {}, state->training};
}

}  // namespace hearth::convert
