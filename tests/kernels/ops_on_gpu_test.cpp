// SPDX-License-Identifier: Apache-2.0
// Compares every operation of ops/ on a GPU with itself on the CPU, which tests/ops compares with PyTorch. It checks
// which kernels are called, with which arguments. The kernels' own tests, with odd sizes and strides, are in this
// folder.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "ops/activation.h"
#include "ops/adamw.h"
#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/float8.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/rope.h"
#include "ops/rows.h"
#include "ops/step_decision.h"
#include "ops/tensor.h"
#include "support/gpu.h"

namespace hearth::ops {
namespace {

constexpr int64_t kB = 2, kS = 48, kT = kB * kS, kD = 64, kH = 4, kG = 2, kK = 16, kF = 96, kV = 300;

// Makes the same inputs on every device.
class Inputs {
 public:
  Inputs(at::Device device, at::ScalarType type) : device_(device), type_(type) { at::manual_seed(1); }
  at::Device device() const { return device_; }
  at::ScalarType type() const { return type_; }
  at::Tensor values(at::IntArrayRef shape) const { return at::randn(shape).to(type_).to(device_); }
  at::Tensor zeros(at::IntArrayRef shape) const { return at::zeros(shape).to(type_).to(device_); }
  at::Tensor floats(at::IntArrayRef shape) const { return at::zeros(shape).to(device_); }
  at::Tensor doubles(int64_t n, double value = 0) const { return at::full({n}, value, at::kDouble).to(device_); }
  at::Tensor ids(int64_t n, int64_t below) const { return at::randint(below, {n}, at::kInt).to(device_); }
  at::Tensor there(const at::Tensor& x) const { return x.to(device_); }

 private:
  at::Device device_;
  at::ScalarType type_;
};

using Results = std::vector<at::Tensor>;
using Body = std::function<Results(const Inputs&)>;

class OpsOnGpu : public testing::TestWithParam<hearth::test::GpuKind> {
 protected:
  // float32 sums have another order. bfloat16 rounds results at 2^-9, and rounds their sums at other places.
  void compare(const Body& body, double float32_tolerance = 2e-6, double bfloat16_tolerance = 1e-2) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(c10::toString(type));
      const Results cpu = body(Inputs(at::kCPU, type));
      const hearth::test::TestGpu gpu(GetParam());
      const Results there = body(Inputs(gpu.device(), type));
      for (size_t i = 0; i < cpu.size(); ++i) {
        const at::Tensor a = there[i].to(at::kCPU).to(at::kDouble), b = cpu[i].to(at::kDouble);
        EXPECT_LE(a.sub(b).norm().item<double>(),
                  (type == at::kFloat ? float32_tolerance : bfloat16_tolerance) * b.norm().item<double>())
            << "result " << i;
      }
    }
  }
};

TEST_P(OpsOnGpu, Norms) {
  HEARTH_NEEDS_GPU(GetParam());
  for (const auto type : {plan::NormType::kRmsNorm, plan::NormType::kLayerNorm, plan::NormType::kNpLayerNorm,
                          plan::NormType::kRmsNormNeox, plan::NormType::kRmsNorm1p}) {
    const plan::Norm norm{type, 1e-5};
    compare([&](const Inputs& in) -> Results {
      const at::Tensor x = in.values({kT, kD}), r = in.values({kT, kD}), dy = in.values({kT, kD});
      const at::Tensor weight = plan::has_weight(type) ? in.values({kD}) : at::Tensor();
      const at::Tensor h = in.zeros({kT, kD}), y = in.zeros({kT, kD}), dx = in.values({kT, kD});
      const at::Tensor statistics = in.floats({plan::is_centred(type) ? 2 : 1, kT}), dweight = in.floats({kD});
      add_norm_forward(norm, h, y, statistics, x, r, weight);
      norm_backward(norm, dx, plan::has_weight(type) ? dweight : at::Tensor(), dy, h, statistics, weight, true);
      const at::Tensor alone = in.zeros({kT, kD});
      norm_forward(norm, alone, statistics, x, weight);
      return {h, y, dx, dweight, alone};
    });
  }
}

TEST_P(OpsOnGpu, BiasesAndNormsOfHeadsInRows) {
  HEARTH_NEEDS_GPU(GetParam());
  const plan::Norm norm{plan::NormType::kRmsNorm, 1e-5};
  compare([&](const Inputs& in) -> Results {
    const at::Tensor qkv = in.values({kT, kH + 2 * kG, kK}), x = in.values({kT, kH + kG, kK}), bias = in.values({kD});
    const at::Tensor weight = in.values({kK}), rows = in.values({kT, kD}), dbias = in.floats({kD});
    const at::Tensor y = qkv.narrow(1, kH, kG), from = x.narrow(1, kH, kG), dweight = in.floats({kK});
    const at::Tensor statistics = in.floats({1, kT * kG});
    norm_forward(norm, y, statistics, from, weight);
    const at::Tensor normed = qkv.clone();
    norm_backward(norm, y, dweight, y, from, statistics, weight, false);
    add_bias(rows, bias);
    bias_gradient(dbias, rows);
    return {normed, qkv, statistics, dweight, rows, dbias};
  });
}

