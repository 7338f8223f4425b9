// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding.h"

#include <vector>

#include "ops/access.h"
#include "ops/gpu/calls.h"
#include "ops/gpu/gpu.h"
#include "trace/spans.h"

namespace hearth::ops {
namespace {

// The row of each token in a table of V rows; -1 for those of other ranks.
std::vector<int64_t> rows_of(const at::Tensor& tokens_T, int64_t T, int64_t V, plan::VocabularyPart part) {
  const int64_t total = part.total > 0 ? part.total : V;
  const int32_t* tokens = flat<const int32_t>(tokens_T, T);
  std::vector<int64_t> rows(static_cast<size_t>(T));
  for (int64_t t = 0; t < T; ++t) {
    HEARTH_CHECK(tokens[t] >= 0 && tokens[t] < total, "token {} of {}", tokens[t], total);
    const int64_t row = tokens[t] - part.first;
    rows[static_cast<size_t>(t)] = row >= 0 && row < V ? row : -1;
  }
  return rows;
}

template <class Value>
void forward(const at::Tensor& x_TD, const at::Tensor& weight_VD, const at::Tensor& tokens_T,
             plan::VocabularyPart part) {
  const int64_t T = x_TD.size(0), D = x_TD.size(1), V = weight_VD.size(0);
  const auto x = matrix<Value>(x_TD, T, D);
  const auto weight = matrix<const Value>(weight_VD, V, D);
  const std::vector<int64_t> rows = rows_of(tokens_T, T, V, part);
  parallel(T, D, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row = rows[static_cast<size_t>(t)];
      if (row >= 0) {
        std::copy_n(weight.row(row), D, x.row(t));
      } else {
        std::fill_n(x.row(t), D, Value(0));
      }
    }
  });
}

// Threads divide columns, not tokens: each element is summed by one thread, in the order of t.
template <class Sum, class Value>
void backward(const at::Tensor& dweight_VD, const at::Tensor& dx_TD, const at::Tensor& tokens_T,
              plan::VocabularyPart part) {
  const int64_t T = dx_TD.size(0), D = dx_TD.size(1), V = dweight_VD.size(0);
  const auto dx = matrix<const Value>(dx_TD, T, D);
  const auto dweight = matrix<Sum>(dweight_VD, V, D);
  const std::vector<int64_t> rows = rows_of(tokens_T, T, V, part);
  constexpr int64_t kColumns = 64;  // a few cache lines: threads write to different ones
  parallel((D + kColumns - 1) / kColumns, T * kColumns, [&](int64_t first, int64_t last) {
    const int64_t begin = first * kColumns, end = std::min(D, last * kColumns);
    for (int64_t t = 0; t < T; ++t) {
      const int64_t row = rows[static_cast<size_t>(t)];
      if (row < 0) continue;
      Sum* to = dweight.row(row);
      const Value* from = dx.row(t);
      for (int64_t d = begin; d < end; ++d) to[d] += static_cast<Sum>(from[d]);
    }
  });
}

}  // namespace

void embedding_forward(const at::Tensor& x_TD, const at::Tensor& weight_VD, const at::Tensor& tokens_T,
                       plan::VocabularyPart part) {
  const trace::SpanScope span(trace::SpanKind::kOp, "embedding_forward");
  if (on_gpu(x_TD)) return gpu::embedding_forward(x_TD, weight_VD, tokens_T, part.first);
  with_element_type(x_TD, [&](auto zero) { forward<decltype(zero)>(x_TD, weight_VD, tokens_T, part); });
}

void embedding_backward(const at::Tensor& dweight_VD, const at::Tensor& dx_TD, const at::Tensor& tokens_T,
                        plan::VocabularyPart part) {
  const trace::SpanScope span(trace::SpanKind::kOp, "embedding_backward");
  if (on_gpu(dx_TD)) return gpu::embedding_backward(dweight_VD, dx_TD, tokens_T, part.first);
  with_element_type(dx_TD, [&](auto zero) {
    using Value = decltype(zero);
    backward<GradientOf<Value>, Value>(dweight_VD, dx_TD, tokens_T, part);
  });
}

}  // namespace hearth::ops
