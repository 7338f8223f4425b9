// SPDX-License-Identifier: Apache-2.0
// The optimizer's files of NxD. Source: torch_xla/distributed/zero_redundancy_optimizer.py, state_dict() and
// _shard_parameters(); neuronx_distributed, trainer/checkpoint.py and optimizer/convert_zero_checkpoints.py; and the
// order of weights in examples/training/llama/tp_zero1_llama_hf_pretrain.py.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "convert/names.h"
#include "convert/nxd.h"
#include "convert/optimizer_file.h"
#include "formats/torch_file.h"

namespace hearth::convert {
namespace {

using formats::PickleKind;
using formats::PickleValue;

constexpr const char* kOptimizerFolder = "optim";
constexpr const char* kWeightsAlone = "move the folder optim away to convert the weights alone";

// One slice of the state of a rank and a stage. Parameters are numbers.
class NxdOptimizerFile : public OptimizerFile {
 public:
  NxdOptimizerFile(const Path& step, const std::string& name)
      : OptimizerFile(step, fmt::format("{}/{}", kOptimizerFolder, name), "parameters") {
    read_groups();
    PickleValue value = 0;
    const PickleValue root = pickle().root();
    is_sharded_ = pickle().find_key(root, "base_state", value);
    const PickleValue states = is_sharded_ ? value : pickle().at(root, "state", "the file's dict");
    const auto entries = pickle().pairs(states, "the optimizer's state");
    for (size_t i = 0; i < entries.size(); i += 2) {
      const int64_t id = pickle().integer(entries[i], "a parameter's number");
      if (pickle().find_key(entries[i + 1], "step", value)) count(value);
      moments_[id] = {tensor(pickle().at(entries[i + 1], "exp_avg", "the optimizer's state"), id, "exp_avg"),
                      tensor(pickle().at(entries[i + 1], "exp_avg_sq", "the optimizer's state"), id, "exp_avg_sq")};
    }
    read_weights();
    read_shapes();
  }

  const std::vector<std::vector<int64_t>>& groups() const { return groups_; }
  bool is_sharded() const { return is_sharded_; }
  const NxdMoments* find(int64_t id) const {
    const auto found = moments_.find(id);
    return found == moments_.end() ? nullptr : &found->second;
  }
  // Throws damaged() if the file says that the parameter has another shape.
  void require_shape(int64_t id, const std::string& name, const std::vector<int64_t>& sizes) const {
    const auto found = shapes_.find(id);
    if (found != shapes_.end() && found->second != sizes)
      throw damaged(fmt::format("{}: parameter {} has shape {}, and {} has shape {}", origin_, id,
                                formats::format_shape(found->second), name, formats::format_shape(sizes)),
                    "its number says that it is this weight", kWeightsAlone);
  }

 private:
  void read_groups() {
    const PickleValue list = pickle().at(pickle().root(), "param_groups", "the file's dict");
    for (const PickleValue options : pickle().sequence(list, "param_groups")) {
      PickleValue lr = 0;
      if (groups_.empty() && pickle().find_key(options, "lr", lr)) next_lr_ = number(lr, "lr");
      std::vector<int64_t>& ids = groups_.emplace_back();
      for (const PickleValue id : pickle().sequence(pickle().at(options, "params", "param_groups"), "params"))
        ids.push_back(pickle().integer(id, "a parameter's number"));
    }
  }

  void read_weights() {
    PickleValue weights = 0;
    if (!pickle().find_key(pickle().root(), "sharded_master_weights", weights)) return;
    const auto entries = pickle().pairs(weights, "sharded_master_weights");
    for (size_t i = 0; i < entries.size(); i += 2) {
      const int64_t id = pickle().integer(entries[i], "a parameter's number");
      if (const auto found = moments_.find(id); found != moments_.end())
        found->second.weight = tensor(entries[i + 1], id, "sharded_master_weights");
    }
  }

