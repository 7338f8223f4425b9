#include "ops/rope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rope.cpp"
#include <hwy/foreach_target.h>
//
#include <cmath>

#include "ops/access.h"
#include "ops/reference.h"
#include "ops/simd-inl.h"
#include "ops/tensor.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// Complex products of neighbouring pairs: even = e c - o s, odd = o c + e s, with s negated for the inverse.
void rotate_heads(float* heads, int64_t num_heads, int64_t stride, const float* rotation, int64_t K, float direction) {
  const F32 d;
  const V32 sign = hn::Set(d, direction);
  for_lanes(d, K, [&](int64_t k, int64_t count) HWY_ATTR {
    const V32 table = load(d, rotation + k, count);
    const V32 c = hn::DupEven(table), s = hn::Mul(hn::DupOdd(table), sign);
    const V32 signed_s = hn::OddEven(s, hn::Neg(s));
    for (int64_t n = 0; n < num_heads; ++n) {
      const V32 x = load(d, heads + n * stride + k, count);
      store(hn::MulAdd(x, c, hn::Mul(hn::Reverse2(d, x), signed_s)), d, heads + n * stride + k, count);
    }
  });
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(rotate_heads);

namespace {

template <class T>
void fill_table(T* out, int64_t S, int64_t K, double theta) {
  for (int64_t s = 0; s < S; ++s) {
    for (int64_t k = 0; k < K; k += 2) {
      const double angle = static_cast<double>(s) * std::pow(theta, -static_cast<double>(k) / static_cast<double>(K));
      out[s * K + k] = static_cast<T>(std::cos(angle));
      out[s * K + k + 1] = static_cast<T>(std::sin(angle));
    }
  }
}

void rotate(const at::Tensor& x_BSNK, const at::Tensor& table_SK, int64_t start, double direction) {
  const int64_t S = x_BSNK.size(1), K = x_BSNK.size(3);
  HEARTH_CHECK(K % 2 == 0, "head width {} is odd", K);
  HEARTH_CHECK(start >= 0 && start + S <= table_SK.size(0), "positions {}..{} but the table has {}", start, start + S,
               table_SK.size(0));
  if (!is_float32(x_BSNK)) {
    reference::rope(heads<double>(x_BSNK), matrix<const double>(table_SK, table_SK.size(0), K), start, direction);
    return;
  }
  const auto x = heads<float>(x_BSNK);
  const auto table = matrix<const float>(table_SK, table_SK.size(0), K);
  const auto kernel = HWY_DYNAMIC_DISPATCH(rotate_heads);
  parallel(x.B * S, x.N * K, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      kernel(x.at(t / S, t % S, 0), x.N, x.stride_n, table.row(start + t % S), K, static_cast<float>(direction));
    }
  });
}

}  // namespace

at::Tensor rope_table(int64_t S, int64_t K, double theta, DType dtype) {
  const at::Tensor table = empty({S, K}, dtype);
  if (dtype == DType::kFloat32) {
    fill_table(flat<float>(table, S * K), S, K, theta);
  } else {
    fill_table(flat<double>(table, S * K), S, K, theta);
  }
  return table;
}

void rope_forward(const at::Tensor& x_BSNK, const at::Tensor& table_SK, int64_t start) {
  rotate(x_BSNK, table_SK, start, 1);
}

void rope_backward(const at::Tensor& dx_BSNK, const at::Tensor& table_SK, int64_t start) {
  rotate(dx_BSNK, table_SK, start, -1);
}

}  // namespace hearth::ops
#endif
