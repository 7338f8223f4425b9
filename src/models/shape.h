// SPDX-License-Identifier: Apache-2.0
// The sizes and options of a model, or of the part of it that a rank has: what its blocks are built from.
//
// Tensor parallel: ranks may share every layer (arXiv 1909.08053, with the sequence parallel of arXiv 2205.05198). A
// rank then has a part of each matrix, and H, G, F and V are the part's.
//
// Context parallel: ranks may share every sequence (arXiv 2309.14509). This cuts no matrix: a rank has some positions
// of each sequence, and in attention all positions of some heads.
//
// Expert parallel: ranks may have different experts of every layer (arXiv 2006.16668). Then no rank has a part of an
// expert.
//
// Shape letters of the whole project: B sequences, S positions, T = B*S tokens, D model width, H query heads,
// G key/value heads, K head width, F feed-forward width, V vocabulary, L layers.
#pragma once

#include <cstdint>
#include <vector>

#include "config/block_options.h"
#include "config/choices.h"
#include "models/rope.h"

namespace hearth::models {

// A norm of ops/norm.h; eps is added to a row's mean square or variance.
using config::Activation;
using config::NormType;
struct Norm {
  NormType type = NormType::kRmsNorm;
  double eps = 1e-5;
  bool operator==(const Norm&) const = default;
};
constexpr bool has_weight(NormType type) { return type != NormType::kNpLayerNorm; }
// The norm multiplies by 1 + its weight, which begins at zero.
constexpr bool adds_one(NormType type) { return type == NormType::kRmsNorm1p; }
constexpr bool is_centred(NormType type) { return type == NormType::kLayerNorm || type == NormType::kNpLayerNorm; }

// The law of initial weights: torchtitan's, or N(0, std). wo and w2, which write to the residual stream, get N(0,
// output_std).
struct Initialization {
  bool torchtitan = true;
  bool by_depth = true;  // torchtitan: std depends on the layer's own depth, not on the model's
  double std = 0, output_std = 0;
  bool operator==(const Initialization&) const = default;
};

// One rank of the `size` ranks that share every layer, or every sequence.
struct TensorPart {
  int64_t rank = 0, size = 1;
  bool operator==(const TensorPart&) const = default;
};

// One rank of the `size` ranks that have different experts.
struct ExpertPart {
  int64_t rank = 0, size = 1;
  bool operator==(const ExpertPart&) const = default;
};

// The ids whose rows of embedding and output a rank has begin at `first`. total: all ids; 0: the rank has all.
struct VocabularyPart {
  int64_t first = 0, total = 0;
  bool operator==(const VocabularyPart&) const = default;
};

// The settings in which a layer may differ from the model's other layers.
struct Layer {
  int64_t F;                    // of each expert in a layer with experts
  int64_t experts = 0;          // 0: one feed-forward for all tokens
  int64_t shared_F = 0;         // width of the feed-forward for all tokens besides experts; 0: none
  bool rotates = true;          // queries and keys, by their positions (RoPE)
  bool local_rope = false;      // it rotates as ModelShape::local_rope says
  int64_t window = 0;           // tokens that a position sees, itself included; 0: all
  bool norms_attention = true;  // the input of attention, in a model that norms inputs
  bool operator==(const Layer&) const = default;
};

// The layers of a pipeline's stage begin at `first`. total: the model's layers; 0: the stage has all.
struct StagePart {
  int64_t first = 0, total = 0;
  bool operator==(const StagePart&) const = default;
};

// The model's shape; all defaults are resolved. For a part of a model (model_part), H, G, F and V are the part's. For a
// stage of a pipeline (stage_part), the layers are the stage's.
struct ModelShape : config::BlockOptions {
  int64_t D, H, G, K, V;
  std::vector<Layer> layers;
  Norm norm;
  Rope rope, local_rope;  // of most layers, and of those with Layer::local_rope
  Initialization initialization;
  bool tied;
  bool causal = true;           // a position sees positions up to its own; false: all positions
  bool document_scope = false;  // a position sees its own document only, and positions begin there at 0
  bool sparse_labels = false;   // labels of many positions do not count; these positions skip the output matrix
  double counted = 1;           // approximate share of positions that count
  TensorPart tensor = {};
  VocabularyPart vocabulary = {};
  int64_t context = 1;    // ranks that share every sequence
  int64_t key_ranks = 1;  // ranks with different positions in attention (plan/context_parallel.h)
  ExpertPart expert_part = {};
  StagePart stage = {};

  int64_t L() const { return static_cast<int64_t>(layers.size()); }
  int64_t F() const;  // of the widest layer
  // How many positions a position of this layer sees before it, and behind it if the model is not causal; -1: all. A
  // window of both sides has the position in its middle, as in ModernBERT.
  int64_t reach(const Layer& layer) const {
    return layer.window == 0 ? -1 : causal ? layer.window - 1 : layer.window / 2;
  }
  // Columns of the feed-forward's first product: w1's, and w3's beside them.
  int64_t ffn_width() const { return (gated_ffn ? 2 : 1) * F(); }
  // A layer as a stage of its own: what its block is built from.
  ModelShape layer(int64_t index) const;
  bool has_embedding() const { return stage.first == 0; }
  bool has_output() const { return stage.total == 0 || stage.first + L() == stage.total; }
  int64_t head_ranks() const { return context / key_ranks; }
  bool shares_experts() const { return expert_part.size > 1; }
  const Rope& rope_of(const Layer& layer) const { return layer.local_rope ? local_rope : rope; }
  int64_t qk_heads() const { return H + G; }  // the heads that are rotated, next to each other in a row
  int64_t qkv_width() const { return (H + 2 * G) * K; }
  // Elements of a value. With latent attention zeros fill it up to K.
  int64_t value_width() const { return has_latents() ? v_head_dim : K; }
  // The first of a head's elements that rotates: the first of all, or with latent attention the first of the last.
  int64_t first_rotated() const { return has_latents() ? qk_nope_head_dim : 0; }
  // The factor of a layer's scores, as ops of attention have it.
  double score_scale(const Layer& layer) const;
  // The norm of a head: [K] for queries, [K] for keys.
  Norm head_norm() const { return {adds_one(norm.type) ? norm.type : NormType::kRmsNorm, norm.eps}; }
  // The heads of a rank in attention. If there are more head ranks than key/value heads, several ranks have the same
  // key/value head.
  int64_t attention_heads() const { return H / head_ranks(); }
  int64_t attention_key_heads() const { return G < head_ranks() ? 1 : G / head_ranks(); }
  bool operator==(const ModelShape&) const = default;
};

// The different layers of a model, and for each layer which of them it equals. A figure of equal layers is computed
// once.
struct LayerKinds {
  std::vector<Layer> kinds;
  std::vector<size_t> of_layer;
};
LayerKinds layer_kinds(const ModelShape& shape);

}  // namespace hearth::models
