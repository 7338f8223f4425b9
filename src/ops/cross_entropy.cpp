// SPDX-License-Identifier: Apache-2.0
#include "ops/cross_entropy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cross_entropy.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/contrib/math/math-inl.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "ops/access.h"
#include "ops/cpu/simd-inl.h"
#include "ops/gpu/calls.h"
#include "ops/gpu/gpu.h"
#include "ops/reference.h"
#include "ops/tensor.h"
#include "trace/spans.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// log(sum(exp(logits))) of a row, z; NaN if a logit is NaN or +infinity. With `gradient`, the row becomes
// factor * ((1 + 2 z_factor z) softmax - onehot(label)).
template <class T>
HWY_INLINE double softmax_row(T* logits, int64_t V, int64_t label, double factor, double z_factor, bool gradient) {
  const F32 d;
  constexpr bool kKeepsExp = std::is_same_v<T, float>;  // bfloat16 would round values that are scaled later
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  V32 largest = hn::Set(d, -kInfinity), poison = hn::Zero(d);
  for_lanes(d, V, [&](int64_t v, int64_t count) HWY_ATTR {
    const V32 x = load(d, logits + v, count, -kInfinity);
    largest = hn::Max(largest, x);
    poison = hn::IfThenElse(hn::IsNaN(x), x, poison);  // Max and Exp both lose NaN
  });
  const float row_max = hn::GetLane(hn::MaxOfLanes(d, largest));
  const float nan = sum(d, poison);
  if (std::isnan(nan) || !std::isfinite(row_max)) {
    if (gradient) std::fill_n(logits, V, static_cast<T>(std::numeric_limits<float>::quiet_NaN()));
    return std::numeric_limits<double>::quiet_NaN();
  }

  const V32 shift = hn::Set(d, row_max);
  const float at_label = static_cast<float>(logits[label]);
  double total = 0;
  constexpr int64_t kBlock = 2048;  // short float sums, added in double
  for (int64_t begin = 0; begin < V; begin += kBlock) {
    V32 partial = hn::Zero(d);
    for_lanes(d, std::min(kBlock, V - begin), [&](int64_t i, int64_t count) HWY_ATTR {
      const V32 e = hn::Exp(d, hn::Sub(load(d, logits + begin + i, count, -kInfinity), shift));
      partial = hn::Add(partial, e);
      if (kKeepsExp && gradient) store(e, d, logits + begin + i, count);
    });
    total += static_cast<double>(sum(d, partial));
  }
  const double z = static_cast<double>(row_max) + std::log(total);
  if (gradient) {
    const V32 scale = hn::Set(d, static_cast<float>(factor * (1 + 2 * z_factor * z) / total));
    for_lanes(d, V, [&](int64_t v, int64_t count) HWY_ATTR {
      const V32 x = load(d, logits + v, count);
      store(hn::Mul(kKeepsExp ? x : hn::Exp(d, hn::Sub(x, shift)), scale), d, logits + v, count);
    });
    if (kKeepsExp) {
      logits[label] = static_cast<T>(static_cast<float>(logits[label]) - static_cast<float>(factor));
    } else {
      const double p = std::exp(static_cast<double>(at_label) - static_cast<double>(row_max)) / total;
      logits[label] = static_cast<T>(static_cast<float>(factor * ((1 + 2 * z_factor * z) * p - 1)));
    }
  }
  return z;
}

double softmax_f32(float* logits, int64_t V, int64_t label, double factor, double z_factor, bool gradient) {
  return softmax_row(logits, V, label, factor, z_factor, gradient);
}
double softmax_bf16(c10::BFloat16* logits, int64_t V, int64_t label, double factor, double z_factor, bool gradient) {
  return softmax_row(logits, V, label, factor, z_factor, gradient);
}

// A row of a part of the vocabulary becomes factor * ((1 + 2 z_factor z) exp(logits - z) - onehot(label)); `label` is
// -1 if it is in another part.
template <class T>
HWY_INLINE void gradient_row(T* logits, int64_t V, int64_t label, double z, double factor, double z_factor) {
  const F32 d;
  const float rounded_z = static_cast<float>(z);
  const double growth = 1 + 2 * z_factor * z;
  const double at_label = label < 0 ? 0 : static_cast<double>(logits[label]);
  const V32 shift = hn::Set(d, rounded_z);
  const V32 scale = hn::Set(d, static_cast<float>(factor * growth * std::exp(static_cast<double>(rounded_z) - z)));
  for_lanes(d, V, [&](int64_t v, int64_t count) HWY_ATTR {
    store(hn::Mul(hn::Exp(d, hn::Sub(load(d, logits + v, count), shift)), scale), d, logits + v, count);
  });
  if (label >= 0) logits[label] = static_cast<T>(static_cast<float>(factor * (growth * std::exp(at_label - z) - 1)));
}