TEST_P(OpsOnGpu, ActivationsAndScale) {
  HEARTH_NEEDS_GPU(GetParam());
  using plan::Activation;
  for (const Activation function :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu2, Activation::kClampedSwiglu}) {
    for (const int64_t width : {kF, 2 * kF}) {
      compare([&](const Inputs& in) -> Results {
        const at::Tensor x = in.values({kT, width}), a = in.zeros({kT, kF}), da = in.values({kT, kF});
        activation_forward(function, a, x);
        activation_backward(function, x, da, x, da);
        const at::Tensor scaled = in.zeros({kT, kF}), in_place = in.values({kT, kF});
        ops::scale(scaled, a, 0.22);
        ops::scale(in_place, in_place, 0.22);
        return {a, x, da, scaled, in_place};
      });
    }
  }
}

TEST_P(OpsOnGpu, RopeWithAndWithoutDocuments) {
  HEARTH_NEEDS_GPU(GetParam());
  for (const std::pair<bool, double>& part : {std::pair(false, 1.0), {true, 1.0}, {false, 0.5}, {true, 0.75}}) {
    const bool halves = part.first;
    compare([&](const Inputs& in) -> Results {
      plan::Rope rope;
      rope.halves = halves;
      rope.rotated_share = part.second;
      rope.attention_factor = 1.25;
      const at::Tensor x = in.values({kB, kS, kH, kK}), rows = x.clone(), documents = x.clone();
      const at::Tensor table = rope_tables(kS, kS, kK, rope, DType::kFloat32, in.device()).heads_SR;
      const at::Tensor starts = in.there(at::tensor({0, 11, int(kS), int(kS) + 40}, at::kInt));
      rope_forward(rows, table, halves);
      rope_backward(documents, table, halves, starts);
      return {rows, documents};
    });
  }
}

TEST_P(OpsOnGpu, AttentionOfRowsAndDocuments) {
  HEARTH_NEEDS_GPU(GetParam());
  for (const bool causal : {true, false}) {
    for (const bool documents : {false, true}) {
      compare(
          [&](const Inputs& in) -> Results {
            const at::Tensor qkv = in.values({kB, kS, kH + 2 * kG, kK}), dqkv = in.zeros(qkv.sizes());
            const at::Tensor out = in.zeros({kB, kS, kH, kK}), dout = in.values(out.sizes());
            const at::Tensor lse = in.floats({kB, kH, kS});
            const auto part = [](const at::Tensor& x, int64_t first, int64_t n) { return x.narrow(2, first, n); };
            AttentionMask mask{causal, {}, 0};
            const double multiplier = causal ? 0 : 0.4;
            if (documents) {
              mask.document_starts_N = in.there(at::tensor({0, 11, int(kS), int(kS) + 40}, at::kInt));
              mask.longest_document = 40;
            }
            attention_forward(out, lse, part(qkv, 0, kH), part(qkv, kH, kG), part(qkv, kH + kG, kG), mask, multiplier);
            const at::Tensor sinks = causal ? in.values({kH}) : at::Tensor(), dsinks = in.floats({kH});
            if (causal) add_sinks(out, lse, sinks);
            if (causal) sinks_gradient(dsinks, dout, out, lse, sinks);
            attention_backward(part(dqkv, 0, kH), part(dqkv, kH, kG), part(dqkv, kH + kG, kG), dout, out, lse,
                               part(qkv, 0, kH), part(qkv, kH, kG), part(qkv, kH + kG, kG), mask, multiplier);
            const at::Tensor last = in.zeros({kB, 1, kH, kK});
            decode_attention(last, part(qkv, 0, kH).narrow(1, kS - 1, 1), part(qkv, kH, kG), part(qkv, kH + kG, kG), kS,
                             -1, multiplier, sinks);
            const at::Tensor of_rows = in.zeros({kB, kH, kK});
            const auto rows = in.there(at::tensor({1, 0}, at::kInt)), lengths = in.there(at::tensor({7, 40}, at::kInt));
            decode_attention_of_rows(of_rows, part(qkv, 0, kH).select(1, 5), part(qkv, kH, kG), part(qkv, kH + kG, kG),
                                     rows, lengths, multiplier, sinks);
            return {out, lse, dqkv, last, of_rows, dsinks};
          },
          5e-6, 2e-2);
    }
  }
}

