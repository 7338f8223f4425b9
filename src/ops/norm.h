// SPDX-License-Identifier: Apache-2.0
// The norms of rows of D elements, y = w n. m is the mean of a row, r the inverse of its size:
//
//   rmsnorm       n = x r         r = 1 / sqrt(mean(x^2) + eps)          arXiv 1910.07467
//   layernorm     n = (x - m) r   r = 1 / sqrt(mean((x - m)^2) + eps)    arXiv 1607.06450, without a bias
//   np_layernorm  the same with w = 1: no parameters                     OLMo, arXiv 2402.00838
//   rmsnorm_neox  n = x r         r = 1 / (sqrt(mean(x^2)) + eps)        GPT-NeoX until May 2025
//   rmsnorm_1p    rmsnorm with w = 1 + weight                            Gemma, arXiv 2403.08295
//
// x, y [T, D]; weight [D], undefined for np_layernorm. Instead [T, N, D]: N rows that follow each other in each of T,
// as heads do. statistics [1 or 2, T] or [1 or 2, T*N] is for backward: r of each row
// (rmsnorm_neox: the root mean square, which gives r), and m of the layernorms. With bfloat16 rows, statistics and
// dweight are float32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "plan/parameters.h"

namespace hearth::ops {

// y may be x.
void norm_forward(const plan::Norm& norm, const at::Tensor& y_TD, const at::Tensor& statistics_NT,
                  const at::Tensor& x_TD, const at::Tensor& weight_D);

// h = x + r, y = norm(h). h may be x or r.
void add_norm_forward(const plan::Norm& norm, const at::Tensor& h_TD, const at::Tensor& y_TD,
                      const at::Tensor& statistics_NT, const at::Tensor& x_TD, const at::Tensor& r_TD,
                      const at::Tensor& weight_D);

// dx = (or += if accumulate) the gradient of x; dweight += the weight's. dx may be dy without accumulate. With
// accumulate, dx holds the gradient of the residual stream.
void norm_backward(const plan::Norm& norm, const at::Tensor& dx_TD, const at::Tensor& dweight_D,
                   const at::Tensor& dy_TD, const at::Tensor& x_TD, const at::Tensor& statistics_NT,
                   const at::Tensor& weight_D, bool accumulate);

// The RMSNorm of rows of which tensor-parallel ranks have parts (rmsnorm or rmsnorm_1p), y = w x r with r = 1 /
// sqrt(mean(x^2) + eps) over all parts: OLMo 2's norms of queries and keys (arXiv 2501.00656). Each pass is in two
// calls, and in between the ranks add up one number a row:
//
//   forward    norm_part_squares, the sum over ranks, norm_part_forward
//   backward   norm_part_dots, the sum over ranks, norm_part_backward
//
// x, y, dy, dx [T, D]: rows of this rank's part, which may be apart. weight [D]. statistics, dots [T], float32 with
// bfloat16 rows. `width`: elements of a whole row.

// statistics = the sum of x^2 over the part.
void norm_part_squares(const at::Tensor& statistics_T, const at::Tensor& x_TD);
// statistics: the sums over all parts become r. y may be x.
void norm_part_forward(const plan::Norm& norm, int64_t width, const at::Tensor& y_TD, const at::Tensor& statistics_T,
                       const at::Tensor& x_TD, const at::Tensor& weight_D);

// dots = the sum of w dy x r over the part.
void norm_part_dots(const plan::Norm& norm, const at::Tensor& dots_T, const at::Tensor& dy_TD, const at::Tensor& x_TD,
                    const at::Tensor& statistics_T, const at::Tensor& weight_D);
// dx = r (w dy - x r dots / width), with the dots of all parts; dweight += the weight's gradient. dx may be dy.
void norm_part_backward(const plan::Norm& norm, int64_t width, const at::Tensor& dx_TD, const at::Tensor& dweight_D,
                        const at::Tensor& dy_TD, const at::Tensor& x_TD, const at::Tensor& statistics_T,
                        const at::Tensor& dots_T, const at::Tensor& weight_D);

}  // namespace hearth::ops
