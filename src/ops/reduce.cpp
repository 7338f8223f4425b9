#include "ops/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/reduce.cpp"
#include <hwy/foreach_target.h>
//
#include <cmath>
#include <vector>

#include "ops/access.h"
#include "ops/simd-inl.h"

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

void scale_lanes(float* x, float factor, int64_t n) {
  const F32 d;
  const V32 f = hn::Set(d, factor);
  for_lanes(d, n,
            [&](int64_t i, int64_t count) HWY_ATTR { store(hn::Mul(load(d, x + i, count), f), d, x + i, count); });
}

void add_lanes(float* dst, const float* src, int64_t n) {
  const F32 d;
  for_lanes(d, n, [&](int64_t i, int64_t count) HWY_ATTR {
    store(hn::Add(load(d, dst + i, count), load(d, src + i, count)), d, dst + i, count);
  });
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(sum_of_squares_lanes);
HWY_EXPORT(scale_lanes);
HWY_EXPORT(add_lanes);

namespace {

constexpr int64_t kBlock = 16384;

double sum_of_squares_span(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(sum_of_squares_lanes)(x, n); }
double sum_of_squares_span(const double* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

void scale_span(float* x, double factor, int64_t n) {
  HWY_DYNAMIC_DISPATCH(scale_lanes)(x, static_cast<float>(factor), n);
}
void scale_span(double* x, double factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

void add_span(float* dst, const float* src, int64_t n) { HWY_DYNAMIC_DISPATCH(add_lanes)(dst, src, n); }
void add_span(double* dst, const double* src, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] += src[i];
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

template <class T>
bool all_finite_of(const at::Tensor& x) {
  const T* data = flat<const T>(x, x.numel());
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (!std::isfinite(data[i])) return false;
  }
  return true;
}

}  // namespace

double sum_of_squares(const at::Tensor& x) {
  return is_float32(x) ? sum_of_squares_of<float>(x) : sum_of_squares_of<double>(x);
}

bool all_finite(const at::Tensor& x) {
  // Squares of floats do not overflow in double: one fast pass answers the usual case and all others but huge doubles.
  if (std::isfinite(sum_of_squares(x))) return true;
  return is_float32(x) ? false : all_finite_of<double>(x);
}

void scale_(const at::Tensor& x, double factor) {
  const int64_t n = x.numel();
  const auto apply = [&](auto* data) {
    for_blocks(n, [&](int64_t begin, int64_t count) { scale_span(data + begin, factor, count); });
  };
  is_float32(x) ? apply(flat<float>(x, n)) : apply(flat<double>(x, n));
}

void add_(const at::Tensor& dst, const at::Tensor& src) {
  const int64_t n = dst.numel();
  const auto apply = [&](auto* to, const auto* from) {
    for_blocks(n, [&](int64_t begin, int64_t count) { add_span(to + begin, from + begin, count); });
  };
  is_float32(dst) ? apply(flat<float>(dst, n), flat<const float>(src, n))
                  : apply(flat<double>(dst, n), flat<const double>(src, n));
}

}  // namespace hearth::ops
#endif