TEST_P(OpsOnGpu, SwigluEmbeddingAndRows) {
  HEARTH_NEEDS_GPU(GetParam());
  compare([](const Inputs& in) -> Results {
    const at::Tensor gate_up = in.values({kT, 2 * kF}), a = in.zeros({kT, kF}), da = in.values({kT, kF});
    activation_forward(plan::Activation::kSilu, a, gate_up);
    activation_backward(plan::Activation::kSilu, gate_up, da, gate_up, da);
    const at::Tensor tokens = in.ids(kT, 20), table = in.values({kV, kD}), x = in.zeros({kT, kD});
    const at::Tensor dtable = in.floats({kV, kD});
    embedding_forward(x, table, tokens);
    embedding_backward(dtable, x, tokens);
    const at::Tensor index = in.there(at::arange(3, kT, 5, at::kLong)), some = gathered(x, index);
    const at::Tensor back = in.zeros({kT, kD});
    scatter_rows(back, some, index);
    return {a, gate_up, da, x, dtable, back};
  });
}

TEST_P(OpsOnGpu, CrossEntropyAndSquares) {
  HEARTH_NEEDS_GPU(GetParam());
  compare([](const Inputs& in) -> Results {
    const at::Tensor logits = in.values({kT, kV}), labels = at::randint(kV, {kT}, at::kInt);
    labels.index_put_({at::arange(0, kT, 4)}, at::full({}, -100, at::kInt));
    const at::Tensor weights = in.there(at::rand({kT})), sums = in.doubles(2), squares = in.doubles(1);
    cross_entropy_forward(sums, logits, in.there(labels), weights);
    cross_entropy_forward_backward(sums, logits, in.there(labels), in.doubles(1, 0.3), weights, 0.01);
    add_sum_of_squares(squares, in.values({12345}).to(at::kFloat));
    return {sums, logits, squares};
  });
}

TEST_P(OpsOnGpu, AdamWBehindADecision) {
  HEARTH_NEEDS_GPU(GetParam());
  compare([](const Inputs& in) -> Results {
    const at::Tensor p = in.values({1000}), g = in.values({1000}).to(at::kFloat), m = in.floats({1000});
    const at::Tensor v = in.floats({1000}), squares = in.doubles(1), totals = in.doubles(2);
    const StepDecision step({.on_nan = kernels::Reaction::kSkip, .skip_limit = 3}, in.device());
    for (int i = 0; i < 3; ++i) {
      const at::Tensor sums = in.there(at::tensor({1.0, 2.0, 3.0, 4.0}, at::kDouble)).view({2, 2});
      squares.zero_();
      add_sum_of_squares(squares, g);
      if (i == 1) squares.fill_(std::nan(""));  // this step is not applied
      scale_rows_(sums, in.doubles(2, 0.5));
      step.total(totals, sums, 2);
      step.decide(totals, squares, 0.1, 1);
      adamw(p, g, m, v, {.lr = 0.01, .decay = 0.1}, step.decision());
    }
    const kernels::Decision decision = read_decision(step.decision());
    EXPECT_EQ(decision.t, 2);
    EXPECT_EQ(decision.loss, 2);
    EXPECT_DOUBLE_EQ(decision.z_loss, 0.3);
    return {p, m, v, totals};
  });
}

TEST_P(OpsOnGpu, Products) {
  HEARTH_NEEDS_GPU(GetParam());
  compare([](const Inputs& in) -> Results {
    const at::Tensor x = in.values({kT, kD}), w = in.values({kF, kD}), dy = in.values({kT, kF});
    const at::Tensor y = in.zeros({kT, kF}), dx = in.zeros({kT, kD}), dw = in.floats({kF, kD});
    const at::Tensor written = in.floats({kF, kD});
    dw.fill_(1);
    written.fill_(std::nan(""));
    matmul(y, x, w);
    matmul_input_gradient(dx, dy, w, false);
    matmul_input_gradient(dx, dy, w, true);
    matmul_weight_gradient(dw, dy, x, true);
    matmul_weight_gradient(written, dy, x, false);
    return {y, dx, dw, written};
  });
}

