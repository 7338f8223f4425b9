// What one rank trains on: host memory, row-major. Filled by the loader, read by train/.
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
  std::vector<int32_t> labels;  // [B, S], kIgnore where not counted
  // [B]: places of a row that hold tokens; behind them is padding, which no token may attend to. Empty: all do.
  std::vector<int32_t> row_tokens;
  std::vector<float> weights;  // [B, S] of each label's loss; empty: all 1. What weighs 0 is kIgnore
  // Document boundaries: the places, as offsets into [B*S], at which a new document starts, or a part of one that goes
  // on from another row; each row's first place is always listed. Ascending. (Varlen
  // attention's cu_seqlens without the final B*S.) A token's position in its part is its place less the last of these
  // that is not behind it.
  std::vector<int32_t> document_starts;
};

// A rank's share of one optimizer step: its micro-batches in order.
struct StepBatch {
  std::vector<Batch> micro_batches;
  uint64_t first_sample = 0;  // g of the step's first sample over all ranks
  uint64_t num_samples = 0;   // of the step, over all ranks
  // A line for each sample of this rank that stands in for one that is damaged.
  std::vector<std::string> substitutes;
};

}  // namespace hearth::data
