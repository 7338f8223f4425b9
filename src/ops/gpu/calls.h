// SPDX-License-Identifier: Apache-2.0
// The operations of this folder on a GPU, by our kernels. The function of the same name calls them for GPU tensors.
// Shapes and meanings are in the operation's own header. Only for the .cpp files of ops/.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "ops/adamw.h"
#include "ops/attention.h"
#include "plan/context_parallel.h"
#include "plan/parameters.h"

namespace hearth::ops::gpu {

// `first`: the id of the table's first row; ids outside the table are other ranks'.
void embedding_forward(const at::Tensor& x_TD, const at::Tensor& weight_VD, const at::Tensor& tokens_T, int64_t first);
void embedding_backward(const at::Tensor& dweight_VD, const at::Tensor& dx_TD, const at::Tensor& tokens_T,
                        int64_t first);

// r and h undefined: nothing is added.
void norm_forward(const plan::Norm& norm, const at::Tensor& h_TD, const at::Tensor& y_TD,
                  const at::Tensor& statistics_NT, const at::Tensor& x_TD, const at::Tensor& r_TD,
                  const at::Tensor& weight_D);
void norm_backward(const plan::Norm& norm, const at::Tensor& dx_TD, const at::Tensor& dweight_D,
                   const at::Tensor& dy_TD, const at::Tensor& x_TD, const at::Tensor& statistics_NT,
                   const at::Tensor& weight_D, bool accumulate);

void add_bias(const at::Tensor& y_TN, const at::Tensor& bias_N);
void bias_gradient(const at::Tensor& dbias_N, const at::Tensor& dy_TN);

void rope(const at::Tensor& x_BSNK, const at::Tensor& table_SK, bool halves, const at::Tensor& document_starts_N,
          int64_t S, const plan::Chunks& positions, double direction);

void activation_forward(plan::Activation function, const at::Tensor& a_TF, const at::Tensor& x_TN);
void activation_backward(plan::Activation function, const at::Tensor& dx_TN, const at::Tensor& da_TF,
                         const at::Tensor& x_TN, const at::Tensor& a_TF);

// scale_1 undefined: the logits are only read.
void cross_entropy(const at::Tensor& sums_2, const at::Tensor& logits_CV, const at::Tensor& labels_C,
                   const at::Tensor& weights_C, const at::Tensor& scale_1, double z_factor);
void cross_entropy_statistics(const at::Tensor& statistics_C2, const at::Tensor& logits_CV, const at::Tensor& labels_C,
                              int64_t first);
void vocabulary_parallel_cross_entropy(const at::Tensor& sums_2, const at::Tensor& logits_CV,
                                       const at::Tensor& labels_C, const at::Tensor& statistics_RC2, int64_t first,
                                       const at::Tensor& weights_C, const at::Tensor& scale_1, double z_factor);

void add_sum_of_squares(const at::Tensor& sum_1, const at::Tensor& x);

void adamw(const at::Tensor& parameter_N, const at::Tensor& gradient_N, const at::Tensor& exp_avg_N,
           const at::Tensor& exp_avg_sq_N, const AdamWStep& step, const at::Tensor& decision,
           const std::optional<StochasticRounding>& rounding, const at::Tensor& copy_N);

void attention_forward(const at::Tensor& out_BSHK, const at::Tensor& lse_BHS, const at::Tensor& q_BSHK,
                       const at::Tensor& k_BSGK, const at::Tensor& v_BSGK, const AttentionMask& mask, double scale);
void attention_backward(const at::Tensor& dq_BSHK, const at::Tensor& dk_BSGK, const at::Tensor& dv_BSGK,
                        const at::Tensor& dout_BSHK, const at::Tensor& out_BSHK, const at::Tensor& lse_BHS,
                        const at::Tensor& q_BSHK, const at::Tensor& k_BSGK, const at::Tensor& v_BSGK,
                        const AttentionMask& mask, double scale);
void decode_attention(const at::Tensor& out_BNHK, const at::Tensor& q_BNHK, const at::Tensor& k_cache_BCGK,
                      const at::Tensor& v_cache_BCGK, int64_t length, int64_t reach, const at::Tensor& rows_B,
                      const at::Tensor& lengths_B, double scale, const at::Tensor& sinks_H);

}  // namespace hearth::ops::gpu