  // torch.Size is a call with one tuple.
  void read_shapes() {
    PickleValue shapes = 0;
    if (!pickle().find_key(pickle().root(), "shape_info", shapes)) return;
    const auto entries = pickle().pairs(shapes, "shape_info");
    for (size_t i = 0; i < entries.size(); i += 2) {
      PickleValue sizes = entries[i + 1];
      if (pickle().kind(sizes) == PickleKind::kObject) {
        const formats::Pickle::Object size = pickle().object(sizes, "a shape");
        if (size.arguments.size() != 1) throw damaged(fmt::format("{}: shape_info has no shapes", origin_));
        sizes = size.arguments[0];
      }
      std::vector<int64_t>& shape = shapes_[pickle().integer(entries[i], "a parameter's number")];
      for (const PickleValue size : pickle().sequence(sizes, "a shape"))
        shape.push_back(pickle().integer(size, "a size"));
    }
  }

  // A tensor of this file, or with xser of a file beside it.
  RankPart tensor(PickleValue value, int64_t id, const char* what) const {
    const std::string where = fmt::format("{}: {} of parameter {}", origin_, what, id);
    RankPart part;
    if (const std::optional<int64_t> reference = content_.reference(value)) {
      part.file = fmt::format("{}.tensors/tensor_{}.pt", name_, *reference);
      const std::string path = (folder_ / part.file).string();
      if (!path_exists(path))
        throw user_error(fmt::format("{} is missing", path), where + " is there", "copy the whole folder");
      part.layout = formats::read_torch_tensor(File::open_read(path), path).layout;
    } else {
      if (!content_.is_tensor(value)) throw damaged(where + " is no tensor");
      part = {name_, content_.place(value, where)};
    }
    if (!is_floating_point(part.layout.dtype) || part.layout.sizes.empty() || part.layout.sizes.size() > 2)
      throw damaged(where + " is no vector or matrix of numbers");
    return part;
  }