void gradient_f32(float* logits, int64_t V, int64_t label, double z, double factor, double z_factor) {
  gradient_row(logits, V, label, z, factor, z_factor);
}
void gradient_bf16(c10::BFloat16* logits, int64_t V, int64_t label, double z, double factor, double z_factor) {
  gradient_row(logits, V, label, z, factor, z_factor);
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(softmax_f32);
HWY_EXPORT(softmax_bf16);
HWY_EXPORT(gradient_f32);
HWY_EXPORT(gradient_bf16);

namespace {

const int32_t* read_labels(const at::Tensor& labels_C, int64_t C, int64_t V) {
  const int32_t* labels = flat<const int32_t>(labels_C, C);
  for (int64_t c = 0; c < C; ++c)
    HEARTH_CHECK(labels[c] == kIgnore || (labels[c] >= 0 && labels[c] < V), "label {} of {}", labels[c], V);
  return labels;
}

auto kernel_for(float) { return HWY_DYNAMIC_DISPATCH(softmax_f32); }
auto kernel_for(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(softmax_bf16); }

// z of a row; with `gradient`, overwrites it with factor * ((1 + 2 z_factor z) softmax - onehot).
template <class T>
double row_z(T* logits, int64_t V, int64_t label, double factor, double z_factor, bool gradient) {
  return kernel_for(T())(logits, V, label, factor, z_factor, gradient);
}

double row_z(double* logits, int64_t V, int64_t label, double factor, double z_factor, bool gradient) {
  return reference::cross_entropy_row(logits, V, label, factor, z_factor, gradient);
}

void part_gradient(float* logits, int64_t V, int64_t label, double z, double factor, double z_factor) {
  HWY_DYNAMIC_DISPATCH(gradient_f32)(logits, V, label, z, factor, z_factor);
}
void part_gradient(c10::BFloat16* logits, int64_t V, int64_t label, double z, double factor, double z_factor) {
  HWY_DYNAMIC_DISPATCH(gradient_bf16)(logits, V, label, z, factor, z_factor);
}
void part_gradient(double* logits, int64_t V, int64_t label, double z, double factor, double z_factor) {
  for (int64_t v = 0; v < V; ++v)
    logits[v] = factor * ((1 + 2 * z_factor * z) * std::exp(logits[v] - z) - (v == label ? 1 : 0));
}

void add_sums(const at::Tensor& sums_2, const std::vector<CrossEntropy>& rows) {
  CrossEntropy total;
  for (const CrossEntropy& row : rows) {
    total.loss += row.loss;
    total.z_squares += row.z_squares;
  }
  double* sums = flat<double>(sums_2, 2);
  sums[0] += total.loss;
  sums[1] += total.z_squares;
}

// The label's column in a part of V ids; -1 if it is in another part.
int64_t column_in(plan::VocabularyPart part, int64_t V, int64_t label) {
  const int64_t column = label - part.first;
  return column >= 0 && column < V ? column : -1;
}

template <class T>
void run_statistics(const at::Tensor& statistics_C2, const at::Tensor& logits_CV, const at::Tensor& labels_C,
                    plan::VocabularyPart part) {
  const int64_t C = logits_CV.size(0), V = logits_CV.size(1);
  const auto logits = matrix<T>(logits_CV, C, V);
  const int32_t* labels = read_labels(labels_C, C, part.total);
  double* statistics = flat<double>(statistics_C2, 2 * C);
  parallel(C, 4 * V, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      double &z = statistics[2 * c], &at_label = statistics[2 * c + 1];
      z = at_label = 0;
      if (labels[c] == kIgnore) continue;
      z = row_z(logits.row(c), V, /*label=*/0, 0, 0, /*gradient=*/false);
      const int64_t column = column_in(part, V, labels[c]);
      if (column >= 0) at_label = static_cast<double>(logits.row(c)[column]);
    }
  });
}

// log(sum exp) of the ranks' own.
double whole_z(const double* statistics, int64_t R, int64_t C, int64_t c) {
  double largest = -std::numeric_limits<double>::infinity(), total = 0;
  for (int64_t r = 0; r < R; ++r) largest = std::max(largest, statistics[2 * (r * C + c)]);
  for (int64_t r = 0; r < R; ++r) total += std::exp(statistics[2 * (r * C + c)] - largest);
  return largest + std::log(total);
}

// Calls row(c, logits, factor, gradient) for each row that counts. It returns the row's z and the label's logit, and
// with `gradient` overwrites the logits with factor times their gradient. Adds the rows' sums to sums_2.
template <class T, class Row>
void for_counted_rows(const at::Tensor& sums_2, const at::Tensor& logits_CV, const int32_t* labels,
                      const at::Tensor& scale_1, const at::Tensor& weights_C, const Row& row) {
  const int64_t C = logits_CV.size(0), V = logits_CV.size(1);
  const auto logits = matrix<T>(logits_CV, C, V);
  const float* weights = weights_C.defined() ? flat<const float>(weights_C, C) : nullptr;
  const bool gradient = scale_1.defined();
  const double scale = gradient ? *flat<const double>(scale_1, 1) : 1;
  std::vector<CrossEntropy> rows(static_cast<size_t>(C));
  parallel(C, 4 * V, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      if (labels[c] == kIgnore) {
        if (gradient) std::fill_n(logits.row(c), V, T(0.0f));
        continue;
      }
      const double weight = weights == nullptr ? 1 : static_cast<double>(weights[c]);
      const auto [z, at_label] = row(c, logits.row(c), scale * weight, gradient);
      rows[static_cast<size_t>(c)] = {weight * (z - at_label), weight * z * z};
    }
  });
  add_sums(sums_2, rows);
}

