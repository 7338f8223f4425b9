// SPDX-License-Identifier: Apache-2.0
// A whole model written with ATen's operators, which torch::autograd differentiates.
#pragma once

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/polar.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <functional>
#include <ostream>
#include <string>

#include "config/families.h"
#include "model/loss_head.h"
#include "plan/parameters.h"

namespace hearth::model {

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
  enum Style { kPlain, kGemma, kGranite, kArcee, kEncoder, kLatent, kGptOss } style = kPlain;
  int64_t window = 0;  // of every layer but each third
};

inline ModelCase windowed(ModelCase c, int64_t window) {
  c.window = window;
  return c;
}
inline ModelCase styled(ModelCase c, ModelCase::Style style) {
  c.style = style;
  return c;
}

inline void PrintTo(const ModelCase& c, std::ostream* out) { *out << c.name; }

inline config::Model model_config(const ModelCase& c) {
  config::Model m;
  m.dim = c.D, m.n_layers = c.L, m.n_heads = c.H, m.n_kv_heads = c.G, m.hidden_dim = c.F;
  m.enable_weight_tying = c.tied;
  m.norm_type = c.norm_type;
  m.head_dim = c.K, m.qkv_bias = c.qkv_bias, m.qk_norm = c.qk_norm;
  if (c.like_olmo2) config::apply(config::find_family("olmo2"), m);
  m.no_rope_layer_interval = c.no_rope_layer_interval;
  m.sliding_window = c.window;
  m.full_attention_interval = c.window > 0 ? 3 : 0;
  if (c.style == ModelCase::kGemma) {
    m.norm_placement = config::NormPlacement::kBoth, m.activation = config::Activation::kGeluTanh;
    m.embedding_multiplier = 6.9, m.attention_multiplier = 0.2;
  }
  if (c.style == ModelCase::kGranite) {
    m.embedding_multiplier = 12, m.residual_multiplier = 0.22, m.attention_multiplier = 0.4, m.logits_divisor = 8;
    m.output_bias = m.ffn_bias = true, m.activation = config::Activation::kGelu;
  }
  if (c.style == ModelCase::kArcee) {
    m.activation = config::Activation::kRelu2, m.gated_ffn = false, m.output_bias = m.ffn_bias = true;
    m.norm_placement = config::NormPlacement::kOutputs, m.residual_multiplier = 0.7;
  }
  if (c.style == ModelCase::kGptOss) {
    m.activation = config::Activation::kClampedSwiglu, m.attention_sinks = true;
    m.qkv_bias = m.output_bias = m.ffn_bias = true;
  }
  if (c.style == ModelCase::kEncoder) {
    m.activation = config::Activation::kGelu, m.logits_divisor = 1.5;
    m.embedding_norm = m.prediction_head = m.decoder_bias = true, m.first_attention_norm = false;
  }
  if (c.style == ModelCase::kLatent) {  // K: of the queries' latent
    m.head_dim = 0, m.q_lora_rank = c.K, m.kv_lora_rank = 14;
    m.qk_nope_head_dim = 10, m.qk_rope_head_dim = 6, m.v_head_dim = 9;
  }
  return m;
}

