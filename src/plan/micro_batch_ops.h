// What a micro-batch does, op by op, in the order in which model/transformer.cpp does it: which activations each op
// reads and writes. How long an activation must live, and so what memory a micro-batch needs at most, follows from this
// list alone (plan/activations.h).
//
// It is the model's order in words. A change there is a change here: tests/train/plan_ops_test.cpp records what a
// training step calls, and requires this list.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/activations.h"

namespace hearth::plan {

// One buffer of an Activation: the layer's, or number 0 where there is one for all.
struct Place {
  Activation which;
  int64_t copy = 0;
};

struct Op {
  std::string name;           // "layer 3: w1 w3"
  std::vector<Place> reads;   // alive up to here at least
  std::vector<Place> writes;  // begins to live here, unless it is also read: then it goes on
};

// `recompute`: one a layer. Without `training` there is no backward.
std::vector<Op> micro_batch_ops(int64_t num_layers, std::span<const Recompute> recompute, bool training);

}  // namespace hearth::plan
