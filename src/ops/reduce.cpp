#include "ops/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/reduce.cpp"
#include <hwy/foreach_target.h>
//
#include <cmath>
#include <vector>

#include "ops/access.h"
#include "ops/cpu/simd-inl.h"
#include "ops/gpu/calls.h"
#include "ops/gpu/gpu.h"

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
  if (on_gpu(x)) return gpu::add_sum_of_squares(sum_1, x);
  *flat<double>(sum_1, 1) += is_float32(x) ? sum_of_squares_of<float>(x) : sum_of_squares_of<double>(x);
}

}  // namespace hearth::ops
#endif
