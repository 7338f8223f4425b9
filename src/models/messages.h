// SPDX-License-Identifier: Apache-2.0
// Counts what ranks that share layers or sequences send each other for a micro-batch, from the program that they run.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "models/program.h"
#include "models/shape.h"

namespace hearth::models {

// The share of a whole buffer that one of n ranks sends in an all-gather, reduce-scatter or all-to-all.
inline double sent_share(int64_t ranks) { return static_cast<double>(ranks - 1) / static_cast<double>(ranks); }

// Bytes that one rank sends, as plan/traffic.h counts them: to ranks that share layers, to ranks that share sequences,
// and to ranks with other experts, if all experts get equally many tokens.
struct Messages {
  double tensor = 0, context = 0, experts = 0;

  Messages& operator+=(const Messages& other) {
    tensor += other.tensor;
    context += other.context;
    experts += other.experts;
    return *this;
  }
};
Messages messages(const Program& program, const Op& op);

// Messages of a layer for one sequence: `step` in forward and backward, `again` in what backward repeats.
struct BlockMessages {
  Messages step;
  std::array<Messages, 4> again{};  // by Recompute
};
// Messages of all layers, and of a model's ends: the token embedding and the output matrix.
struct ModelMessages {
  std::vector<BlockMessages> layers;
  Messages embedding, output;
};
// `part`: the part of a model that a rank has.
ModelMessages model_messages(const ModelShape& part, int64_t seq_len, DType dtype, Backward backward);

}  // namespace hearth::models
