// SPDX-License-Identifier: Apache-2.0
// The whole model's loss and every gradient against the same model written with ATen's operators and differentiated by
// torch::autograd.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "local_weights.h"
#include "model/transformer.h"
#include "parameter_view.h"
#include "reference_model.h"
#include "support/distance.h"

namespace hearth::model {
namespace {

class WholeModel : public testing::TestWithParam<ModelCase> {
 protected:
  // Runs ours in `dtype` and the reference in float64 from the very same weights.
  void compare(DType dtype, double tolerance) {
    const ModelCase& c = GetParam();
    plan::ModelShape shape = plan::model_shape(model_config(c), c.V);
    shape.causal = !c.masked;
    for (size_t layer = 1; c.second_F > 0 && layer < shape.layers.size(); layer += 2)
      shape.layers[layer].F = c.second_F;
    const plan::ParameterPlan plan = plan::parameter_plan(shape);
    test::LocalWeights weights(plan, dtype, 11);
    if (shape.qk_norm || c.qkv_bias || c.style != ModelCase::kPlain) weights.vary_vectors(plan);
    const MicroBatch batch = random_batch(c);
    const double scale = 0.037, z_factor = 0.01;

    Transformer model(shape, plan, c.B, c.S, {.dtype = dtype, .loss_chunk_tokens = c.chunk, .training = true});
    const ops::CrossEntropy sum = model.loss_and_gradient(weights, batch, scale, z_factor);
    EXPECT_EQ(model.loss(weights, batch).loss, sum.loss);  // forward alone
    const at::Tensor logits = model.logits(weights).clone();

    std::vector<at::Tensor> leaves;
    for (const plan::Parameter& p : plan.parameters) {
      leaves.push_back(parameter_view(weights.gather(p.unit), p).to(at::kDouble).clone().set_requires_grad(true));
    }
    at::Tensor reference_logits;
    const at::Tensor reference_sum =
        reference_loss([&](const std::string& name) { return leaves.at(static_cast<size_t>(plan.find(name))); }, shape,
                       c, batch, &reference_logits);
    const at::Tensor z = reference_logits.logsumexp(-1);
    const at::Tensor row_weights = batch.weights_T.defined() ? batch.weights_T.to(at::kDouble) : at::ones_like(z);
    const at::Tensor z_squares = (z.square() * row_weights * batch.labels_T.ne(-100)).sum();
    ((reference_sum + z_factor * z_squares) * scale).backward();

    EXPECT_LT(test::relative_distance(logits, reference_logits.detach()), tolerance);
    EXPECT_NEAR(sum.loss / reference_sum.item<double>(), 1, tolerance);
    EXPECT_NEAR(sum.z_squares / z_squares.item<double>(), 1, tolerance);
    for (size_t i = 0; i < leaves.size(); ++i) {
      const plan::Parameter& p = plan.parameters[i];
      double distance = test::relative_distance(parameter_view(weights.gradient(p.unit), p), leaves[i].grad());
      // A shift of all keys changes no softmax, but for their rotation: the terms of this gradient cancel. Its error is
      // relative to the gradients of the three biases, which are sums of terms of one size.
      if (p.name.ends_with(".wk.bias")) {
        const auto size = [&](size_t at) { return leaves.at(at).grad().norm().item<double>(); };
        distance *= size(i) / std::hypot(size(i - 1), size(i), size(i + 1));
      }
      EXPECT_LT(distance, tolerance) << p.name;
    }
    std::vector<int64_t> last_to_first;
    for (int64_t unit = shape.L() + 1; unit >= 0; --unit) last_to_first.push_back(unit);
    EXPECT_EQ(weights.ready, last_to_first);

    const at::Tensor once = weights.gradient(1).clone();
    model.loss_and_gradient(weights, batch, scale, z_factor);  // a second micro-batch adds
    EXPECT_LT(test::relative_distance(weights.gradient(1), once * 2), 1e-6);
  }
};

// Loss, logits and gradients of the reference, computed in `type`.
struct Reference {
  Reference(const test::LocalWeights& weights, const plan::ModelShape& shape, const plan::ParameterPlan& plan,
            const ModelCase& c, const MicroBatch& batch, double scale, at::ScalarType type) {
    std::vector<at::Tensor> leaves;
    for (const plan::Parameter& p : plan.parameters) {
      const at::Tensor w = parameter_view(weights.whole(p.unit), p).to(type, false, true);
      leaves.push_back(w.set_requires_grad(true));
    }
    const at::Tensor loss =
        reference_loss([&](const std::string& name) { return leaves.at(static_cast<size_t>(plan.find(name))); }, shape,
                       c, batch, &logits);
    (loss * scale).backward();
    logits = logits.detach();
    sum = loss.item<double>();
    for (const at::Tensor& w : leaves) gradients.push_back(w.grad());
  }
  double sum;
  at::Tensor logits;
  std::vector<at::Tensor> gradients;
};

// bfloat16 is never exact. Ours must be as near to float64 as PyTorch's, which rounds at other places. Over all
// gradients the differences average out; a single gradient may be twice as far off.
TEST_P(WholeModel, Bfloat16IsAsNearToFloat64AsPyTorchs) {
  const ModelCase& c = GetParam();
  plan::ModelShape shape = plan::model_shape(model_config(c), c.V);
  shape.causal = !c.masked;
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  test::LocalWeights weights(plan, DType::kBFloat16, 11);
  if (shape.qk_norm || c.qkv_bias || c.style != ModelCase::kPlain) weights.vary_vectors(plan);
  const MicroBatch batch = random_batch(c);
  const double scale = 0.037;
  Transformer model(shape, plan, c.B, c.S, {.dtype = DType::kBFloat16, .loss_chunk_tokens = c.chunk, .training = true});
  const double sum = model.loss_and_gradient(weights, batch, scale).loss;

  const Reference exact(weights, shape, plan, c, batch, scale, at::kDouble);
  const Reference theirs(weights, shape, plan, c, batch, scale, at::kBFloat16);
  EXPECT_NEAR(sum / exact.sum, 1, 0x1p-8);
  model.loss(weights, batch);  // backward has used the memory of what the head read
  EXPECT_LE(test::relative_distance(model.logits(weights), exact.logits),
            1.5 * test::relative_distance(theirs.logits, exact.logits));
  double log_ratios = 0, count = 0;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const plan::Parameter& p = plan.parameters[i];
    if (exact.gradients[i].norm().item<double>() < 1e-12) continue;  // one token: queries and keys have none
    const double ratio = test::relative_distance(parameter_view(weights.gradient(p.unit), p), exact.gradients[i]) /
                         test::relative_distance(theirs.gradients[i], exact.gradients[i]);
    EXPECT_LE(ratio, 2) << p.name;
    log_ratios += std::log(ratio), ++count;
  }
  EXPECT_LE(std::exp(log_ratios / count), 1.15);
}

TEST_P(WholeModel, Float64EqualsAutograd) { compare(DType::kFloat64, 1e-10); }
TEST_P(WholeModel, Float32EqualsFloat64Autograd) { compare(DType::kFloat32, 2e-6); }

INSTANTIATE_TEST_SUITE_P(
    Shapes, WholeModel,
    testing::Values(
        ModelCase{"MultiHead", 32, 2, 4, 4, 48, 61, 2, 17, 1000, false, false},
        ModelCase{"GroupedTwo", 48, 3, 4, 2, 80, 258, 3, 33, 20, false, true},
        ModelCase{"GroupedOneTied", 40, 2, 5, 1, 36, 97, 1, 9, 4, true, false},
        ModelCase{"OneLayerOneToken", 16, 1, 2, 1, 16, 31, 2, 1, 64, false, false},
        ModelCase{"LayerNorm", 40, 2, 4, 2, 36, 31, 2, 13, 9, false, false, NormType::kLayerNorm},
        ModelCase{"NpLayerNormTied", 40, 2, 4, 2, 36, 31, 2, 13, 9, true, false, NormType::kNpLayerNorm},
        ModelCase{"RmsNormNeox", 40, 2, 4, 2, 36, 31, 2, 13, 9, false, true, NormType::kRmsNormNeox},
        ModelCase{"HeadsOf256", 512, 1, 2, 1, 16, 31, 1, 21, 64, false, false},
        ModelCase{"HeadsOf16SevenToOne", 112, 1, 7, 1, 16, 31, 2, 19, 64, false, false},
        ModelCase{"HeadsOf96FourToTwo", 384, 1, 4, 2, 16, 31, 1, 33, 64, false, false},
        ModelCase{"HeadsOf128", 256, 1, 2, 2, 16, 31, 1, 35, 64, false, false},
        ModelCase{"Masked", 48, 2, 4, 2, 80, 97, 3, 33, 20, false, true, NormType::kRmsNorm, true},
        ModelCase{"MaskedTied", 32, 2, 4, 4, 48, 61, 2, 17, 1000, true, false, NormType::kLayerNorm, true},
        ModelCase{"WideHeads", 32, 2, 4, 2, 48, 61, 2, 17, 1000, false, false, NormType::kRmsNorm, false, 24},
        ModelCase{"BiasesTied", 40, 2, 4, 2, 36, 97, 2, 19, 9, true, false, NormType::kRmsNorm, false, 0, true},
        ModelCase{"BiasesLayerNorm", 48, 2, 6, 6, 80, 97, 3, 33, 20, false, true, NormType::kLayerNorm, false, 0, true},
        ModelCase{"NormedHeads", 48, 2, 6, 2, 80, 97, 3, 33, 20, false, true, NormType::kRmsNorm, false, 16, false,
                  true},
        ModelCase{"NormedHeadsOf128WithBiasesMasked", 64, 1, 2, 1, 48, 61, 2, 17, 1000, false, false,
                  NormType::kRmsNorm, true, 128, true, true},
        ModelCase{"Olmo2", 48, 2, 6, 2, 80, 97, 3, 33, 20, false, true, NormType::kRmsNorm, false, 0, false, false,
                  true},
        ModelCase{"EverySecondLayerWithoutRope", 48, 4, 6, 2, 80, 97, 2, 33, 20, false, true, NormType::kRmsNorm, false,
                  0, false, false, false, 2},
        ModelCase{"LayersOfTwoWidths", 48,    3, 4,     2,     80,    97, 2,  33, 20, false, true,
                  NormType::kRmsNorm,  false, 0, false, false, false, 3,  144},
        windowed(ModelCase{"Windows", 48, 4, 6, 2, 80, 97, 3, 33, 20, false, true}, 7),
        windowed(ModelCase{"WindowsToBothSides", 48, 3, 4, 2, 80, 97, 2, 33, 20, true, true, NormType::kRmsNorm, true},
                 10),
        ModelCase{"Olmo2Tied", 32, 2, 4, 4, 48, 61, 2, 17, 1000, true, false, NormType::kRmsNorm, false, 0, false,
                  false, true},
        styled(ModelCase{"Gemma", 48, 2, 6, 2, 80, 97, 3, 33, 20, true, true, NormType::kRmsNorm1p, false, 16, false,
                         true},
               ModelCase::kGemma),
        styled(ModelCase{"GemmaLayerNorm", 48, 2, 6, 6, 80, 97, 2, 19, 20, false, false, NormType::kLayerNorm, true, 0,
                         true},
               ModelCase::kGemma),
        styled(ModelCase{"GraniteWithAllBiases", 48, 2, 6, 2, 80, 97, 3, 33, 20, false, true, NormType::kRmsNorm, false,
                         0, true},
               ModelCase::kGranite),
        styled(ModelCase{"GraniteTied", 32, 2, 4, 4, 48, 61, 2, 17, 1000, true, false, NormType::kRmsNorm, true},
               ModelCase::kGranite),
        styled(windowed(ModelCase{"GptOssWithoutExperts", 48, 3, 6, 2, 80, 97, 3, 33, 20, false, true}, 7),
               ModelCase::kGptOss),
        styled(ModelCase{"ArceeWithNormsOfOutputs", 48, 2, 6, 2, 80, 97, 3, 33, 20, false, true, NormType::kRmsNorm1p},
               ModelCase::kArcee),
        styled(windowed(ModelCase{"EncoderTied", 48, 4, 4, 4, 80, 97, 3, 33, 20, true, true, NormType::kLayerNorm,
                                  true},
                        10),
               ModelCase::kEncoder),
        styled(ModelCase{"Encoder", 48, 2, 6, 2, 80, 97, 2, 19, 9, false, false, NormType::kRmsNorm1p, false},
               ModelCase::kEncoder),
        styled(ModelCase{"EncoderWithoutWeightsOfNormsTied", 32, 1, 4, 4, 48, 61, 2, 17, 1000, true, false,
                         NormType::kNpLayerNorm, true},
               ModelCase::kEncoder),
        styled(ModelCase{"Latents", 48, 2, 6, 6, 80, 97, 3, 33, 20, false, true, NormType::kRmsNorm, false, 22},
               ModelCase::kLatent),
        styled(ModelCase{"LatentsOfKeysTied", 40, 2, 3, 3, 36, 97, 2, 19, 9, true, false}, ModelCase::kLatent),
        styled(ModelCase{"EncoderWithoutWeightsOfNorms", 32, 2, 4, 4, 48, 61, 2, 17, 1000, false, false,
                         NormType::kNpLayerNorm, true},
               ModelCase::kEncoder)),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hearth::model
