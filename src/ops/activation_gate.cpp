// SPDX-License-Identifier: Apache-2.0
// A gate of rows (activation.h).
#include <ATen/TensorOperators.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sigmoid.h>

#include <algorithm>

#include "ops/activation.h"
#include "ops/tensor.h"
#include "trace/spans.h"

namespace hearth::ops {
namespace {

constexpr int64_t kGatedRows = 512;  // at a time, which bounds the memory of what is between

at::Tensor exact(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x; }

// Calls body(rows of a tensor) for some rows after others.
template <class Body>
void for_rows(int64_t rows, const Body& body) {
  for (int64_t row = 0; row < rows; row += kGatedRows)
    body([row, count = std::min(kGatedRows, rows - row)](const at::Tensor& all) { return all.narrow(0, row, count); });
}

}  // namespace

void gate_forward(const at::Tensor& out, const at::Tensor& x, const at::Tensor& gate) {
  const trace::SpanScope span(trace::SpanKind::kOp, "gate_forward");
  for_rows(out.size(0), [&](const auto& part) { copy_(part(out), exact(part(x)) * at::sigmoid(exact(part(gate)))); });
}

void gate_backward(const at::Tensor& dout, const at::Tensor& gate, const at::Tensor& x) {
  const trace::SpanScope span(trace::SpanKind::kOp, "gate_backward");
  for_rows(dout.size(0), [&](const auto& part) {
    const at::Tensor scores = at::sigmoid(exact(part(gate))), d = exact(part(dout)) * scores;
    copy_(part(gate), d * exact(part(x)) * (1 - scores));
    copy_(part(dout), d);
  });
}

}  // namespace hearth::ops
