// SPDX-License-Identifier: Apache-2.0
#include "convert/neox/zero_state.h"

#include <fmt/format.h>

#include "base/error.h"
#include "convert/neox/files.h"
#include "convert/optimizer_file.h"
#include "formats/torch_file.h"

namespace hearth::convert {
namespace {

using formats::PickleKind;
using formats::PickleValue;

// One file of the optimizer. Source: deepspeed/runtime/zero/stage_1_and_2.py and bf16_optimizer.py, state_dict().
class ZeroFile : public OptimizerFile {
 public:
  ZeroFile(const Path& folder, const std::string& name)
      : OptimizerFile(folder, name, "groups"),
        state_(pickle().at(pickle().root(), "optimizer_state_dict", "the file's dict")) {}

  // Adds this slice's runs, each behind those that the parameter has already.
  void add_to(std::map<std::string, ZeroParameter>& parameters) {
    PickleValue found = 0;
    if (!pickle().find_key(state_, "param_slice_mappings", found) ||
        !pickle().find_key(state_, "single_partition_of_fp32_groups", weights_))
      throw user_error(fmt::format("{} does not say where its parameters lie", origin_),
                       "it is of ZeRO stage 3, or of a DeepSpeed before 0.8",
                       "move the files *_optim_states.pt away to convert the weights alone");
    const auto groups = pickle().sequence(found, "param_slice_mappings");
    for (size_t group = 0; group < groups.size(); ++group) add_group(group, groups[group], parameters);
  }

 private:
  PickleValue item(PickleValue list, size_t index, const std::string& what) const {
    const auto items = pickle().sequence(list, what);
    if (index >= items.size()) throw damaged(fmt::format("{}: {} has {} groups", origin_, what, items.size()));
    return items[index];
  }

  // The optimizer's state of a group's only tensor. An elastic checkpoint has a list of them.
  PickleValue adam_state(size_t group) {
    const PickleValue base = pickle().at(state_, "base_optimizer_state", "optimizer_state_dict");
    if (pickle().kind(base) == PickleKind::kList) return item(base, group, "base_optimizer_state");
    const PickleValue options = item(pickle().at(base, "param_groups", "base_optimizer_state"), group, "param_groups");
    PickleValue value = 0;
    if (pickle().find_key(options, "step", value)) count(value);
    if (group == 0 && pickle().find_key(options, "lr", value)) next_lr_ = pickle().number(value, "lr");
    const int64_t index =
        pickle().integer(item(pickle().at(options, "params", "param_groups"), 0, "params"), "a parameter's number");
    const auto states = pickle().pairs(pickle().at(base, "state", "base_optimizer_state"), "state");
    for (size_t i = 0; i < states.size(); i += 2) {
      if (pickle().integer(states[i], "a parameter's number") == index) return states[i + 1];
    }
    throw damaged(fmt::format("{}: the optimizer has no state of group {}", origin_, group));
  }

  void add_group(size_t group, PickleValue mapping, std::map<std::string, ZeroParameter>& parameters) {
    const PickleValue adam = adam_state(group);
    PickleValue step = 0;
    if (pickle().find_key(adam, "step", step)) count(step);
    const formats::TensorLayout weight = flat(item(weights_, group, "single_partition_of_fp32_groups"), "the weights"),
                                exp_avg = flat(pickle().at(adam, "exp_avg", "the optimizer's state"), "exp_avg"),
                                exp_avg_sq =
                                    flat(pickle().at(adam, "exp_avg_sq", "the optimizer's state"), "exp_avg_sq");
    if (exp_avg.dtype != weight.dtype || exp_avg_sq.dtype != weight.dtype)
      throw damaged(fmt::format("{}: the weights and moments of group {} have different types", origin_, group));
    const auto entries = pickle().pairs(mapping, "param_slice_mappings");
    for (size_t i = 0; i < entries.size(); i += 2) {
      const std::string name(pickle().text(entries[i], "a parameter's name"));
      const auto [numel, start] = place_of(entries[i + 1], name);
      ZeroParameter& parameter = parameters[name];
      const int64_t begin =
          parameter.weight.empty() ? 0 : parameter.weight.back().begin + parameter.weight.back().count;
      if (begin > 0 && parameter.dtype != weight.dtype)
        throw damaged(fmt::format("{}: {} has another type than in the slice before", origin_, name));
      parameter.dtype = weight.dtype;
      for (const auto& [layout, runs] : {std::pair{&weight, &parameter.weight},
                                         {&exp_avg, &parameter.exp_avg},
                                         {&exp_avg_sq, &parameter.exp_avg_sq}}) {
        if (start < 0 || numel < 1 || start > layout->sizes[0] || numel > layout->sizes[0] - start)
          throw damaged(fmt::format("{}: {} lies outside the slice", origin_, name),
                        fmt::format("{} elements from {}, of {}", numel, start, layout->sizes[0]));
        runs->push_back({name_, layout->data_offset + start * dtype_size(layout->dtype), begin, numel, layout->member});
      }
    }
  }

