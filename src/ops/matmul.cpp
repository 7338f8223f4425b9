// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul.cpp"
#include <hwy/foreach_target.h>
//
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "ops/access.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/simd-inl.h"
#include "trace/spans.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

void add_bf16(float* sum, const c10::BFloat16* x, int64_t n) {
  const F32 d;
  for_lanes(d, n, [&](int64_t i, int64_t count) HWY_ATTR {
    store(hn::Add(load(d, sum + i, count), load(d, x + i, count)), d, sum + i, count);
  });
}

void widen_bf16(float* wide, const c10::BFloat16* x, int64_t n) {
  const F32 d;
  for_lanes(d, n, [&](int64_t i, int64_t count) HWY_ATTR { store(load(d, x + i, count), d, wide + i, count); });
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(add_bf16);
HWY_EXPORT(widen_bf16);

namespace {

// An out= call takes its result by non-const reference; the view itself is not changed.
at::Tensor& result(const at::Tensor& view) { return const_cast<at::Tensor&>(view); }

// Below this, packing costs more than the product. With one row ATen is 1.4 to 5 times as fast, with four 0.5 to 1.7
// times.
constexpr int64_t kFewRows = 4;

template <class T>
GemmOperand<T> operand(const at::Tensor& x, int64_t rows, int64_t cols, bool k_is_contiguous) {
  const auto elements = matrix<const T>(x, rows, cols);
  return {elements.data, elements.stride, k_is_contiguous};
}

template <class T, class C>
void gemm_into(const at::Tensor& out_MN, const GemmOperand<T>& a, const GemmOperand<T>& b, int64_t K, bool accumulate) {
  const auto c = matrix<C>(out_MN, out_MN.size(0), out_MN.size(1));
  gemm(Gemm<T, C>{c.rows, c.cols, K, a, b, c.data, c.stride, accumulate});
}

// body(T()) with the type of the factors if the product is ours. Returns false if it is ATen's.
template <class Body>
bool ours(const at::Tensor& out_MN, const at::Tensor& factor, const Body& body) {
  if (!factor.is_cpu() || is_float64(factor) || std::min(out_MN.size(0), out_MN.size(1)) < kFewRows) return false;
  const auto if_preferred = [&]<class T>(T type) {
    if (gemm_is_preferred<T>()) body(type);
    return gemm_is_preferred<T>();
  };
  return is_float32(factor) ? if_preferred(float()) : if_preferred(c10::BFloat16());
}

// MKL and oneDNN add a bfloat16 product to a float32 sum more slowly than they return it in bfloat16. So the sum is
// updated some rows at a time: their product is still in a cache when it is added, and no large matrix takes memory.
void add_product(const at::Tensor& sum_NK, const at::Tensor& dy_MN, const at::Tensor& x_MK, bool accumulate) {
  constexpr int64_t kProductBytes = 8 << 20;
  const int64_t N = sum_NK.size(0), K = sum_NK.size(1);
  const int64_t rows = std::clamp<int64_t>(kProductBytes / (2 * std::max<int64_t>(K, 1)), 64, std::max<int64_t>(N, 64));
  const at::Tensor product = at::empty({std::min(rows, N), K}, x_MK.options());
  const auto add = accumulate ? HWY_DYNAMIC_DISPATCH(add_bf16) : HWY_DYNAMIC_DISPATCH(widen_bf16);
  for (int64_t first = 0; first < N; first += rows) {
    const int64_t count = std::min(rows, N - first);
    const at::Tensor part = product.narrow(0, 0, count);
    at::mm_out(result(part), dy_MN.narrow(1, first, count).t(), x_MK);
    const auto sum = matrix<float>(sum_NK.narrow(0, first, count), count, K);
    const auto summand = matrix<const c10::BFloat16>(part, count, K);
    parallel(count, K, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) add(sum.row(n), summand.row(n), K);
    });
  }
}

}  // namespace

void matmul(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_NK) {
  const trace::SpanScope span(trace::SpanKind::kOp, "matmul");
  const int64_t M = out_MN.size(0), N = out_MN.size(1), K = a_MK.size(1);
  const bool done = ours(out_MN, a_MK, [&](auto type) {
    using T = decltype(type);
    gemm_into<T, T>(out_MN, operand<T>(a_MK, M, K, true), operand<T>(b_NK, N, K, true), K, false);
  });
  if (!done) aten::matmul(out_MN, a_MK, b_NK);
}

void matmul_input_gradient(const at::Tensor& dx_MK, const at::Tensor& dy_MN, const at::Tensor& w_NK, bool accumulate) {
  const trace::SpanScope span(trace::SpanKind::kOp, "matmul_input_gradient");
  const int64_t M = dx_MK.size(0), K = dx_MK.size(1), N = dy_MN.size(1);
  const bool done = ours(dx_MK, dy_MN, [&](auto type) {
    using T = decltype(type);
    gemm_into<T, T>(dx_MK, operand<T>(dy_MN, M, N, true), operand<T>(w_NK, N, K, false), N, accumulate);
  });
  if (!done) aten::matmul_input_gradient(dx_MK, dy_MN, w_NK, accumulate);
}

void matmul_weight_gradient(const at::Tensor& dw_NK, const at::Tensor& dy_MN, const at::Tensor& x_MK, bool accumulate) {
  const trace::SpanScope span(trace::SpanKind::kOp, "matmul_weight_gradient");
  const int64_t N = dw_NK.size(0), K = dw_NK.size(1), M = dy_MN.size(0);
  const bool done = ours(dw_NK, x_MK, [&](auto type) {
    using T = decltype(type);
    gemm_into<T, float>(dw_NK, operand<T>(dy_MN, M, N, false), operand<T>(x_MK, M, K, false), M, accumulate);
  });
  if (!done) aten::matmul_weight_gradient(dw_NK, dy_MN, x_MK, accumulate);
}

namespace aten {

void matmul(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_NK) {
  at::mm_out(result(out_MN), a_MK, b_NK.t());
}

void matmul_input_gradient(const at::Tensor& dx_MK, const at::Tensor& dy_MN, const at::Tensor& w_NK, bool accumulate) {
  if (accumulate) {
    at::addmm_out(result(dx_MK), dx_MK, dy_MN, w_NK);
  } else {
    at::mm_out(result(dx_MK), dy_MN, w_NK);
  }
}

void matmul_weight_gradient(const at::Tensor& dw_NK, const at::Tensor& dy_MN, const at::Tensor& x_MK, bool accumulate) {
  if (dw_NK.scalar_type() != x_MK.scalar_type() && x_MK.is_cpu()) return add_product(dw_NK, dy_MN, x_MK, accumulate);
  const at::Tensor dy_NM = dy_MN.t();
  if (dw_NK.scalar_type() == x_MK.scalar_type()) {
    accumulate ? at::addmm_out(result(dw_NK), dw_NK, dy_NM, x_MK) : at::mm_out(result(dw_NK), dy_NM, x_MK);
  } else {  // cuBLAS makes float32 of bfloat16 itself
    accumulate ? at::addmm_out(result(dw_NK), dw_NK, dy_NM, x_MK, at::kFloat)
               : at::mm_out(result(dw_NK), dy_NM, x_MK, at::kFloat);
  }
}

}  // namespace aten
}  // namespace hearth::ops
#endif
