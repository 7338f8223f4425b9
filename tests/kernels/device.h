// SPDX-License-Identifier: Apache-2.0
// Shared by the kernels' tests: the devices, and arguments made from tensors. Every test runs on each device: the
// emulator with warps of 32 and of 64.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <string>

#include "emulator.h"
#include "kernels/kernels.h"
#include "ops/compare.h"

namespace hearth::kernels::test {

using ops::test::bound;
using ops::test::in_wider_rows;
using ops::test::random;
using ops::test::relative_error;
using ops::test::same_bits;
using ops::test::surroundings_untouched;

inline Type type_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 ? Type::kBFloat16 : Type::kFloat32;
}

// Undefined tensors are absent.
inline Rows rows(const at::Tensor& x) {
  if (!x.defined()) return {};
  return {x.mutable_data_ptr(), x.size(0), x.size(1), x.stride(0)};
}
inline ConstRows const_rows(const at::Tensor& x) {
  if (!x.defined()) return {};
  return {x.const_data_ptr(), x.size(0), x.size(1), x.stride(0)};
}
inline Heads heads(const at::Tensor& x) {
  return {x.mutable_data_ptr(), x.size(0), x.size(1), x.size(2), x.size(3), x.stride(0), x.stride(1), x.stride(2)};
}
template <class T>
T* data(const at::Tensor& x) {
  return x.defined() ? static_cast<T*>(x.mutable_data_ptr()) : nullptr;
}

class DeviceTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    at::manual_seed(1);
    at::set_num_threads(1);  // the oracles are small: OpenMP's threads would only compete with the emulator
    emulator::set_lanes(std::string(GetParam()) == "Warps64" ? 64 : 32);
  }
  const Table& table() const { return *hearth_gpu_kernels(); }
  static void run(int code) { ASSERT_EQ(code, 0) << hearth_gpu_kernels()->error_text(code); }
};

#define HEARTH_ON_EACH_DEVICE(suite)                                         \
  INSTANTIATE_TEST_SUITE_P(On, suite, testing::Values("Warps32", "Warps64"), \
                           [](const auto& info) { return std::string(info.param); })

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16};

inline at::Tensor floats(at::IntArrayRef shape) { return at::empty(shape, at::TensorOptions().dtype(at::kFloat)); }
inline at::Tensor doubles(at::IntArrayRef shape) { return at::zeros(shape, at::TensorOptions().dtype(at::kDouble)); }
inline at::Tensor wide(const at::Tensor& x) { return x.defined() ? x.to(at::kDouble) : x; }

}  // namespace hearth::kernels::test
