// Products whose matrices are shared by ranks (plan/parameters.h: tensor parallel). Between products a rank keeps
// T / ranks rows of the stream. Before a product whose weights are parts of rows, it gathers all rows; after one whose
// weights are parts of columns, each rank has summands of all rows, and keeps the sum of its own rows. Backward does
// the same with gathering and summing exchanged (arXiv 2205.05198, section 4.2.2).
//
// With one rank nothing is copied: a tensor is its own gathered rows and its own summands. Collective over the ranks
// that share the layers.
#pragma once

#include "comm/group.h"
#include "model/activations.h"
#include "model/linear.h"

namespace hearth::model {

// All rows [T, D] of x [T / ranks, D]: x itself, or kGatheredRows, valid until the next call.
inline const at::Tensor& all_rows(const Activations& a, const at::Tensor& x) {
  if (a.tensor == nullptr) return x;
  a.tensor->all_gather(a(plan::Activation::kGatheredRows), x);
  return a(plan::Activation::kGatheredRows);
}

// Where a product writes its summands [T, D] of `sum` [T / ranks, D]: `sum` itself, or kPartialRows.
inline const at::Tensor& summands_of(const Activations& a, const at::Tensor& sum) {
  return a.tensor == nullptr ? sum : a(plan::Activation::kPartialRows);
}

// `sum` becomes the sum of the ranks' summands, this rank's rows of it.
inline void sum_rows(const Activations& a, const at::Tensor& sum) {
  if (a.tensor != nullptr) a.tensor->reduce_scatter(sum, a(plan::Activation::kPartialRows));
}

// The same in the communication stream, while the caller computes.
inline comm::Work start_all_rows(const Activations& a, const at::Tensor& x) {
  if (a.tensor == nullptr) return {};
  return a.tensor->start(
      [group = a.tensor, rows = a(plan::Activation::kGatheredRows), x] { group->all_gather(rows, x); });
}
inline comm::Work start_sum_rows(const Activations& a, const at::Tensor& sum) {
  if (a.tensor == nullptr) return {};
  return a.tensor->start(
      [group = a.tensor, sum, rows = a(plan::Activation::kPartialRows)] { group->reduce_scatter(sum, rows); });
}

// Both gradients of y = x w^T, where ranks have rows of w: dx [T / ranks, D] of this rank's rows, and dw +=. The rows
// of x are gathered beside the one product, and those of dx are summed beside the other.
inline void linear_backward(const Activations& a, const at::Tensor& dx, const at::Tensor& dw, const at::Tensor& dy,
                            const at::Tensor& x, const at::Tensor& w) {
  const comm::Work gather = start_all_rows(a, x);
  linear_input_gradient(a, summands_of(a, dx), dy, w);
  gather.wait();
  const comm::Work sum = start_sum_rows(a, dx);
  ops::matmul_weight_gradient(dw, dy, a.tensor == nullptr ? x : a(plan::Activation::kGatheredRows));
  sum.wait();
}

}  // namespace hearth::model
