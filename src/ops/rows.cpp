#include "ops/rows.h"

#include <ATen/ops/index_copy.h>
#include <ATen/ops/index_select.h>

#include "base/error.h"

namespace hearth::ops {

void gather_rows(const at::Tensor& out, const at::Tensor& x, const at::Tensor& index_N) {
  HEARTH_CHECK(out.size(0) == index_N.numel(), "{} rows for {} indices", out.size(0), index_N.numel());
  at::Tensor result = out;
  at::index_select_out(result, x, 0, index_N);
}

at::Tensor gathered(const at::Tensor& x, const at::Tensor& index_N) { return at::index_select(x, 0, index_N); }

void scatter_rows(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& index_N) {
  at::Tensor result = x;
  at::index_copy_out(result, x, 0, index_N, rows);
}

}  // namespace hearth::ops
