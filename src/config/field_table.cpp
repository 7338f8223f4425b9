#include "config/field_table.h"

#include "config/families.h"
#include "config/field_row.h"

namespace hearth::config {
namespace {

// clang-format off
// The model.
std::vector<Field> model_fields() {
  return {
    {"job", "dump_folder", slot<&RunConfig::job, &Job::dump_folder>, kMayChange, "",
     "the run folder, for checkpoints and metrics.jsonl; relative to the run file's folder", {}},
    {"job", "description", slot<&RunConfig::job, &Job::description>, kMayChange, "",
     "a description of the run for its readers", {}},

    {"model", "name", slot<&RunConfig::model, &Model::name>, kMayChange, "",
     "the family of the model, whose options it has unless they are given, and of model.flavor", one_of(model_names())},
    {"model", "flavor", slot<&RunConfig::model, &Model::flavor>, kMayChange, "",
     "a named shape of model.name; given keys override it; empty means the keys alone give the shape", {}},
    {"model", "dim", slot<&RunConfig::model, &Model::dim>, kRefuse, "",
     "width of the residual stream", between(1, 1 << 20)},
    {"model", "n_layers", slot<&RunConfig::model, &Model::n_layers>, kRefuse, "",
     "number of blocks", between(1, 10000)},
    {"model", "n_heads", slot<&RunConfig::model, &Model::n_heads>, kRefuse, "",
     "query heads", between(1, 1 << 16)},
    {"model", "n_kv_heads", slot<&RunConfig::model, &Model::n_kv_heads>, kRefuse, "",
     "key/value heads, each shared by n_heads / n_kv_heads query heads; 0 means n_heads", between(0, 1 << 16)},
    {"model", "head_dim", slot<&RunConfig::model, &Model::head_dim>, kRefuse, "",
     "width of a head; 0 means dim / n_heads", between(0, 1 << 16)},
    {"model", "hidden_dim", slot<&RunConfig::model, &Model::hidden_dim>, kRefuse, "",
     "width of the feed-forward layer; 0 means 8/3 dim times ffn_dim_multiplier, rounded up to multiple_of",
     between(0, 1 << 24)},
    {"model", "ffn_dim_multiplier", slot<&RunConfig::model, &Model::ffn_dim_multiplier>, kRefuse, "",
     "factor on the feed-forward width if hidden_dim is 0; 0 means no factor", between(0, 100)},
    {"model", "multiple_of", slot<&RunConfig::model, &Model::multiple_of>, kRefuse, "",
     "the feed-forward width is rounded up to a multiple of this if hidden_dim is 0", between(1, 1 << 20)},
    {"model", "norm_type", slot<&RunConfig::model, &Model::norm_type>, kRefuse, "",
     "layernorm has a weight and no bias, np_layernorm no parameters; rmsnorm_neox adds norm_eps to the root mean "
     "square, as GPT-NeoX did until 2025", one_of<NormType>()},
    {"model", "norm_eps", slot<&RunConfig::model, &Model::norm_eps>, kRefuse, "",
     "added to the mean square of a row (of layernorm to the variance, of rmsnorm_neox to the root)", between(0, 1)},
    {"model", "rope_theta", slot<&RunConfig::model, &Model::rope_theta>, kRefuse, "",
     "base of the rotary frequencies", at_least(1)},
    {"model", "rope_scaling_factor", slot<&RunConfig::model, &Model::rope_scaling_factor>, kRefuse, "",
     "Llama 3.1's scaling: rotary frequencies with a wave longer than rope_original_seq_len allows are divided by "
     "this; 1 means none", at_least(1)},
    {"model", "rope_low_freq_factor", slot<&RunConfig::model, &Model::rope_low_freq_factor>, kRefuse, "",
     "a wave longer than rope_original_seq_len / this is scaled in full", above(0, 1e6),
     {is_not("model.rope_scaling_factor", 1.0)}},
    {"model", "rope_high_freq_factor", slot<&RunConfig::model, &Model::rope_high_freq_factor>, kRefuse, "",
     "a wave shorter than rope_original_seq_len / this is not scaled; in between, in part", above(0, 1e6),
     {is_not("model.rope_scaling_factor", 1.0)}},
    {"model", "rope_original_seq_len", slot<&RunConfig::model, &Model::rope_original_seq_len>, kRefuse, "tokens",
     "the sequence length that the frequencies were chosen for", at_least(1),
     {is_not("model.rope_scaling_factor", 1.0)}},
    {"model", "rope_pairs", slot<&RunConfig::model, &Model::rope_pairs>, kRefuse, "",
     "the elements of a head that rotate as pairs: neighbours (Meta, torchtitan), or i and i + width / 2 (GPT-NeoX, "
     "Hugging Face)",
     one_of<RopePairs>()},
    {"model", "attention_scope", slot<&RunConfig::model, &Model::attention_scope>, kRefuse, "",
     "the tokens that a position sees: its whole window, or only its own document, whose positions start at 0",
     one_of<AttentionScope>()},
    {"model", "sliding_window", slot<&RunConfig::model, &Model::sliding_window>, kRefuse, "tokens",
     "the tokens that a position of the model sees back to, itself included (Mistral); Hearth's attention has no such "
     "limit, so training.seq_len must not be larger; 0 means no window", at_least(0)},
    {"model", "enable_weight_tying", slot<&RunConfig::model, &Model::enable_weight_tying>, kRefuse, "",
     "the output matrix is the token embedding", {}},
  };
}

// What its blocks compute (config/block_options.h).
std::vector<Field> block_fields() {
  return {
    {"model", "norm_placement", slot<&RunConfig::model, &Model::norm_placement>, kRefuse, "",
     "the norms of a block are of the inputs of attention and feed-forward, or of their outputs (OLMo 2)",
     one_of<NormPlacement>()},
    {"model", "qkv_bias", slot<&RunConfig::model, &Model::qkv_bias>, kRefuse, "",
     "biases are added to queries, keys and values (Qwen2)", {}},
    {"model", "qk_norm", slot<&RunConfig::model, &Model::qk_norm>, kRefuse, "",
     "queries and keys go through an RMSNorm before their rotation, one for queries and one for keys", {}},
    {"model", "qk_norm_scope", slot<&RunConfig::model, &Model::qk_norm_scope>, kRefuse, "",
     "qk_norm takes every head for itself, with one weight of a head's width (Qwen3), or all heads as one row (OLMo 2)",
     one_of<QkNormScope>(), {is("model.qk_norm", true)}},
    {"model", "no_rope_layer_interval", slot<&RunConfig::model, &Model::no_rope_layer_interval>, kRefuse, "layers",
     "every n-th layer does not rotate its queries and keys (NoPE, arXiv 2501.18795; SmolLM3: 4); 0: all layers do",
     between(0, 10000)},
  };
}

// The initial weights, and the vocabulary's rows.
std::vector<Field> initial_fields() {
  return {
    {"model", "init", slot<&RunConfig::model, &Model::init>, kNoEffect, "",
     "initial weights: torchtitan's, or a normal law of GPT-NeoX; its deviation is init_std (normal), "
     "init_std / sqrt(2 n_layers) (scaled_normal), sqrt(2 / (5 dim)) (small_init) or 2 / (n_layers sqrt(dim)) "
     "(wang_init)",
     one_of<InitLaw>()},
    {"model", "output_init", slot<&RunConfig::model, &Model::output_init>, kNoEffect, "",
     "the law of wo and w2, which write to the residual stream, unless init is torchtitan",
     one_of(InitLaw::kNormal, InitLaw::kScaledNormal, InitLaw::kSmallInit, InitLaw::kWangInit),
     {is_not("model.init", InitLaw::kTorchtitan)}},
    {"model", "init_std", slot<&RunConfig::model, &Model::init_std>, kNoEffect, "",
     "the standard deviation of normal, and of scaled_normal before it is scaled", above(0, 10),
     {is_not("model.init", InitLaw::kTorchtitan),
      either_is("model.init", "model.output_init", InitLaw::kNormal, InitLaw::kScaledNormal)}},
    {"model", "depth_init", slot<&RunConfig::model, &Model::depth_init>, kNoEffect, "",
     "with init = torchtitan, the initial scale of wo, w2 and w3 falls with the layer's own depth, else with n_layers",
     {},
     {is("model.init", InitLaw::kTorchtitan)}},
    {"model", "vocab_size", slot<&RunConfig::model, &Model::vocab_size>, kRefuse, "tokens",
     "rows of the embedding; 0 means the tokenizer's vocabulary", between(0, 1 << 26)},
  };
}

// The objective.
std::vector<Field> objective_fields() {
  return {
    {"objective", "kind", slot<&RunConfig::objective, &Objective::kind>, kRefuse, "",
     "causal_lm predicts the next token; masked_lm hidden ones, from both sides; spike_lm the next count of a "
     "recording",
     one_of<ObjectiveKind>()},
    {"objective", "z_loss", slot<&RunConfig::objective, &Objective::z_loss>, kMayChange, "",
     "times the square of the log of the softmax's denominator is added to each label's loss (PaLM: 1e-4); 0 means "
     "none",
     between(0, 1)},
    {"objective", "mlm_probability", slot<&RunConfig::objective, &Objective::mlm_probability>, kMayChange, "",
     "masked_lm: the share of hidden positions; each is chosen independently", above(0, 1),
     {is("objective.kind", ObjectiveKind::kMaskedLm)}},
    {"objective", "mask_token", slot<&RunConfig::objective, &Objective::mask_token>, kRefuse, "",
     "masked_lm: the special token that stands for a hidden one; empty means the tokenizer's [MASK] or <mask>", {},
     {is("objective.kind", ObjectiveKind::kMaskedLm)}},
    {"objective", "mask_id", slot<&RunConfig::objective, &Objective::mask_id>, kRefuse, "",
     "masked_lm: the id of the mask if the tokenizer has no mask token; model.vocab_size may add a row for it; "
     "-1 means the id of mask_token", or_special(-1, between(0, 1 << 26)),
     {is("objective.kind", ObjectiveKind::kMaskedLm)}},
    {"objective", "mask_replace_prob", slot<&RunConfig::objective, &Objective::mask_replace_prob>, kMayChange, "",
     "masked_lm: the share of hidden positions that show the mask (BERT: 0.8)", between(0, 1),
     {is("objective.kind", ObjectiveKind::kMaskedLm)}},
    {"objective", "random_replace_prob", slot<&RunConfig::objective, &Objective::random_replace_prob>, kMayChange, "",
     "masked_lm: the share of hidden positions that show a random token (BERT: 0.1); the rest show the true token",
     between(0, 1),
     {is("objective.kind", ObjectiveKind::kMaskedLm)}},
    {"objective", "mask_special_tokens", slot<&RunConfig::objective, &Objective::mask_special_tokens>, kMayChange, "",
     "masked_lm: BOS, EOS and other special tokens are hidden like any other", {},
     {is("objective.kind", ObjectiveKind::kMaskedLm)}},
    {"objective", "at_least_one_mask", slot<&RunConfig::objective, &Objective::at_least_one_mask>, kMayChange, "",
     "masked_lm: a sequence without a hidden position hides one", {},
     {is("objective.kind", ObjectiveKind::kMaskedLm)}},
    {"objective", "count_bos", slot<&RunConfig::objective, &Objective::count_bos>, kMayChange, "",
     "spike_lm: predicting the BOS before a time bin is part of the loss", {},
     {is("objective.kind", ObjectiveKind::kSpikeLm)}},
  };
}

// The optimizer.
std::vector<Field> optimizer_fields() {
  return {
    {"optimizer", "name", slot<&RunConfig::optimizer, &Optimizer::name>, kRefuse, "",
     "the update rule; Adam adds the decay to the gradient, AdamW subtracts it from the weight; Muon orthogonalises "
     "the updates of the blocks' matrices and leaves all other weights to AdamW",
     one_of<OptimizerName>()},
    {"optimizer", "form", slot<&RunConfig::optimizer, &Optimizer::form>, kRefuse, "",
     "torch: as torch.optim; transformers: eps is added before the bias correction, and the decay comes last, as in "
     "AWS Trainium's recipes", one_of<OptimizerForm>(),
     {is("optimizer.name", OptimizerName::kAdamW, OptimizerName::kMuon)}},
    {"optimizer", "lr", slot<&RunConfig::optimizer, &Optimizer::lr>, kMayChange, "",
     "the highest learning rate", between(0, 100)},
    {"optimizer", "beta1", slot<&RunConfig::optimizer, &Optimizer::beta1>, kMayChange, "",
     "decay of the mean of the gradients", from_below(0, 1)},
    {"optimizer", "beta2", slot<&RunConfig::optimizer, &Optimizer::beta2>, kMayChange, "",
     "decay of the mean of the squared gradients", from_below(0, 1)},
    {"optimizer", "eps", slot<&RunConfig::optimizer, &Optimizer::eps>, kMayChange, "",
     "added to the root of the mean square", above(0, 1)},
    {"optimizer", "weight_decay", slot<&RunConfig::optimizer, &Optimizer::weight_decay>, kMayChange, "",
     "decoupled: each step subtracts lr * weight_decay times the weight", between(0, 100)},
    {"optimizer", "weight_decay_on", slot<&RunConfig::optimizer, &Optimizer::weight_decay_on>, kMayChange, "",
     "which weights decay: matrices only, or norms too", one_of<WeightDecayOn>()},
    {"optimizer", "moments_dtype", slot<&RunConfig::optimizer, &Optimizer::moments_dtype>, kRefuse, "",
     "element type of the two means and of Muon's momentum; bfloat16 halves their memory",
     one_of(DType::kFloat32, DType::kBFloat16)},
    {"optimizer", "muon_momentum", slot<&RunConfig::optimizer, &Optimizer::muon_momentum>, kMayChange, "",
     "Muon: decay of the mean of the gradients", from_below(0, 1),
     {is("optimizer.name", OptimizerName::kMuon)}},
    {"optimizer", "muon_nesterov", slot<&RunConfig::optimizer, &Optimizer::muon_nesterov>, kMayChange, "",
     "Muon: the update takes one more step of the mean towards the gradient", {},
     {is("optimizer.name", OptimizerName::kMuon)}},
    {"optimizer", "muon_ns_steps", slot<&RunConfig::optimizer, &Optimizer::muon_ns_steps>, kMayChange, "",
     "Muon: iterations of Newton-Schulz", between(1, 99),
     {is("optimizer.name", OptimizerName::kMuon)}},
    {"optimizer", "muon_adjust_lr_fn", slot<&RunConfig::optimizer, &Optimizer::muon_adjust_lr_fn>, kMayChange, "",
     "Muon: the factor on a matrix's learning rate, by its rows and columns: 0.2 sqrt(max(rows, columns)) fits AdamW's "
     "rate (match_rms_adamw, Moonlight), sqrt(max(1, rows / columns)) needs a larger one (original, Keller Jordan)",
     one_of<MuonAdjustLrFn>(), {is("optimizer.name", OptimizerName::kMuon)}},
  };
}

// The optimizer's schedule.
std::vector<Field> schedule_fields() {
  return {
    {"lr_scheduler", "rule", slot<&RunConfig::lr_scheduler, &LrScheduler::rule>, kMayChange, "",
     "the formulas: torchtitan's, those it had until March 2025 (torchtitan_2024) and until June 2025 "
     "(torchtitan_2025), GPT-NeoX's, GPT-NeoX's of 2023, with which Llemma was trained, or those of Hugging Face's "
     "Transformers",
     one_of<ScheduleRule>()},
    {"lr_scheduler", "warmup_steps", slot<&RunConfig::lr_scheduler, &LrScheduler::warmup_steps>, kMayChange, "steps",
     "the rate rises linearly over these; the default is cut to a shorter run", at_least(0)},
    {"lr_scheduler", "warmup_fraction", slot<&RunConfig::lr_scheduler, &LrScheduler::warmup_fraction>, kMayChange, "",
     "share of all steps, in place of warmup_steps; 0 means warmup_steps counts", between(0, 1)},
    {"lr_scheduler", "decay_ratio", slot<&RunConfig::lr_scheduler, &LrScheduler::decay_ratio>, kMayChange, "",
     "share of all steps, at the end, that decay (warm-up, stable, decay); -1 means all after the warm-up",
     or_special(-1, between(0, 1)),
     {is("lr_scheduler.rule", ScheduleRule::kTorchtitan, ScheduleRule::kTorchtitan2025, ScheduleRule::kTransformers),
      is_not("lr_scheduler.decay_type", DecayType::kConstant)}},
    {"lr_scheduler", "decay_type", slot<&RunConfig::lr_scheduler, &LrScheduler::decay_type>, kMayChange, "",
     "shape of the decay; constant means no decay; torchtitan has sqrt, and Transformers with decay_ratio; only "
     "GPT-NeoX has exponential, only Transformers cosine_with_restarts and polynomial",
     one_of<DecayType>()},
    {"lr_scheduler", "min_lr_factor", slot<&RunConfig::lr_scheduler, &LrScheduler::min_lr_factor>, kMayChange, "",
     "the rate at the end of the decay, as a share of lr", between(0, 1),
     {is_not("lr_scheduler.decay_type", DecayType::kConstant)}},
    {"lr_scheduler", "num_cycles", slot<&RunConfig::lr_scheduler, &LrScheduler::num_cycles>, kMayChange, "cosines",
     "cosine_with_restarts: the number of cosines from the full rate down", between(1, 1 << 20),
     {is("lr_scheduler.decay_type", DecayType::kCosineWithRestarts)}},
    {"lr_scheduler", "power", slot<&RunConfig::lr_scheduler, &LrScheduler::power>, kMayChange, "",
     "polynomial: the power of the share of the decay that is left; 1 is linear", above(0, 100),
     {is("lr_scheduler.decay_type", DecayType::kPolynomial)}},
    {"lr_scheduler", "end_step", slot<&RunConfig::lr_scheduler, &LrScheduler::end_step>, kMayChange, "steps",
     "the last step of the decay (GPT-NeoX's lr_decay_iters); 0 means the run's last step", at_least(0),
     {is("lr_scheduler.rule", ScheduleRule::kNeox, ScheduleRule::kNeox2023, ScheduleRule::kTransformers)}},
  };
}
// clang-format on

}  // namespace

const std::vector<Field>& field_table() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> all = model_fields();
    for (const auto& more :
         {block_fields(), initial_fields(), objective_fields(), optimizer_fields(), schedule_fields(),
          training_fields(), parallelism_fields(), checkpoint_fields(), run_fields(), data_fields(), machine_fields()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return fields;
}

}  // namespace hearth::config
