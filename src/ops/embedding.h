// Token embedding: rows of the table. x [T, D], weight [V, D], tokens [T] int32 in 0 .. V-1 (checked, except on a GPU).
#pragma once

#include <ATen/core/Tensor.h>

namespace hearth::ops {

// x[t] = weight[tokens[t]]
void embedding_forward(const at::Tensor& x_TD, const at::Tensor& weight_VD, const at::Tensor& tokens_T);

// dweight[tokens[t]] += dx[t], in the order of t. dweight is float32 if dx is bfloat16.
void embedding_backward(const at::Tensor& dweight_VD, const at::Tensor& dx_TD, const at::Tensor& tokens_T);

}  // namespace hearth::ops
