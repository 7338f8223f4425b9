// Attention over sequences that ranks share: DeepSpeed-Ulysses (arXiv 2309.14509). A rank has some positions of each
// sequence. For attention the ranks exchange: each then has all positions of some heads, so masks, documents and
// kernels are those of one rank. The output goes back the same way.
//
// Ranks may be more than key/value heads: a head then goes to several ranks, and its gradient is their sum.
//
// rows: [T, heads * K] of this rank's positions; heads: [B*S, heads of a rank * K] of all positions. Collective over
// the ranks that share the sequences.
#pragma once

#include "model/activations.h"

namespace hearth::model {

// What a row holds: queries, keys and values of all heads, or one vector of each query head.
enum class RowsOf { kQkv, kQueries };

void rows_to_heads(const Activations& a, RowsOf what, const at::Tensor& heads, const at::Tensor& rows);
// Overwrites the rows. Keys and values that went to several ranks are summed.
void heads_to_rows(const Activations& a, RowsOf what, const at::Tensor& rows, const at::Tensor& heads);

}  // namespace hearth::model
