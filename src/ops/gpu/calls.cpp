// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/calls.h"

#include <ATen/ops/sort.h>

#include "base/error.h"
#include "ops/gpu/access.h"
#include "ops/tensor.h"

namespace hearth::ops::gpu {

namespace {

struct Statistics {
  float *size, *mean;
};

Statistics statistics(const plan::Norm& norm, const at::Tensor& statistics_NT, int64_t T) {
  const bool centred = plan::is_centred(norm.type);
  HEARTH_CHECK(statistics_NT.is_contiguous() && statistics_NT.numel() == (centred ? 2 : 1) * T);
  auto* size = statistics_NT.mutable_data_ptr<float>();
  return {size, centred ? size + T : nullptr};
}

// The rows of [T, D] or [T, N, D], as ops/norm.h has them.
int64_t heads_of(const at::Tensor& x_TD) { return x_TD.dim() == 2 ? 1 : x_TD.size(1); }

kernels::Rows mutable_norm_rows(const at::Tensor& x_TD, kernels::Type type) {
  if (!x_TD.defined() || x_TD.dim() == 2) return mutable_rows(x_TD, type);
  const auto [data, rows, cols, stride] = mutable_rows(x_TD.select(1, 0), type);
  HEARTH_CHECK(x_TD.stride(1) == cols, "heads are not next to each other");
  return {data, rows * x_TD.size(1), cols, stride};
}
kernels::ConstRows norm_rows(const at::Tensor& x_TD, kernels::Type type) {
  const auto [data, rows, cols, stride] = mutable_norm_rows(x_TD, type);
  return {data, rows, cols, stride};
}

}  // namespace

void embedding_forward(const at::Tensor& x_TD, const at::Tensor& weight_VD, const at::Tensor& tokens_T, int64_t first) {
  const auto type = type_of(x_TD);
  HEARTH_CHECK(tokens_T.numel() == x_TD.size(0));
  check_gpu(gpu_kernels().embedding_forward(gpu_stream(), type, mutable_rows(x_TD, type), rows(weight_VD, type),
                                            pointer<const int32_t>(tokens_T), first),
            "embedding_forward");
}

void embedding_backward(const at::Tensor& dweight_VD, const at::Tensor& dx_TD, const at::Tensor& tokens_T,
                        int64_t first) {
  const auto type = type_of(dx_TD);
  HEARTH_CHECK(tokens_T.numel() == dx_TD.size(0));
  const at::Tensor order_T = std::get<1>(at::sort(tokens_T, /*stable=*/true, /*dim=*/0, /*descending=*/false));
  check_gpu(gpu_kernels().embedding_backward(gpu_stream(), type, mutable_rows(dweight_VD, kernels::Type::kFloat32),
                                             rows(dx_TD, type), pointer<const int32_t>(tokens_T),
                                             pointer<const int64_t>(order_T), first),
            "embedding_backward");
}

void norm_forward(const plan::Norm& norm, const at::Tensor& h_TD, const at::Tensor& y_TD,
                  const at::Tensor& statistics_NT, const at::Tensor& x_TD, const at::Tensor& r_TD,
                  const at::Tensor& weight_D) {
  const auto type = type_of(x_TD);
  const kernels::ConstRows x = norm_rows(x_TD, type);
  const Statistics s = statistics(norm, statistics_NT, x.rows);
  check_gpu(gpu_kernels().norm_forward(gpu_stream(), type, kind_of(norm), norm.eps, mutable_norm_rows(h_TD, type),
                                       mutable_norm_rows(y_TD, type), s.size, s.mean, x, norm_rows(r_TD, type),
                                       heads_of(x_TD), weight_D.defined() ? weight_D.const_data_ptr() : nullptr),
            "norm_forward");
}

void norm_backward(const plan::Norm& norm, const at::Tensor& dx_TD, const at::Tensor& dweight_D,
                   const at::Tensor& dy_TD, const at::Tensor& x_TD, const at::Tensor& statistics_NT,
                   const at::Tensor& weight_D, bool accumulate) {
  const auto type = type_of(x_TD);
  const kernels::ConstRows x = norm_rows(x_TD, type);
  const Statistics s = statistics(norm, statistics_NT, x.rows);
  const at::Tensor partial = scratch<float>(gpu_kernels().norm_backward_scratch(x.rows, x.cols), x_TD);
  check_gpu(gpu_kernels().norm_backward(gpu_stream(), type, kind_of(norm), norm.eps, mutable_norm_rows(dx_TD, type),
                                        weight_D.defined() ? pointer<float>(dweight_D) : nullptr,
                                        norm_rows(dy_TD, type), x, heads_of(x_TD), s.size, s.mean,
                                        weight_D.defined() ? weight_D.const_data_ptr() : nullptr, accumulate,
                                        pointer<float>(partial)),
            "norm_backward");
}

void add_bias(const at::Tensor& y_TN, const at::Tensor& bias_N) {
  const auto type = type_of(y_TN);
  HEARTH_CHECK(bias_N.is_contiguous() && bias_N.numel() == y_TN.size(1) && type_of(bias_N) == type);
  check_gpu(gpu_kernels().add_bias(gpu_stream(), type, mutable_rows(y_TN, type), bias_N.const_data_ptr()), "add_bias");
}

void bias_gradient(const at::Tensor& dbias_N, const at::Tensor& dy_TN) {
  const auto type = type_of(dy_TN);
  HEARTH_CHECK(dbias_N.is_contiguous() && dbias_N.numel() == dy_TN.size(1));
  const at::Tensor partial = scratch<float>(gpu_kernels().add_rows_scratch(dy_TN.size(0), dy_TN.size(1)), dy_TN);
  check_gpu(
      gpu_kernels().add_rows(gpu_stream(), type, pointer<float>(dbias_N), rows(dy_TN, type), pointer<float>(partial)),
      "add_rows");
}

void rope(const at::Tensor& x_BSNK, const at::Tensor& table_SK, bool halves, const at::Tensor& document_starts_N,
          int64_t S, const plan::Chunks& positions, double direction) {
  const auto type = type_of(x_BSNK);
  const int64_t N = document_starts_N.defined() ? document_starts_N.numel() : 0;
  check_gpu(
      gpu_kernels().rope(gpu_stream(), type, heads(x_BSNK, type), places(positions, S), pointer<const float>(table_SK),
                         halves, pointer<const int32_t>(document_starts_N), N, static_cast<float>(direction)),
      "rope");
}

static_assert(static_cast<int>(plan::Activation::kSilu) == static_cast<int>(kernels::ActivationKind::kSilu) &&
              static_cast<int>(plan::Activation::kGelu) == static_cast<int>(kernels::ActivationKind::kGelu) &&
              static_cast<int>(plan::Activation::kGeluTanh) == static_cast<int>(kernels::ActivationKind::kGeluTanh) &&
              static_cast<int>(plan::Activation::kRelu2) == static_cast<int>(kernels::ActivationKind::kRelu2) &&
              static_cast<int>(plan::Activation::kClampedSwiglu) ==
                  static_cast<int>(kernels::ActivationKind::kClampedSwiglu));

void activation_forward(plan::Activation function, const at::Tensor& a_TF, const at::Tensor& x_TN) {
  const auto type = type_of(a_TF);
  check_gpu(gpu_kernels().activation_forward(gpu_stream(), type, static_cast<kernels::ActivationKind>(function),
                                             mutable_rows(a_TF, type), rows(x_TN, type)),
            "activation_forward");
}

void activation_backward(plan::Activation function, const at::Tensor& dx_TN, const at::Tensor& da_TF,
                         const at::Tensor& x_TN, const at::Tensor& a_TF) {
  const auto type = type_of(da_TF);
  check_gpu(gpu_kernels().activation_backward(gpu_stream(), type, static_cast<kernels::ActivationKind>(function),
                                              mutable_rows(dx_TN, type), rows(da_TF, type), rows(x_TN, type),
                                              mutable_rows(a_TF, type)),
            "activation_backward");
}

void cross_entropy(const at::Tensor& sums_2, const at::Tensor& logits_CV, const at::Tensor& labels_C,
                   const at::Tensor& weights_C, const at::Tensor& scale_1, double z_factor) {
  const auto type = type_of(logits_CV);
  HEARTH_CHECK(labels_C.numel() == logits_CV.size(0) && sums_2.numel() == 2);
  const at::Tensor of_rows = scratch<double>(2 * logits_CV.size(0), logits_CV);
  check_gpu(
      gpu_kernels().cross_entropy(gpu_stream(), type, mutable_rows(logits_CV, type), pointer<const int32_t>(labels_C),
                                  pointer<const float>(weights_C), pointer<const double>(scale_1), z_factor,
                                  pointer<double>(of_rows), pointer<double>(sums_2)),
      "cross_entropy");
}

void cross_entropy_statistics(const at::Tensor& statistics_C2, const at::Tensor& logits_CV, const at::Tensor& labels_C,
                              int64_t first) {
  const auto type = type_of(logits_CV);
  HEARTH_CHECK(labels_C.numel() == logits_CV.size(0) && statistics_C2.numel() == 2 * labels_C.numel());
  check_gpu(
      gpu_kernels().cross_entropy_statistics(gpu_stream(), type, mutable_rows(logits_CV, type),
                                             pointer<const int32_t>(labels_C), first, pointer<double>(statistics_C2)),
      "cross_entropy_statistics");
}

void vocabulary_parallel_cross_entropy(const at::Tensor& sums_2, const at::Tensor& logits_CV,
                                       const at::Tensor& labels_C, const at::Tensor& statistics_RC2, int64_t first,
                                       const at::Tensor& weights_C, const at::Tensor& scale_1, double z_factor) {
  const auto type = type_of(logits_CV);
  const at::Tensor of_rows = scratch<double>(2 * logits_CV.size(0), logits_CV);
  check_gpu(gpu_kernels().vocabulary_parallel_cross_entropy(
                gpu_stream(), type, mutable_rows(logits_CV, type), pointer<const int32_t>(labels_C),
                pointer<const double>(statistics_RC2), statistics_RC2.size(0), first, pointer<const float>(weights_C),
                pointer<const double>(scale_1), z_factor, pointer<double>(of_rows), pointer<double>(sums_2)),
            "vocabulary_parallel_cross_entropy");
}

void add_sum_of_squares(const at::Tensor& sum_1, const at::Tensor& x) {
  HEARTH_CHECK(x.is_contiguous());
  const at::Tensor partial = scratch<double>(gpu_kernels().sum_of_squares_scratch(x.numel()), x);
  check_gpu(gpu_kernels().sum_of_squares(gpu_stream(), type_of(x), x.const_data_ptr(), x.numel(),
                                         pointer<double>(partial), pointer<double>(sum_1)),
            "sum_of_squares");
}

void adamw(const at::Tensor& parameter_N, const at::Tensor& gradient_N, const at::Tensor& exp_avg_N,
           const at::Tensor& exp_avg_sq_N, const AdamWStep& step, const at::Tensor& decision,
           const std::optional<StochasticRounding>& rounding, const at::Tensor& copy_N) {
  kernels::AdamWUpdate k{.lr = step.lr,
                         .beta1 = step.beta1,
                         .beta2 = step.beta2,
                         .eps = step.eps,
                         .decay = step.decay,
                         .l2 = step.l2,
                         .updates_before = step.updates_before,
                         .transformers_form = step.form == AdamForm::kTransformers,
                         .parameter = type_of(parameter_N),
                         .moments = type_of(exp_avg_N),
                         .stochastic = rounding.has_value(),
                         .key = {},
                         .first = 0};
  if (rounding) {
    k.key[0] = rounding->key.word[0];
    k.key[1] = rounding->key.word[1];
    k.first = rounding->first;
  }
  HEARTH_CHECK(parameter_N.is_contiguous() && exp_avg_N.is_contiguous() && exp_avg_sq_N.is_contiguous());
  HEARTH_CHECK(!copy_N.defined() || (copy_N.is_contiguous() && copy_N.numel() == parameter_N.numel()));
  check_gpu(gpu_kernels().adamw(gpu_stream(), k, static_cast<const kernels::Decision*>(decision.const_data_ptr()),
                                parameter_N.mutable_data_ptr(), pointer<const float>(gradient_N),
                                exp_avg_N.mutable_data_ptr(), exp_avg_sq_N.mutable_data_ptr(),
                                copy_N.defined() ? copy_N.mutable_data_ptr() : nullptr, parameter_N.numel()),
            "adamw");
}

}  // namespace hearth::ops::gpu
