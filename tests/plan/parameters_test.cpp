// SPDX-License-Identifier: Apache-2.0
#include "plan/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "config/families.h"
#include "models/flops.h"
#include "plan/run_shape.h"
#include "support/errors.h"

namespace hearth::plan {
namespace {

using testing::HasSubstr;
using testing::Not;

config::Model llama3_8b() {
  config::Model m;
  m.dim = 4096, m.n_layers = 32, m.n_heads = 32, m.n_kv_heads = 8;
  m.ffn_dim_multiplier = 1.3, m.multiple_of = 1024;
  return m;
}

TEST(Parameters, Llama3Of8BHasThePublishedCountAndWidth) {
  const ModelShape shape = model_shape(llama3_8b(), 128256);
  EXPECT_EQ(shape.F(), 14336);
  EXPECT_EQ(parameter_plan(shape).num_parameters, 8030261248);  // Llama-3-8B's model card
}

TEST(Parameters, Qwen3Of8BQwen2Of7BAndNemoHaveThePublishedCounts) {
  config::Model m;  // Qwen/Qwen3-8B, config.json
  m.dim = 4096, m.n_layers = 36, m.n_heads = 32, m.n_kv_heads = 8, m.head_dim = 128, m.hidden_dim = 12288;
  m.qk_norm = true;
  EXPECT_EQ(parameter_plan(model_shape(m, 151936)).num_parameters, 8190735360);
  m = {};  // Qwen/Qwen2.5-7B
  m.dim = 3584, m.n_layers = 28, m.n_heads = 28, m.n_kv_heads = 4, m.hidden_dim = 18944;
  m.qkv_bias = true;
  EXPECT_EQ(parameter_plan(model_shape(m, 152064)).num_parameters, 7615616512);
  m = {};  // mistralai/Mistral-Nemo-Base-2407: 32 heads of 128 in a width of 5120
  m.dim = 5120, m.n_layers = 40, m.n_heads = 32, m.n_kv_heads = 8, m.head_dim = 128, m.hidden_dim = 14336;
  EXPECT_EQ(parameter_plan(model_shape(m, 131072)).num_parameters, 12247782400);
}

TEST(Parameters, BiasesAndNormsOfHeadsAreNamedAsTheirMatrices) {
  config::Model m;
  m.dim = 24, m.n_layers = 1, m.n_heads = 4, m.n_kv_heads = 2, m.head_dim = 10, m.hidden_dim = 36;
  m.qkv_bias = m.qk_norm = true;
  const ParameterPlan plan = parameter_plan(model_shape(m, 258));
  auto at = [&](const std::string& name) {
    return plan.parameters.at(static_cast<size_t>(plan.find("layers.0.attention." + name)));
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(at("wq.weight").shape, (Sizes{40, 24}));
  EXPECT_EQ(at("wk.weight").shape, (Sizes{20, 24}));
  EXPECT_EQ(at("wo.weight").shape, (Sizes{24, 40}));
  EXPECT_EQ(at("wq.bias").shape, Sizes{40});
  EXPECT_EQ(at("wk.bias").shape, Sizes{20});
  EXPECT_EQ(at("wv.bias").shape, Sizes{20});
  EXPECT_EQ(at("wk.bias").offset, at("wq.bias").offset + 40);
  EXPECT_EQ(at("wv.bias").offset, at("wk.bias").offset + 20);
  EXPECT_EQ(at("q_norm.weight").shape, Sizes{10});
  EXPECT_EQ(at("k_norm.weight").shape, Sizes{10});
}

TEST(Parameters, TiedWeightsCountOnce) {
  config::Model m;  // Llama-3.2-1B
  m.dim = 2048, m.n_layers = 16, m.n_heads = 32, m.n_kv_heads = 8, m.hidden_dim = 8192;
  m.enable_weight_tying = true;
  EXPECT_EQ(parameter_plan(model_shape(m, 128256)).num_parameters, 1235814400);  // Llama-3.2-1B's model card
}

TEST(Parameters, NormsWithoutParametersHaveNone) {
  config::Model m = llama3_8b();
  m.norm_type = config::NormType::kNpLayerNorm;
  const ParameterPlan plan = parameter_plan(model_shape(m, 128256));
  EXPECT_EQ(plan.num_parameters, 8030261248 - (2 * 32 + 1) * 4096);
  for (const Parameter& p : plan.parameters) EXPECT_THAT(p.name, Not(HasSubstr("norm"))) << p.name;
  m.norm_type = config::NormType::kLayerNorm;
  EXPECT_EQ(parameter_plan(model_shape(m, 128256)).num_parameters, 8030261248);
}

TEST(Parameters, NoTwoOverlapAndGroupsThatShareAGemmAreAdjacent) {
  config::Model m;
  m.dim = 24, m.n_layers = 2, m.n_heads = 4, m.n_kv_heads = 2, m.hidden_dim = 36;
  const ParameterPlan plan = parameter_plan(model_shape(m, 258));
  ASSERT_EQ(plan.units.size(), 4u);
  for (size_t u = 0; u < plan.units.size(); ++u) {
    std::vector<bool> used(static_cast<size_t>(plan.units[u].numel));
    for (const Parameter& p : plan.parameters) {
      if (p.unit != static_cast<int64_t>(u)) continue;
      for (int64_t i = p.offset; i < p.offset + p.numel; ++i) {
        ASSERT_FALSE(used.at(static_cast<size_t>(i))) << p.name;
        used[static_cast<size_t>(i)] = true;
      }
    }
    EXPECT_EQ(plan.units[u].numel % kUnitAlignment, 0);
  }
  auto at = [&](const char* name) { return plan.parameters.at(static_cast<size_t>(plan.find(name))); };
  EXPECT_EQ(at("layers.1.attention.wk.weight").offset, at("layers.1.attention.wq.weight").offset + 24 * 24);
  EXPECT_EQ(at("layers.1.attention.wv.weight").offset, at("layers.1.attention.wk.weight").offset + 12 * 24);
  EXPECT_EQ(at("layers.1.feed_forward.w3.weight").offset, at("layers.1.feed_forward.w1.weight").offset + 36 * 24);
  EXPECT_EQ(plan.find("layers.2.ffn_norm.weight"), -1);
}

TEST(Parameters, SlicesOfAllRanksCoverAUnitOnce) {
  for (int64_t ranks = 1; ranks <= 9; ++ranks) {
    for (const int64_t numel : {16, 32, 48, 160, 1024, 4112}) {
      const Unit unit{numel, 0, 1, true};
      int64_t next = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const Slice slice = unit_slice(unit, rank, ranks);
        EXPECT_EQ(slice.begin, next);
        EXPECT_LE(slice.numel(), slice_numel(unit, ranks));
        next = slice.end;
      }
      EXPECT_EQ(next, numel);
    }
  }
}

TEST(Parameters, SizesThatDoNotDivideAreRefused) {
  config::Model m;
  m.dim = 100, m.n_heads = 3;
  EXPECT_THROW(model_shape(m, 258), Error);
  m.n_heads = 4, m.n_kv_heads = 3;
  EXPECT_THROW(model_shape(m, 258), Error);
  m.n_heads = 20, m.n_kv_heads = 0;  // head width 5
  EXPECT_THROW(model_shape(m, 258), Error);
  m.n_heads = 2, m.vocab_size = 257;
  EXPECT_THROW(model_shape(m, 258), Error);
  m.vocab_size = 0, m.n_heads = 3, m.head_dim = 11;
  EXPECT_THAT(test::error_of([&] { model_shape(m, 258); }).message(), HasSubstr("model.head_dim = 11 is odd"));
  m.head_dim = 12;
  EXPECT_EQ(model_shape(m, 258).K, 12);
}

TEST(Parameters, PartsOfAModelCoverEachParameterOnceAndUnevenVocabulariesDifferByOne) {
  config::Model m;
  m.qkv_bias = m.qk_norm = true;
  m.dim = 24, m.n_layers = 1, m.n_heads = 6, m.n_kv_heads = 3, m.hidden_dim = 36;
  const ModelShape whole = model_shape(m, 257);
  const ParameterPlan one = parameter_plan(whole);
  std::vector<int64_t> numel(one.parameters.size());
  for (const int64_t rank : {0, 1, 2}) {
    const ModelShape shape = model_part(whole, {rank, 3});
    EXPECT_EQ(shape.V, rank < 2 ? 86 : 85);
    EXPECT_EQ(shape.vocabulary.first, 86 * rank);
    EXPECT_EQ(shape.H, 2);
    const ParameterPlan part = parameter_plan(whole, {rank, 3});
    for (size_t i = 0; i < numel.size(); ++i) {
      const Parameter& p = part.parameters[i];
      EXPECT_EQ(p.shape, one.parameters[i].shape);
      EXPECT_EQ(p.is_whole(), p.name.ends_with("norm.weight")) << p.name;
      EXPECT_EQ(p.is_shared, !p.is_whole()) << p.name;
      EXPECT_EQ(p.counts, rank == 0 || !p.is_whole());
      if (p.counts) numel[i] += p.numel;
      // A run's elements are neighbours in the whole parameter.
      int64_t next = 1;
      for (const FlatRun& run : flat_runs(p, 1, p.numel - 1)) {
        EXPECT_EQ(run.begin, next);
        next += run.numel;
        const int64_t columns = p.part.sizes.back(),
                      row = run.begin / columns + (p.shape.size() > 1 ? p.part.offsets[0] : 0);
        EXPECT_EQ(run.whole, row * p.shape.back() + p.part.offsets.back() + run.begin % columns) << p.name;
      }
      EXPECT_EQ(next, p.numel - 1);
    }
  }
  for (size_t i = 0; i < numel.size(); ++i) EXPECT_EQ(numel[i], one.parameters[i].numel);
}

TEST(Parameters, RanksThatCannotShareLayersAreRefused) {
  config::Model m;
  m.dim = 24, m.n_layers = 1, m.n_heads = 6, m.n_kv_heads = 3, m.hidden_dim = 36;
  const ModelShape whole = model_shape(m, 257);
  const auto refusal = [&](TensorPart part) { return test::error_of([&] { model_part(whole, part); }); };
  EXPECT_EQ(refusal({0, 4}).key(), "parallelism.tensor_parallel_degree");
  EXPECT_THAT(refusal({0, 6}).message(), HasSubstr("does not divide the model's 3 heads of keys and values"));
}

TEST(Parameters, FlopsPerTokenIsSixTimesTheMatricesPlusAttention) {
  const ModelShape shape = model_shape(llama3_8b(), 128256);
  const double matrices = 8030261248.0 - 128256.0 * 4096 - (2 * 32 + 1) * 4096.0;
  EXPECT_DOUBLE_EQ(flops_per_token(shape, 8192), 6 * matrices + 6.0 * 32 * 4096 * 8192);
  ModelShape full = shape;
  full.causal = false;
  EXPECT_DOUBLE_EQ(flops_per_token(full, 8192), 6 * matrices + 12.0 * 32 * 4096 * 8192);
  EXPECT_DOUBLE_EQ(computed_flops_per_token(shape, 8192), flops_per_token(shape, 8192));
  ModelShape wider = shape;
  wider.layers[3].F += 1000;
  EXPECT_DOUBLE_EQ(flops_per_token(wider, 8192) - flops_per_token(shape, 8192), 6 * 3 * 4096.0 * 1000);
}

// DeepSeek-V3's report: 671 billion parameters, of which a token uses 37 billion, here without the embedding. NVIDIA
// counts 250 GFLOP a token at 4,096 (NeMo Automodel's table of performance).
TEST(Parameters, DeepSeekV3HasThePublishedCountsAndFlops) {
  const ModelShape shape = model_shape(config::model_of(*config::find_flavor("deepseek_v3", "671B-A37B")), 129280);
  const ParameterPlan plan = parameter_plan(shape);
  EXPECT_NEAR(static_cast<double>(plan.num_parameters), 671e9, 0.01 * 671e9);
  const double embedding = 129280.0 * 7168, active = static_cast<double>(plan.num_active) - embedding;
  EXPECT_NEAR(active, 36.6e9, 0.01 * 36.6e9);
  EXPECT_NEAR(flops_per_token(shape, 4096), 250e9, 0.02 * 250e9);
  // Norms of a layer: of its inputs and latent rows; biases of the experts of 58 layers; the last norm.
  const double vectors = 61 * (2 * 7168 + 1536 + 512) + 58 * 256 + 7168;
  const double attention = 61.0 * 3 * 128 * (192 + 128) * 4096;
  EXPECT_DOUBLE_EQ(flops_per_token(shape, 4096), 6 * (active - vectors) + attention);
}

// Hidden positions alone go through the output matrix.
TEST(Parameters, AMaskedModelComputesAShareOfItsOutputMatrix) {
  config::RunConfig c;
  c.model = llama3_8b();
  c.objective.kind = config::ObjectiveKind::kMaskedLm;
  c.objective.mlm_probability = 0.3;
  const ModelShape shape = model_shape(c, DataFacts{.vocab_size = 128256});
  const double others = 8030261248.0 - 2 * 128256.0 * 4096 - (2 * 32 + 1) * 4096.0;
  EXPECT_DOUBLE_EQ(computed_flops_per_token(shape, 8192), 6 * (others + 0.3 * 128256 * 4096) + 12.0 * 32 * 4096 * 8192);
}

// memory.recompute = "auto" compares levels by the FLOPs of a rank's part. Buffers have room for more rows than usual.
TEST(Parameters, ARankWithItsOwnExpertsHasTheFlopsOfTheModelForEachToken) {
  config::Model m;
  m.dim = 64, m.n_layers = 2, m.n_heads = 4, m.num_experts = 8, m.moe_top_k = 3, m.moe_hidden_dim = 32,
  m.hidden_dim = 96;
  const ModelShape whole = model_shape(m, 100);
  const models::ModelFlops of_whole = models::model_flops(whole, 64);
  for (const ExpertPart experts : {ExpertPart{0, 2}, ExpertPart{1, 4}}) {
    const models::ModelFlops of_part = models::model_flops(model_part(whole, {}, 1, experts), 64);
    EXPECT_DOUBLE_EQ(of_part.step(), of_whole.step());
    for (size_t level = 0; level < of_whole.layers[0].again.size(); ++level)
      EXPECT_DOUBLE_EQ(of_part.layers[0].again[level], of_whole.layers[0].again[level]) << level;
  }
}

}  // namespace
}  // namespace hearth::plan
