// SPDX-License-Identifier: Apache-2.0
// Attention over sequences that ranks share, as plan/context_parallel.h cuts them.
//
// Head ranks exchange (DeepSpeed-Ulysses, arXiv 2309.14509): a rank has some positions of each sequence, and for
// attention it gets all their positions of some heads. The output goes back the same way. Head ranks may be more than
// key/value heads: a head then goes to several ranks, and its gradient is their sum. Collective over them.
//
// Key ranks have different positions in attention. Each gathers the keys and values of all, and masks and documents
// stay those of one rank. Gradients of keys and values are summed over them. Collective over them.
//
// Q: positions of a sequence that head ranks have together. rows: [T, heads * K] of this rank's positions; heads: [B*Q,
// heads of a rank * K].
#pragma once

#include "model/activations.h"
#include "models/ops.h"

namespace hearth::model {

void rows_to_heads(const Activations& a, const models::RowsToHeads& op);
// Overwrites the rows. Keys and values that went to several ranks are summed.
void heads_to_rows(const Activations& a, const models::HeadsToRows& op);

// Keys and values of `qkv` -> `all`, of all positions.
void gather_keys(const Activations& a, const models::GatherKeys& op);
// `dall` -> the keys' and values' part of `dqkv` [B*Q, heads of q, k, v], of a rank's heads.
void sum_key_gradients(const Activations& a, const models::SumKeyGradients& op);

}  // namespace hearth::model
