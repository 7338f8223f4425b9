// SPDX-License-Identifier: Apache-2.0
// What a block does to a micro-batch, as data: a block writes a list of these ops once (models/program.h). The planner
// reads the list: memory, FLOPs and messages follow from it, without LibTorch. model/execution.cpp computes it.
//
// Every op says what it reads and writes. An op that changes a buffer in place reads and writes it. `weight` is a
// parameter of the part of the model that the op belongs to, and ops of backward add to its gradient.
//
// A new kind of op is a struct here, a line in `Op`, and a function in model/execution.cpp.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "models/mla_ops.h"
#include "models/moe_ops.h"
#include "models/op_parts.h"
#include "models/parameter_list.h"
#include "models/shape.h"

namespace hearth::models {

// The first rows of the stream: token embeddings. On a tensor-parallel rank, `out` are summands.
struct Embedding {
  Weight weight;
  Ref out;
  Refs reads() const { return {}; }
  Refs writes() const { return {out}; }
};
struct EmbeddingGradient {
  Weight weight;
  Ref dout;
  Refs reads() const { return {dout}; }
  Refs writes() const { return {}; }
};
// `out` was received from another stage of a pipeline.
struct Receive {
  Ref out;
  Refs reads() const { return {}; }
  Refs writes() const { return {out}; }
};

// out = norm(x). `width`: elements of a row that are normed together, such as those of a head; 0: the whole row.
struct NormForward {
  Norm norm;
  Ref out, statistics, x;
  Weight weight;
  int64_t width = 0;
  Refs reads() const { return {x}; }
  Refs writes() const { return {out, statistics}; }
};
// sum = x + branch, out = norm(sum): one pass over memory.
struct AddNormForward {
  Norm norm;
  Ref sum, out, statistics, x, branch;
  Weight weight;
  Refs reads() const { return {x, branch}; }
  Refs writes() const { return {sum, out, statistics}; }
};
// Writes the gradient of x to dx, or with `adds` adds it to dx. Without `adds`, dx may be dy.
struct NormGradient {
  Norm norm;
  Ref dx, dy, x, statistics;
  Weight weight;
  bool adds = false;
  int64_t width = 0;
  Refs reads() const { return adds ? Refs{dy, x, statistics, dx} : Refs{dy, x, statistics}; }
  Refs writes() const { return {dx}; }
};

// The RMSNorm of rows that are cut over tensor-parallel ranks, in three ops (ops/norm.h). `statistics` are sums
// of squares until the ranks have added them up. `width`: elements of a whole row.
struct NormPartSquares {
  Ref statistics, x;
  Refs reads() const { return {x}; }
  Refs writes() const { return {statistics}; }
};
struct SumOverRanks {
  Ref sums;
  Refs reads() const { return {sums}; }
  Refs writes() const { return {sums}; }
};
struct NormPartForward {
  Norm norm;
  int64_t width;
  Ref out, statistics, x;
  Weight weight;
  Refs reads() const { return {x, statistics}; }
  Refs writes() const { return {out, statistics}; }
};
// The gradient of that norm, in three ops, too: `dots` are partial sums until the ranks have added them up. dx may be
// dy.
struct NormPartDots {
  Norm norm;
  Ref dots, dy, x, statistics;
  Weight weight;
  Refs reads() const { return {dy, x, statistics}; }
  Refs writes() const { return {dots}; }
};
struct NormPartGradient {
  Norm norm;
  int64_t width;
  Ref dx, dy, x, statistics, dots;
  Weight weight;
  Refs reads() const { return {dy, x, statistics, dots}; }
  Refs writes() const { return {dx}; }
};

// out = x w^T
struct Linear {
  Ref out, x;
  Weight weight;
  Refs reads() const { return {x}; }
  Refs writes() const { return {out}; }
};
// dx = dy w
struct LinearInputGradient {
  Ref dx, dy;
  Weight weight;
  Refs reads() const { return {dy}; }
  Refs writes() const { return {dx}; }
};
// dw += dy^T x
struct LinearWeightGradient {
  Weight weight;
  Ref dy, x;
  Refs reads() const { return {dy, x}; }
  Refs writes() const { return {}; }
};
// Both gradients of a product whose input was gathered from tensor-parallel ranks. While one product runs, the rows of
// x are gathered. While the other runs, the rows of dx are summed.
struct SharedLinearGradients {
  Ref dx, dy, x;
  Weight weight;
  Ref gathered, partial;
  Refs reads() const { return {dy, x}; }
  Refs writes() const { return {gathered, partial, dx}; }
};
struct AddBias {
  Ref x;
  Weight weight;
  Refs reads() const { return {x}; }
  Refs writes() const { return {x}; }
};
struct BiasGradient {
  Weight weight;
  Ref dx;
  Refs reads() const { return {dx}; }
  Refs writes() const { return {}; }
};

struct Copy {
  Ref to, from;
  Refs reads() const { return {from}; }
  Refs writes() const { return {to}; }
};
// to = factor from. to may be from.
struct Scale {
  Ref to, from;
  double factor;
  Refs reads() const { return {from}; }
  Refs writes() const { return {to}; }
};
struct Add {
  Ref to, from;
  Refs reads() const { return {to, from}; }
  Refs writes() const { return {to}; }
};

// Each tensor-parallel rank has some rows of the stream, `own` (arXiv 2205.05198). GatherRows gives the rows of all
// ranks. SumRows adds up the ranks' summands of all rows, and keeps this rank's rows of the sum.
struct GatherRows {
  Ref all, own;
  Refs reads() const { return {own}; }
  Refs writes() const { return {all}; }
};
struct SumRows {
  Ref own, summands;
  Refs reads() const { return {summands}; }
  Refs writes() const { return {own}; }
};

// Context-parallel ranks exchange positions for heads (plan/context_parallel.h). `exchange`: what the ranks send each
// other for one sequence. `has_keys`: rows are queries, keys and values; else one vector for each query head.
struct RowsToHeads {
  Ref heads, rows, exchange;
  bool has_keys;
  Refs reads() const { return {rows}; }
  Refs writes() const { return {exchange, heads}; }
};
struct HeadsToRows {
  Ref rows, heads, exchange;
  bool has_keys;
  Refs reads() const { return {heads}; }
  Refs writes() const { return {exchange, rows}; }
};
// For ranks with different positions: gathers the keys and values of all positions; and sums their gradients.
struct GatherKeys {
  Ref all, qkv, exchange;
  Refs reads() const { return {qkv}; }
  Refs writes() const { return {exchange, all}; }
};
struct SumKeyGradients {
  Ref dqkv, dall, exchange;
  Refs reads() const { return {dall, dqkv}; }
  Refs writes() const { return {exchange, dqkv}; }
};

// Rotates heads in place, or rotates their gradients back. `are_queries`: by the queries' own table. `local`: by
// ModelShape::local_rope.
struct Rotate {
  Ref heads;
  bool is_gradient = false, are_queries = false, local = false;
  Refs reads() const { return {heads}; }
  Refs writes() const { return {heads}; }
};

// Scaled dot-product attention. q, k and v are heads of `width` elements beside each other. The mask is the batch's,
// and a query sees at most `reach` positions before and behind it (ModelShape::reach). `scale`: of the scores; 0: 1 /
// sqrt(width).
struct Attention {
  int64_t reach;
  double scale;
  Ref out, log_sum_exp, q, k, v;
  Refs reads() const { return {q, k, v}; }
  Refs writes() const { return {out, log_sum_exp}; }
};
struct AttentionGradient {
  int64_t reach;
  double scale;
  Ref dq, dk, dv, dout, out, log_sum_exp, q, k, v;
  Refs reads() const { return {q, k, v, dout, out, log_sum_exp}; }
  Refs writes() const { return {dq, dk, dv}; }
};
// The softmax of attention gets one more score, a number of each head, whose value is zero. `log_sum_exp` becomes the
// one with it, and `out` is multiplied by the others' share. What AttentionGradient makes of both is then right.
struct AttentionSinks {
  Weight sinks;
  Ref out, log_sum_exp;
  Refs reads() const { return {out, log_sum_exp}; }
  Refs writes() const { return {out, log_sum_exp}; }
};
struct SinksGradient {
  Weight sinks;
  Ref dout, out, log_sum_exp;
  Refs reads() const { return {dout, out, log_sum_exp}; }
  Refs writes() const { return {}; }
};
// out = x sigmoid(gate)
struct Gate {
  Ref out, x, gate;
  Refs reads() const { return {x, gate}; }
  Refs writes() const { return {out}; }
};
// dout becomes the gradient of x, and gate its own.
struct GateGradient {
  Ref dout, gate, x;
  Refs reads() const { return {dout, gate, x}; }
  Refs writes() const { return {dout, gate}; }
};
// Token by token: rotates q and k, keeps k and v in the cache of the layer, and attends to all that is there.
struct CachedAttention {
  Ref out, qkv;
  Weight sinks;
  Refs reads() const { return {qkv}; }
  Refs writes() const { return {out}; }
};

// out = f(x); or out = f(g) u, where x is [g | u] and twice as wide.
struct Activate {
  config::Activation function;
  Ref out, x;
  Refs reads() const { return {x}; }
  Refs writes() const { return {out}; }
};
// x becomes its gradient. `again`: if it exists, it receives the output of forward, which backward computes again; may
// be dout.
struct ActivateGradient {
  config::Activation function;
  Ref x, dout, again;
  Refs reads() const { return {dout, x}; }
  Refs writes() const { return again.exists() ? Refs{x, again} : Refs{x}; }
};

// The output matrix, with its bias if it has one, and the loss, for as many positions at a time as `logits` has rows.
// `counted`, `dcounted`: only if some positions skip the output matrix: the rows of those that count. With `dinput` it
// also writes the gradient of the input: summands, if tensor-parallel ranks share the vocabulary.
struct Loss {
  Weight weight, bias;
  Ref input, logits, counted, dcounted{}, dinput{};
  Refs reads() const { return {input}; }
  Refs writes() const {
    Refs written = {logits};
    for (const Ref& more : {counted, dcounted, dinput})
      if (more.exists()) written.push_back(more);
    return written;
  }
};

using Op =
    std::variant<Embedding, EmbeddingGradient, Receive, NormForward, AddNormForward, NormGradient, NormPartSquares,
                 SumOverRanks, NormPartForward, NormPartDots, NormPartGradient, Linear, LinearInputGradient,
                 LinearWeightGradient, SharedLinearGradients, AddBias, BiasGradient, Copy, Scale, Add, GatherRows,
                 SumRows, RowsToHeads, HeadsToRows, GatherKeys, SumKeyGradients, Rotate, Attention, AttentionGradient,
                 AttentionSinks, SinksGradient, Gate, GateGradient, CachedAttention, Activate, ActivateGradient, Loss,
                 Route, SumLoads, Dispatch, Combine, ScaleSlots, FactorsGradient, RouteGradient, RouterInputGradient,
                 RouterWeightGradient, SendCounts, ShareCounts, SendRows, ReturnRows, ExpertsLinear,
                 ExpertsInputGradient, ExpertsWeightGradient, AddExpertsBias, ExpertsBiasGradient, BiasFactorsGradient,
                 ExpandLatents, ExpandLatentsGradient, DropZeros, AddZeros>;

}  // namespace hearth::models
