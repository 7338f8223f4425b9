// SPDX-License-Identifier: Apache-2.0
#include "ops/rope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rope.cpp"
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/access.h"
#include "ops/cpu/simd-inl.h"
#include "ops/gpu/calls.h"
#include "ops/gpu/gpu.h"
#include "ops/reference.h"
#include "ops/tensor.h"
#include "trace/spans.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// Complex products of neighbouring pairs: even = e c - o s, odd = o c + e s, with s negated for the inverse.
template <class T>
HWY_INLINE void rotate_neighbours(T* heads, int64_t num_heads, int64_t stride, const float* rotation, int64_t K,
                                  float direction) {
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

// The same for elements half a head apart; the row holds K/2 cosines, then K/2 sines.
template <class T>
HWY_INLINE void rotate_halves(T* heads, int64_t num_heads, int64_t stride, const float* rotation, int64_t K,
                              float direction) {
  const F32 d;
  const V32 sign = hn::Set(d, direction);
  const int64_t half = K / 2;
  for_lanes(d, half, [&](int64_t k, int64_t count) HWY_ATTR {
    const V32 c = load(d, rotation + k, count), s = hn::Mul(load(d, rotation + half + k, count), sign);
    for (int64_t n = 0; n < num_heads; ++n) {
      T* head = heads + n * stride + k;
      const V32 first = load(d, head, count), second = load(d, head + half, count);
      store(hn::NegMulAdd(second, s, hn::Mul(first, c)), d, head, count);
      store(hn::MulAdd(first, s, hn::Mul(second, c)), d, head + half, count);
    }
  });
}

template <class T>
HWY_INLINE void rotate_row(T* heads, int64_t num_heads, int64_t stride, const float* rotation, int64_t K, bool halves,
                           float direction) {
  if (halves) {
    rotate_halves(heads, num_heads, stride, rotation, K, direction);
  } else {
    rotate_neighbours(heads, num_heads, stride, rotation, K, direction);
  }
}

void rotate_f32(float* heads, int64_t num_heads, int64_t stride, const float* rotation, int64_t K, bool halves,
                float direction) {
  rotate_row(heads, num_heads, stride, rotation, K, halves, direction);
}
void rotate_bf16(c10::BFloat16* heads, int64_t num_heads, int64_t stride, const float* rotation, int64_t K, bool halves,
                 float direction) {
  rotate_row(heads, num_heads, stride, rotation, K, halves, direction);
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(rotate_f32);
HWY_EXPORT(rotate_bf16);

namespace {

// `scale`: the factor of a position's cosines and sines.
template <class T, class Scale>
void fill_table(T* out, int64_t S, const std::vector<double>& frequencies, bool halves, const Scale& scale) {
  const auto pairs = std::ssize(frequencies), R = 2 * pairs;
  for (int64_t s = 0; s < S; ++s) {
    const double factor = scale(s);
    for (int64_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(s) * frequencies[static_cast<size_t>(i)];
      out[s * R + (halves ? i : 2 * i)] = static_cast<T>(factor * std::cos(angle));
      out[s * R + (halves ? pairs + i : 2 * i + 1)] = static_cast<T>(factor * std::sin(angle));
    }
  }
}

template <class Scale>
at::Tensor filled_table(int64_t S, const std::vector<double>& frequencies, bool halves, DType dtype, at::Device device,
                        const Scale& scale) {
  const bool is_double = dtype == DType::kFloat64;
  const int64_t R = 2 * std::ssize(frequencies);
  const at::Tensor table = empty({S, R}, is_double ? DType::kFloat64 : DType::kFloat32);
  if (is_double) {
    fill_table(flat<double>(table, S * R), S, frequencies, halves, scale);
  } else {
    fill_table(flat<float>(table, S * R), S, frequencies, halves, scale);
  }
  return on_device(table, device);
}

// Full waves in the original window: a slow pair has few and is stretched in full, a fast pair has many and is kept.
double llama3_frequency(const plan::Rope& rope, double w) {
  const double waves = static_cast<double>(rope.original_seq_len) * w / (2 * std::numbers::pi);
  const double kept =
      std::clamp((waves - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor), 0.0, 1.0);
  return (kept + (1 - kept) / rope.scaling_factor) * w;
}

// The pairs at which YaRN begins to stretch, and stretches in full.
struct YarnRange {
  double first, last;
};
YarnRange yarn_range(const plan::Rope& rope, int64_t R) {
  const auto width = static_cast<double>(R);
  // The pair, not a whole number, that has so many full waves in the original window.
  const auto pair_with = [&](double waves) {
    const double wave = static_cast<double>(rope.original_seq_len) / (waves * 2 * std::numbers::pi);
    return width * std::log(wave) / (2 * std::log(rope.theta));
  };
  double first = pair_with(rope.beta_fast), last = pair_with(rope.beta_slow);
  if (rope.truncate) first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0), last = std::min(last, width - 1);
  return {first, first == last ? last + 0.001 : last};  // transformers' way around a division by 0
}

// The row of the table for each of the B*R rows of x, of B sequences of S positions.
class Positions {
 public:
  Positions(const at::Tensor& document_starts_N, const plan::Chunks& rows, int64_t R, int64_t S)
      : starts_(document_starts_N.defined() ? flat<const int32_t>(document_starts_N, document_starts_N.numel())
                                            : nullptr),
        num_(document_starts_N.defined() ? document_starts_N.numel() : 0),
        rows_(rows),
        R_(R),
        S_(S) {
    HEARTH_CHECK(num_ == 0 || starts_[0] == 0, "the first document starts at {}", starts_[0]);
  }

  int64_t operator()(int64_t row) const {
    const int64_t position = rows_.position(row % R_);
    if (num_ == 0) return position;
    const int64_t place = row / R_ * S_ + position, document = *(std::upper_bound(starts_, starts_ + num_, place) - 1);
    HEARTH_CHECK(place - document < S_, "a document from {} to {} in sequences of {}", document, place, S_);
    return place - document;
  }

 private:
  const int32_t* starts_;
  int64_t num_;
  plan::Chunks rows_;
  int64_t R_, S_;
};

auto kernel_for(float) { return HWY_DYNAMIC_DISPATCH(rotate_f32); }
auto kernel_for(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(rotate_bf16); }

template <class T>
void rotate(const HeadTensor<T>& x, const at::Tensor& table_SR, bool halves, const Positions& position,
            double direction) {
  const auto table = matrix<const float>(table_SR, table_SR.size(0), x.K);
  const auto kernel = kernel_for(T());
  parallel(x.B * x.S, x.N * x.K, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      kernel(x.at(t / x.S, t % x.S, 0), x.N, x.stride_n, table.row(position(t)), x.K, halves,
             static_cast<float>(direction));
    }
  });
}

