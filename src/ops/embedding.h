// SPDX-License-Identifier: Apache-2.0
// Token embedding: rows of the table. x [T, D], weight [V, D], tokens [T] int32 in the vocabulary (checked, except on a
// GPU).
//
// Where ranks share the vocabulary, `part` says which ids the table's rows are. Other ids are other ranks': their rows
// of x are zero, and their gradients are not added. So the sum of x over the ranks is the embedding.
#pragma once

#include <ATen/core/Tensor.h>

#include "plan/parameters.h"

namespace hearth::ops {

// x[t] = weight[tokens[t] - part.first]
void embedding_forward(const at::Tensor& x_TD, const at::Tensor& weight_VD, const at::Tensor& tokens_T,
                       plan::VocabularyPart part = {});

// dweight[tokens[t] - part.first] += dx[t], in the order of t. dweight is float32 if dx is bfloat16.
void embedding_backward(const at::Tensor& dweight_VD, const at::Tensor& dx_TD, const at::Tensor& tokens_T,
                        plan::VocabularyPart part = {});

}  // namespace hearth::ops