// scale_1 undefined: forward only.
template <class T>
void run_part(const at::Tensor& sums_2, const at::Tensor& logits_CV, const at::Tensor& labels_C,
              const at::Tensor& statistics_RC2, plan::VocabularyPart part, const at::Tensor& scale_1,
              const at::Tensor& weights_C, double z_factor) {
  const int64_t C = logits_CV.size(0), V = logits_CV.size(1), R = statistics_RC2.size(0);
  const int32_t* labels = read_labels(labels_C, C, part.total);
  const double* statistics = flat<const double>(statistics_RC2, R * C * 2);
  const auto row = [&](int64_t c, T* logits, double factor, bool gradient) {
    const double z = whole_z(statistics, R, C, c);
    double at_label = 0;
    for (int64_t r = 0; r < R; ++r) at_label += statistics[2 * (r * C + c) + 1];
    if (gradient) part_gradient(logits, V, column_in(part, V, labels[c]), z, factor, z_factor);
    return std::pair(z, at_label);
  };
  for_counted_rows<T>(sums_2, logits_CV, labels, scale_1, weights_C, row);
}

template <class T>
void run(const at::Tensor& sums_2, const at::Tensor& logits_CV, const at::Tensor& labels_C, const at::Tensor& scale_1,
         const at::Tensor& weights_C, double z_factor) {
  const int64_t C = logits_CV.size(0), V = logits_CV.size(1);
  const int32_t* labels = read_labels(labels_C, C, V);
  const auto row = [&](int64_t c, T* logits, double factor, bool gradient) {
    const auto at_label = static_cast<double>(logits[labels[c]]);
    return std::pair(row_z(logits, V, labels[c], factor, z_factor, gradient), at_label);
  };
  for_counted_rows<T>(sums_2, logits_CV, labels, scale_1, weights_C, row);
}

}  // namespace

void cross_entropy_forward(const at::Tensor& sums_2, const at::Tensor& logits_CV, const at::Tensor& labels_C,
                           const at::Tensor& weights_C) {
  const trace::SpanScope span(trace::SpanKind::kOp, "cross_entropy_forward");
  if (on_gpu(logits_CV)) return gpu::cross_entropy(sums_2, logits_CV, labels_C, weights_C, {}, 0);
  with_element_type(logits_CV, [&](auto zero) { run<decltype(zero)>(sums_2, logits_CV, labels_C, {}, weights_C, 0); });
}

void cross_entropy_forward_backward(const at::Tensor& sums_2, const at::Tensor& logits_CV, const at::Tensor& labels_C,
                                    const at::Tensor& scale_1, const at::Tensor& weights_C, double z_factor) {
  const trace::SpanScope span(trace::SpanKind::kOp, "cross_entropy_forward_backward");
  HEARTH_CHECK(scale_1.defined());
  if (on_gpu(logits_CV)) return gpu::cross_entropy(sums_2, logits_CV, labels_C, weights_C, scale_1, z_factor);
  with_element_type(logits_CV,
                    [&](auto zero) { run<decltype(zero)>(sums_2, logits_CV, labels_C, scale_1, weights_C, z_factor); });
}

void cross_entropy_statistics(const at::Tensor& statistics_C2, const at::Tensor& logits_CV, const at::Tensor& labels_C,
                              plan::VocabularyPart part) {
  const trace::SpanScope span(trace::SpanKind::kOp, "cross_entropy_statistics");
  if (on_gpu(logits_CV)) return gpu::cross_entropy_statistics(statistics_C2, logits_CV, labels_C, part.first);
  with_element_type(logits_CV,
                    [&](auto zero) { run_statistics<decltype(zero)>(statistics_C2, logits_CV, labels_C, part); });
}

void vocabulary_parallel_cross_entropy(const at::Tensor& sums_2, const at::Tensor& logits_CV,
                                       const at::Tensor& labels_C, const at::Tensor& statistics_RC2,
                                       plan::VocabularyPart part, const at::Tensor& scale_1,
                                       const at::Tensor& weights_C, double z_factor) {
  const trace::SpanScope span(trace::SpanKind::kOp, "vocabulary_parallel_cross_entropy");
  if (on_gpu(logits_CV))
    return gpu::vocabulary_parallel_cross_entropy(sums_2, logits_CV, labels_C, statistics_RC2, part.first, weights_C,
                                                  scale_1, z_factor);
  with_element_type(logits_CV, [&](auto zero) {
    run_part<decltype(zero)>(sums_2, logits_CV, labels_C, statistics_RC2, part, scale_1, weights_C, z_factor);
  });
}

CrossEntropy read_sums(const at::Tensor& sums_2) {
  const std::vector<double> sums = to_doubles(sums_2);
  return {sums[0], sums[1]};
}

}  // namespace hearth::ops
#endif
