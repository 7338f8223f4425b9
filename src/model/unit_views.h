// A unit's flat buffer as matrices, or their parts that this rank has. These are views without copies, for weights and
// for gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include "plan/parameters.h"

namespace hearth::model {

struct BlockViews {
  at::Tensor attention_norm_D;    // both norms: undefined if they have no parameters
  at::Tensor wqkv_ND;             // [(H+2G)*K, D]: the rows of wq, then wk, then wv
  at::Tensor bqkv_N;              // their biases, in the same order; undefined without them
  at::Tensor q_norm_K, k_norm_K;  // undefined without a norm of heads
  at::Tensor wo_DN;               // [D, H*K]
  at::Tensor ffn_norm_D;
  at::Tensor w13_FD;  // [2*F, D]: w1 and w3
  at::Tensor w2_DF;   // [D, F]
};

// `flat` is unit 1 + layer, [numel].
BlockViews block_views(const at::Tensor& flat, const plan::ParameterPlan& plan, int64_t layer);

// The weight of the norm before the output matrix, [D], from the last unit; undefined if it has no weight.
at::Tensor final_norm_view(const at::Tensor& flat, const plan::ParameterPlan& plan);

// Any one parameter of a unit: this rank's part.
at::Tensor parameter_view(const at::Tensor& flat, const plan::Parameter& parameter);

}  // namespace hearth::model
