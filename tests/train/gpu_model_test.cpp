// SPDX-License-Identifier: Apache-2.0
// The whole model on a GPU compared with the same model on the CPU, whose gradients autograd_test.cpp compares with
// PyTorch.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <span>

#include "comm/group.h"
#include "config/families.h"
#include "decode/decoder.h"
#include "model/transformer.h"
#include "parallel/sharded_weights.h"
#include "run/state.h"
#include "support/distance.h"
#include "support/gpu.h"

namespace hearth::model {
namespace {

using parallel::ShardedWeights;

constexpr int64_t kGpuB = 2, kGpuS = 40, kGpuV = 131;

struct GpuCase {
  const char* name;
  config::NormType norm_type = config::NormType::kRmsNorm;
  bool masked = false, documents = false, weighted = false, halves = false, tied = false;
  plan::Recompute recompute = plan::Recompute::kNone;
  bool normed_heads = false;  // with biases, and wider than the model
  bool like_olmo2 = false;
  bool gated = true;  // false: the square of relu, without w3
  void (*set_positions)(config::Model& m) = nullptr;
};

const GpuCase kCases[] = {
    {.name = "Llama"},
    {.name = "Documents", .documents = true, .weighted = true, .recompute = plan::Recompute::kBlock},
    {.name = "Masked", .norm_type = config::NormType::kLayerNorm, .masked = true},
    {.name = "Neox", .norm_type = config::NormType::kRmsNormNeox, .halves = true},
    {.name = "Tied", .norm_type = config::NormType::kNpLayerNorm, .tied = true, .recompute = plan::Recompute::kNorms},
    {.name = "NormedHeads", .halves = true, .normed_heads = true},
    {.name = "PartsOfHeadsRotate",
     .documents = true,
     .halves = true,
     .set_positions = [](config::Model& m) { m.partial_rotary_factor = 0.5, m.rope_scaling_factor = 8; }},
    {.name = "Olmo2", .halves = true, .recompute = plan::Recompute::kBlock, .like_olmo2 = true},
    {.name = "Gemma", .norm_type = config::NormType::kRmsNorm1p, .tied = true, .normed_heads = true},
    {.name = "Arcee", .norm_type = config::NormType::kRmsNorm1p, .like_olmo2 = true, .gated = false},
    {.name = "Windows", .set_positions = [](config::Model& m) { m.sliding_window = 9, m.full_attention_interval = 2; }},
    {.name = "Experts",  // all of them: rounding in bfloat16 would choose others elsewhere
     .recompute = plan::Recompute::kBlock,
     .set_positions =
         [](config::Model& m) {
           m.num_experts = m.moe_top_k = 3, m.n_dense_layers = 1, m.route_norm = true;
           m.moe_aux_loss_coeff = 0.5, m.moe_z_loss_coeff = 0.1;
         }},
    {.name = "ScaledQueries",
     .set_positions =
         [](config::Model& m) {
           m.rope_type = config::RopeType::kYarn, m.rope_scaling_factor = 8, m.rope_original_seq_len = 8;
           m.query_position_scale = 0.5;
         }},
};

plan::ModelShape shape_of(const GpuCase& c) {
  config::Model m;
  m.dim = 32, m.n_layers = 2, m.n_heads = 4, m.n_kv_heads = 2, m.hidden_dim = 48;
  m.norm_type = c.norm_type;
  m.enable_weight_tying = c.tied;
  if (c.normed_heads) m.head_dim = 16, m.qkv_bias = m.qk_norm = true;
  if (c.like_olmo2) config::apply(config::find_family("olmo2"), m);
  if (c.norm_type == config::NormType::kRmsNorm1p && !c.like_olmo2) {
    m.norm_placement = config::NormPlacement::kBoth, m.activation = config::Activation::kGeluTanh;
    m.output_bias = m.ffn_bias = true;
    m.embedding_multiplier = 5, m.residual_multiplier = 0.4, m.attention_multiplier = 0.3, m.logits_divisor = 3;
  }
  if (!c.gated) m.activation = config::Activation::kRelu2, m.gated_ffn = false;
  if (c.set_positions != nullptr) c.set_positions(m);
  plan::ModelShape shape = plan::model_shape(m, kGpuV);
  shape.causal = !c.masked;
  shape.document_scope = c.documents;
  shape.rope.halves = c.halves;
  return shape;
}

MicroBatch batch_of(const GpuCase& c, at::Device device) {
  at::manual_seed(5);
  MicroBatch batch;
  const auto there = [device](const at::Tensor& x) { return x.defined() ? x.to(device) : x; };
  batch.tokens_T = at::randint(kGpuV, {kGpuB * kGpuS}, at::kInt);
  at::Tensor labels = at::randint(kGpuV, {kGpuB * kGpuS}, at::kInt);
  labels.index_put_({at::arange(0, kGpuB * kGpuS, 3)}, at::full({}, -100, at::kInt));
  batch.labels_T = labels;
  if (c.weighted) batch.weights_T = at::rand({kGpuB * kGpuS}, at::kFloat);
  if (c.masked) batch.counted_N = at::nonzero(labels.ne(-100)).view(-1);
  if (c.documents) {
    batch.document_starts_N = at::tensor({0, 17, int(kGpuS), int(kGpuS) + 1, 2 * int(kGpuS) - 7}, at::kInt);
    batch.longest_document = 32;
  }
  for (at::Tensor* const tensor :
       {&batch.tokens_T, &batch.labels_T, &batch.weights_T, &batch.counted_N, &batch.document_starts_N})
    *tensor = there(*tensor);
  return batch;
}

struct Result {
  double loss, z_squares;
  at::Tensor logits;                  // on the CPU, as all below
  std::vector<at::Tensor> gradients;  // of each shard unit
};

// Biases and norms' weights that differ from element to element.
void vary_vectors(ShardedWeights& weights) {
  for (size_t i = 0; i < weights.plan().parameters.size(); ++i) {
    const at::Tensor master = weights.owned(static_cast<int64_t>(i)).master;
    if (weights.plan().parameters[i].shape.size() > 1) continue;
    ops::add_(master, at::linspace(-0.1, 0.1, master.numel()).to(master.options()));
  }
  weights.masters_changed();
}

Result run(const GpuCase& c, plan::Precision precision, at::Device device,
           std::optional<config::Fp8Recipe> float8 = {}) {
  const plan::ModelShape shape = shape_of(c);
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  const auto group = comm::single();
  ShardedWeights weights(plan, precision, *group, ShardedWeights::Mode::kTraining, {}, {}, device);
  run::initialize_weights(weights, 3);
  if (c.normed_heads) vary_vectors(weights);
  const std::vector<plan::Recompute> recompute(static_cast<size_t>(shape.L()), c.recompute);
  Transformer model(shape, plan, kGpuB, kGpuS,
                    {.dtype = precision.compute,
                     .loss_chunk_tokens = 24,
                     .training = true,
                     .recompute = recompute,
                     .device = device,
                     .float8 = float8});
  const MicroBatch batch = batch_of(c, device);
  weights.begin_step(1);
  const ops::CrossEntropy sums = model.loss_and_gradient(weights, batch, 0.02, 0.001);
  Result result{sums.loss, sums.z_squares, {}, {}};
  for (int64_t unit = 0; unit < weights.num_units(); ++unit)
    result.gradients.push_back(weights.gradient(unit).to(at::kCPU).to(at::kDouble));
  model.loss(weights, batch);
  result.logits = model.logits(weights).to(at::kCPU).to(at::kDouble);
  return result;
}

class ModelOnGpu : public testing::TestWithParam<test::GpuKind> {};

TEST_P(ModelOnGpu, HasTheLossTheLogitsAndEveryGradientOfTheCpu) {
  HEARTH_NEEDS_GPU(GetParam());
  const plan::Precision bfloat16(DType::kFloat32, DType::kBFloat16, DType::kFloat32, DType::kFloat32);
  for (const GpuCase& c : kCases) {
    for (const bool wide : {true, false}) {
      SCOPED_TRACE(fmt::format("{}, {}", c.name, wide ? "float32" : "bfloat16"));
      const plan::Precision precision = wide ? plan::Precision(DType::kFloat32) : bfloat16;
      const Result cpu = run(c, precision, at::kCPU);
      const test::TestGpu gpu(GetParam());
      const Result there = run(c, precision, gpu.device());
      // float32: sums in other orders. bfloat16: each op rounds to 3 digits, at other places.
      const double tolerance = wide ? 1e-5 : 2e-2;
      EXPECT_NEAR(there.loss / cpu.loss, 1, wide ? 1e-6 : 1e-3);
      EXPECT_NEAR(there.z_squares / cpu.z_squares, 1, wide ? 1e-6 : 1e-3);
      EXPECT_LT(test::relative_distance(there.logits, cpu.logits), tolerance);
      ASSERT_EQ(there.gradients.size(), cpu.gradients.size());
      for (size_t u = 0; u < cpu.gradients.size(); ++u)
        EXPECT_LT(test::relative_distance(there.gradients[u], cpu.gradients[u]), tolerance) << "unit " << u;
    }
  }
}

// Each product loses about four bits of its factors' precision: the results are similar, but not the same numbers.
TEST_P(ModelOnGpu, InFloat8IsThatOfBfloat16Roughly) {
  HEARTH_NEEDS_GPU(GetParam());
  const test::TestGpu gpu(GetParam());
  if (GetParam() == test::GpuKind::kReal && !ops::open_gpu().has_float8()) GTEST_SKIP() << "this GPU has no float8";
  const bool has_sums = GetParam() == test::GpuKind::kEmulated || ops::open_gpu().has_float8_sums();
  const plan::Precision bfloat16(DType::kFloat32, DType::kBFloat16, DType::kFloat32, DType::kFloat32);
  for (const GpuCase& c : {kCases[0], kCases[1]}) {  // without recomputation and with
    const Result wide = run(c, bfloat16, gpu.device());
    const Result narrow = run(c, bfloat16, gpu.device(), config::Fp8Recipe::kRowwiseHpWgrad);
    const Result narrowest =
        run(c, bfloat16, gpu.device(), has_sums ? config::Fp8Recipe::kRowwise : config::Fp8Recipe::kRowwiseHpWgrad);
    EXPECT_GT(test::relative_distance(narrow.logits, wide.logits), 0) << "float8 was not used";
    EXPECT_TRUE(narrow.logits.equal(narrowest.logits)) << "recipes differ in gradients of weights only";
    for (const Result* result : {&narrow, &narrowest}) {
      EXPECT_NEAR(result->loss / wide.loss, 1, 1e-2);
      for (size_t u = 0; u < wide.gradients.size(); ++u)
        EXPECT_LT(test::relative_distance(result->gradients[u], wide.gradients[u]), 0.1) << "unit " << u;
    }
    if (!has_sums) continue;
    // A layer's gradients differ by the products of weights, the embedding's not at all: no weight's gradient reaches
    // it.
    EXPECT_TRUE(narrow.gradients.front().equal(narrowest.gradients.front()));
    EXPECT_GT(test::relative_distance(narrow.gradients[1], narrowest.gradients[1]), 0.005);
  }
}

TEST_P(ModelOnGpu, TwoRunsGiveTheSameBits) {
  HEARTH_NEEDS_GPU(GetParam());
  const test::TestGpu gpu(GetParam());
  const Result once = run(kCases[0], DType::kFloat32, gpu.device());
  const Result again = run(kCases[0], DType::kFloat32, gpu.device());
  EXPECT_EQ(once.loss, again.loss);
  for (size_t u = 0; u < once.gradients.size(); ++u) EXPECT_TRUE(once.gradients[u].equal(again.gradients[u])) << u;
}

void logits_token_by_token(const GpuCase& c, at::Device device) {
  const plan::ModelShape shape = shape_of(c);
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  const auto group = comm::single();
  ShardedWeights weights(plan, DType::kFloat32, *group, ShardedWeights::Mode::kInference, {}, {}, device);
  run::initialize_weights(weights, 3);
  if (c.normed_heads) vary_vectors(weights);
  Transformer model(shape, plan, kGpuB, kGpuS, {.dtype = DType::kFloat32, .loss_chunk_tokens = 24, .device = device});
  const MicroBatch batch = batch_of(c, device);
  model.loss(weights, batch);
  const at::Tensor whole = model.logits(weights).to(at::kCPU);
  decode::Decoder decoder(shape, plan, weights, kGpuS, DType::kFloat32, device);
  const at::Tensor tokens = batch.tokens_T.to(at::kCPU);
  const std::span<const int32_t> ids(tokens.const_data_ptr<int32_t>(), static_cast<size_t>(kGpuS));
  const auto expect = [&](int64_t s, const at::Tensor& logits_V) {
    const at::Tensor there = logits_V.to(at::kCPU).to(at::kDouble);
    EXPECT_LT(test::relative_distance(there, whole[s].to(at::kDouble)), 1e-5) << s;
  };
  for (int64_t s = 0; s < kGpuS; ++s) expect(s, decoder.append(ids.subspan(static_cast<size_t>(s), 1)));
  // The same sequence in two rows, of which one is three tokens ahead.
  decode::Decoder two(shape, plan, weights, kGpuS, DType::kFloat32, device, 2);
  two.append(ids.first(4), 1);
  two.append(ids.first(1), 0);
  while (two.size(1) < kGpuS) {
    const int64_t ahead = two.size(1), behind = two.size(0);
    const at::Tensor logits_NV = two.append_to_each(
        std::array<int64_t, 2>{1, 0}, std::array{ids[static_cast<size_t>(ahead)], ids[static_cast<size_t>(behind)]});
    expect(ahead, logits_NV[0]);
    expect(behind, logits_NV[1]);
  }
}

TEST_P(ModelOnGpu, TokenByTokenGivesTheLogitsOfTheWhole) {
  HEARTH_NEEDS_GPU(GetParam());
  const test::TestGpu gpu(GetParam());
  for (const GpuCase& c : {kCases[0], kCases[std::size(kCases) - 2], kCases[std::size(kCases) - 1]})
    logits_token_by_token(c, gpu.device());
}

HEARTH_ON_EACH_GPU(ModelOnGpu);

}  // namespace
}  // namespace hearth::model
