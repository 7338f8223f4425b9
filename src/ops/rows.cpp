// SPDX-License-Identifier: Apache-2.0
#include "ops/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rows.cpp"
#include <hwy/foreach_target.h>
//
#include <ATen/ops/empty.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/index_select.h>

#include <vector>

#include "ops/access.h"
#include "ops/cpu/simd-inl.h"
#include "ops/gpu/calls.h"
#include "ops/gpu/gpu.h"
#include "ops/reference.h"
#include "trace/spans.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// sum = a + b; sum may be a.
template <class S, class A, class B>
void sum_of_rows(S* sum, const A* a, const B* b, int64_t N) {
  const F32 d;
  for_lanes(d, N, [&](int64_t i, int64_t count) HWY_ATTR {
    store(hn::Add(load(d, a + i, count), load(d, b + i, count)), d, sum + i, count);
  });
}

void bias_add_f32(float* y, const float* bias, int64_t N) { sum_of_rows(y, y, bias, N); }
void bias_add_bf16(c10::BFloat16* y, const c10::BFloat16* bias, int64_t N) { sum_of_rows(y, y, bias, N); }
void bias_sum_f32(float* sum, const float* dy, int64_t N) { sum_of_rows(sum, sum, dy, N); }
void bias_sum_bf16(float* sum, const c10::BFloat16* dy, int64_t N) { sum_of_rows(sum, sum, dy, N); }

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(bias_add_f32);
HWY_EXPORT(bias_add_bf16);
HWY_EXPORT(bias_sum_f32);
HWY_EXPORT(bias_sum_bf16);

namespace {

auto add_kernel_of_bias(float) { return HWY_DYNAMIC_DISPATCH(bias_add_f32); }
auto add_kernel_of_bias(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(bias_add_bf16); }
auto sum_kernel_of_bias(float) { return HWY_DYNAMIC_DISPATCH(bias_sum_f32); }
auto sum_kernel_of_bias(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(bias_sum_bf16); }

template <class T>
void add_to_rows(Matrix<T> y, const T* bias) {
  const auto add = add_kernel_of_bias(T());
  parallel(y.rows, y.cols, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) add(y.row(t), bias, y.cols);
  });
}

template <>
void add_to_rows<double>(Matrix<double> y, const double* bias) {
  reference::add_bias(y, bias);
}

// At most 64 blocks of rows, each with its own sums in float32.
template <class T>
void sum_rows_to(GradientOf<T>* dbias, Matrix<const T> dy) {
  const int64_t N = dy.cols, block = std::max<int64_t>(16, (dy.rows + 63) / 64), blocks = (dy.rows + block - 1) / block;
  const auto add = sum_kernel_of_bias(T());
  const at::Tensor partial = at::empty({blocks, N}, at::TensorOptions().dtype(at::kFloat));
  float* const sums = partial.mutable_data_ptr<float>();
  parallel(blocks, block * N, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      std::fill_n(sums + b * N, N, 0.0F);
      for (int64_t t = b * block; t < std::min(dy.rows, (b + 1) * block); ++t) add(sums + b * N, dy.row(t), N);
    }
  });
  parallel(N, blocks, [&](int64_t begin, int64_t end) {
    std::vector<double> total(dbias + begin, dbias + end);
    for (int64_t b = 0; b < blocks; ++b)
      for (size_t i = 0; i < total.size(); ++i)
        total[i] += static_cast<double>(sums[b * N + begin + static_cast<int64_t>(i)]);
    for (size_t i = 0; i < total.size(); ++i) dbias[begin + static_cast<int64_t>(i)] = static_cast<float>(total[i]);
  });
}

template <>
void sum_rows_to<double>(double* dbias, Matrix<const double> dy) {
  reference::bias_gradient(dbias, dy);
}

}  // namespace

void add_bias(const at::Tensor& y_TN, const at::Tensor& bias_N) {
  const trace::SpanScope span(trace::SpanKind::kOp, "add_bias");
  if (on_gpu(y_TN)) return gpu::add_bias(y_TN, bias_N);
  with_element_type(y_TN, [&](auto zero) {
    using T = decltype(zero);
    const int64_t N = y_TN.size(1);
    add_to_rows<T>(matrix<T>(y_TN, y_TN.size(0), N), flat<const T>(bias_N, N));
  });
}

void bias_gradient(const at::Tensor& dbias_N, const at::Tensor& dy_TN) {
  const trace::SpanScope span(trace::SpanKind::kOp, "bias_gradient");
  if (on_gpu(dy_TN)) return gpu::bias_gradient(dbias_N, dy_TN);
  with_element_type(dy_TN, [&](auto zero) {
    using T = decltype(zero);
    const int64_t N = dy_TN.size(1);
    sum_rows_to<T>(flat<GradientOf<T>>(dbias_N, N), matrix<const T>(dy_TN, dy_TN.size(0), N));
  });
}

void gather_rows(const at::Tensor& out, const at::Tensor& x, const at::Tensor& index_N) {
  const trace::SpanScope span(trace::SpanKind::kOp, "gather_rows");
  HEARTH_CHECK(out.size(0) == index_N.numel(), "{} rows for {} indices", out.size(0), index_N.numel());
  at::Tensor result = out;
  at::index_select_out(result, x, 0, index_N);
}

at::Tensor gathered(const at::Tensor& x, const at::Tensor& index_N) { return at::index_select(x, 0, index_N); }

void scatter_rows(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& index_N) {
  const trace::SpanScope span(trace::SpanKind::kOp, "scatter_rows");
  at::Tensor result = x;
  at::index_copy_out(result, x, 0, index_N, rows);
}

}  // namespace hearth::ops
#endif