void rotate(const HeadTensor<double>& x, const at::Tensor& table_SR, bool halves, const Positions& position,
            double direction) {
  reference::rope(x, matrix<const double>(table_SR, table_SR.size(0), x.K), halves, position, direction);
}

void rotate(const at::Tensor& x_BSNK, const at::Tensor& table_SR, bool halves, const at::Tensor& document_starts_N,
            const plan::Chunks& positions, double direction) {
  const int64_t rows = x_BSNK.size(1), R = table_SR.size(1);
  const int64_t S = positions == plan::Chunks() ? rows : table_SR.size(0);
  HEARTH_CHECK(R % 2 == 0 && R <= x_BSNK.size(3), "{} of {} elements rotate", R, x_BSNK.size(3));
  HEARTH_CHECK(positions.first >= 0 && (rows == 0 || positions.position(rows - 1) < table_SR.size(0)),
               "{} positions from {} on, but the table has {}", rows, positions.first, table_SR.size(0));
  const at::Tensor x_BSNR = R == x_BSNK.size(3) ? x_BSNK : x_BSNK.narrow(3, 0, R);
  if (on_gpu(x_BSNR)) return gpu::rope(x_BSNR, table_SR, halves, document_starts_N, S, positions, direction);
  const Positions position(document_starts_N, positions, rows, S);
  with_element_type(x_BSNR,
                    [&](auto zero) { rotate(heads<decltype(zero)>(x_BSNR), table_SR, halves, position, direction); });
}

}  // namespace

std::vector<double> rope_frequencies(const plan::Rope& rope, int64_t K, int64_t S) {
  using config::RopeType;
  const RopeType type = rope.scaling_factor == 1 ? RopeType::kDefault : rope.type;
  const int64_t R = rope.rotary_width(K);
  const std::vector<double>& factors = rope.is_long(S) ? rope.long_factor : rope.short_factor;
  HEARTH_CHECK(type != RopeType::kLongRope || 2 * std::ssize(factors) == R, "{} factors for {} elements",
               factors.size(), R);
  const YarnRange range = type == RopeType::kYarn ? yarn_range(rope, R) : YarnRange{};
  std::vector<double> frequencies;
  for (int64_t pair = 0; pair < R / 2; ++pair) {
    double w = std::pow(rope.theta, -static_cast<double>(2 * pair) / static_cast<double>(R));
    if (type == RopeType::kLlama3) w = llama3_frequency(rope, w);
    if (type == RopeType::kLinear) w /= rope.scaling_factor;
    if (type == RopeType::kLongRope) w /= factors[static_cast<size_t>(pair)];
    if (type == RopeType::kYarn) {
      const double stretched =
          std::clamp((static_cast<double>(pair) - range.first) / (range.last - range.first), 0.0, 1.0);
      w *= stretched / rope.scaling_factor + (1 - stretched);
    }
    frequencies.push_back(w);
  }
  return frequencies;
}

RopeTables rope_tables(int64_t S, int64_t length, int64_t K, const plan::Rope& rope, DType dtype, at::Device device) {
  const std::vector<double> frequencies = rope_frequencies(rope, K, length);
  const auto table = [&](const auto& scale) { return filled_table(S, frequencies, rope.halves, dtype, device, scale); };
  const at::Tensor heads_SR = table([&](int64_t /*position*/) { return rope.attention_factor; });
  if (!rope.scales_queries()) return {heads_SR, heads_SR};
  return {heads_SR, table([&](int64_t position) {
            const auto windows = static_cast<double>(position / rope.original_seq_len);
            return rope.attention_factor * (1 + rope.query_position_scale * std::log1p(windows));
          })};
}

void rope_forward(const at::Tensor& x_BSNK, const at::Tensor& table_SR, bool halves,
                  const at::Tensor& document_starts_N, const plan::Chunks& positions) {
  const trace::SpanScope span(trace::SpanKind::kOp, "rope_forward");
  rotate(x_BSNK, table_SR, halves, document_starts_N, positions, 1);
}

void rope_backward(const at::Tensor& dx_BSNK, const at::Tensor& table_SR, bool halves,
                   const at::Tensor& document_starts_N, const plan::Chunks& positions) {
  const trace::SpanScope span(trace::SpanKind::kOp, "rope_backward");
  rotate(dx_BSNK, table_SR, halves, document_starts_N, positions, -1);
}

}  // namespace hearth::ops
#endif
