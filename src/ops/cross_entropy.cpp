#include "ops/cross_entropy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cross_entropy.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/contrib/math/math-inl.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/access.h"
#include "ops/reference.h"
#include "ops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// log(sum(exp(logits))) of a row, z; NaN if a logit is NaN or +infinity. With `gradient`, the row becomes
// factor * ((1 + 2 z_factor z) softmax - onehot(label)).
template <class T>
HWY_INLINE double softmax_row(T* logits, int64_t V, int64_t label, double factor, double z_factor, bool gradient) {
  const F32 d;
  constexpr bool kKeepsExp = std::is_same_v<T, float>;  // a bfloat16 would round what is still to be scaled
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

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(softmax_f32);
HWY_EXPORT(softmax_bf16);

namespace {

std::vector<int64_t> read_labels(const at::Tensor& labels_C, int64_t C, int64_t V) {
  std::vector<int64_t> labels(static_cast<size_t>(C));
  if (labels_C.scalar_type() == at::kInt) {
    std::copy_n(flat<const int32_t>(labels_C, C), C, labels.begin());
  } else {
    std::copy_n(flat<const int64_t>(labels_C, C), C, labels.begin());
  }
  for (const int64_t label : labels)
    HEARTH_CHECK(label == kIgnore || (label >= 0 && label < V), "label {} of {}", label, V);
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

template <class T>
CrossEntropy run(const at::Tensor& logits_CV, const at::Tensor& labels_C, double scale, const at::Tensor& weights_C,
                 double z_factor, bool gradient) {
  const int64_t C = logits_CV.size(0), V = logits_CV.size(1);
  const auto logits = matrix<T>(logits_CV, C, V);
  const std::vector<int64_t> labels = read_labels(labels_C, C, V);
  const float* weights = weights_C.defined() ? flat<const float>(weights_C, C) : nullptr;
  std::vector<CrossEntropy> rows(labels.size());
  parallel(C, 4 * V, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const auto i = static_cast<size_t>(c);
      if (labels[i] == kIgnore) {
        if (gradient) std::fill_n(logits.row(c), V, T(0.0f));
        continue;
      }
      const double weight = weights == nullptr ? 1 : static_cast<double>(weights[c]);
      const auto at_label = static_cast<double>(logits.row(c)[labels[i]]);
      const double z = row_z(logits.row(c), V, labels[i], scale * weight, z_factor, gradient);
      rows[i] = {weight * (z - at_label), weight * z * z};
    }
  });
  CrossEntropy total;
  for (const CrossEntropy& row : rows) total += row;
  return total;
}

}  // namespace

CrossEntropy cross_entropy_forward(const at::Tensor& logits_CV, const at::Tensor& labels_C,
                                   const at::Tensor& weights_C) {
  return with_element_type(logits_CV,
                           [&](auto zero) { return run<decltype(zero)>(logits_CV, labels_C, 1, weights_C, 0, false); });
}

CrossEntropy cross_entropy_forward_backward(const at::Tensor& logits_CV, const at::Tensor& labels_C, double scale,
                                            const at::Tensor& weights_C, double z_factor) {
  return with_element_type(
      logits_CV, [&](auto zero) { return run<decltype(zero)>(logits_CV, labels_C, scale, weights_C, z_factor, true); });
}

}  // namespace hearth::ops
#endif
