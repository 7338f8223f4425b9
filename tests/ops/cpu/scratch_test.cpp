// SPDX-License-Identifier: Apache-2.0
// Kernels' working memory is as large as plan/scratch.h says, for any instruction set.
#include "ops/cpu/scratch.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <thread>

#include "ops/attention.h"
#include "ops/compare.h"
#include "ops/cpu/gemm.h"
#include "ops/targets.h"
#include "plan/scratch.h"

namespace hearth::ops::test {
namespace {

// Scratch bytes of a new thread, with one ATen thread, after `body`.
template <class Body>
int64_t held_by(const Body& body) {
  int64_t bytes = 0;
  std::thread([&] {
    at::init_num_threads();
    at::set_num_threads(1);
    const int64_t before = scratch_bytes();
    body();
    bytes = scratch_bytes() - before;
  }).join();
  return bytes;
}

// Products of more than one block: their bfloat16 sums take memory.
template <class T>
void multiply() {
  const auto type = c10::CppTypeToScalarType<T>::value;
  const at::Tensor x = random({40, 3 * kGemmDepth}, type), y = at::zeros({40, 40}, x.options());
  const GemmOperand<T> factor{x.const_data_ptr<T>(), 3 * kGemmDepth};
  gemm(Gemm<T, T>{40, 40, 3 * kGemmDepth, factor, factor, y.mutable_data_ptr<T>(), 40});
}

void attend(const plan::AttentionCut& s, at::ScalarType type) {
  const at::Tensor q = random({s.B, s.Q, s.H, s.K}, type), k = random({s.B, s.S, s.G, s.K}, type);
  const at::Tensor out = at::zeros_like(q), dq = at::zeros_like(q), dk = at::zeros_like(k), dv = at::zeros_like(k);
  const at::Tensor lse = at::zeros({s.B, s.H, s.Q});
  const AttentionMask mask{.queries = {.first = s.S - s.Q}};
  attention_forward(out, lse, q, k, k, mask);
  attention_backward(dq, dk, dv, q, out, lse, q, k, k, mask);
}

// The same thread also multiplies: products and attention share one buffer.
void expect_as_planned(const plan::AttentionCut& s) {
  plan::ModelShape shape{};
  shape.H = s.H, shape.G = s.G, shape.K = s.K;
  shape.context = shape.key_ranks = s.S / s.Q;
  for (const auto& [type, dtype] : {std::pair{at::kFloat, DType::kFloat32}, {at::kBFloat16, DType::kBFloat16}}) {
    const plan::ScratchPlan planned = plan::scratch_plan(shape, s.B, s.S, dtype);
    const int64_t held = held_by([&, t = type] {
      t == at::kFloat ? multiply<float>() : multiply<c10::BFloat16>();
      attend(s, t);
    });
    EXPECT_EQ(held, planned.shared_bytes + planned.task_bytes) << s.S;
  }
}

TEST(Scratch, IsAsLargeAsPlannedForEachInstructionSet) {
  with_each_target([] {
    expect_as_planned({2, 70, 4, 2, 24, 70});
    expect_as_planned({1, 33, 2, 2, 256, 33});
    expect_as_planned({1, 130, 32, 1, 20, 130});
    expect_as_planned({2, 280, 4, 2, 24, 70});  // queries of one of four ranks
  });
}

// One head of keys: its queries are cut into parts, which take more memory than a product's panels.
TEST(Scratch, IsAsLargeAsPlannedWhereHeadsAreFew) {
  expect_as_planned({1, 704, 32, 1, 80, 704});
  EXPECT_GT((plan::AttentionCut{1, 704, 32, 1, 80, 704}.backward_shared_floats()), plan::kGemmSharedFloats);
}

TEST(Scratch, IsGivenBackWhenItsThreadEnds) {
  const int64_t before = scratch_bytes();
  EXPECT_EQ(held_by(multiply<float>), 4 * (plan::kGemmSharedFloats + plan::kGemmOwnFloats));
  EXPECT_EQ(scratch_bytes(), before);
}

}  // namespace
}  // namespace hearth::ops::test
