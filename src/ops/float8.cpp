// SPDX-License-Identifier: Apache-2.0
#include "ops/float8.h"

#include <ATen/ops/empty.h>

#include "base/error.h"
#include "ops/gpu/gpu.h"

namespace hearth::ops {
namespace {

constexpr auto kType = kernels::Type::kBFloat16;

kernels::ConstRows rows_of(const at::Tensor& x) {
  HEARTH_CHECK(x.scalar_type() == at::kBFloat16 && x.stride(1) == 1);
  return {x.const_data_ptr(), x.size(0), x.size(1), x.stride(0)};
}

Float8Operand empty_operand(int64_t rows, int64_t depth, const at::Tensor& x) {
  return {at::empty({rows, depth}, x.options().dtype(at::kFloat8_e4m3fn)),
          at::empty({rows}, x.options().dtype(at::kFloat))};
}
uint8_t* bytes(const Float8Operand& operand) { return static_cast<uint8_t*>(operand.values.mutable_data_ptr()); }
float* scales(const Float8Operand& operand) { return operand.scale.mutable_data_ptr<float>(); }

// out = a b^T, or out += a b^T; the depth is along the rows of both.
void multiply(const at::Tensor& out, const Float8Operand& a, const Float8Operand& b, Float8Sums sums,
              bool accumulate = false) {
  gpu_float8_product()(out, a.values, a.scale, b.values, b.scale, sums, accumulate);
}

}  // namespace

Float8Operand float8_rows(const at::Tensor& x_RC) {
  const Float8Operand rows = empty_operand(x_RC.size(0), x_RC.size(1), x_RC);
  check_gpu(gpu_kernels().float8_rows(gpu_stream(), kType, bytes(rows), scales(rows), rows_of(x_RC)), "float8_rows");
  return rows;
}

Float8Operand float8_columns(const at::Tensor& x_RC) {
  const Float8Operand columns = empty_operand(x_RC.size(1), x_RC.size(0), x_RC);
  check_gpu(gpu_kernels().float8_columns(gpu_stream(), kType, bytes(columns), scales(columns), rows_of(x_RC)),
            "float8_columns");
  return columns;
}

Float8Operands float8_rows_and_columns(const at::Tensor& x_RC) {
  const int64_t R = x_RC.size(0), C = x_RC.size(1);
  const Float8Operand rows = empty_operand(R, C, x_RC), columns = empty_operand(C, R, x_RC);
  check_gpu(gpu_kernels().float8_rows_and_columns(gpu_stream(), kType, bytes(rows), scales(rows), bytes(columns),
                                                  scales(columns), rows_of(x_RC)),
            "float8_rows_and_columns");
  return {rows, columns};
}

void matmul_float8(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_NK) {
  multiply(out_MN, float8_rows(a_MK), float8_rows(b_NK), Float8Sums::kFast);
}

void matmul_input_gradient_float8(const at::Tensor& dx_MK, const at::Tensor& dy_MN, const at::Tensor& w_NK) {
  multiply(dx_MK, float8_rows(dy_MN), float8_columns(w_NK), Float8Sums::kExact);
}

void matmul_weight_gradient_float8(const at::Tensor& dw_NK, const at::Tensor& dy_MN, const at::Tensor& x_MK,
                                   bool accumulate) {
  HEARTH_CHECK(dw_NK.scalar_type() == at::kFloat);
  multiply(dw_NK, float8_columns(dy_MN), float8_columns(x_MK), Float8Sums::kExact, accumulate);
}

void matmul_gradients_float8(const at::Tensor& dx_MK, const at::Tensor& dw_NK, const at::Tensor& dy_MN,
                             const at::Tensor& x_MK, const at::Tensor& w_NK, bool accumulate) {
  HEARTH_CHECK(dw_NK.scalar_type() == at::kFloat);
  const Float8Operands dy = float8_rows_and_columns(dy_MN);
  multiply(dx_MK, dy.rows, float8_columns(w_NK), Float8Sums::kExact);
  multiply(dw_NK, dy.columns, float8_columns(x_MK), Float8Sums::kExact, accumulate);
}

}  // namespace hearth::ops
