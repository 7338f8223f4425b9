// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of ops/: random tensors in awkward layouts, and comparison by norm.
#pragma once

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/error.h"

namespace hearth::ops::test {

// |a - b| / |b| over all elements, in double. 0 if both are empty.
inline double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.detach().to(at::kDouble), b = expected.detach().to(at::kDouble);
  EXPECT_EQ(a.sizes(), b.sizes());
  if (b.numel() == 0) return 0;
  const double norm = b.norm().item<double>();
  const double difference = (a - b).norm().item<double>();
  return norm == 0 ? difference : difference / norm;
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         (x.numel() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0);
}

// Normal numbers. ATen takes eight times as long for those of float64, so that large tensors have float32's.
inline at::Tensor random(at::IntArrayRef shape, at::ScalarType type) {
  const bool large = c10::multiply_integers(shape) >= 10000;
  return at::randn(shape, at::TensorOptions().dtype(large ? at::kFloat : at::kDouble)).to(type);
}

// The same values as rows of a wider buffer filled with NaN: a read outside the rows then shows.
inline at::Tensor in_wider_rows(const at::Tensor& x_TD) {
  const at::Tensor wide = at::full({x_TD.size(0), x_TD.size(1) + 5}, std::nan(""), x_TD.options());
  const at::Tensor view = wide.narrow(1, 3, x_TD.size(1));
  view.copy_(x_TD);
  return view;
}

// True if a view made by in_wider_rows still has NaN around it.
inline bool surroundings_untouched(const at::Tensor& view) {
  const int64_t D = view.size(1);
  const at::Tensor wide = view.as_strided({view.size(0), D + 5}, {D + 5, 1}, view.storage_offset() - 3);
  return wide.narrow(1, 0, 3).isnan().all().item<bool>() && wide.narrow(1, D + 3, 2).isnan().all().item<bool>();
}

// A float64 copy that autograd follows.
inline at::Tensor leaf(const at::Tensor& x) { return x.to(at::kDouble, false, true).requires_grad_(); }

// True if `body` throws our check's Error and the message contains `what`.
template <class Body>
bool refused(const Body& body, const std::string& what) {
  try {
    body();
  } catch (const Error& error) {
    return error.code() == ExitCode::kBug && error.message().find(what) != std::string::npos;
  }
  return false;
}

// float64 runs the references and agrees with autograd to rounding. float32 kernels agree with the same computation in
// float64 within the test's bound. bfloat16 kernels compute in float32 and round their results to eight significant
// bits: an error of at most 2^-8 of each value, so also of a norm. `roundings`: their number in a computation.
constexpr double kBfloat16Rounding = 0x1p-8;
inline double bound(at::ScalarType type, double float32_bound, double roundings = 1) {
  return type == at::kDouble     ? 1e-10
         : type == at::kBFloat16 ? roundings * kBfloat16Rounding + float32_bound
                                 : float32_bound;
}

// The type of values that stay exact with bfloat16: gradients of weights, softmax denominators.
inline at::ScalarType sum_type(at::ScalarType type) { return type == at::kBFloat16 ? at::kFloat : type; }

}  // namespace hearth::ops::test
