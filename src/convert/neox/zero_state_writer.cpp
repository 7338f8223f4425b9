// SPDX-License-Identifier: Apache-2.0
// DeepSpeed loads these files with its own unpickler, and copies their tensors into buffers that it has already. Source
// of the layout: deepspeed/runtime/zero/stage_1_and_2.py and bf16_optimizer.py (0.9.3 to 0.19.8), load_state_dict().
#include <fmt/format.h>

#include <algorithm>

#include "base/quantity.h"
#include "convert/neox/zero_state.h"

namespace hearth::convert {
namespace {

// DeepSpeed pads a flat buffer so that each slice begins at a multiple of 4 bytes in bfloat16.
constexpr int64_t kAlignment = 2;
// The first version with today's stage 1 is 0.3.17. The files are those of 0.9.3 and later.
constexpr const char* kVersion = "0.9.3";

int64_t zero_numel(const RankTensor& tensor) { return mesh::Box{{}, tensor.info.shape}.numel(); }

// A group's flat buffer of one slice.
class ZeroSlice {
 public:
  ZeroSlice(const ZeroGroup& group, int64_t slice, int64_t slices, checkpoint::Reader& reader,
            ConvertProgress& progress)
      : group_(group), reader_(reader), progress_(progress) {
    for (const ZeroTensor& tensor : group.tensors) numel_ += zero_numel(tensor.weight);
    length_ = round_up(numel_, kAlignment * slices) / slices;
    begin_ = slice * length_;
    said_padding_ = slice == slices - 1 ? slices * length_ - numel_ : 0;
  }

  const ZeroGroup& group() const { return group_; }
  // DeepSpeed says of the last slice how many elements without a tensor all slices have.
  int64_t said_padding() const { return said_padding_; }

  PythonTensor buffer(RankTensor ZeroTensor::*of) const {
    return {{{}, DType::kFloat32, {length_}}, [this, of](const ByteWriter& sink) {
              each([&](const ZeroTensor& tensor, int64_t first, int64_t last, int64_t) {
                write_elements(reader_, tensor.*of, first, last, progress_, sink);
              });
              write_zeros(std::clamp<int64_t>(begin_ + length_ - numel_, 0, length_), sink);
            }};
  }

  // Where the slice has which tensors.
  PythonDict mapping() const {
    PythonDict places;
    each([&](const ZeroTensor& tensor, int64_t first, int64_t last, int64_t start) {
      places.push_back({tensor.name, PythonObject{{"deepspeed.utils.tensor_fragment", "fragment_address"},
                                                  {{"numel", last - first}, {"start", start}}}});
    });
    return places;
  }

 private:
  // Calls `use` with each tensor, its elements in this slice and the place of the first one in the slice.
  template <typename Use>
  void each(const Use& use) const {
    for (int64_t at = 0; const ZeroTensor& tensor : group_.tensors) {
      const int64_t end = at + zero_numel(tensor.weight), first = std::max(at, begin_),
                    last = std::min(end, begin_ + length_);
      if (first < last) use(tensor, first - at, last - at, first - begin_);
      at = end;
    }
  }

  const ZeroGroup& group_;
  checkpoint::Reader& reader_;
  ConvertProgress& progress_;
  int64_t numel_ = 0;                                  // of all tensors
  int64_t begin_ = 0, length_ = 0, said_padding_ = 0;  // of this slice, padding included
};

PythonDict settings_of(const ZeroGroup& group, const ZeroSettings& settings, int64_t index) {
  return {{"lr", settings.lr},          {"betas", PythonPair(settings.keys.beta1, settings.keys.beta2)},
          {"eps", settings.keys.eps},   {"weight_decay", group.weight_decay},
          {"name", group.name},         {"step", settings.updates},  // FusedAdam counts here
          {"bias_correction", true},    {"amsgrad", false},
          {"maximize", false},          {"capturable", false},
          {"differentiable", false},    {"foreach", PythonNone{}},
          {"fused", PythonNone{}},      {"decoupled_weight_decay", settings.keys.name != config::OptimizerName::kAdam},
          {"params", PythonList{index}}};
}

PythonDict state_of(const std::vector<ZeroSlice>& slices, const ZeroSettings& settings, int64_t count) {
  PythonDict states;
  PythonList groups, weights, paddings, counts, mappings;
  for (const ZeroSlice& slice : slices) {
    const int64_t index = std::ssize(states);
    states.push_back({index, PythonDict{{"step", settings.updates},  // torch's AdamW makes a tensor of it
                                        {"exp_avg", slice.buffer(&ZeroTensor::exp_avg)},
                                        {"exp_avg_sq", slice.buffer(&ZeroTensor::exp_avg_sq)}}});
    groups.push_back(settings_of(slice.group(), settings, index));
    weights.push_back(slice.buffer(&ZeroTensor::weight));
    paddings.push_back(slice.said_padding());
    counts.push_back(count);
    mappings.push_back(slice.mapping());
  }
  return {{"base_optimizer_state", PythonDict{{"state", states}, {"param_groups", groups}}},
          {"single_partition_of_fp32_groups", weights},
          {"zero_stage", 1},
          {"group_paddings", paddings},
          {"partition_count", counts},
          {"ds_version", kVersion},
          {"param_slice_mappings", mappings}};
}

}  // namespace

int64_t padded_numel(int64_t numel, int64_t slices) { return round_up(numel, kAlignment * slices); }

void write_zero_files(const Path& folder, const std::string& prefix, int64_t rank, int64_t slices,
                      const std::vector<ZeroGroup>& groups, const ZeroSettings& settings, checkpoint::Reader& reader,
                      ConvertProgress& progress) {
  for (int64_t number = 0; number < slices; ++number) {
    std::vector<ZeroSlice> flat;
    for (const ZeroGroup& group : groups) flat.emplace_back(group, number, slices, reader, progress);
    const std::string name = fmt::format("{}zero_pp_rank_{}_mp_rank_{:02}_optim_states.pt", prefix, number, rank);
    write_python_file(folder / name,
                      PythonDict{{"optimizer_state_dict", state_of(flat, settings, slices)}, {"ds_version", kVersion}});
  }
}

}  // namespace hearth::convert
