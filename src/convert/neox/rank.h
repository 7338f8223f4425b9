// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX's layers and their tensors, the part that a rank of tensor parallel has, and the layers of each stage of the
// pipeline. Layer 0 is the embedding, 2 to L + 1 are the blocks, L + 3 is the norm and L + 4 the output matrix. Layers
// 1 and L + 2 are functions. Tied weights are one module of the first and the last stage.
#pragma once

#include <cstdint>
#include <vector>

#include "convert/rank_slices.h"
#include "convert/source.h"
#include "plan/parameters.h"

namespace hearth::convert {

// The first layer of each stage, as GPT-NeoX divides them by default; the last element is L + 5. The rule is from
// DeepSpeed, in the version that the layout's GPT-NeoX needs: 0.9.3 for slots, 0.16.5 for split. Throws user_error for
// too many stages.
std::vector<int64_t> neox_stages(const plan::ModelShape& shape, int64_t stages, QkvLayout layout);

class NeoxLayers {
 public:
  // `slots`: the layout of queries, keys and values (convert/source.h). `is_llama`: the kind of the feed-forward.
  NeoxLayers(const plan::ModelShape& shape, bool slots, bool is_llama);

  // The layers with weights among [first, last), in the order of the modules. Tied weights are layer 0. It comes first
  // even if the range has only layer L + 4, the other end of the tied weights.
  std::vector<int64_t> numbers(int64_t first, int64_t last) const;
  std::vector<int64_t> numbers() const { return numbers(0, layers_ + 5); }
  // A layer's weights, in the order of its modules: the optimizer's flat buffers have them in this order, too.
  std::vector<RankRow> rows(int64_t number) const;

 private:
  RankTable table_;
  int64_t layers_;
  bool tied_;
};

class NeoxRank : public NeoxLayers {
 public:
  // `tensors` have the names of Hearth's weights, and are borrowed.
  NeoxRank(const std::vector<Transfer>& tensors, const plan::ModelShape& shape, QkvLayout layout, int64_t ranks,
           int64_t rank)
      : NeoxLayers(shape, layout == QkvLayout::kSlots || shape.H == shape.G, layout == QkvLayout::kSlots),
        tensors_(tensors),
        layout_(shape.H, shape.G, ranks),
        rank_(rank) {}

  std::vector<RankTensor> layer(int64_t number) const;

 private:
  const std::vector<Transfer>& tensors_;
  RankLayout layout_;
  int64_t rank_;
};

}  // namespace hearth::convert
