// SPDX-License-Identifier: Apache-2.0
// Kernels with independent rows: embedding, rotation, the functions of the feed-forward.
#include <ATen/ops/argsort.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include "device.h"
#include "ops/activation.h"
#include "ops/embedding.h"
#include "ops/rope.h"

namespace hearth::kernels::test {
namespace {

class ActivationKernel : public DeviceTest {
 protected:
  void check(plan::Activation function, bool gated, at::ScalarType type, int64_t F) {
    const auto kind = static_cast<ActivationKind>(function);
    const at::Tensor x = 3 * random({9, (gated ? 2 : 1) * F}, type), da = random({9, F}, type);
    const at::Tensor a64 = doubles({9, F}), d64 = doubles(x.sizes());
    ops::activation_forward(function, a64, wide(x));
    ops::activation_backward(function, d64, wide(da), wide(x));
    // The exponential of gelu_tanh enlarges the rounding errors of its argument.
    const double error = function == plan::Activation::kGeluTanh ? 8e-7 : 3e-7;
    for (const bool strided : {false, true}) {
      const auto place = [&](const at::Tensor& t) { return strided ? in_wider_rows(t) : t.clone(); };
      const at::Tensor a = place(at::zeros_like(da)), g = place(x), d = place(at::zeros_like(x));
      run(table().activation_forward(nullptr, type_of(g), kind, rows(a), const_rows(g)));
      EXPECT_LE(relative_error(a, a64), bound(type, error));
      run(table().activation_backward(nullptr, type_of(g), kind, rows(d), const_rows(place(da)), const_rows(g), {}));
      EXPECT_LE(relative_error(d, d64), bound(type, error));
      EXPECT_TRUE(!strided || (surroundings_untouched(a) && surroundings_untouched(d)));
      // The gradient overwrites x, and forward's output overwrites da.
      const at::Tensor da_a = place(da);
      run(table().activation_backward(nullptr, type_of(g), kind, rows(g), const_rows(da_a), const_rows(g), rows(da_a)));
      EXPECT_TRUE(same_bits(g, d));
      EXPECT_TRUE(same_bits(da_a, a));
    }
  }
};

using plan::Activation;
constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu2,
                                       Activation::kClampedSwiglu};

TEST_P(ActivationKernel, AgreesWithTheCpuInFloat64AlsoInPlaceAndOnStridedRows) {
  for (const Activation function : kActivations) {
    for (const bool gated : {true, false}) {
      for (const at::ScalarType type : kTypes) {
        for (const int64_t F : {1, 7, 64, 1000, 2056}) {
          SCOPED_TRACE(fmt::format("{} {} width {} gated {}", name_of(function), c10::toString(type), F, gated));
          check(function, gated, type, F);
        }
      }
    }
  }
}

TEST_P(ActivationKernel, LargeGatesSaturateAndNanComesThrough) {
  const at::Tensor gate_up =
      at::tensor({-200.0f, 200.0f, NAN, 0.0f, -1e30f, 2.0f, 3.0f, 4.0f, NAN, 1.0f}).view({1, 10});
  for (const Activation function : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh}) {
    SCOPED_TRACE(name_of(function));
    const at::Tensor a = floats({1, 5}), d = floats({1, 10}), da = at::ones({1, 5});
    const auto kind = static_cast<ActivationKind>(function);
    run(table().activation_forward(nullptr, Type::kFloat32, kind, rows(a), const_rows(gate_up)));
    EXPECT_NEAR(a[0][0].item<float>(), 0, 1e-30);
    EXPECT_EQ(a[0][1].item<float>(), 600);
    EXPECT_TRUE(std::isnan(a[0][2].item<float>()) && std::isnan(a[0][3].item<float>()));
    EXPECT_NEAR(a[0][4].item<float>(), 0, 1e-6);
    run(table().activation_backward(nullptr, Type::kFloat32, kind, rows(d), const_rows(da), const_rows(gate_up), {}));
    EXPECT_EQ(d[0][1].item<float>(), 3);
    EXPECT_NEAR(d[0][4].item<float>(), 0, 1e-5);
  }
}
HEARTH_ON_EACH_DEVICE(ActivationKernel);

class EmbeddingKernel : public DeviceTest {
 protected:
  void backward(const at::Tensor& dweight, const at::Tensor& dx, const at::Tensor& tokens, int64_t first = 0) {
    const at::Tensor order = at::argsort(tokens, true, 0, false);  // stable
    run(table().embedding_backward(nullptr, type_of(dx), rows(dweight), const_rows(dx), data<int32_t>(tokens),
                                   data<int64_t>(order), first));
  }
};

