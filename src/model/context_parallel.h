// SPDX-License-Identifier: Apache-2.0
// Attention over sequences that ranks share, as plan/context_parallel.h cuts them.
//
// Head ranks exchange positions for heads (DeepSpeed-Ulysses, arXiv 2309.14509). Outside attention a rank has some
// positions with all heads. For attention it gets some heads, at all positions of the head ranks. The output goes back
// the same way. If there are more head ranks than key/value heads, a head goes to several ranks, and its gradient is
// their sum. Collective over the head ranks.
//
// Key ranks have different positions in attention, too. Each gathers the keys and values of all key ranks, so masks and
// documents are the same as on one rank. Gradients of keys and values are summed over the key ranks. Collective over
// the key ranks.
//
// Q: the number of a sequence's positions that the head ranks have together. rows: [T, heads * K], this rank's
// positions; heads: [B*Q, heads of a rank * K].
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
