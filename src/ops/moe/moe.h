// SPDX-License-Identifier: Apache-2.0
// A mixture of experts (models/moe_ops.h has the ops, and what each tensor of a routing holds). T tokens, E experts, k
// experts of a token, N = T * k rows in the order of slots. Float32 and float64 are exact; bfloat16 rows have routings
// in float32. Every result has the same bits for any number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/moe_ops.h"

namespace hearth::ops {

struct RoutingTensors {
  at::Tensor scores_TE, log_sums_1T, experts_Tk, slots_Tk, choices_1N, factors_N1, ends_1E, loads_BE;
};

// The rows that a router gets, and which of them are tokens. Padding is routed, but counts in no load and no loss of
// the router.
struct RoutedRows {
  models::SequenceRows sequences;
  // float32: 1 for a token and 0 for padding, of all rows from row 0 on; the tokens of each whole sequence. Undefined:
  // no padding.
  at::Tensor counts_T = {}, tokens_B = {};

  bool are_padded() const { return counts_T.defined(); }
};

// What keeps the sum of a token's scores from being 0: sigmoids may all be (transformers' classes have it, too).
inline constexpr double kLeastSum = 1e-20;

// bias_E: what is added to scores where experts are chosen. logit_bias_E: what is added to the products with the gate.
// Both may be undefined.
struct RouterWeights {
  at::Tensor gate_ED, bias_E = {}, logit_bias_E = {};
};
// Routes x [T, D]. Writes all of `to`.
void route(const RoutingTensors& to, const at::Tensor& x_TD, const RouterWeights& weights, const models::Router& router,
           const RoutedRows& rows);

void dispatch(const at::Tensor& rows_ND, const at::Tensor& x_TD, const RoutingTensors& by);
// Added in float32 or wider, and rounded once. With `adds`, out's rows are the first summand.
void combine(const at::Tensor& out_TD, const at::Tensor& rows_ND, const RoutingTensors& by, bool adds);
void scale_slots(const at::Tensor& rows_NF, const at::Tensor& factors_N1);
void factors_gradient(const at::Tensor& dfactors_N1, const at::Tensor& drows_NF, const at::Tensor& rows_NF);

// The gradient of the logits: of the factors', and of two losses of the router. For sequences of S tokens
//   balance (arXiv 2412.19437, equations 17 to 20): the mean over sequences of sum_e f_e P_e, where f_e = E / (k S)
//           times e's choices, which is a constant, and P_e is the mean score, of sigmoids divided by a row's sum
//   z_loss  (arXiv 2202.08906, equation 5): the mean over sequences of the mean of log_sums^2
// `per_position`: 1 / the positions of all micro-batches and ranks of a step, times what the step's loss is multiplied
// by. loads_BE are of whole sequences of S positions, x of this rank's. Adds these rows' parts of both losses, and of
// the scores' mean entropy in nats, to sums_3 (RouterSum), float64, if it is defined.
enum RouterSum : int64_t { kBalanceLoss, kZLoss, kEntropy, kNumRouterSums };
void route_gradient(const at::Tensor& dlogits_TE, const at::Tensor& dfactors_N1, const RoutingTensors& of,
                    const models::Router& router, const RoutedRows& rows, int64_t S, double per_position,
                    const at::Tensor& sums_3);

// loads_E [E] float64 += each expert's tokens among these rows.
void add_loads(const at::Tensor& loads_E, const RoutingTensors& of, const RoutedRows& rows);

// Elements [first, first + N) of the bias of E experts: bias_N += rate sign(mean load - load) (arXiv 2408.15664,
// algorithm 1), unless the decision (ops/step_decision.h) skips the update. loads_E [E] float64.
void balance_bias(const at::Tensor& bias_N, const at::Tensor& loads_E, int64_t first, double rate,
                  const at::Tensor& decision);

// dx += dlogits gate, and dgate += dlogits^T x.
void router_input_gradient(const at::Tensor& dx_TD, const at::Tensor& dlogits_TE, const at::Tensor& gate_ED);
void router_weight_gradient(const at::Tensor& dgate_ED, const at::Tensor& dlogits_TE, const at::Tensor& x_TD,
                            bool accumulate);

// The products of a linear layer (ops/matmul.h), where each expert multiplies its own rows by its own matrix. `w` is
// [E * rows of a matrix, columns]. The gradient of an expert without rows is zero. On a GPU they wait for `ends`.
void experts_matmul(const at::Tensor& out, const at::Tensor& x, const at::Tensor& w, const at::Tensor& ends_1E);
void experts_input_gradient(const at::Tensor& dx, const at::Tensor& dy, const at::Tensor& w, const at::Tensor& ends_1E);
void experts_weight_gradient(const at::Tensor& dw, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& ends_1E,
                             bool accumulate);

// The bias of each expert, bias [E * N], for its own rows x [M, N]: x += bias, or with factors_M1 x += factor * bias.
// The gradient is added to dbias. dfactors_M1 += dx . bias. On a GPU they wait for `ends`.
void add_experts_bias(const at::Tensor& x, const at::Tensor& bias, const at::Tensor& ends_1E,
                      const at::Tensor& factors_M1 = {});
void experts_bias_gradient(const at::Tensor& dbias, const at::Tensor& dx, const at::Tensor& ends_1E,
                           const at::Tensor& factors_M1 = {});
void bias_factors_gradient(const at::Tensor& dfactors_M1, const at::Tensor& dx, const at::Tensor& bias,
                           const at::Tensor& ends_1E);

// The functions of a routing by ATen, on any device.
namespace aten {
void route(const RoutingTensors& to, const at::Tensor& x_TD, const RouterWeights& weights, const models::Router& router,
           const RoutedRows& rows);
void dispatch(const at::Tensor& rows_ND, const at::Tensor& x_TD, const RoutingTensors& by);
void combine(const at::Tensor& out_TD, const at::Tensor& rows_ND, const RoutingTensors& by, bool adds);
void scale_slots(const at::Tensor& rows_NF, const at::Tensor& factors_N1);
void factors_gradient(const at::Tensor& dfactors_N1, const at::Tensor& drows_NF, const at::Tensor& rows_NF);
void route_gradient(const at::Tensor& dlogits_TE, const at::Tensor& dfactors_N1, const RoutingTensors& of,
                    const models::Router& router, const RoutedRows& rows, int64_t S, double per_position,
                    const at::Tensor& sums_3);
}  // namespace aten

}  // namespace hearth::ops
