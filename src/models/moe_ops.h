// SPDX-License-Identifier: Apache-2.0
// The ops of a mixture of experts (models/moe/experts.h), as models/ops.h has the others. E experts; each of T tokens
// chooses k of them. A choice has a slot: slots are sorted by expert, and then by token, so an expert's rows are
// neighbours. No token is dropped, and nothing depends on the order in which threads run.
#pragma once

#include <cstdint>

#include "config/block_options.h"
#include "models/op_parts.h"
#include "models/parameter_list.h"

namespace hearth::models {

// How a token's experts are chosen: the k with the largest scores, softmax(gate x) or sigmoid(gate x), plus their bias
// if they have one; of equal ones the first. With groups, only experts of a token's best groups are there: the groups
// whose two largest scores have the largest sum. The weights of the chosen are their scores without bias.
struct Router {
  int64_t experts, top_k;
  config::ScoreFunc score_func;
  int64_t groups, limited_groups;  // of neighbouring experts; how many of them a token's experts are from
  bool normalizes;                 // the factors of a token's experts are divided by their sum
  double scale;                    // and multiplied by this
  double balance;                  // factor of the balancing loss (ops/moe/moe.h)
  double z_loss;                   // factor of the mean square of the logits' log-sum-exp (ST-MoE, arXiv 2202.08906)
  bool balances() const { return balance > 0; }
};

// What a router decided for a micro-batch. `exact`: float32, or float64 in a model of float64.
struct Routing {
  Ref scores;    // [T, E] exact, without bias
  Ref log_sums;  // [1, T] exact: log-sum-exp of the logits of a softmax, else 0
  Ref experts;   // [T, k] int32, best first
  Ref slots;     // [T, k] int32: of each choice
  Ref choices;   // [1, T*k] int32: of each slot, token * k + rank
  Ref factors;   // [T*k, 1] exact: the weight of each slot's output
  Ref ends;      // [1, E] int32: the slot behind each expert's last
  Ref loads;     // [B, E] exact: choices of each expert in each sequence
};

// The sequences of a router's rows. Row t is of sequence (first + t) / each.
struct SequenceRows {
  int64_t first, each;
};

struct Route {
  Router router;
  Weight gate, logit_bias, bias;  // both biases: [E], or none; the first is of the products with the gate
  Ref x;
  Routing to;
  SequenceRows rows;
  Refs reads() const { return {x}; }
  Refs writes() const {
    return {to.scores, to.log_sums, to.experts, to.slots, to.choices, to.factors, to.ends, to.loads};
  }
};
// Adds up the loads of ranks that have rows of the same sequences: of context parallel, and if `tensor` of tensor
// parallel.
struct SumLoads {
  Ref loads;
  bool tensor;
  Refs reads() const { return {loads}; }
  Refs writes() const { return {loads}; }
};
// rows[slot] = x[token of the slot]
struct Dispatch {
  Ref rows, x;
  Routing by;
  Refs reads() const { return {x, by.choices}; }
  Refs writes() const { return {rows}; }
};
// out[token] = the sum of the token's rows, best expert first. With `adds` it is added to what is there.
struct Combine {
  Ref out, rows;
  Routing by;
  bool adds;
  Refs reads() const { return adds ? Refs{rows, by.slots, out} : Refs{rows, by.slots}; }
  Refs writes() const { return {out}; }
};
// rows[slot] *= factors[slot]
struct ScaleSlots {
  Ref rows, factors;
  Refs reads() const { return {rows, factors}; }
  Refs writes() const { return {rows}; }
};
// dfactors[slot] = drows[slot] . rows[slot], where drows is the gradient of factor * rows.
struct FactorsGradient {
  Ref dfactors, drows, rows;
  Refs reads() const { return {drows, rows}; }
  Refs writes() const { return {dfactors}; }
};
// The gradient of the logits, from the factors' and from the router's own losses. Ranks that share the layers each have
// a summand. Runs once for a micro-batch that is trained on, so it also counts what the metrics show of a router.
struct RouteGradient {
  Router router;
  int64_t layer;  // of the model
  Ref dlogits, dfactors;
  Routing of;
  SequenceRows rows;
  Refs reads() const { return {dfactors, of.scores, of.log_sums, of.experts, of.slots, of.ends, of.loads}; }
  Refs writes() const { return {dlogits}; }
};
// dx += dlogits gate
struct RouterInputGradient {
  Ref dx, dlogits;
  Weight gate;
  Refs reads() const { return {dx, dlogits}; }
  Refs writes() const { return {dx}; }
};
// dgate += dlogits^T x
struct RouterWeightGradient {
  Weight gate;
  Ref dlogits, x;
  Refs reads() const { return {dlogits, x}; }
  Refs writes() const { return {}; }
};

// Where ranks have different experts: what each of them gets from the others. M rows arrive, in the order of the ranks
// that send them. Their slots are sorted by expert, then by rank, then by the rank's own slots: the order in which one
// rank with all these tokens would have them.
struct Arrivals {
  Ref order;    // [M, 1] int64: of each slot, the row's place among the rows that arrive
  Ref factors;  // [M, 1] exact: of each slot
  Ref ends;     // [1, experts of a rank] int32: the slot behind each expert's last
};
// The ranks tell each other how many rows of each expert they send.
struct SendCounts {
  Routing of;
  Refs reads() const { return {of.ends}; }
  Refs writes() const { return {}; }
};
// Takes these numbers. The only time that the host waits: ops between the two keep a GPU busy meanwhile.
struct ShareCounts {
  Arrivals to;
  Refs reads() const { return {}; }
  Refs writes() const { return {to.order, to.ends}; }
};
// Rows by this rank's slots -> rows by the slots of the ranks that have the experts. `arrived` is scratch.
struct SendRows {
  Ref to, from, arrived;
  Arrivals by;
  Refs reads() const { return {from, by.order}; }
  Refs writes() const { return {to, arrived}; }
};
// The way back.
struct ReturnRows {
  Ref to, from, arrived;
  Arrivals by;
  Refs reads() const { return {from, by.order}; }
  Refs writes() const { return {to, arrived}; }
};

// The products of a linear layer, where each expert multiplies its own rows by its own matrix. `weight`: the experts'
// matrices, one after another.
struct ExpertsLinear {
  Ref out, x;
  Weight weight;
  Ref ends;
  Refs reads() const { return {x, ends}; }
  Refs writes() const { return {out}; }
};
struct ExpertsInputGradient {
  Ref dx, dy;
  Weight weight;
  Ref ends;
  Refs reads() const { return {dy, ends}; }
  Refs writes() const { return {dx}; }
};
struct ExpertsWeightGradient {
  Weight weight;
  Ref dy, x, ends;
  Refs reads() const { return {dy, x, ends}; }
  Refs writes() const { return {}; }
};
// x[slot] += the bias of its expert, times factors[slot] if they exist. `weight`: the experts' biases, one after
// another.
struct AddExpertsBias {
  Ref x;
  Weight weight;
  Ref ends, factors{};
  Refs reads() const { return factors.exists() ? Refs{x, ends, factors} : Refs{x, ends}; }
  Refs writes() const { return {x}; }
};
struct ExpertsBiasGradient {
  Weight weight;
  Ref dx, ends, factors{};
  Refs reads() const { return factors.exists() ? Refs{dx, ends, factors} : Refs{dx, ends}; }
  Refs writes() const { return {}; }
};
// dfactors[slot] += dx[slot] . the bias of its expert
struct BiasFactorsGradient {
  Ref dfactors, dx;
  Weight weight;
  Ref ends;
  Refs reads() const { return {dfactors, dx, ends}; }
  Refs writes() const { return {dfactors}; }
};

}  // namespace hearth::models
