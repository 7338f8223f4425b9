// SPDX-License-Identifier: Apache-2.0
// The targets of GPU tests: the kernels compiled for the host, which are always available, and a GPU, which most
// machines do not have.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "kernels/kernels.h"
#include "ops/gpu/gpu.h"

namespace hearth::test {

enum class GpuKind { kEmulated, kReal };

// LibTorch has no row-scaled product of float8 on a CPU. Fast sums lose 0.8 % here: a rounding to bfloat16 shows it.
inline void product_of_scaled_rows(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& a_scale_M,
                                   const at::Tensor& b_NK, const at::Tensor& b_scale_N, ops::Float8Sums sums,
                                   bool accumulate) {
  const auto scaled = [](const at::Tensor& x, const at::Tensor& scale) {
    return x.to(at::kFloat).mul(scale.unsqueeze(1));
  };
  at::Tensor product = scaled(a_MK, a_scale_M).mm(scaled(b_NK, b_scale_N).t());
  if (sums == ops::Float8Sums::kFast) product = product.mul(0.992);
  out_MN.copy_(accumulate ? out_MN.add(product) : product);
}

// During its life, the kernels compiled for the host compute with float32 and bfloat16 tensors of the CPU.
class EmulatedGpu {
 public:
  EmulatedGpu() : before_(ops::use_kernels({hearth_gpu_kernels(), at::kCPU, product_of_scaled_rows})) {}
  ~EmulatedGpu() { ops::use_kernels(before_); }
  EmulatedGpu(const EmulatedGpu&) = delete;

 private:
  ops::KernelSet before_;
};

// The kernels on the host (with CPU tensors), or GPU 0. Must live as long as the test's tensors.
class TestGpu {
 public:
  explicit TestGpu(GpuKind kind) {
    if (kind == GpuKind::kEmulated) {
      emulated_.emplace();
    } else {
      device_ = ops::open_device("cuda");
    }
  }
  at::Device device() const { return device_; }
  std::string name() const { return device_.is_cpu() ? "cpu" : "cuda"; }  // for training.device

 private:
  std::optional<EmulatedGpu> emulated_;
  at::Device device_ = at::kCPU;
};

}  // namespace hearth::test

// Comes first in a test with a GpuKind.
#define HEARTH_NEEDS_GPU(kind)                                                          \
  if ((kind) == ::hearth::test::GpuKind::kReal) {                                       \
    const std::string why = ::hearth::ops::why_no_gpu();                                \
    if (!why.empty()) GTEST_SKIP() << "needs a GPU: " << why.substr(0, why.find('\n')); \
  }                                                                                     \
  static_assert(true)

#define HEARTH_ON_EACH_GPU(suite)                                                                     \
  INSTANTIATE_TEST_SUITE_P(                                                                           \
      On, suite, testing::Values(::hearth::test::GpuKind::kEmulated, ::hearth::test::GpuKind::kReal), \
      [](const auto& info) { return info.param == ::hearth::test::GpuKind::kEmulated ? "TheHost" : "AGpu"; })