inline MicroBatch random_batch(const ModelCase& c) {
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
inline at::Tensor rotate(const at::Tensor& x_BSNK, double theta) {
  const int64_t S = x_BSNK.size(1), K = x_BSNK.size(3);
  const at::Tensor frequency = at::pow(theta, -at::arange(0, K, 2, at::kDouble) / static_cast<double>(K));
  const at::Tensor angle = at::outer(at::arange(S, at::kDouble), frequency);
  const at::Tensor turn = at::polar(at::ones_like(angle), angle).view({1, S, 1, K / 2});
  const at::Tensor wide = x_BSNK.contiguous().to(at::kDouble);
  const at::Tensor pairs = at::view_as_complex(wide.view({x_BSNK.size(0), S, -1, K / 2, 2}));
  return at::view_as_real(pairs * turn).flatten(3).to(x_BSNK.scalar_type());
}

using Parameters = std::function<at::Tensor(const std::string&)>;

inline at::Tensor norm(const at::Tensor& input, const Parameters& p, const std::string& name, const ModelCase& c,
                       double eps) {
  const NormType type = c.norm_type;
  if (input.scalar_type() == at::kBFloat16) {  // as PyTorch's own norms: in a wider type, rounded at the end
    const Parameters wide = [&p](const std::string& n) { return p(n).to(at::kDouble); };
    return norm(input.to(at::kDouble), wide, name, c, eps).to(at::kBFloat16);
  }
  const at::Tensor& x = input;
  if (type == NormType::kNpLayerNorm) return at::layer_norm(x, {c.D}, {}, {}, eps);
  if (type == NormType::kLayerNorm) return at::layer_norm(x, {c.D}, p(name), {}, eps);
  if (type == NormType::kRmsNorm1p) return x * at::rsqrt(x.square().mean(-1, true) + eps) * (1 + p(name));
  if (type == NormType::kRmsNorm) return x * at::rsqrt(x.square().mean(-1, true) + eps) * p(name);
  return x / (x.norm(2, -1, true) * std::pow(static_cast<double>(c.D), -0.5) + eps) * p(name);
}

// Queries, keys and values of latent attention, [B, H, S, N + R] or [B, H, S, V]: `y` is attention's input.
struct LatentReference {
  at::Tensor q, k, v;
  LatentReference(const Parameters& p, const std::string& of, const at::Tensor& y, const plan::ModelShape& s,
                  const ModelCase& c) {
    const int64_t N = s.qk_nope_head_dim, R = s.qk_rope_head_dim, V = s.v_head_dim;
    ModelCase rms = c;
    rms.norm_type = NormType::kRmsNorm;
    const auto product = [&](const at::Tensor& x, const char* w) { return at::matmul(x, p(of + w).t()); };
    const auto in_heads = [&](const at::Tensor& x) { return x.unflatten(2, {s.H, -1}).transpose(1, 2); };
    const auto turned = [&](const at::Tensor& x) { return rotate(x.transpose(1, 2), s.rope.theta).transpose(1, 2); };
    const at::Tensor queries =
        s.q_lora_rank == 0
            ? product(y, "wq.weight")
            : product(norm(product(y, "wq_a.weight"), p, of + "q_a_norm.weight", rms, 1e-6), "wq_b.weight");
    const at::Tensor latent = product(y, "wkv_a.weight");
    const at::Tensor row = norm(latent.narrow(2, 0, s.kv_lora_rank), p, of + "kv_norm.weight", rms, 1e-6);
    const at::Tensor heads = in_heads(product(row, "wkv_b.weight")), all = in_heads(queries);
    const at::Tensor shared = turned(latent.narrow(2, s.kv_lora_rank, R).unsqueeze(1)).expand({-1, s.H, -1, -1});
    q = at::cat({all.narrow(3, 0, N), turned(all.narrow(3, N, R))}, 3);
    k = at::cat({heads.narrow(3, 0, N), shared}, 3);
    v = heads.narrow(3, N, V);
  }
};

inline at::Tensor activated(config::Activation function, const at::Tensor& x) {
  if (function == config::Activation::kSilu) return at::silu(x);
  if (function == config::Activation::kRelu2) return at::relu(x).square();
  if (function == config::Activation::kClampedSwiglu) return x.clamp_max(7) * at::sigmoid(1.702 * x.clamp_max(7));
  return at::gelu(x, function == config::Activation::kGelu ? "none" : "tanh");
}

// The loss sum of the reference, from parameters by name.
inline at::Tensor reference_loss(const Parameters& p, const plan::ModelShape& s, const ModelCase& c,
                                 const MicroBatch& batch, at::Tensor* logits) {
  const auto tokens = batch.tokens_T.to(at::kLong).view({c.B, c.S});
  at::Tensor x = at::embedding(p("tok_embeddings.weight"), tokens) * s.embedding_multiplier;
  if (s.embedding_norm) x = norm(x, p, "embedding_norm.weight", c, s.norm.eps);
  const bool inputs = s.norm_placement != config::NormPlacement::kOutputs;
  const bool outputs = s.norm_placement != config::NormPlacement::kInputs;
  const double scale = s.attention_multiplier > 0 ? s.attention_multiplier : 1 / std::sqrt(static_cast<double>(s.K));
  const auto linear = [&](const at::Tensor& y, const std::string& name, bool biased) {
    const at::Tensor product = at::matmul(y, p(name + ".weight").t());
    return biased ? product + p(name + ".bias") : product;
  };
  for (int64_t layer = 0; layer < s.L(); ++layer) {
    const std::string n = "layers." + std::to_string(layer) + ".";
    const bool norms_attention = inputs && (layer > 0 || s.first_attention_norm);
    const at::Tensor y = norms_attention ? norm(x, p, n + "attention_norm.weight", c, s.norm.eps) : x;
    const std::string of = n + "attention.";
    auto heads = [&](const char* w, int64_t count) {
      return linear(y, of + w, s.qkv_bias).view({c.B, c.S, count, s.K});
    };
    auto normed = [&](const at::Tensor& x, const char* w) {
      if (!s.qk_norm) return x;
      return c.like_olmo2 ? norm(x.flatten(2), p, of + w, c, s.norm.eps).view(x.sizes())
                          : norm(x, p, of + w, c, s.norm.eps);
    };
    const bool rotates = c.no_rope_layer_interval == 0 || (layer + 1) % c.no_rope_layer_interval != 0;
    const auto turned = [&](const at::Tensor& x) { return rotates ? rotate(x, s.rope.theta) : x; };
    at::Tensor q, k, v;
    if (s.has_latents()) {
      const LatentReference latent(p, of, y, s, c);
      q = latent.q, k = latent.k, v = latent.v;
    } else {
      q = turned(normed(heads("wq", s.H), "q_norm.weight")).transpose(1, 2);
      k = turned(normed(heads("wk", s.G), "k_norm.weight")).repeat_interleave(s.H / s.G, 2).transpose(1, 2);
      v = heads("wv", s.G).repeat_interleave(s.H / s.G, 2).transpose(1, 2);
    }
    const at::Tensor hidden = at::ones({c.S, c.S}, at::kBool).tril().logical_not();
    at::Tensor mask = c.masked ? at::zeros_like(hidden) : hidden;
    if (c.window > 0 && (layer + 1) % 3 != 0) {
      const at::Tensor distance = at::arange(c.S).unsqueeze(1) - at::arange(c.S).unsqueeze(0);
      mask = mask.logical_or(c.masked ? distance.abs().gt(c.window / 2) : distance.ge(c.window));
    }
    const at::Tensor scores = (at::matmul(q, k.transpose(2, 3)) * scale).masked_fill(mask, -INFINITY);
    at::Tensor shares = scores.softmax(-1);
    if (s.attention_sinks) {
      const at::Tensor sinks = p(of + "sinks").view({1, s.H, 1, 1}).expand({c.B, s.H, c.S, 1});
      shares = at::cat({scores, sinks}, -1).softmax(-1).narrow(-1, 0, c.S);
    }
    const at::Tensor o = at::matmul(shares, v).transpose(1, 2).reshape({c.B, c.S, -1});
    const auto branch = [&](const at::Tensor& out, const char* w) {
      return (outputs ? norm(out, p, n + w, c, s.norm.eps) : out) * s.residual_multiplier;
    };
    x = x + branch(linear(o, n + "attention.wo", s.output_bias), "post_attention_norm.weight");
    const at::Tensor z = inputs ? norm(x, p, n + "ffn_norm.weight", c, s.norm.eps) : x;
    const auto first = [&](const char* w) { return linear(z, n + "feed_forward." + w, s.ffn_bias); };
    const at::Tensor gate = activated(s.activation, first("w1"));
    at::Tensor up = s.gated_ffn ? first("w3") : at::Tensor();
    if (s.activation == config::Activation::kClampedSwiglu) up = up.clamp(-7, 7) + 1;
    x = x + branch(linear(s.gated_ffn ? gate * up : gate, n + "feed_forward.w2", s.ffn_bias), "post_ffn_norm.weight");
  }
  const at::Tensor output = p(s.tied ? "tok_embeddings.weight" : "output.weight");
  x = norm(x, p, "norm.weight", c, s.norm.eps);
  if (s.prediction_head) x = norm(at::gelu(linear(x, "head.dense", false)), p, "head.norm.weight", c, s.norm.eps);
  *logits = at::matmul(x, output.t()).view({c.B * c.S, s.V}) / s.logits_divisor;
  if (s.decoder_bias) *logits = *logits + p("decoder.bias");
  const at::Tensor labels = batch.labels_T.to(at::kLong), counted = labels.ne(-100);
  const at::Tensor losses =
      -logits->to(at::kDouble).log_softmax(-1).gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
  const at::Tensor weights = batch.weights_T.defined() ? batch.weights_T.to(at::kDouble) : at::ones_like(losses);
  return (losses * weights * counted).sum();
}

}  // namespace hearth::model
