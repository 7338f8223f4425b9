// SPDX-License-Identifier: Apache-2.0
// Ops of latent attention (models/mla/latent.h), beside those of models/ops.h. They copy parts of heads. Widths of
// heads: N elements that stay and R that rotate, K = N + R, of queries and keys; V of values.
#pragma once

#include "models/op_parts.h"

namespace hearth::models {

// keys_values = for each head the key [N of `heads` | shared], then for each head the value with K - V zeros behind it.
struct ExpandLatents {
  Ref keys_values;    // [T, 2 * H*K]
  Ref heads, shared;  // [T, H * (N + V)], of each head its N and V; [T, R]
  Refs reads() const { return {heads, shared}; }
  Refs writes() const { return {keys_values}; }
};
// The gradient of `shared` is the sum over the heads of this rank.
struct ExpandLatentsGradient {
  Ref dheads, dshared, dkeys_values;
  Refs reads() const { return {dkeys_values}; }
  Refs writes() const { return {dheads, dshared}; }
};
// to [T, H*V] = the first V elements of each head of from [T, H*K]; and the other way, with zeros behind them.
struct DropZeros {
  Ref to, from;
  Refs reads() const { return {from}; }
  Refs writes() const { return {to}; }
};
struct AddZeros {
  Ref to, from;
  Refs reads() const { return {from}; }
  Refs writes() const { return {to}; }
};

}  // namespace hearth::models
