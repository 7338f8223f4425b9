#include "ops/matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

namespace hearth::ops {
namespace {

// An out= call takes its result by non-const reference; the view itself is not changed.
at::Tensor& result(const at::Tensor& view) { return const_cast<at::Tensor&>(view); }

}  // namespace

void matmul(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_NK) {
  at::mm_out(result(out_MN), a_MK, b_NK.t());
}

void matmul_input_gradient(const at::Tensor& dx_MK, const at::Tensor& dy_MN, const at::Tensor& w_NK, bool accumulate) {
  if (accumulate) {
    at::addmm_out(result(dx_MK), dx_MK, dy_MN, w_NK);
  } else {
    at::mm_out(result(dx_MK), dy_MN, w_NK);
  }
}

void matmul_weight_gradient(const at::Tensor& dw_NK, const at::Tensor& dy_MN, const at::Tensor& x_MK) {
  at::addmm_out(result(dw_NK), dw_NK, dy_MN.t(), x_MK);
}

}  // namespace hearth::ops
