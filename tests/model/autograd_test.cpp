// SPDX-License-Identifier: Apache-2.0
// The whole model's loss and every gradient against the same model written with ATen's operators and differentiated by
// torch::autograd.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/polar.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "config/families.h"
#include "local_weights.h"
#include "model/parameter_view.h"
#include "model/transformer.h"
#include "support/distance.h"

namespace hearth::model {
namespace {

using config::NormType;

struct ModelCase {
  const char* name;
  int64_t D, L, H, G, F, V, B, S, chunk;
  bool tied, weighted;
  NormType norm_type = NormType::kRmsNorm;
  bool masked = false;  // every position sees every other, and only those that count go through the head
  int64_t K = 0;        // 0: D / H
  bool qkv_bias = false, qk_norm = false;
  bool like_olmo2 = false;  // norms of outputs, and of all heads of queries and keys
  int64_t no_rope_layer_interval = 0;
  int64_t second_F = 0;  // the feed-forward width of every second layer, if it differs
  int64_t window = 0;    // of every layer but each third
};

ModelCase windowed(ModelCase c, int64_t window) {
  c.window = window;
  return c;
}

void PrintTo(const ModelCase& c, std::ostream* out) { *out << c.name; }

config::Model model_config(const ModelCase& c) {
  config::Model m;
  m.dim = c.D, m.n_layers = c.L, m.n_heads = c.H, m.n_kv_heads = c.G, m.hidden_dim = c.F;
  m.enable_weight_tying = c.tied;
  m.norm_type = c.norm_type;
  m.head_dim = c.K, m.qkv_bias = c.qkv_bias, m.qk_norm = c.qk_norm;
  if (c.like_olmo2) config::apply(config::find_family("olmo2"), m);
  m.no_rope_layer_interval = c.no_rope_layer_interval;
  m.sliding_window = c.window;
  m.full_attention_interval = c.window > 0 ? 3 : 0;
  return m;
}

MicroBatch random_batch(const ModelCase& c) {
  at::manual_seed(5);
  MicroBatch batch;
  batch.tokens_T = at::randint(c.V, {c.B * c.S}, at::kInt);
  batch.labels_T = at::randint(c.V, {c.B * c.S}, at::kInt);
  batch.labels_T.index_put_({at::arange(0, c.B * c.S, 3)}, at::scalar_tensor(-100, at::kInt));
  if (c.weighted) batch.weights_T = at::rand({c.B * c.S}, at::kFloat);
  if (c.masked) batch.counted_N = at::nonzero(batch.labels_T.ne(-100)).view(-1);
  return batch;
}

// RoPE by complex multiplication, as Meta's code does it.
at::Tensor rotate(const at::Tensor& x_BSNK, double theta) {
  const int64_t S = x_BSNK.size(1), K = x_BSNK.size(3);
  const at::Tensor frequency = at::pow(theta, -at::arange(0, K, 2, at::kDouble) / static_cast<double>(K));
  const at::Tensor angle = at::outer(at::arange(S, at::kDouble), frequency);
  const at::Tensor turn = at::polar(at::ones_like(angle), angle).view({1, S, 1, K / 2});
  const at::Tensor wide = x_BSNK.contiguous().to(at::kDouble);
  const at::Tensor pairs = at::view_as_complex(wide.view({x_BSNK.size(0), S, -1, K / 2, 2}));
  return at::view_as_real(pairs * turn).flatten(3).to(x_BSNK.scalar_type());
}

using Parameters = std::function<at::Tensor(const std::string&)>;

at::Tensor norm(const at::Tensor& input, const Parameters& p, const std::string& name, const ModelCase& c, double eps) {
  const NormType type = c.norm_type;
  if (input.scalar_type() == at::kBFloat16) {  // as PyTorch's own norms: in a wider type, rounded at the end
    const Parameters wide = [&p](const std::string& n) { return p(n).to(at::kDouble); };
    return norm(input.to(at::kDouble), wide, name, c, eps).to(at::kBFloat16);
  }
  const at::Tensor& x = input;
  if (type == NormType::kNpLayerNorm) return at::layer_norm(x, {c.D}, {}, {}, eps);
  if (type == NormType::kLayerNorm) return at::layer_norm(x, {c.D}, p(name), {}, eps);
  if (type == NormType::kRmsNorm) return x * at::rsqrt(x.square().mean(-1, true) + eps) * p(name);
  return x / (x.norm(2, -1, true) * std::pow(static_cast<double>(c.D), -0.5) + eps) * p(name);
}

// The loss sum of the reference, from parameters by name.
at::Tensor reference_loss(const Parameters& p, const plan::ModelShape& s, const ModelCase& c, const MicroBatch& batch,
                          at::Tensor* logits) {
  const auto tokens = batch.tokens_T.to(at::kLong).view({c.B, c.S});
  at::Tensor x = at::embedding(p("tok_embeddings.weight"), tokens);
  for (int64_t layer = 0; layer < s.L(); ++layer) {
    const std::string n = "layers." + std::to_string(layer) + ".";
    const bool outputs = c.like_olmo2;
    const at::Tensor y = outputs ? x : norm(x, p, n + "attention_norm.weight", c, s.norm.eps);
    const std::string of = n + "attention.";
    auto heads = [&](const char* w, int64_t count) {
      const at::Tensor product = at::matmul(y, p(of + w + ".weight").t());
      return (s.qkv_bias ? product + p(of + w + ".bias") : product).view({c.B, c.S, count, s.K});
    };
    auto normed = [&](const at::Tensor& x, const char* w) {
      if (!s.qk_norm) return x;
      return outputs ? norm(x.flatten(2), p, of + w, c, s.norm.eps).view(x.sizes()) : norm(x, p, of + w, c, s.norm.eps);
    };
    const bool rotates = c.no_rope_layer_interval == 0 || (layer + 1) % c.no_rope_layer_interval != 0;
    const auto turned = [&](const at::Tensor& x) { return rotates ? rotate(x, s.rope.theta) : x; };
    const at::Tensor q = turned(normed(heads("wq", s.H), "q_norm.weight")).transpose(1, 2);
    const at::Tensor k =
        turned(normed(heads("wk", s.G), "k_norm.weight")).repeat_interleave(s.H / s.G, 2).transpose(1, 2);
    const at::Tensor v = heads("wv", s.G).repeat_interleave(s.H / s.G, 2).transpose(1, 2);
    const at::Tensor hidden = at::ones({c.S, c.S}, at::kBool).tril().logical_not();
    at::Tensor mask = c.masked ? at::zeros_like(hidden) : hidden;
    if (c.window > 0 && (layer + 1) % 3 != 0) {
      const at::Tensor distance = at::arange(c.S).unsqueeze(1) - at::arange(c.S).unsqueeze(0);
      mask = mask.logical_or(c.masked ? distance.abs().gt(c.window / 2) : distance.ge(c.window));
    }
    const at::Tensor scores =
        (at::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(s.K))).masked_fill(mask, -INFINITY);
    const at::Tensor o = at::matmul(scores.softmax(-1), v).transpose(1, 2).reshape({c.B, c.S, s.H * s.K});
    const auto branch = [&](const at::Tensor& out, const char* w) {
      return outputs ? norm(out, p, n + w, c, s.norm.eps) : out;
    };
    x = x + branch(at::matmul(o, p(n + "attention.wo.weight").t()), "post_attention_norm.weight");
    const at::Tensor z = outputs ? x : norm(x, p, n + "ffn_norm.weight", c, s.norm.eps);
    x = x + branch(at::matmul(at::silu(at::matmul(z, p(n + "feed_forward.w1.weight").t())) *
                                  at::matmul(z, p(n + "feed_forward.w3.weight").t()),
                              p(n + "feed_forward.w2.weight").t()),
                   "post_ffn_norm.weight");
  }
  const at::Tensor output = p(s.tied ? "tok_embeddings.weight" : "output.weight");
  *logits = at::matmul(norm(x, p, "norm.weight", c, s.norm.eps), output.t()).view({c.B * c.S, s.V});
  const at::Tensor labels = batch.labels_T.to(at::kLong), counted = labels.ne(-100);
  const at::Tensor losses =
      -logits->to(at::kDouble).log_softmax(-1).gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
  const at::Tensor weights = batch.weights_T.defined() ? batch.weights_T.to(at::kDouble) : at::ones_like(losses);
  return (losses * weights * counted).sum();
}

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
    if (shape.qk_norm || c.qkv_bias) weights.vary_vectors(plan);
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
  if (shape.qk_norm || c.qkv_bias) weights.vary_vectors(plan);
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
                  false, true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hearth::model
