// SPDX-License-Identifier: Apache-2.0
// The table behind fields.h: every key with its place in RunConfig, unit, help and limits. A new key is added here or
// in field_table_run.cpp, and in config.h, nowhere else.
#include "config/families.h"
#include "config/field_row.h"

namespace hearth::config {
namespace {

// clang-format off
void add_model(FieldTable& t) {
  const Condition windowed = is_not("model.sliding_window", 0);
  t.section("job", &RunConfig::job, {
    {"dump_folder", &Job::dump_folder, kMayChange, "",
     "the run folder, for checkpoints and metrics.jsonl; relative to the run file's folder"},
    {"description", &Job::description, kMayChange, "", "a description of the run for its readers"},
  });
  t.section("model", &RunConfig::model, {
    {"name", &Model::name, kMayChange, "",
     "the family of the model, whose options it has unless they are given, and of model.flavor", one_of(model_names())},
    {"flavor", &Model::flavor, kMayChange, "",
     "a named shape of model.name; given keys override it; empty means the keys alone give the shape"},
    {"dim", &Model::dim, kRefuse, "", "width of the residual stream", between(1, 1 << 20)},
    {"n_layers", &Model::n_layers, kRefuse, "", "number of blocks", between(1, 10000)},
    {"n_heads", &Model::n_heads, kRefuse, "", "query heads", between(1, 1 << 16)},
    {"n_kv_heads", &Model::n_kv_heads, kRefuse, "",
     "key/value heads, each shared by n_heads / n_kv_heads query heads; 0 means n_heads", between(0, 1 << 16)},
    {"head_dim", &Model::head_dim, kRefuse, "", "width of a head; 0 means dim / n_heads", between(0, 1 << 16)},
    {"hidden_dim", &Model::hidden_dim, kRefuse, "",
     "width of the feed-forward layer; 0 means 8/3 dim times ffn_dim_multiplier, rounded up to multiple_of",
     between(0, 1 << 24)},
    {"ffn_dim_multiplier", &Model::ffn_dim_multiplier, kRefuse, "",
     "factor on the feed-forward width if hidden_dim is 0; 0 means no factor", between(0, 100)},
    {"multiple_of", &Model::multiple_of, kRefuse, "",
     "the feed-forward width is rounded up to a multiple of this if hidden_dim is 0", between(1, 1 << 20)},
    {"norm_type", &Model::norm_type, kRefuse, "",
     "layernorm has a weight and no bias, np_layernorm no parameters; rmsnorm_neox adds norm_eps to the root mean "
     "square, as GPT-NeoX did until 2025; rmsnorm_1p multiplies by 1 + its weight, which begins at 0 (Gemma)"},
    {"norm_eps", &Model::norm_eps, kRefuse, "",
     "added to the mean square of a row (of layernorm to the variance, of rmsnorm_neox to the root)", between(0, 1)},
    {"attention_scope", &Model::attention_scope, kRefuse, "",
     "the tokens that a position sees: its whole window, or only its own document, whose positions start at 0"},
    {"sliding_window", &Model::sliding_window, kRefuse, "tokens",
     "the tokens that a position sees, itself the last of them (Mistral); a model that sees both sides sees half of "
     "them to each side; 0 means all", between(0, 1 << 30)},
    {"full_attention_interval", &Model::full_attention_interval, kRefuse, "layers",
     "every n-th layer has no window (OLMo 3: 4; Gemma 3: 6); 0: all layers have it, or layer_types says which have",
     between(0, 10000), {windowed}},
    {"first_full_attention_layer", &Model::first_full_attention_layer, kRefuse, "",
     "with full_attention_interval: the first layer without a window, from 0; -1 means full_attention_interval - 1 "
     "(ModernBERT: 0)", or_special(-1, between(0, 10000)), {is_not("model.full_attention_interval", 0)}},
    {"layer_types", &Model::layer_types, kRefuse, "",
     "for each layer whether it has the window: \"sliding_attention\", or \"full_attention\"; transformers has the "
     "same list", {}, {windowed}},
    {"enable_weight_tying", &Model::enable_weight_tying, kRefuse, "", "the output matrix is the token embedding"},
  });
}

// What positions do to queries and keys (models/rope.h).
void add_rope(FieldTable& t) {
  const Condition scaled = is_not("model.rope_scaling_factor", 1.0), llama3 = is("model.rope_type", RopeType::kLlama3),
                  yarn = is("model.rope_type", RopeType::kYarn), longrope = is("model.rope_type", RopeType::kLongRope),
                  stretched = is("model.rope_type", RopeType::kLlama3, RopeType::kYarn, RopeType::kLongRope);
  const Condition windowed = is_not("model.sliding_window", 0);
  t.section("model", &RunConfig::model, {
    {"rope_theta", &Model::rope_theta, kRefuse, "", "base of the rotary frequencies", at_least(1)},
    {"rope_type", &Model::rope_type, kRefuse, "",
     "how rope_scaling_factor scales the rotary frequencies: as Llama 3.1, all alike (linear), as YaRN (arXiv "
     "2309.00071), or by a list of factors (longrope, arXiv 2402.13753, Phi-3); default means not at all"},
    {"rope_scaling_factor", &Model::rope_scaling_factor, kRefuse, "",
     "the factor by which sequences may be longer than rope_original_seq_len: rotary frequencies are divided by it, "
     "those with short waves less or not at all, as rope_type says; 1 means none", at_least(1),
     {is_not("model.rope_type", RopeType::kDefault)}},
    {"rope_low_freq_factor", &Model::rope_low_freq_factor, kRefuse, "",
     "llama3: a wave longer than rope_original_seq_len / this is scaled in full", above(0, 1e6), {scaled, llama3}},
    {"rope_high_freq_factor", &Model::rope_high_freq_factor, kRefuse, "",
     "llama3: a wave shorter than rope_original_seq_len / this is not scaled; in between, in part", above(0, 1e6),
     {scaled, llama3}},
    {"rope_original_seq_len", &Model::rope_original_seq_len, kRefuse, "tokens",
     "the sequence length that the frequencies were chosen for", at_least(1), {scaled, stretched}},
    {"rope_beta_fast", &Model::rope_beta_fast, kRefuse, "waves",
     "yarn: a pair with more waves than this in rope_original_seq_len is not scaled", above(0, 1e6), {yarn}},
    {"rope_beta_slow", &Model::rope_beta_slow, kRefuse, "waves",
     "yarn: a pair with fewer waves than this in rope_original_seq_len is scaled in full; in between, in part",
     above(0, 1e6), {yarn}},
    {"rope_truncate", &Model::rope_truncate, kRefuse, "",
     "yarn: the pairs where scaling begins and is full are rounded to whole numbers (gpt-oss: false)", {}, {yarn}},
    {"rope_attention_factor", &Model::rope_attention_factor, kRefuse, "",
     "yarn and longrope: rotated queries and keys are multiplied by this; 0 means 0.1 ln(rope_scaling_factor) + 1 for "
     "yarn, and sqrt(1 + ln(rope_scaling_factor) / ln(rope_original_seq_len)) for longrope", between(0, 1e6),
     {is("model.rope_type", RopeType::kYarn, RopeType::kLongRope)}},
    {"rope_mscale_all_dim", &Model::rope_mscale_all_dim, kRefuse, "",
     "yarn: the products of queries and keys are multiplied by the square of 0.1 this ln(rope_scaling_factor) + 1, too "
     "(DeepSeek-V3: 1); 0 means not", between(0, 1e3), {scaled, yarn}},
    {"rope_short_factor", &Model::rope_short_factor, kRefuse, "",
     "longrope: each rotating pair's frequency is divided by its number here in sequences of up to "
     "rope_original_seq_len; the windows of a training and of its evaluation have training.seq_len", above(0, 1e9),
     {longrope}},
    {"rope_long_factor", &Model::rope_long_factor, kRefuse, "",
     "longrope: the same in longer sequences", above(0, 1e9), {longrope}},
    {"partial_rotary_factor", &Model::partial_rotary_factor, kRefuse, "",
     "the share of a head's elements that rotate, the first ones (Phi-4-mini: 0.75)", above(0, 1)},
    {"rope_local_theta", &Model::rope_local_theta, kRefuse, "",
     "the base of the rotary frequencies in layers with a window, which are not scaled there (Gemma 3: 10000; OLMo 3: "
     "rope_theta); 0 means that these layers rotate as all others", or_special(0, at_least(1)), {windowed}},
    {"query_position_scale", &Model::query_position_scale, kRefuse, "",
     "rotated queries at position p are multiplied by 1 + this * ln(1 + floor(p / rope_original_seq_len)) (Ministral "
     "3: 0.1); 0 means not", between(0, 100), {scaled, stretched}},
    {"rope_pairs", &Model::rope_pairs, kRefuse, "",
     "the elements of a head that rotate as pairs: neighbours (Meta, torchtitan), or i and i + width / 2 (GPT-NeoX, "
     "Hugging Face)"},
  });
}

// What its blocks compute (config/block_options.h).
void add_block(FieldTable& t) {
  t.section("model", &RunConfig::model, {
    {"norm_placement", &Model::norm_placement, kRefuse, "",
     "the norms of a block are of the inputs of attention and feed-forward, of their outputs (OLMo 2), or of both "
     "(Gemma)"},
    {"qkv_bias", &Model::qkv_bias, kRefuse, "", "biases are added to queries, keys and values (Qwen2)"},
    {"attention_gate", &Model::attention_gate, kRefuse, "",
     "each element of attention's output is multiplied by the sigmoid of a product of attention's input (Trinity, "
     "arXiv 2505.06708)"},
    {"output_bias", &Model::output_bias, kRefuse, "", "a bias is added to the output of attention"},
    {"attention_sinks", &Model::attention_sinks, kRefuse, "",
     "each head has a learned number that joins its scores in the softmax of attention, with a value of zero: a "
     "position may attend to nothing (gpt-oss)"},
    {"ffn_bias", &Model::ffn_bias, kRefuse, "",
     "biases are added to the products of the feed-forward's matrices, or of each expert's (gpt-oss)"},
    {"qk_norm", &Model::qk_norm, kRefuse, "",
     "queries and keys go through an RMSNorm before their rotation, one for queries and one for keys"},
    {"qk_norm_scope", &Model::qk_norm_scope, kRefuse, "",
     "qk_norm takes every head for itself, with one weight of a head's width (Qwen3), or all heads as one row (OLMo 2)",
     {}, {is("model.qk_norm", true)}},
    {"activation", &Model::activation, kRefuse, "",
     "the function of the feed-forward: silu (Llama), gelu, its approximation with tanh (Gemma), or the square of relu "
     "(AFM); clamped_swiglu is (clamp(w3 x, -7, 7) + 1) g sigmoid(1.702 g) with g = min(w1 x, 7) (gpt-oss)"},
    {"gated_ffn", &Model::gated_ffn, kRefuse, "",
     "the feed-forward is w2 (f(w1 x) * w3 x), as in Llama; else w2 f(w1 x), without w3 (AFM)"},
    {"embedding_multiplier", &Model::embedding_multiplier, kRefuse, "",
     "token embeddings are multiplied by this (Granite: 12; Gemma: sqrt(dim))", above(0, 1e6)},
    {"round_embedding_multiplier", &Model::round_embedding_multiplier, kRefuse, "",
     "embedding_multiplier is rounded to the type of the activations first (Gemma)", {},
     {is_not("model.embedding_multiplier", 1.0)}},
    {"residual_multiplier", &Model::residual_multiplier, kRefuse, "",
     "the outputs of attention and feed-forward are multiplied by this before they join the residual stream (Granite: "
     "0.22)", above(0, 1e6)},
    {"attention_multiplier", &Model::attention_multiplier, kRefuse, "",
     "the products of queries and keys are multiplied by this (Granite); 0 means 1 / sqrt(head_dim)",
     between(0, 1e6)},
    {"logits_divisor", &Model::logits_divisor, kRefuse, "",
     "the logits are divided by this (Granite's logits_scaling)", above(0, 1e6)},
    {"no_rope_layer_interval", &Model::no_rope_layer_interval, kRefuse, "layers",
     "every n-th layer does not rotate its queries and keys (NoPE, arXiv 2501.18795; SmolLM3: 4); 0: all layers do",
     between(0, 10000)},
    {"embedding_norm", &Model::embedding_norm, kRefuse, "",
     "token embeddings go through a norm before the first layer (ModernBERT)"},
    {"first_attention_norm", &Model::first_attention_norm, kRefuse, "",
     "the first layer norms the input of its attention, as the others do; in ModernBERT it does not, because "
     "embeddings are normed", {}, {is_not("model.norm_placement", NormPlacement::kOutputs)}},
    {"prediction_head", &Model::prediction_head, kRefuse, "",
     "between the last norm and the output matrix are a dim x dim matrix, gelu and a norm (ModernBERT; BERT's matrix "
     "has a bias)"},
    {"decoder_bias", &Model::decoder_bias, kRefuse, "",
     "a bias is added to the logits, one number for each id (BERT, ModernBERT)"},
  });
}

// Latent attention (models/mla/latent.h).
void add_latent(FieldTable& t) {
  const Condition latent = is_not("model.kv_lora_rank", 0);
  t.section("model", &RunConfig::model, {
    {"kv_lora_rank", &Model::kv_lora_rank, kRefuse, "",
     "keys and values are products of a normed row of this width, which is a product of attention's input (latent "
     "attention, arXiv 2405.04434; DeepSeek-V3: 512); 0 means products of the input itself", between(0, 1 << 16)},
    {"q_lora_rank", &Model::q_lora_rank, kRefuse, "",
     "the same for queries (DeepSeek-V3: 1536); 0 means products of the input itself", between(0, 1 << 16), {latent}},
    {"qk_nope_head_dim", &Model::qk_nope_head_dim, kRefuse, "",
     "elements of each head's query and key that do not rotate", between(1, 1 << 16), {latent}},
    {"qk_rope_head_dim", &Model::qk_rope_head_dim, kRefuse, "",
     "elements behind these that rotate; all heads have these elements of the key in common", between(1, 1 << 16),
     {latent}},
    {"v_head_dim", &Model::v_head_dim, kRefuse, "", "elements of each head's value", between(1, 1 << 16), {latent}},
  });
}

// A mixture of experts (models/moe/experts.h).
void add_experts(FieldTable& t) {
  const Condition sparse = is_not("model.num_experts", 0);
  t.section("model", &RunConfig::model, {
    {"num_experts", &Model::num_experts, kRefuse, "",
     "the feed-forwards of a layer, of which each token takes moe_top_k (Qwen3-30B-A3B: 128); 0 means one, for all "
     "tokens", between(0, 1 << 14)},
    {"moe_top_k", &Model::moe_top_k, kRefuse, "",
     "the experts of a token: those with the largest scores, which score_func makes of a product with the token's row",
     between(1, 1 << 14), {sparse}},
    {"moe_hidden_dim", &Model::moe_hidden_dim, kRefuse, "", "width of an expert; 0 means hidden_dim",
     between(0, 1 << 24), {sparse}},
    {"n_dense_layers", &Model::n_dense_layers, kRefuse, "layers",
     "the first n layers have one feed-forward of hidden_dim, and no experts", between(0, 10000), {sparse}},
    {"num_shared_experts", &Model::num_shared_experts, kRefuse, "",
     "a layer with experts also has one feed-forward for all tokens, n times as wide as an expert (DeepSeek, GLM-4.5)",
     between(0, 1 << 10), {sparse}},
    {"score_func", &Model::score_func, kRefuse, "",
     "the scores of a token's experts: softmax over all experts (Qwen3, Mixtral), or each expert's sigmoid "
     "(DeepSeek-V3, GLM-4.5)", {}, {sparse}},
    {"router_bias", &Model::router_bias, kRefuse, "",
     "a learned bias is added to the products that become the scores of a token's experts (gpt-oss)", {}, {sparse}},
    {"expert_bias", &Model::expert_bias, kRefuse, "",
     "experts are chosen by their scores plus a bias. It has no gradient: after each step an expert that got fewer "
     "tokens than the mean gets load_balance_coeff more, others less (arXiv 2408.15664). The weights of the chosen are "
     "without it", {}, {sparse}},
    {"load_balance_coeff", &Model::load_balance_coeff, kMayChange, "",
     "how far a step moves each expert's bias (DeepSeek-V3: 1e-3); 0 means the biases stay", between(0, 1),
     {is("model.expert_bias", true)}},
    {"num_expert_groups", &Model::num_expert_groups, kRefuse, "groups",
     "neighbouring experts are a group (DeepSeek-V3: 8); 1 means none", between(1, 1 << 13), {sparse}},
    {"num_limited_groups", &Model::num_limited_groups, kRefuse, "groups",
     "a token's experts are from this many groups, those with the largest sum of their two best scores with bias "
     "(arXiv 2412.19437)", between(1, 1 << 13), {sparse}},
    {"route_norm", &Model::route_norm, kRefuse, "",
     "the outputs of a token's experts are weighed by their scores divided by the sum of these (Qwen3, Mixtral); else "
     "by the scores (OLMoE)", {}, {sparse}},
    {"route_scale", &Model::route_scale, kRefuse, "", "the weights of a token's experts are multiplied by this",
     above(0, 1e6), {sparse}},
    {"moe_aux_loss_coeff", &Model::moe_aux_loss_coeff, kMayChange, "",
     "times a loss that is smallest if all experts of a layer get equally many tokens of a sequence (arXiv 2412.19437, "
     "equation 17; Switch Transformer: 1e-2); its gradient trains the router, and it is not in the loss that is shown; "
     "0 means none", between(0, 1e3), {sparse}},
    {"moe_z_loss_coeff", &Model::moe_z_loss_coeff, kMayChange, "",
     "times the mean square of the log of the denominator of the scores' softmax (ST-MoE: 1e-3); as moe_aux_loss_coeff",
     between(0, 1e3), {sparse}},
  });
}

// The initial weights, and the vocabulary's rows.
void add_initial(FieldTable& t) {
  const Condition normal = is_not("model.init", InitLaw::kTorchtitan);
  t.section("model", &RunConfig::model, {
    {"init", &Model::init, kNoEffect, "",
     "initial weights: torchtitan's, or a normal law of GPT-NeoX; its deviation is init_std (normal), init_std / "
     "sqrt(2 n_layers) (scaled_normal), sqrt(2 / (5 dim)) (small_init) or 2 / (n_layers sqrt(dim)) (wang_init)"},
    {"output_init", &Model::output_init, kNoEffect, "",
     "the law of wo and w2, which write to the residual stream, unless init is torchtitan",
     one_of(InitLaw::kNormal, InitLaw::kScaledNormal, InitLaw::kSmallInit, InitLaw::kWangInit), {normal}},
    {"init_std", &Model::init_std, kNoEffect, "",
     "the standard deviation of normal, and of scaled_normal before it is scaled", above(0, 10),
     {normal, either_is("model.init", "model.output_init", InitLaw::kNormal, InitLaw::kScaledNormal)}},
    {"depth_init", &Model::depth_init, kNoEffect, "",
     "with init = torchtitan, the initial scale of wo, w2 and w3 falls with the layer's own depth, else with n_layers",
     {}, {is("model.init", InitLaw::kTorchtitan)}},
    {"vocab_size", &Model::vocab_size, kRefuse, "tokens",
     "rows of the embedding; 0 means the tokenizer's vocabulary", between(0, 1 << 26)},
  });
}

void add_objective(FieldTable& t) {
  const Condition masked = is("objective.kind", ObjectiveKind::kMaskedLm),
                  diffuses = is("objective.kind", ObjectiveKind::kMaskedDiffusion),
                  hides = is("objective.kind", ObjectiveKind::kMaskedLm, ObjectiveKind::kMaskedDiffusion);
  t.section("objective", &RunConfig::objective, {
    {"kind", &Objective::kind, kRefuse, "",
     "causal_lm predicts the next token; masked_lm hidden ones, from both sides; spike_lm the next count of a "
     "recording; masked_diffusion hidden ones, at a random rate for each sequence (LLaDA's loss)"},
    {"z_loss", &Objective::z_loss, kMayChange, "",
     "times the square of the log of the softmax's denominator is added to each label's loss (PaLM: 1e-4); 0 means "
     "none", between(0, 1)},
    {"mlm_probability", &Objective::mlm_probability, kMayChange, "",
     "masked_lm: the share of hidden positions; each is chosen independently, or each word with whole_words",
     above(0, 1), {masked}},
    {"mlm_probability_end", &Objective::mlm_probability_end, kMayChange, "",
     "masked_lm: mlm_probability falls or rises to this from the first to the last sample of the training, on a line; "
     "held-out text always has this share hidden; a resume that makes the run longer stretches the line; 0 means that "
     "it does not change", between(0, 1), {masked}},
    {"whole_words", &Objective::whole_words, kMayChange, "",
     "masked_lm: the tokens of a word are hidden together; a word is a run of at most 32 tokens of letters and digits, "
     "and scripts from U+0800 on (Chinese, Thai) have none", {}, {masked}},
    {"mask_token", &Objective::mask_token, kRefuse, "",
     "masked_lm, masked_diffusion: the special token that stands for a hidden one; empty means the tokenizer's [MASK] "
     "or <mask>", {}, {hides}},
    {"mask_id", &Objective::mask_id, kRefuse, "",
     "masked_lm, masked_diffusion: the id of the mask if the tokenizer has no mask token; model.vocab_size may add a "
     "row for it; -1 means the id of mask_token", or_special(-1, between(0, 1 << 26)), {hides}},
    {"mask_replace_prob", &Objective::mask_replace_prob, kMayChange, "",
     "masked_lm: the share of hidden positions that show the mask (BERT: 0.8)", between(0, 1), {masked}},
    {"random_replace_prob", &Objective::random_replace_prob, kMayChange, "",
     "masked_lm: the share of hidden positions that show a random token (BERT: 0.1); the rest show the true token",
     between(0, 1), {masked}},
    {"mask_special_tokens", &Objective::mask_special_tokens, kMayChange, "",
     "masked_lm: BOS, EOS and other special tokens are hidden like any other", {}, {masked}},
    {"at_least_one_mask", &Objective::at_least_one_mask, kMayChange, "",
     "masked_lm: a sequence without a hidden position hides one", {}, {masked}},
    {"count_bos", &Objective::count_bos, kMayChange, "",
     "spike_lm: predicting the BOS before a time bin is part of the loss", {},
     {is("objective.kind", ObjectiveKind::kSpikeLm)}},
    {"diffusion_eps", &Objective::diffusion_eps, kMayChange, "",
     "masked_diffusion: a sequence hides each token with the probability (1 - diffusion_eps) t + diffusion_eps, t "
     "uniform in 0 to 1", above(0, 1), {diffuses}},
    {"random_length_prob", &Objective::random_length_prob, kMayChange, "",
     "masked_diffusion: the share of sequences of the training that are cut to a random length", between(0, 1),
     {diffuses}},
    {"shift_logits", &Objective::shift_logits, kRefuse, "",
     "masked_diffusion: the logits of a position predict the next token, as in a causal model whose weights it began "
     "from (Dream); a sequence's first token is never hidden", {}, {diffuses}},
  });
}

void add_optimizer(FieldTable& t) {
  const Condition muon = is("optimizer.name", OptimizerName::kMuon);
  t.section("optimizer", &RunConfig::optimizer, {
    {"name", &Optimizer::name, kRefuse, "",
     "the update rule; Adam adds the decay to the gradient, AdamW subtracts it from the weight; Muon orthogonalises "
     "the updates of the blocks' matrices and leaves all other weights to AdamW"},
    {"form", &Optimizer::form, kRefuse, "",
     "torch: as torch.optim; transformers: eps is added before the bias correction, and the decay comes last, as in "
     "AWS Trainium's recipes", {}, {is("optimizer.name", OptimizerName::kAdamW, OptimizerName::kMuon)}},
    {"lr", &Optimizer::lr, kMayChange, "", "the highest learning rate", between(0, 100)},
    {"beta1", &Optimizer::beta1, kMayChange, "", "decay of the mean of the gradients", from_below(0, 1)},
    {"beta2", &Optimizer::beta2, kMayChange, "", "decay of the mean of the squared gradients", from_below(0, 1)},
    {"eps", &Optimizer::eps, kMayChange, "", "added to the root of the mean square", above(0, 1)},
    {"weight_decay", &Optimizer::weight_decay, kMayChange, "",
     "decoupled: each step subtracts lr * weight_decay times the weight", between(0, 100)},
    {"weight_decay_on", &Optimizer::weight_decay_on, kMayChange, "",
     "which weights decay: matrices only, or norms too"},
    {"moments_dtype", &Optimizer::moments_dtype, kRefuse, "",
     "element type of the two means and of Muon's momentum; bfloat16 halves their memory",
     one_of(DType::kFloat32, DType::kBFloat16)},
    {"muon_momentum", &Optimizer::muon_momentum, kMayChange, "",
     "Muon: decay of the mean of the gradients", from_below(0, 1), {muon}},
    {"muon_nesterov", &Optimizer::muon_nesterov, kMayChange, "",
     "Muon: the update takes one more step of the mean towards the gradient", {}, {muon}},
    {"muon_ns_steps", &Optimizer::muon_ns_steps, kMayChange, "",
     "Muon: iterations of Newton-Schulz", between(1, 99), {muon}},
    {"muon_adjust_lr_fn", &Optimizer::muon_adjust_lr_fn, kMayChange, "",
     "Muon: the factor on a matrix's learning rate, by its rows and columns: 0.2 sqrt(max(rows, columns)) fits AdamW's "
     "rate (match_rms_adamw, Moonlight), sqrt(max(1, rows / columns)) needs a larger one (original, Keller Jordan)", {},
     {muon}},
  });
  t.section("lr_scheduler", &RunConfig::lr_scheduler, {
    {"rule", &LrScheduler::rule, kMayChange, "",
     "the formulas: torchtitan's, those it had until March 2025 (torchtitan_2024) and until June 2025 "
     "(torchtitan_2025), GPT-NeoX's, GPT-NeoX's of 2023, with which Llemma was trained, or those of Hugging Face's "
     "Transformers"},
    {"warmup_steps", &LrScheduler::warmup_steps, kMayChange, "steps",
     "the rate rises linearly over these; the default is cut to a shorter run", at_least(0)},
    {"warmup_fraction", &LrScheduler::warmup_fraction, kMayChange, "",
     "share of all steps, in place of warmup_steps; 0 means warmup_steps counts", between(0, 1)},
    {"decay_ratio", &LrScheduler::decay_ratio, kMayChange, "",
     "share of all steps, at the end, that decay (warm-up, stable, decay); -1 means all after the warm-up",
     or_special(-1, between(0, 1)),
     {is("lr_scheduler.rule", ScheduleRule::kTorchtitan, ScheduleRule::kTorchtitan2025, ScheduleRule::kTransformers),
      is_not("lr_scheduler.decay_type", DecayType::kConstant)}},
    {"decay_type", &LrScheduler::decay_type, kMayChange, "",
     "shape of the decay; constant means no decay; torchtitan has sqrt, and Transformers with decay_ratio; only "
     "GPT-NeoX has exponential, only Transformers cosine_with_restarts and polynomial"},
    {"min_lr_factor", &LrScheduler::min_lr_factor, kMayChange, "",
     "the rate at the end of the decay, as a share of lr", between(0, 1),
     {is_not("lr_scheduler.decay_type", DecayType::kConstant)}},
    {"num_cycles", &LrScheduler::num_cycles, kMayChange, "cosines",
     "cosine_with_restarts: the number of cosines from the full rate down", between(1, 1 << 20),
     {is("lr_scheduler.decay_type", DecayType::kCosineWithRestarts)}},
    {"power", &LrScheduler::power, kMayChange, "",
     "polynomial: the power of the share of the decay that is left; 1 is linear", above(0, 100),
     {is("lr_scheduler.decay_type", DecayType::kPolynomial)}},
    {"end_step", &LrScheduler::end_step, kMayChange, "steps",
     "the last step of the decay (GPT-NeoX's lr_decay_iters); 0 means the run's last step", at_least(0),
     {is("lr_scheduler.rule", ScheduleRule::kNeox, ScheduleRule::kNeox2023, ScheduleRule::kTransformers)}},
  });
}
// clang-format on

}  // namespace

std::span<const Field> fields() {
  static const std::vector<Field> all = [] {
    FieldTable table;
    for (const auto add :
         {add_model, add_rope, add_block, add_latent, add_experts, add_initial, add_objective, add_optimizer,
          add_training, add_parallelism, add_checkpoint, add_run, add_data, add_machine})
      add(table);
    return std::move(table.fields);
  }();
  return all;
}

}  // namespace hearth::config
