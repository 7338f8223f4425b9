// The ops of a micro-batch in the order of model/transformer.cpp, with the activations that each reads and writes. The
// lifetime of each activation, and so the peak memory of a micro-batch, follows from this list alone
// (plan/activations.h).
//
// This is the model's order in words: change both together. tests/train/plan_ops_test.cpp records the calls of a
// training step and compares them with this list.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/activations.h"

namespace hearth::plan {

// One buffer of an Activation: a layer's, or number 0 if all layers share one.
struct BufferRef {
  Activation which;
  int64_t copy = 0;
};

// The parts of a micro-batch's work. In a pipeline other micro-batches come between them.
enum class Pass { kForward, kBackward, kWeightGradients };

struct Op {
  Pass pass;
  std::string name;               // "layer 3: w1 w3"
  std::vector<BufferRef> reads;   // alive at least up to this op
  std::vector<BufferRef> writes;  // begins to live at this op, unless the op also reads it: then it lives on
};

// `shape` may be a stage of a pipeline. `recompute`: one per layer.
std::vector<Op> micro_batch_ops(const ModelShape& shape, std::span<const Recompute> recompute, Backward backward);

}  // namespace hearth::plan
