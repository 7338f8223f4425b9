// SPDX-License-Identifier: Apache-2.0
// The floating-point operations of matrix products and attention, from which a step's time is estimated. Sums and norms
// do not count. Source: PaLM (arXiv 2204.02311) appendix B.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "models/program.h"

namespace hearth::models {

// The count of an op, for each of this rank's tokens.
double flops_per_token(const Program& p, const Op& op);

// The mean number of keys that a position of S sees, half of them under a causal mask. `reach`: models/ops.h.
double visible_keys(int64_t S, bool causal, int64_t reach);

// A layer's FLOPs for each token. `again`: what backward computes again at each level of recomputation.
struct BlockFlops {
  double forward = 0, backward = 0;
  double weight_gradients = 0;  // within backward
  std::array<double, 4> again{};
  double step() const { return forward + backward; }
  BlockFlops& operator+=(const BlockFlops& other);
};

// The counts of a whole model, for sequences of `seq_len` positions; shorter documents count as whole windows.
struct ModelFlops {
  std::vector<BlockFlops> layers;
  double output = 0;  // the output matrix, forward and backward, if every position counts
  double head = 0;    // the prediction head, of all positions
  double step() const;
};
ModelFlops model_flops(const ModelShape& shape, int64_t seq_len);

}  // namespace hearth::models