// Compares with the product of the inputs: each of them is rounded to four bits.
TEST_P(OpsOnGpu, Float8Products) {
  HEARTH_NEEDS_GPU(GetParam());
  const hearth::test::TestGpu gpu(GetParam());
  if (GetParam() == hearth::test::GpuKind::kReal && !open_gpu().has_float8()) GTEST_SKIP() << "this GPU has no float8";
  const Inputs in(gpu.device(), at::kBFloat16);
  const at::Tensor x = in.values({kT, kD}), w = in.values({kF, kD}), dy = in.values({kT, kF});
  const at::Tensor y = in.zeros({kT, kF}), dx = in.zeros({kT, kD});
  matmul_float8(y, x, w);
  matmul_input_gradient_float8(dx, dy, w);
  const auto wide = [](const at::Tensor& t) { return t.to(at::kCPU).to(at::kDouble); };
  const auto error = [&](const at::Tensor& ours, const at::Tensor& exact) {
    return wide(ours).sub(exact).norm().item<double>() / exact.norm().item<double>();
  };
  for (const double e : {error(y, wide(x).matmul(wide(w).t())), error(dx, wide(dy).matmul(wide(w)))}) {
    EXPECT_LT(e, 0.05);
    EXPECT_GT(e, 0.005) << "more exact than float8 can be";
  }
  if (GetParam() == hearth::test::GpuKind::kReal && !open_gpu().has_float8_sums()) return;
  const at::Tensor dw = at::full({kF, kD}, std::nan(""), y.options().dtype(at::kFloat)),
                   exact = wide(dy).t().mm(wide(x));
  matmul_weight_gradient_float8(dw, dy, x, /*accumulate=*/false);
  EXPECT_LT(error(dw, exact), 0.05);
  EXPECT_GT(error(dw, exact), 0.005) << "more exact than float8 can be";
  const at::Tensor once = dw.clone();
  matmul_weight_gradient_float8(dw, dy, x, /*accumulate=*/true);
  const at::Tensor dx_too = in.zeros({kT, kD}), dw_too = once.clone();
  matmul_gradients_float8(dx_too, dw_too, dy, x, w, /*accumulate=*/true);
  EXPECT_TRUE(dx_too.equal(dx) && dw_too.equal(dw));
  EXPECT_LT(error(dw, wide(once).mul(2)), 1e-6) << "the sum is rounded to less than float32";
}

// Long depths show sums of fewer bits, which lose 2 % here. All terms are the same, and exact in float8.
TEST_P(OpsOnGpu, Float8GradientsAreAddedUpExactly) {
  HEARTH_NEEDS_GPU(GetParam());
  const hearth::test::TestGpu gpu(GetParam());
  if (GetParam() == hearth::test::GpuKind::kReal && !open_gpu().has_float8_sums())
    GTEST_SKIP() << "this GPU does not add float8 to float32";
  constexpr int64_t kDepth = 8192;
  const auto filled = [&](int64_t rows, int64_t columns, double value) {
    return at::full({rows, columns}, value, at::TensorOptions(gpu.device()).dtype(at::kBFloat16));
  };
  const auto error = [](const at::Tensor& out, double sum) {
    return out.to(at::kCPU).to(at::kDouble).div(sum).sub(1).abs().max().item<double>();
  };
  const at::Tensor dw = at::zeros({16, 32}, at::TensorOptions(gpu.device()).dtype(at::kFloat));
  matmul_weight_gradient_float8(dw, filled(kDepth, 16, 1.125), filled(kDepth, 32, 1), /*accumulate=*/false);
  EXPECT_LT(error(dw, 1.125 * kDepth), 1e-6);
  const at::Tensor dx = filled(16, 32, 0);
  matmul_input_gradient_float8(dx, filled(16, kDepth, 1.125), filled(kDepth, 32, 1));
  EXPECT_EQ(error(dx, 1.125 * kDepth), 0);  // a bfloat16
}

// GPUs with float8 have an instruction for the conversion. Each value is a row, with the largest float8 beside it: so
// the row's factor is 1.
TEST_P(OpsOnGpu, Float8IsRoundedAsLibTorchRounds) {
  HEARTH_NEEDS_GPU(GetParam());
  const hearth::test::TestGpu gpu(GetParam());
  const at::Tensor bits = at::arange(0, 1 << 16, at::kInt).to(at::kUInt16).view(at::kBFloat16);
  const at::Tensor finite = bits.masked_select(bits.to(at::kFloat).abs().le(448));  // NaN is not
  const at::Tensor x = at::stack({finite, at::full_like(finite, 448)}, 1);
  const at::Tensor there = x.to(gpu.device()), bytes = at::zeros(x.sizes(), at::kByte).to(gpu.device());
  const at::Tensor scale = at::zeros({x.size(0)}, at::kFloat).to(gpu.device());
  ASSERT_GT(x.size(0), 30000);
  ASSERT_EQ(gpu_kernels().float8_rows(gpu.device().is_cpu() ? nullptr : gpu_stream(), kernels::Type::kBFloat16,
                                      bytes.mutable_data_ptr<uint8_t>(), scale.mutable_data_ptr<float>(),
                                      {there.const_data_ptr(), x.size(0), 2, 2}),
            0);
  EXPECT_TRUE(scale.to(at::kCPU).eq(1).all().item<bool>());
  EXPECT_TRUE(bytes.to(at::kCPU).equal(x.to(at::kFloat).to(at::kFloat8_e4m3fn).view(at::kByte)));
}

HEARTH_ON_EACH_GPU(OpsOnGpu);

}  // namespace
}  // namespace hearth::ops
