// SPDX-License-Identifier: Apache-2.0
#include "decode/decoder.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include "config/families.h"
#include "model/local_weights.h"
#include "model/transformer.h"

namespace hearth::decode {
namespace {

void logits_with_cache_equal_logits_without(DType dtype, bool tied, double tolerance,
                                            config::NormType norm_type = config::NormType::kRmsNorm,
                                            bool normed_heads = false, const char* family = "llama",
                                            void (*set)(config::Model& m) = nullptr) {
  config::Model m;
  m.dim = 48, m.n_layers = 3, m.n_heads = 6, m.n_kv_heads = 2, m.hidden_dim = 64, m.enable_weight_tying = tied,
  m.norm_type = norm_type;
  if (normed_heads) m.head_dim = 12, m.qkv_bias = m.qk_norm = true;
  if (family != std::string_view("llama")) config::apply(config::find_family(family), m);
  if (m.no_rope_layer_interval > 0) m.no_rope_layer_interval = 2;
  if (family == std::string_view("granite"))
    m.embedding_multiplier = 9, m.residual_multiplier = 0.4, m.attention_multiplier = 0.2, m.logits_divisor = 3;
  if (norm_type == config::NormType::kRmsNorm1p) {
    m.norm_placement = config::NormPlacement::kBoth, m.activation = config::Activation::kGelu;
    m.output_bias = m.ffn_bias = true;
  }
  if (set != nullptr) set(m);
  const plan::ModelShape shape = plan::model_shape(m, 101);
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  test::LocalWeights weights(plan, dtype, 3);
  if (shape.qk_norm || shape.attention_sinks) weights.vary_vectors(plan);
  constexpr int64_t S = 23;
  at::manual_seed(1);
  const at::Tensor tokens = at::randint(shape.V, {S}, at::kInt);
  model::Transformer model(shape, plan, 1, S, {.dtype = dtype, .loss_chunk_tokens = 64});
  model.loss(weights, {tokens, tokens, {}});
  const at::Tensor expected = model.logits(weights);

  // A prompt of 9, then two at once, then one by one.
  Decoder decoder(shape, plan, weights, S, dtype);
  auto append = [&](int64_t count) {
    const int32_t* first = tokens.data_ptr<int32_t>() + decoder.size();
    const at::Tensor logits = decoder.append(std::span(first, static_cast<size_t>(count)));
    const at::Tensor wanted = expected.select(0, decoder.size() - 1);
    EXPECT_LT((logits - wanted).norm().item<double>(), tolerance * wanted.norm().item<double>()) << decoder.size();
  };
  append(9);
  append(2);
  while (decoder.size() < S) append(1);

  decoder.clear();  // and again in one go
  append(S);
}

TEST(Decoder, LogitsWithCacheEqualLogitsWithoutInFloat64) {
  logits_with_cache_equal_logits_without(DType::kFloat64, false, 1e-12);
}
TEST(Decoder, LogitsWithCacheEqualLogitsWithoutInFloat32) {
  logits_with_cache_equal_logits_without(DType::kFloat32, true, 2e-6);
}
TEST(Decoder, LogitsWithCacheEqualLogitsWithoutAlsoOfNormedHeadsWithBiases) {
  logits_with_cache_equal_logits_without(DType::kFloat32, false, 2e-6, config::NormType::kRmsNorm, true);
  logits_with_cache_equal_logits_without(DType::kFloat64, true, 1e-12, config::NormType::kRmsNorm, true);
}
TEST(Decoder, LogitsWithCacheEqualLogitsWithoutAlsoOfOlmo2) {
  logits_with_cache_equal_logits_without(DType::kFloat64, false, 1e-12, config::NormType::kRmsNorm, false, "olmo2");
}
TEST(Decoder, LogitsWithCacheEqualLogitsWithoutAlsoOfExperts) {
  const auto set = [](config::Model& m) { m.num_experts = 5, m.moe_top_k = 2, m.n_dense_layers = 1; };
  logits_with_cache_equal_logits_without(DType::kFloat64, false, 1e-12, config::NormType::kRmsNorm, false, "qwen3_moe",
                                         set);
  const auto set_glm = [](config::Model& m) {
    m.num_experts = 6, m.moe_top_k = 2, m.n_dense_layers = 1, m.num_shared_experts = 1, m.num_expert_groups = 3,
    m.num_limited_groups = 2, m.attention_gate = true;
  };
  logits_with_cache_equal_logits_without(DType::kFloat64, false, 1e-12, config::NormType::kRmsNorm, true, "glm4_moe",
                                         set_glm);
}
// The cache has expanded keys, and values with zeros behind them.
template <int64_t kQueryLatent>
void set_latents(config::Model& m) {
  m.n_kv_heads = 0, m.num_experts = 6, m.moe_top_k = 2, m.n_dense_layers = 1, m.num_shared_experts = 1;
  m.q_lora_rank = kQueryLatent, m.kv_lora_rank = 14;
  m.qk_nope_head_dim = 10, m.qk_rope_head_dim = 6, m.v_head_dim = 9;
  m.rope_type = config::RopeType::kYarn, m.rope_scaling_factor = 40, m.rope_original_seq_len = 8;
  m.rope_mscale_all_dim = 1;
}
TEST(Decoder, LogitsWithCacheEqualLogitsWithoutAlsoOfLatentAttention) {
  for (const auto set : {set_latents<20>, set_latents<0>}) {
    logits_with_cache_equal_logits_without(DType::kFloat64, false, 1e-12, config::NormType::kRmsNorm, false,
                                           "deepseek_v3", set);
    logits_with_cache_equal_logits_without(DType::kFloat32, true, 2e-6, config::NormType::kRmsNorm, false,
                                           "deepseek_v3", set);
  }
}
TEST(Decoder, LogitsWithCacheEqualLogitsWithoutAlsoOfGptOss) {
  const auto set = [](config::Model& m) {
    m.num_experts = 5, m.moe_top_k = 2, m.sliding_window = 7, m.full_attention_interval = 2;
  };
  for (const auto& [dtype, tolerance] : {std::pair(DType::kFloat64, 1e-12), std::pair(DType::kFloat32, 2e-6)})
    logits_with_cache_equal_logits_without(dtype, false, tolerance, config::NormType::kRmsNorm, false, "gpt_oss", set);
}
TEST(Decoder, LogitsWithCacheEqualLogitsWithoutAlsoWhereLayersDoNotRotate) {
  logits_with_cache_equal_logits_without(DType::kFloat64, true, 1e-12, config::NormType::kRmsNorm, false, "smollm3");
}
// The caches of two layers are rings: shorter than the prompt, longer, and longer than all.
template <int64_t kWindow>
void logits_of_a_window_with_cache_equal_logits_without() {
  SCOPED_TRACE(kWindow);
  const auto set = [](config::Model& m) { m.sliding_window = kWindow, m.full_attention_interval = 2; };
  for (const auto& [dtype, tolerance] : {std::pair(DType::kFloat64, 1e-12), std::pair(DType::kFloat32, 2e-6)})
    logits_with_cache_equal_logits_without(dtype, false, tolerance, config::NormType::kRmsNorm, true, "llama", set);
}
TEST(Decoder, LogitsWithCacheEqualLogitsWithoutAlsoWhereLayersHaveAWindow) {
  logits_of_a_window_with_cache_equal_logits_without<1>();
  logits_of_a_window_with_cache_equal_logits_without<2>();
  logits_of_a_window_with_cache_equal_logits_without<7>();
  logits_of_a_window_with_cache_equal_logits_without<10>();
  logits_of_a_window_with_cache_equal_logits_without<22>();
  logits_of_a_window_with_cache_equal_logits_without<23>();
  logits_of_a_window_with_cache_equal_logits_without<40>();
}
TEST(Decoder, LogitsWithCacheEqualLogitsWithoutAlsoOfGraniteArceeAndGemmasOptions) {
  logits_with_cache_equal_logits_without(DType::kFloat64, true, 1e-12, config::NormType::kRmsNorm, false, "granite");
  logits_with_cache_equal_logits_without(DType::kFloat32, false, 2e-6, config::NormType::kRmsNorm, false, "granite");
  logits_with_cache_equal_logits_without(DType::kFloat64, false, 1e-12, config::NormType::kRmsNorm, false, "arcee");
  logits_with_cache_equal_logits_without(DType::kFloat64, true, 1e-12, config::NormType::kRmsNorm1p, true);
}
TEST(Decoder, LogitsWithCacheEqualLogitsWithoutWhereAPartOfAHeadRotates) {
  const auto set = [](config::Model& m) {
    m.head_dim = 12, m.partial_rotary_factor = 0.5, m.rope_type = config::RopeType::kLinear, m.rope_scaling_factor = 4;
  };
  logits_with_cache_equal_logits_without(DType::kFloat64, false, 1e-12, config::NormType::kRmsNorm, false, "phi3", set);
}
TEST(Decoder, LogitsWithCacheEqualLogitsWithoutWhereQueriesAreScaled) {
  const auto set = [](config::Model& m) {
    m.rope_type = config::RopeType::kYarn, m.rope_scaling_factor = 16, m.rope_original_seq_len = 8;
    m.query_position_scale = 0.5;
  };
  logits_with_cache_equal_logits_without(DType::kFloat64, false, 1e-12, config::NormType::kRmsNorm, false, "ministral3",
                                         set);
}
TEST(Decoder, LogitsWithCacheEqualLogitsWithoutWhereALayerHasARopeOfItsOwn) {
  const auto set = [](config::Model& m) {
    m.rope_scaling_factor = 8, m.rope_local_theta = 50, m.sliding_window = 40, m.full_attention_interval = 2;
  };
  logits_with_cache_equal_logits_without(DType::kFloat64, false, 1e-12, config::NormType::kRmsNorm, false, "llama",
                                         set);
}
TEST(Decoder, LogitsWithCacheEqualLogitsWithoutWhateverTheNorm) {
  for (const auto norm_type :
       {config::NormType::kLayerNorm, config::NormType::kNpLayerNorm, config::NormType::kRmsNormNeox}) {
    logits_with_cache_equal_logits_without(DType::kFloat32, false, 2e-6, norm_type);
    logits_with_cache_equal_logits_without(DType::kFloat64, true, 1e-12, norm_type);
  }
}

// Rows of other lengths go beside each other, begin anew and rest.
void each_row_has_the_logits_of_its_own_sequence(int64_t window) {
  config::Model m;
  m.sliding_window = window;
  m.full_attention_interval = window > 0 ? 2 : 0;
  m.dim = 48, m.n_layers = 3, m.n_heads = 6, m.n_kv_heads = 2, m.hidden_dim = 64, m.head_dim = 12;
  m.qkv_bias = m.qk_norm = true, m.attention_sinks = window > 0;
  const plan::ModelShape shape = plan::model_shape(m, 101);
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  test::LocalWeights weights(plan, DType::kFloat64, 3);
  weights.vary_vectors(plan);
  constexpr int64_t S = 23;
  at::manual_seed(1);
  std::vector<at::Tensor> tokens, expected;  // of four sequences
  model::Transformer model(shape, plan, 1, S, {.dtype = DType::kFloat64, .loss_chunk_tokens = 64});
  for (int i = 0; i < 4; ++i) {
    tokens.push_back(at::randint(shape.V, {S}, at::kInt));
    model.loss(weights, {tokens.back(), tokens.back(), {}});
    expected.push_back(model.logits(weights).clone());
  }
  Decoder decoder(shape, plan, weights, S, DType::kFloat64, at::kCPU, 6);
  std::vector<size_t> sequence = {0, 1, 2, 3, 0, 1};  // in each row
  const auto next = [&](int64_t row) {
    return tokens[sequence[static_cast<size_t>(row)]].data_ptr<int32_t>() + decoder.size(row);
  };
  const auto expect = [&](int64_t row, const at::Tensor& logits) {
    const at::Tensor wanted = expected[sequence[static_cast<size_t>(row)]].select(0, decoder.size(row) - 1);
    EXPECT_LT((logits - wanted).norm().item<double>(), 1e-12 * wanted.norm().item<double>())
        << "row " << row << " at " << decoder.size(row);
  };
  const auto prompt = [&](int64_t row, size_t count) {
    expect(row, decoder.append(std::span<const int32_t>(next(row), count), row));
  };
  const auto each = [&](const std::vector<int64_t>& rows) {
    std::vector<int32_t> ids;
    for (const int64_t row : rows) ids.push_back(*next(row));
    const at::Tensor logits = decoder.append_to_each(rows, ids);
    for (size_t i = 0; i < rows.size(); ++i) expect(rows[i], logits.select(0, static_cast<int64_t>(i)));
  };
  prompt(0, 9);
  prompt(2, 1);
  each({0, 2});
  prompt(1, 4);
  each({2, 0, 1});
  each({1});
  each({0, 1, 2});
  decoder.clear(0);
  sequence[0] = 3;
  prompt(0, 2);
  each({1, 0});
  while (decoder.size(1) < S) each({0, 1, 2});
  EXPECT_EQ(decoder.size(2), 1 + 1 + 1 + 1 + (S - 8));
  // As many numbers of rows as there are, each two times.
  for (int64_t row = 0; row < decoder.rows(); ++row) {
    decoder.clear(row);
    prompt(row, 1);
  }
  std::vector<int64_t> first;
  for (int64_t row = 0; row < decoder.rows(); ++row) each((first.push_back(row), first));
  for (; !first.empty(); first.pop_back()) each(first);
}
TEST(Decoder, EachRowHasTheLogitsOfItsOwnSequence) { each_row_has_the_logits_of_its_own_sequence(0); }
TEST(Decoder, EachRowHasTheLogitsOfItsOwnSequenceAlsoWhereLayersHaveAWindow) {
  for (const int64_t window : {1, 5, 12}) each_row_has_the_logits_of_its_own_sequence(window);
}

}  // namespace
}  // namespace hearth::decode