  std::vector<std::vector<int64_t>> groups_;
  std::map<int64_t, NxdMoments> moments_;
  std::map<int64_t, std::vector<int64_t>> shapes_;
  bool is_sharded_ = false;
};

struct OptimizerFileName {
  int64_t dp, tp, pp;
};

// Whole names only: a slice that has another name is not of this rank.
std::optional<OptimizerFileName> optimizer_file(std::string_view name) {
  constexpr int64_t kMost = std::numeric_limits<uint16_t>::max();
  // convert_zero_checkpoints.py joins slices to files with "full" in front.
  if (const auto n = numbers_in("full_tp_rank_*_pp_rank_*.pt", name, kMost)) return {{0, n->at(0), n->at(1)}};
  if (const auto n = numbers_in("dp_rank_*_tp_rank_*_pp_rank_*.pt", name, kMost))
    return {{n->at(0), n->at(1), n->at(2)}};
  const auto n = numbers_in("dp_rank_*_ep_rank_*_tp_rank_*_pp_rank_*.pt", name, kMost);
  return n && n->at(1) == 0 ? std::optional<OptimizerFileName>({n->at(0), n->at(2), n->at(3)}) : std::nullopt;
}

// Where the slices of a rank and a stage are, in order.
using OptimizerFiles = std::map<NxdPlace, std::map<int64_t, std::string>>;

OptimizerFiles find_files(const Path& folder) {
  OptimizerFiles files;
  for (const std::string& name : list_folder(folder)) {
    if (name == ".metadata")
      throw user_error(fmt::format("{} is a folder of PyTorch's DCP", folder.string()),
                       "NxD's use_zero1_dcp wrote it, which Hearth does not read", kWeightsAlone);
    const std::optional<OptimizerFileName> file = optimizer_file(name);
    if (file && !files[{file->tp, file->pp}].emplace(file->dp, name).second)
      throw user_error(fmt::format("{} has several files of slice {} of tensor rank {} and stage {}", folder.string(),
                                   file->dp, file->tp, file->pp),
                       "it is not known which is the training's", "keep one set of files");
  }
  return files;
}

// The names in the order of the optimizer's numbers, which are those of two groups, one after the other.
std::vector<std::string> in_order(const NxdTensors& model, const NxdOptimizerFile& file) {
  std::vector<std::string> names;
  for (const auto& [name, part] : model) names.push_back(name);
  std::vector<size_t> sizes;
  for (const std::vector<int64_t>& group : file.groups()) sizes.push_back(group.size());
  sizes.resize(std::max<size_t>(sizes.size(), 2));
  // Weights that are tied are one parameter, the first.
  const bool is_tied = sizes[0] + sizes[1] + 1 == names.size() && names.back() == "lm_head.weight";
  if (is_tied) names.pop_back();
  for (const char* word : {kNxdAllDecay, kNxdMatricesDecay}) {
    std::vector<std::string> ordered = names;
    const auto second = std::stable_partition(
        ordered.begin(), ordered.end(), [word](const std::string& name) { return !is_in_second_group(name, word); });
    const auto of_first = static_cast<size_t>(second - ordered.begin());
    if (sizes == std::vector{of_first, ordered.size() - of_first}) return ordered;
  }
  std::vector<std::string> counts;
  for (const size_t size : sizes) counts.push_back(std::to_string(size));
  throw user_error(fmt::format("{}: it is not known which weights its numbers mean", file.origin()),
                   fmt::format("it has groups of {} parameters and the model's file {} weights; NxD's scripts put all "
                               "in the first group, or the norms in the second",
                               join(counts, " and "), names.size()),
                   kWeightsAlone);
}

// A tensor of `sizes` from its slices. With several, each has as many rows, and the last ones have padding.
RankPart join_slices(const std::vector<const RankPart*>& slices, const std::vector<int64_t>& sizes,
                     const std::string& what) {
  const auto count = std::ssize(slices);
  std::vector<int64_t> expected = sizes;
  expected[0] = (sizes[0] + count - 1) / count;
  RankPart whole{slices[0]->file, {slices[0]->layout.dtype, sizes, std::vector<int64_t>(sizes.size(), 1), 0}};
  if (sizes.size() == 2) whole.layout.strides[0] = sizes[1];
  const int64_t numel = mesh::Box{{}, sizes}.numel(), of_slice = mesh::Box{{}, expected}.numel();
  for (int64_t begin = 0; const RankPart* slice : slices) {
    const formats::TensorLayout& layout = slice->layout;
    const bool in_rows = layout.strides.back() == 1 && (layout.sizes.size() == 1 || layout.strides[0] == expected[1]);
    if (layout.sizes != expected || layout.dtype != whole.layout.dtype || !in_rows)
      throw damaged(fmt::format("{} has shape {} in {}, expected {}", what, formats::format_shape(layout.sizes),
                                slice->file, formats::format_shape(expected)),
                    fmt::format("{} slices share {} rows", count, sizes[0]), "take another checkpoint");
    const int64_t taken = std::clamp<int64_t>(numel - begin, 0, of_slice);
    if (taken > 0) whole.runs.push_back({slice->file, layout.data_offset, begin, taken, layout.member});
    begin += of_slice;
  }
  return whole;
}

// The moments of the tensors of a rank and a stage.
std::map<std::string, NxdMoments> moments_in(const std::vector<std::unique_ptr<NxdOptimizerFile>>& slices,
                                             const NxdTensors& model) {
  const NxdOptimizerFile& first = *slices.front();
  std::vector<int64_t> ids;
  for (const std::vector<int64_t>& group : first.groups()) ids.insert(ids.end(), group.begin(), group.end());
  const std::vector<std::string> names = in_order(model, first);
  std::map<std::string, NxdMoments> found;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto of_model =
        std::find_if(model.begin(), model.end(), [&](const auto& tensor) { return tensor.first == names[i]; });
    const std::vector<int64_t>& sizes = of_model->second.layout.sizes;
    if (sizes.empty()) throw damaged(fmt::format("{}: {} is one number", of_model->second.file, names[i]));
    first.require_shape(ids[i], names[i], sizes);
    std::vector<const RankPart*> exp_avg, exp_avg_sq, weight;
    for (const auto& slice : slices) {
      const NxdMoments* moments = slice->find(ids[i]);
      if (moments == nullptr)
        throw user_error(fmt::format("{} has no moments of {}", slice->origin(), names[i]),
                         "frozen weights have none, and Hearth cannot tell which are frozen", kWeightsAlone);
      exp_avg.push_back(&moments->exp_avg);
      exp_avg_sq.push_back(&moments->exp_avg_sq);
      if (moments->weight) weight.push_back(&*moments->weight);
    }
    const std::string what = fmt::format("{}: {}", first.origin(), names[i]);
    NxdMoments& of = found[names[i]];
    of = {join_slices(exp_avg, sizes, what), join_slices(exp_avg_sq, sizes, what)};
    if (weight.size() == slices.size()) of.weight = join_slices(weight, sizes, what);
  }
  return found;
}

// Optimizer steps done, as the training script counts them; the moments' updates where it saved no count.
int64_t steps_done(const Path& step, int64_t updates) {
  for (const auto& [name, key] : {std::pair{"user_content.pt", "global_step"}, {"scheduler.pt", "last_epoch"}}) {
    if (!path_exists(step / name)) continue;
    const std::string origin = (step / name).string();
    const formats::TorchPickle content(File::open_read(step / name), origin);
    const formats::Pickle& pickle = content.pickle();
    PickleValue found = 0;
    if (pickle.kind(pickle.root()) != PickleKind::kDict || !pickle.find_key(pickle.root(), key, found)) continue;
    return counted(pickle.number(found, key), fmt::format("{}: {}", origin, key));
  }
  return updates;
}

}  // namespace