  struct Place {
    int64_t numel, start;
  };
  // fragment_address(numel, start): a dataclass, in some versions a named tuple.
  Place place_of(PickleValue value, const std::string& name) const {
    const formats::Pickle::Object address = pickle().object(value, "a parameter's place");
    if (address.arguments.size() == 2)
      return {pickle().integer(address.arguments[0], "numel"), pickle().integer(address.arguments[1], "start")};
    if (!address.has_state) throw damaged(fmt::format("{}: {} has no place", origin_, name));
    return {pickle().integer(pickle().at(address.state, "numel", "a parameter's place"), "numel"),
            pickle().integer(pickle().at(address.state, "start", "a parameter's place"), "start")};
  }

  formats::TensorLayout flat(PickleValue value, const std::string& what) const {
    if (!content_.is_tensor(value)) throw damaged(fmt::format("{}: {} are no tensor", origin_, what));
    formats::TensorLayout layout = content_.place(value, fmt::format("{}: {}", origin_, what));
    if (layout.sizes.size() != 1 || (layout.sizes[0] > 1 && layout.strides[0] != 1) || !is_floating_point(layout.dtype))
      throw damaged(fmt::format("{}: {} are not one row of numbers", origin_, what));
    return layout;
  }

  const PickleValue state_;
  PickleValue weights_ = 0;
};

// Optimizer steps done: GPT-NeoX's count, or DeepSpeed's, which is the same.
int64_t step_of(const Path& path) {
  const std::string origin = path.string();
  if (!path_exists(path))
    throw user_error(fmt::format("{} is missing", origin), "it has the step of the moments", "copy all files");
  const formats::TorchPickle content(File::open_read(path), origin);
  const formats::Pickle& pickle = content.pickle();
  PickleValue found = 0;
  for (const char* key : {"iteration", "global_steps"}) {
    if (!pickle.find_key(pickle.root(), key, found)) continue;
    const int64_t step = pickle.integer(found, key);
    if (step < 0) throw damaged(fmt::format("{}: {} is {}", origin, key, step));
    return step;
  }
  throw user_error(fmt::format("{} has no iteration", origin), "it has the step of the moments", "copy all files");
}

}  // namespace

std::optional<ZeroState> read_zero_state(const Path& folder) {
  std::map<int64_t, std::map<int64_t, std::string>> files;  // by model-parallel rank and slice
  for (const std::string& name : list_folder(folder)) {
    const std::optional<NeoxFile> file = neox_file(name);
    if (!file || file->kind != NeoxFile::Kind::kOptimizer) continue;
    if (!files[file->rank].emplace(file->slice, name).second)
      throw user_error(
          fmt::format("{} has two files of rank {} and slice {}", folder.string(), file->rank, file->slice),
          "it is not known which is the model's", "keep one set of files");
  }
  if (files.empty()) return std::nullopt;
  ZeroState state;
  state.training.step = step_of(folder / "mp_rank_00_model_states.pt");
  state.training.updates = -1;
  for (const auto& [rank, slices] : files) {
    for (int64_t next = 0; const auto& [slice, name] : slices) {
      if (slice != next++)
        throw user_error(fmt::format("{} lacks slice {} of rank {}", folder.string(), next - 1, rank),
                         fmt::format("{} is there", name), "copy all files");
      ZeroFile file(folder, name);
      file.add_to(state.parameters[rank]);
      file.add_counts(state.training, "move the files *_optim_states.pt away to convert the weights alone",
                      "other slices");
    }
  }
  return state;
}

}  // namespace hearth::convert
