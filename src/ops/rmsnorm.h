// RMSNorm, y = x * rstd * w with rstd = 1 / sqrt(mean(x^2) + eps) per row. Source: arXiv 1910.07467.
//
// x, y [T, D]; rstd [T], saved for the backward; weight [D].
#pragma once

#include <ATen/core/Tensor.h>

namespace hearth::ops {

// y may be x.
void rmsnorm_forward(const at::Tensor& y_TD, const at::Tensor& rstd_T, const at::Tensor& x_TD,
                     const at::Tensor& weight_D, double eps);

// h = x + r, y = norm(h). h may be x or r.
void add_rmsnorm_forward(const at::Tensor& h_TD, const at::Tensor& y_TD, const at::Tensor& rstd_T,
                         const at::Tensor& x_TD, const at::Tensor& r_TD, const at::Tensor& weight_D, double eps);

// dx = (or += if accumulate) the gradient of x; dweight += that of the weight. dx may be dy when not accumulating.
// With accumulate, dx holds the gradient that came along the residual stream.
void rmsnorm_backward(const at::Tensor& dx_TD, const at::Tensor& dweight_D, const at::Tensor& dy_TD,
                      const at::Tensor& x_TD, const at::Tensor& rstd_T, const at::Tensor& weight_D, bool accumulate);

}  // namespace hearth::ops
