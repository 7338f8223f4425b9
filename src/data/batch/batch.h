// SPDX-License-Identifier: Apache-2.0
// A rank's training batches: host memory, row-major. Filled by the loader, read by train/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/formats/label_weights.h"

namespace hearth::data {

struct Batch {
  int64_t B = 0, S = 0;
  uint64_t first_sample = 0;    // g of row 0; row i is sample first_sample + i
  std::vector<int32_t> tokens;  // [B, S]
  std::vector<int32_t> labels;  // [B, S], kIgnore if it does not count
  // [B]: number of positions of a row that hold tokens. The rest is padding, which no token may attend to. Empty: all
  // hold tokens.
  std::vector<int32_t> row_tokens;
  std::vector<float> weights;  // [B, S] of each label's loss; empty: all 1. A label of weight 0 is kIgnore
  // Where the mean is over more than the labels (masked_diffusion): its tokens at their own positions, kIgnore
  // elsewhere, and their weights. Both [B, S]; empty: the mean is over the labels.
  std::vector<int32_t> counted;
  std::vector<float> counted_weights;
  // Document boundaries, as ascending offsets into [B*S]: where a document starts, or where a row continues one of
  // another row. Each row's first position is always listed. (Varlen attention's cu_seqlens without the final B*S.) A
  // token's position in its part is its offset minus the last boundary at or before it.
  std::vector<int32_t> document_starts;
};

// A rank's share of one optimizer step: its micro-batches in order.
struct StepBatch {
  std::vector<Batch> micro_batches;
  uint64_t first_sample = 0;  // g of the step's first sample over all ranks
  uint64_t num_samples = 0;   // of the step, over all ranks
  // One line for each sample of this rank that replaces a damaged one.
  std::vector<std::string> substitutes;
};

}  // namespace hearth::data
