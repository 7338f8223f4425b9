// SPDX-License-Identifier: Apache-2.0
#include "ops/float8.h"

#include <ATen/ops/empty.h>

#include "base/error.h"
#include "ops/gpu/gpu.h"

namespace hearth::ops {
namespace {

// Rows of float8 that a product sums along, [rows, depth], and the factor of each row.
struct Operand {
  at::Tensor values, scale;
};

Operand empty_operand(int64_t rows, int64_t depth, const at::Tensor& like) {
  return {at::empty({rows, depth}, like.options().dtype(at::kFloat8_e4m3fn)),
          at::empty({rows}, like.options().dtype(at::kFloat))};
}

template <class Kernel>
Operand converted(const at::Tensor& x, int64_t rows, int64_t depth, const Kernel& kernel, const char* name) {
  HEARTH_CHECK(x.scalar_type() == at::kBFloat16 && x.stride(1) == 1);
  Operand result = empty_operand(rows, depth, x);
  check_gpu(kernel(gpu_stream(), kernels::Type::kBFloat16, static_cast<uint8_t*>(result.values.mutable_data_ptr()),
                   result.scale.mutable_data_ptr<float>(),
                   kernels::ConstRows{x.const_data_ptr(), x.size(0), x.size(1), x.stride(0)}),
            name);
  return result;
}

Operand rows_of(const at::Tensor& x) {
  return converted(x, x.size(0), x.size(1), gpu_kernels().float8_rows, "float8_rows");
}

Operand columns_of(const at::Tensor& x) {
  return converted(x, x.size(1), x.size(0), gpu_kernels().float8_columns, "float8_columns");
}

// out = a b^T; the depth is along the rows of both.
void multiply(const at::Tensor& out, const Operand& a, const Operand& b) {
  gpu_float8_product()(out, a.values, a.scale, b.values, b.scale);
}

}  // namespace

void matmul_float8(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_NK) {
  multiply(out_MN, rows_of(a_MK), rows_of(b_NK));
}

void matmul_input_gradient_float8(const at::Tensor& dx_MK, const at::Tensor& dy_MN, const at::Tensor& w_NK) {
  multiply(dx_MK, rows_of(dy_MN), columns_of(w_NK));
}

}  // namespace hearth::ops
