// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/reduce.cpp"
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/quantity.h"
#include "ops/access.h"
#include "ops/cpu/simd-inl.h"
#include "ops/gpu/calls.h"
#include "ops/gpu/gpu.h"
#include "trace/spans.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

double sum_of_squares_lanes(const float* x, int64_t n) {
  const hn::ScalableTag<double> d64;
  const hn::Rebind<float, decltype(d64)> half;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d64));
  auto total = hn::Zero(d64);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::PromoteTo(d64, hn::LoadU(half, x + i));
    total = hn::MulAdd(v, v, total);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d64, total));
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(sum_of_squares_lanes);

namespace {

constexpr int64_t kBlock = 16384;

double sum_of_squares_span(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(sum_of_squares_lanes)(x, n); }
double sum_of_squares_span(const double* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

// body(begin, count) over fixed blocks of [0, n).
template <class Body>
void for_blocks(int64_t n, const Body& body) {
  parallel((n + kBlock - 1) / kBlock, kBlock, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) body(b * kBlock, std::min(kBlock, n - b * kBlock));
  });
}

template <class T>
double sum_of_squares_of(const at::Tensor& x) {
  const int64_t n = x.numel();
  const T* data = flat<const T>(x, n);
  std::vector<double> sums(static_cast<size_t>((n + kBlock - 1) / kBlock));
  for_blocks(n, [&](int64_t begin, int64_t count) {
    sums[static_cast<size_t>(begin / kBlock)] = sum_of_squares_span(data + begin, count);
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

void add_sum_of_squares(const at::Tensor& sum_1, const at::Tensor& x) {
  const trace::SpanScope span(trace::SpanKind::kOp, "add_sum_of_squares");
  if (on_gpu(x)) return gpu::add_sum_of_squares(sum_1, x);
  *flat<double>(sum_1, 1) += is_float32(x) ? sum_of_squares_of<float>(x) : sum_of_squares_of<double>(x);
}

namespace {

template <class T>
void block_sums_of(double* sums, const at::Tensor& x) {
  const int64_t n = x.numel();
  const T* data = flat<const T>(x, n);
  parallel(div_ceil(n, kSumBlock), kSumBlock, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      sums[i] = sum_of_squares_span(data + i * kSumBlock, std::min(kSumBlock, n - i * kSumBlock));
  });
}

}  // namespace

void block_sums_of_squares(const at::Tensor& sums_N, const at::Tensor& x) {
  const trace::SpanScope span(trace::SpanKind::kOp, "block_sums_of_squares");
  const int64_t blocks = div_ceil(x.numel(), kSumBlock), whole = x.numel() / kSumBlock;
  HEARTH_CHECK(sums_N.numel() == blocks, "{} sums of {} blocks", sums_N.numel(), blocks);
  if (on_gpu(x)) {
    // In parts: the squares in float64 take eight bytes an element.
    constexpr int64_t kPart = 4096;
    for (int64_t begin = 0; begin < blocks; begin += kPart) {
      const int64_t count = std::min(kPart, whole - begin);
      if (count > 0) {
        const at::Tensor part = x.narrow(0, begin * kSumBlock, count * kSumBlock).view({count, kSumBlock});
        sums_N.narrow(0, begin, count).copy_(part.to(at::kDouble).square_().sum(1));
      }
    }
    if (whole < blocks)
      sums_N.select(0, whole).copy_(
          x.narrow(0, whole * kSumBlock, x.numel() % kSumBlock).to(at::kDouble).square_().sum());
    return;
  }
  double* const sums = flat<double>(sums_N, blocks);
  is_float32(x) ? block_sums_of<float>(sums, x) : block_sums_of<double>(sums, x);
}

void add_in_order(const at::Tensor& sum_1, const at::Tensor& values_N) {
  if (on_gpu(values_N)) {
    sum_1.add_(values_N.sum());
    return;
  }
  const double* values = flat<const double>(values_N, values_N.numel());
  double total = 0;
  for (int64_t i = 0; i < values_N.numel(); ++i) total += values[i];
  *flat<double>(sum_1, 1) += total;
}

}  // namespace hearth::ops
#endif