std::optional<NxdState> read_nxd_state(const Path& step, const std::map<NxdPlace, NxdTensors>& model) {
  const Path folder = step / kOptimizerFolder;
  if (!folder_exists(folder)) return std::nullopt;
  const OptimizerFiles files = find_files(folder);
  if (files.empty())
    throw user_error(fmt::format("{} has no files of an optimizer", folder.string()),
                     "NxD names them like dp_rank_00_tp_rank_00_pp_rank_00.pt", kWeightsAlone);
  NxdState state;
  state.has_weights = true;
  state.training.updates = -1;
  size_t slices_of_each = 0;
  for (const auto& [place, tensors] : model) {
    const auto found = files.find(place);
    if (found == files.end())
      throw user_error(
          fmt::format("{} lacks the files of tensor rank {} and stage {}", folder.string(), place.first, place.second),
          "the model's are there", "copy all files");
    std::vector<std::unique_ptr<NxdOptimizerFile>> slices;
    for (int64_t next = 0; const auto& [slice, name] : found->second) {
      if (slice != next++)
        throw user_error(fmt::format("{} lacks slice {} of tensor rank {} and stage {}", folder.string(), next - 1,
                                     place.first, place.second),
                         fmt::format("{} is there", name), "copy all files");
      const auto& file = slices.emplace_back(std::make_unique<NxdOptimizerFile>(step, name));
      file->add_counts(state.training, kWeightsAlone, "those of other files");
      // Without ZeRO, ranks of data parallel have the same state.
      if (!file->is_sharded()) break;
    }
    if (slices_of_each == 0) slices_of_each = slices.size();
    if (slices.size() != slices_of_each)
      throw user_error(fmt::format("{} has {} slices of tensor rank {} and stage {}", folder.string(), slices.size(),
                                   place.first, place.second),
                       fmt::format("it has {} of others", slices_of_each), "copy all files");
    std::map<std::string, NxdMoments>& of_place = state.moments[place] = moments_in(slices, tensors);
    state.has_weights &= std::all_of(of_place.begin(), of_place.end(),
                                     [](const auto& moments) { return moments.second.weight.has_value(); });
  }
  state.training.step = steps_done(step, state.training.updates);
  return state;
}

}  // namespace hearth::convert
