// What a rank of tensor parallel has of a model in GPT-NeoX's layers, cut from Hearth's tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/rank_slices.h"
#include "convert/source.h"
#include "plan/parameters.h"

namespace hearth::convert {

class NeoxRank {
 public:
  // `tensors` have the names of Hearth's weights, and are borrowed.
  NeoxRank(const std::vector<Transfer>& tensors, const plan::ModelShape& shape, QkvLayout layout, int64_t ranks,
           int64_t rank)
      : slicer_(tensors, ranks, rank), s_(shape), slots_(layout == QkvLayout::kSlots), ranks_(ranks), rank_(rank) {}

  // The numbers of the layers that have weights, in order: 0 is the embedding, L + 3 the norm, L + 4 the output matrix.
  std::vector<int64_t> layers() const;
  // A layer's weights, in the order of its modules: the optimizer's flat buffers have them in this order, too.
  std::vector<RankTensor> layer(int64_t number) const;

 private:
  RankTensor queries_keys_values(const std::string& prefix) const;
  std::vector<RankTensor> block(int64_t i) const;

  const RankSlicer slicer_;
  const plan::ModelShape s_;
  const bool slots_;
  const int64_t ranks_, rank_;
};

}  // namespace hearth::convert