TEST_P(EmbeddingKernel, RowsAreCopiedAndTheGradientIsAddedInTheCpusOrder) {
  for (const at::ScalarType type : kTypes) {
    for (const int64_t D : {1, 24, 33, 1032}) {
      SCOPED_TRACE(fmt::format("{} width {}", c10::toString(type), D));
      const int64_t T = 93, V = 11;  // some tokens occur many times, some never
      const at::Tensor tokens = at::randint(V - 2, {T}, at::TensorOptions().dtype(at::kInt));
      tokens[5].fill_(V - 1);
      const at::Tensor weight = in_wider_rows(random({V, D}, type)), dx = random({T, D}, type);
      for (const bool strided : {false, true}) {
        const at::Tensor x = strided ? in_wider_rows(at::zeros_like(dx)) : at::zeros_like(dx);
        const at::Tensor table_VD = strided ? weight : weight.contiguous();
        run(table().embedding_forward(nullptr, type_of(x), rows(x), const_rows(table_VD), data<int32_t>(tokens), 0));
        EXPECT_TRUE(same_bits(x, weight.index_select(0, tokens)));
        EXPECT_TRUE(!strided || (surroundings_untouched(x)));

        const at::Tensor before = random({V, D}, at::kFloat), expected = before.clone();
        ops::embedding_backward(expected, dx, tokens);
        const at::Tensor dweight = strided ? in_wider_rows(before) : before.clone();
        backward(dweight, strided ? in_wider_rows(dx) : dx, tokens);
        EXPECT_TRUE(same_bits(dweight, expected));
      }
    }
  }
}

// Rows 4 .. 6 of 11.
TEST_P(EmbeddingKernel, OfAPartOfTheVocabularyAgreesWithTheCpu) {
  const int64_t T = 40, D = 24;
  const plan::VocabularyPart part{.first = 4, .total = 11};
  const at::Tensor tokens = at::randint(11, {T}, at::TensorOptions().dtype(at::kInt));
  for (const at::ScalarType type : kTypes) {
    const at::Tensor weight = random({3, D}, type), dx = random({T, D}, type);
    const at::Tensor x = at::zeros_like(dx), expected_x = at::zeros_like(dx);
    run(table().embedding_forward(nullptr, type_of(x), rows(x), const_rows(weight), data<int32_t>(tokens), part.first));
    ops::embedding_forward(expected_x, weight, tokens, part);
    EXPECT_TRUE(same_bits(x, expected_x));
    const at::Tensor dweight = random({3, D}, at::kFloat), expected = dweight.clone();
    backward(dweight, dx, tokens, part.first);
    ops::embedding_backward(expected, dx, tokens, part);
    EXPECT_TRUE(same_bits(dweight, expected));
  }
}
HEARTH_ON_EACH_DEVICE(EmbeddingKernel);

class RopeKernel : public DeviceTest {};

TEST_P(RopeKernel, AgreesWithTheCpuForHalvesAndPairsDocumentsAndLaterStarts) {
  const int64_t B = 2, S = 11, N = 3;
  const at::Tensor starts = at::tensor({0, 4, 11, 12, 20}, at::TensorOptions().dtype(at::kInt));
  for (const at::ScalarType type : kTypes) {
    for (const int64_t K : {2, 6, 10, 32, 64}) {
      for (const bool halves : {false, true}) {
        for (const int variant : {0, 1, 2, 3}) {  // plain; with documents; after a cache; a part, with documents
          SCOPED_TRACE(fmt::format("{} head width {} halves {} variant {}", c10::toString(type), K, halves, variant));
          const at::Tensor documents = variant % 2 == 1 ? starts : at::Tensor();
          plan::Chunks positions;
          if (variant == 2) positions.first = 5;
          if (variant == 3) positions = {2, 7, 3};
          const int64_t whole = variant == 3 ? 11 : S + 5, rows = variant == 3 ? 6 : S;
          const Places places{variant == 3 ? whole : S, positions.first, positions.second, positions.length};
          const plan::Rope rope{.theta = 100, .halves = halves};
          const at::Tensor angles = ops::rope_tables(whole, whole, K, rope, DType::kFloat32).heads_SR;
          // The first heads of packed rows, with more columns after them; and the first elements of wider heads.
          const int64_t width = variant == 0 ? K + 6 : K;
          const at::Tensor packed = random({B, rows, N + 2, width}, type), x = packed.narrow(2, 0, N).narrow(3, 0, K);
          const at::Tensor beside = packed.narrow(2, N, 2).clone(), after = packed.narrow(3, K, width - K).clone();
          const at::Tensor before = x.clone();
          const at::Tensor expected = wide(x).clone();
          ops::rope_forward(expected, wide(angles), halves, documents, positions);
          const auto turn = [&](float direction) {
            run(table().rope(nullptr, type_of(x), heads(x), places, data<float>(angles), halves ? 1 : 0,
                             data<int32_t>(documents), documents.defined() ? documents.numel() : 0, direction));
          };
          turn(1);
          EXPECT_LE(relative_error(x, expected), bound(type, 2e-7));
          turn(-1);
          EXPECT_LE(relative_error(x, before), bound(type, 2e-7, 2));
          EXPECT_TRUE(same_bits(packed.narrow(2, N, 2), beside));
          EXPECT_TRUE(same_bits(packed.narrow(3, K, width - K), after));
        }
      }
    }
  }
}
HEARTH_ON_EACH_DEVICE(RopeKernel);

}  // namespace
}  // namespace hearth::kernels::test
