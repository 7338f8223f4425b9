#include "model/decoder.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include "local_weights.h"
#include "model/transformer.h"

namespace hearth::model {
namespace {

void logits_with_cache_equal_logits_without(DType dtype, bool tied, double tolerance,
                                            config::NormType norm_type = config::NormType::kRmsNorm,
                                            bool normed_heads = false) {
  config::Model m;
  m.dim = 48, m.n_layers = 3, m.n_heads = 6, m.n_kv_heads = 2, m.hidden_dim = 64, m.enable_weight_tying = tied,
  m.norm_type = norm_type;
  if (normed_heads) m.head_dim = 12, m.qkv_bias = m.qk_norm = true;
  const plan::ModelShape shape = plan::model_shape(m, 101);
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  test::LocalWeights weights(plan, dtype, 3);
  if (normed_heads) weights.vary_vectors(plan);
  constexpr int64_t S = 23;
  at::manual_seed(1);
  const at::Tensor tokens = at::randint(shape.V, {S}, at::kInt);
  Transformer model(shape, plan, 1, S, {.dtype = dtype, .loss_chunk_tokens = 64});
  model.loss(weights, {tokens, tokens, {}});
  const at::Tensor expected = model.logits(weights);

  // A prompt of 9, then two at once, then one by one.
  Decoder decoder(shape, plan, weights, S, dtype);
  auto append = [&](int64_t count) {
    const int32_t* first = tokens.data_ptr<int32_t>() + decoder.size();
    const at::Tensor logits = decoder.append({first, first + count});
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
TEST(Decoder, LogitsWithCacheEqualLogitsWithoutWhateverTheNorm) {
  for (const auto norm_type :
       {config::NormType::kLayerNorm, config::NormType::kNpLayerNorm, config::NormType::kRmsNormNeox}) {
    logits_with_cache_equal_logits_without(DType::kFloat32, false, 2e-6, norm_type);
    logits_with_cache_equal_logits_without(DType::kFloat64, true, 1e-12, norm_type);
  }
}

}  // namespace
}  // namespace hearth::model
