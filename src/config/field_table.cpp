#include "config/field_table.h"

#include <limits>

namespace hearth::config {
namespace {

template <auto Section, auto Member>
Slot slot(RunConfig& config, size_t) {
  return &(config.*Section.*Member);
}

template <auto Section, auto List, auto Member>
Slot slot(RunConfig& config, size_t item) {
  return &((config.*Section.*List).at(item).*Member);
}

Limits at_least(double least) {
  Limits limits;
  limits.least = least;
  return limits;
}

Limits between(double least, double most) {
  Limits limits;
  limits.least = least;
  limits.most = most;
  return limits;
}

// [least, most): most itself is not allowed.
Limits from_below(double least, double most) {
  Limits limits = between(least, most);
  limits.most_open = true;
  return limits;
}

// (least, most].
Limits above(double least, double most = std::numeric_limits<double>::infinity()) {
  Limits limits = between(least, most);
  limits.least_open = true;
  return limits;
}

Limits or_special(double special, Limits limits) {
  limits.special = special;
  return limits;
}

Limits one_of(std::vector<std::string_view> choices) {
  Limits limits;
  limits.choices = std::move(choices);
  return limits;
}

constexpr auto kMayChange = AtResume::kMayChange;
constexpr auto kNoEffect = AtResume::kNoEffect;
constexpr auto kRefuse = AtResume::kRefuse;

// clang-format off
// What is trained.
std::vector<Field> model_fields() {
  return {
    {"job", "dump_folder", slot<&RunConfig::job, &Job::dump_folder>, kMayChange, "",
     "the run folder, for checkpoints and metrics.jsonl; relative to the run file's folder", {}},
    {"job", "description", slot<&RunConfig::job, &Job::description>, kMayChange, "",
     "what this run is about, for people", {}},

    {"model", "name", slot<&RunConfig::model, &Model::name>, kMayChange, "",
     "the family that flavor is one of; they differ in shape alone",
     one_of({"llama2", "llama3", "llama3.1", "llama3.2", "llemma"})},
    {"model", "flavor", slot<&RunConfig::model, &Model::flavor>, kMayChange, "",
     "a named shape of model.name; keys given beside it win, empty means all from the keys",
     one_of({"", "debugmodel", "250M", "271M", "870M", "1B", "2B", "3B", "5B", "7B", "8B", "13B", "26B", "34B", "70B",
             "405B"})},
    {"model", "dim", slot<&RunConfig::model, &Model::dim>, kRefuse, "",
     "width of the residual stream", between(1, 1 << 20)},
    {"model", "n_layers", slot<&RunConfig::model, &Model::n_layers>, kRefuse, "",
     "number of blocks", between(1, 10000)},
    {"model", "n_heads", slot<&RunConfig::model, &Model::n_heads>, kRefuse, "",
     "query heads; their width is dim / n_heads", between(1, 1 << 16)},
    {"model", "n_kv_heads", slot<&RunConfig::model, &Model::n_kv_heads>, kRefuse, "",
     "key/value heads, each shared by n_heads / n_kv_heads query heads; 0 means n_heads", between(0, 1 << 16)},
    {"model", "hidden_dim", slot<&RunConfig::model, &Model::hidden_dim>, kRefuse, "",
     "width of the feed-forward layer; 0 means 8/3 dim times ffn_dim_multiplier, rounded up to multiple_of",
     between(0, 1 << 24)},
    {"model", "ffn_dim_multiplier", slot<&RunConfig::model, &Model::ffn_dim_multiplier>, kRefuse, "",
     "factor on the feed-forward width where hidden_dim is 0; 0 means none", between(0, 100)},
    {"model", "multiple_of", slot<&RunConfig::model, &Model::multiple_of>, kRefuse, "",
     "the feed-forward width is rounded up to a multiple of this where hidden_dim is 0", between(1, 1 << 20)},
    {"model", "norm_type", slot<&RunConfig::model, &Model::norm_type>, kRefuse, "",
     "layernorm has a weight and no bias, np_layernorm no parameters; rmsnorm_neox adds norm_eps to the root mean square, "
     "as GPT-NeoX did until 2025", one_of({"rmsnorm", "layernorm", "np_layernorm", "rmsnorm_neox"})},
    {"model", "norm_eps", slot<&RunConfig::model, &Model::norm_eps>, kRefuse, "",
     "added to the mean square of a row (of layernorm to the variance, of rmsnorm_neox to the root)", between(0, 1)},
    {"model", "rope_theta", slot<&RunConfig::model, &Model::rope_theta>, kRefuse, "",
     "base of the rotary frequencies", at_least(1)},
    {"model", "rope_scaling_factor", slot<&RunConfig::model, &Model::rope_scaling_factor>, kRefuse, "",
     "Llama 3.1's scaling: rotary frequencies whose wave is long beside rope_original_seq_len are divided by this; 1 means none",
     at_least(1)},
    {"model", "rope_low_freq_factor", slot<&RunConfig::model, &Model::rope_low_freq_factor>, kRefuse, "",
     "a wave longer than rope_original_seq_len / this is scaled in full", above(0, 1e6)},
    {"model", "rope_high_freq_factor", slot<&RunConfig::model, &Model::rope_high_freq_factor>, kRefuse, "",
     "a wave shorter than rope_original_seq_len / this is not scaled; in between, in part", above(0, 1e6)},
    {"model", "rope_original_seq_len", slot<&RunConfig::model, &Model::rope_original_seq_len>, kRefuse, "tokens",
     "the window that the frequencies were made for", at_least(1)},
    {"model", "rope_pairs", slot<&RunConfig::model, &Model::rope_pairs>, kRefuse, "",
     "which elements of a head turn together: neighbours (Meta, torchtitan), or the halves (GPT-NeoX, Hugging Face)",
     one_of({"interleaved", "halves"})},
    {"model", "attention_scope", slot<&RunConfig::model, &Model::attention_scope>, kRefuse, "",
     "what a position sees: its whole window, or only its own document, in which positions start at 0",
     one_of({"window", "document"})},
    {"model", "enable_weight_tying", slot<&RunConfig::model, &Model::enable_weight_tying>, kRefuse, "",
     "the output matrix is the token embedding", {}},
    {"model", "init", slot<&RunConfig::model, &Model::init>, kNoEffect, "",
     "initial weights: torchtitan's, or a normal law of GPT-NeoX; its deviation is init_std (normal), "
     "init_std / sqrt(2 n_layers) (scaled_normal), sqrt(2 / (5 dim)) (small_init) or 2 / (n_layers sqrt(dim)) (wang_init)",
     one_of({"torchtitan", "normal", "scaled_normal", "small_init", "wang_init"})},
    {"model", "output_init", slot<&RunConfig::model, &Model::output_init>, kNoEffect, "",
     "the law of wo and w2, which write to the residual stream, unless init is torchtitan",
     one_of({"normal", "scaled_normal", "small_init", "wang_init"})},
    {"model", "init_std", slot<&RunConfig::model, &Model::init_std>, kNoEffect, "",
     "the standard deviation of normal, and of scaled_normal before it is scaled", above(0, 10)},
    {"model", "depth_init", slot<&RunConfig::model, &Model::depth_init>, kNoEffect, "",
     "with init = torchtitan, the initial scale of wo, w2 and w3 falls with the layer's own depth, else with n_layers", {}},
    {"model", "vocab_size", slot<&RunConfig::model, &Model::vocab_size>, kRefuse, "tokens",
     "rows of the embedding; 0 means the tokenizer's vocabulary", between(0, 1 << 26)},
  };
}

// What it learns to predict.
std::vector<Field> objective_fields() {
  return {
    {"objective", "kind", slot<&RunConfig::objective, &Objective::kind>, kRefuse, "",
     "causal_lm predicts the next token; masked_lm hidden ones, from both sides; spike_lm the next count of a recording",
     one_of({"causal_lm", "masked_lm", "spike_lm"})},
    {"objective", "z_loss", slot<&RunConfig::objective, &Objective::z_loss>, kMayChange, "",
     "times the square of the log of the softmax's denominator is added to each label's loss (PaLM: 1e-4); 0 means none",
     between(0, 1)},
    {"objective", "mlm_probability", slot<&RunConfig::objective, &Objective::mlm_probability>, kMayChange, "",
     "masked_lm: the share of positions that are hidden, each by itself", above(0, 1)},
    {"objective", "mask_token", slot<&RunConfig::objective, &Objective::mask_token>, kRefuse, "",
     "masked_lm: the special token that stands for a hidden one; empty means the tokenizer's [MASK] or <mask>", {}},
    {"objective", "mask_id", slot<&RunConfig::objective, &Objective::mask_id>, kRefuse, "",
     "masked_lm: its id, where the tokenizer has no such token; model.vocab_size may add a row for it; "
     "-1 means that of mask_token", or_special(-1, between(0, 1 << 26))},
    {"objective", "mask_replace_prob", slot<&RunConfig::objective, &Objective::mask_replace_prob>, kMayChange, "",
     "masked_lm: the share of hidden positions that show the mask (BERT: 0.8)", between(0, 1)},
    {"objective", "random_replace_prob", slot<&RunConfig::objective, &Objective::random_replace_prob>, kMayChange, "",
     "masked_lm: the share of hidden positions that show any token (BERT: 0.1); what is left shows the true one",
     between(0, 1)},
    {"objective", "mask_special_tokens", slot<&RunConfig::objective, &Objective::mask_special_tokens>, kMayChange, "",
     "masked_lm: BOS, EOS and other special tokens are hidden like any other", {}},
    {"objective", "at_least_one_mask", slot<&RunConfig::objective, &Objective::at_least_one_mask>, kMayChange, "",
     "masked_lm: a sequence of which nothing would be hidden hides one position", {}},
    {"objective", "count_bos", slot<&RunConfig::objective, &Objective::count_bos>, kMayChange, "",
     "spike_lm: predicting the BOS before a time bin is part of the loss", {}},
  };
}

// How gradients become updates.
std::vector<Field> optimizer_fields() {
  return {
    {"optimizer", "name", slot<&RunConfig::optimizer, &Optimizer::name>, kRefuse, "",
     "the update rule; Adam adds the decay to the gradient, AdamW takes it from the weight", one_of({"AdamW", "Adam"})},
    {"optimizer", "form", slot<&RunConfig::optimizer, &Optimizer::form>, kRefuse, "",
     "torch: as torch.optim; transformers: eps is added before the bias correction, and the decay comes last, as in "
     "AWS Trainium's recipes", one_of({"torch", "transformers"})},
    {"optimizer", "lr", slot<&RunConfig::optimizer, &Optimizer::lr>, kMayChange, "",
     "the learning rate at its highest", between(0, 100)},
    {"optimizer", "beta1", slot<&RunConfig::optimizer, &Optimizer::beta1>, kMayChange, "",
     "decay of the mean of the gradients", from_below(0, 1)},
    {"optimizer", "beta2", slot<&RunConfig::optimizer, &Optimizer::beta2>, kMayChange, "",
     "decay of the mean of their squares", from_below(0, 1)},
    {"optimizer", "eps", slot<&RunConfig::optimizer, &Optimizer::eps>, kMayChange, "",
     "added to the root of the mean square", above(0, 1)},
    {"optimizer", "weight_decay", slot<&RunConfig::optimizer, &Optimizer::weight_decay>, kMayChange, "",
     "decoupled: each step takes lr * weight_decay of a weight away", between(0, 100)},
    {"optimizer", "weight_decay_on", slot<&RunConfig::optimizer, &Optimizer::weight_decay_on>, kMayChange, "",
     "which weights decay: matrices only, or norms too", one_of({"matrices", "all"})},
    {"optimizer", "moments_dtype", slot<&RunConfig::optimizer, &Optimizer::moments_dtype>, kRefuse, "",
     "element type that the two means are kept in; bfloat16 halves their memory",
     one_of({"float32", "bfloat16"})},

    {"lr_scheduler", "rule", slot<&RunConfig::lr_scheduler, &LrScheduler::rule>, kMayChange, "",
     "whose formulas: torchtitan's, GPT-NeoX's, or those of GPT-NeoX in 2023, which Llemma was trained with",
     one_of({"torchtitan", "neox", "neox_2023"})},
    {"lr_scheduler", "warmup_steps", slot<&RunConfig::lr_scheduler, &LrScheduler::warmup_steps>, kMayChange, "steps",
     "the rate rises linearly over these; the default is cut to a shorter run", at_least(0)},
    {"lr_scheduler", "warmup_fraction", slot<&RunConfig::lr_scheduler, &LrScheduler::warmup_fraction>, kMayChange, "",
     "of all steps, instead of warmup_steps; 0 means warmup_steps counts", between(0, 1)},
    {"lr_scheduler", "decay_ratio", slot<&RunConfig::lr_scheduler, &LrScheduler::decay_ratio>, kMayChange, "",
     "share of all steps, at the end, that decay (warm-up, stable, decay); -1 means all after the warm-up",
     or_special(-1, between(0, 1))},
    {"lr_scheduler", "decay_type", slot<&RunConfig::lr_scheduler, &LrScheduler::decay_type>, kMayChange, "",
     "shape of the decay; constant means none; sqrt is torchtitan's alone, exponential GPT-NeoX's",
     one_of({"linear", "cosine", "sqrt", "exponential", "constant"})},
    {"lr_scheduler", "min_lr_factor", slot<&RunConfig::lr_scheduler, &LrScheduler::min_lr_factor>, kMayChange, "",
     "what the decay ends at, as a share of lr", between(0, 1)},
    {"lr_scheduler", "end_step", slot<&RunConfig::lr_scheduler, &LrScheduler::end_step>, kMayChange, "steps",
     "where GPT-NeoX's decay ends (lr_decay_iters); 0 means with the run", at_least(0)},
  };
}

// How it is trained, and on what.
std::vector<Field> run_fields() {
  return {
    {"training", "seq_len", slot<&RunConfig::training, &Training::seq_len>, kRefuse, "tokens",
     "length of a sequence", between(1, 1 << 24)},
    {"training", "local_batch_size", slot<&RunConfig::training, &Training::local_batch_size>, kMayChange, "sequences",
     "what a rank computes at a time", between(1, 1 << 20)},
    {"training", "global_batch_size", slot<&RunConfig::training, &Training::global_batch_size>, kMayChange, "sequences",
     "what a step counts over all ranks; gradients accumulate until it is reached; "
     "-1 means local_batch_size on each rank, once", or_special(-1, between(1, 1 << 30))},
    {"training", "steps", slot<&RunConfig::training, &Training::steps>, kMayChange, "steps",
     "length of the training; give exactly one of steps, tokens and epochs", at_least(0)},
    {"training", "tokens", slot<&RunConfig::training, &Training::tokens>, kMayChange, "tokens",
     "length of the training, rounded up to whole steps", at_least(0)},
    {"training", "epochs", slot<&RunConfig::training, &Training::epochs>, kMayChange, "epochs",
     "length of the training, passes over the data, rounded up to whole steps", between(0, 1e9)},
    {"training", "max_norm", slot<&RunConfig::training, &Training::max_norm>, kMayChange, "",
     "gradients are scaled down to this global norm; 0 means no clipping", at_least(0)},
    {"training", "token_weights", slot<&RunConfig::training, &Training::token_weights>, kMayChange, "",
     "a .npy of what each id weighs in the training loss (hearth data stats --token-weights); 0: not at all", {}},
    {"training", "seed", slot<&RunConfig::training, &Training::seed>, kRefuse, "",
     "of the initial weights and the order of the data", at_least(0)},
    {"training", "device", slot<&RunConfig::training, &Training::device>, kMayChange, "",
     "what computes: the CPU, or a GPU, NVIDIA's or AMD's, which \"cuda\" stands for as in PyTorch",
     one_of({"cpu", "cuda"})},
    {"training", "cuda_graph", slot<&RunConfig::training, &Training::cuda_graph>, kMayChange, "",
     "a micro-batch's forward and backward are recorded as a CUDA graph and started by one call: for models so small that "
     "a GPU waits for the host", {}},
    {"training", "dtype", slot<&RunConfig::training, &Training::dtype>, kRefuse, "",
     "element type of the weights; gradients and moments are float32 at least, but for optimizer.moments_dtype", one_of({"float32", "float64", "bfloat16"})},
    {"training", "mixed_precision_param", slot<&RunConfig::training, &Training::mixed_precision_param>, kMayChange, "",
     "element type that weights and activations are multiplied in; what is summed up stays float32; on a GPU it is "
     "bfloat16 where nothing is given",
     one_of({"float32", "bfloat16"})},
    {"training", "threads", slot<&RunConfig::training, &Training::threads>, kMayChange, "threads",
     "of the CPU; 0 means all the process may use; another number changes the last bits of the results",
     between(0, 4096)},

    {"parallelism", "data_parallel_shard_degree",
     slot<&RunConfig::parallelism, &Parallelism::data_parallel_shard_degree>, kMayChange, "ranks",
     "that share the weights and the batch; on a CPU they are threads of one process", between(1, 1 << 20)},

    {"checkpoint", "folder", slot<&RunConfig::checkpoint, &Checkpoint::folder>, kMayChange, "",
     "where checkpoints go, relative to the run folder", {}},
    {"checkpoint", "interval", slot<&RunConfig::checkpoint, &Checkpoint::interval>, kMayChange, "steps",
     "between checkpoints; 0 means only the last step", at_least(0)},
    {"checkpoint", "interval_seconds", slot<&RunConfig::checkpoint, &Checkpoint::interval_seconds>, kMayChange, "s",
     "between checkpoints, besides interval; 0 means none", at_least(0)},
    {"checkpoint", "keep_latest_k", slot<&RunConfig::checkpoint, &Checkpoint::keep_latest_k>, kMayChange, "checkpoints",
     "that stay; older ones are deleted, but never the last one that was verified; 0 means all are kept", at_least(0)},
    {"checkpoint", "initial_load_path", slot<&RunConfig::checkpoint, &Checkpoint::initial_load_path>, kNoEffect, "",
     "a checkpoint folder, ours or PyTorch's, or a run folder for its newest one, to start from where the run has none; "
     "relative to the run file's folder",
     {}},
    {"checkpoint", "initial_load_model_only", slot<&RunConfig::checkpoint, &Checkpoint::initial_load_model_only>,
     kNoEffect, "",
     "take its weights only and start at step 0; false takes optimizer, step and data position too: a branch", {}},
    {"checkpoint", "exclude_from_loading", slot<&RunConfig::checkpoint, &Checkpoint::exclude_from_loading>, kNoEffect,
     "", "of a branch, what begins anew: the optimizer's moments, the position in the data, the step",
     one_of({"optimizer", "dataloader", "train_state"})},
    {"checkpoint", "fresh", slot<&RunConfig::checkpoint, &Checkpoint::fresh>, kNoEffect, "",
     "parameters that begin with initial values and not with those of initial_load_path: names, their beginnings, or "
     "with * for any characters", {}},
    {"checkpoint", "drop", slot<&RunConfig::checkpoint, &Checkpoint::drop>, kNoEffect, "",
     "weights of initial_load_path that the model has no place for and that may be left out, by the same patterns", {}},
    {"checkpoint", "freeze", slot<&RunConfig::checkpoint, &Checkpoint::freeze>, kRefuse, "",
     "parameters that are not trained, by the same patterns; they take no memory for moments", {}},

    {"validation", "freq", slot<&RunConfig::validation, &Validation::freq>, kMayChange, "steps",
     "between measurements on the held-out documents, and at step 0; 0 means never", at_least(0)},
    {"validation", "steps", slot<&RunConfig::validation, &Validation::steps>, kMayChange, "global batches",
     "how much of each set is measured; -1 means all of it", or_special(-1, at_least(1))},

    {"metrics", "log_freq", slot<&RunConfig::metrics, &Metrics::log_freq>, kMayChange, "steps",
     "between lines of output where it is no terminal", at_least(1)},

    {"comm", "train_timeout_seconds", slot<&RunConfig::comm, &Comm::train_timeout_seconds>, kMayChange, "s",
     "a rank that waits longer for the others gives up and names who is missing", above(0)},
  };
}

// What it reads, and what it takes of the machine.
std::vector<Field> data_fields() {
  return {
    {"data", "path", slot<&RunConfig::data, &Data::path>, kMayChange, "",
     "a folder made by hearth data build; relative to the run file's folder; it may move, its content may not change",
     {}},
    {"data", "weight_unit", slot<&RunConfig::data, &Data::weight_unit>, kMayChange, "",
     "what the weights of sources are shares of; documents: a source with longer documents gives more tokens",
     one_of({"tokens", "documents"})},
    {"data", "weight_rule", slot<&RunConfig::data, &Data::weight_rule>, kRefuse, "",
     "how sources take turns: slots spreads each evenly; neox is GPT-NeoX's rule", one_of({"slots", "neox"})},
    {"data", "order", slot<&RunConfig::data, &Data::order>, kRefuse, "",
     "which sequence comes when: shuffle needs no table; neox is GPT-NeoX's order", one_of({"shuffle", "neox"})},
    {"data", "packing", slot<&RunConfig::data, &Data::packing>, kRefuse, "",
     "how documents fill sequences: concat cuts them; best_fit cuts only what is longer than one, and pads",
     one_of({"concat", "best_fit"})},
    {"data", "stride", slot<&RunConfig::data, &Data::stride>, kRefuse, "",
     "where sequences start: exact predicts every token once a pass; torchtitan leaves out the first of each sequence "
     "and, as neox does, an end that fills none",
     one_of({"exact", "torchtitan", "neox"})},
    {"data", "on_damage", slot<&RunConfig::data, &Data::on_damage>, kMayChange, "",
     "what a damaged block of a dataset does: stop the run, naming it, or substitute another sequence, which is logged",
     one_of({"stop", "substitute"})},
    {"data", "prefetch_threads", slot<&RunConfig::data, &Data::prefetch_threads>, kMayChange, "threads",
     "that read batches ahead, for each rank", between(1, 256)},
    {"data", "prefetch_steps", slot<&RunConfig::data, &Data::prefetch_steps>, kMayChange, "steps",
     "read ahead at most", between(1, 10000)},

    {"memory", "loss_chunk_tokens", slot<&RunConfig::memory, &Memory::loss_chunk_tokens>, kMayChange, "tokens",
     "logits exist for this many tokens at a time", between(1, 1 << 30)},
    {"memory", "recompute", slot<&RunConfig::memory, &Memory::recompute>, kMayChange, "",
     "what backward computes again instead of keeping it, with the same bits: what norms and SwiGLU give (nearly free), "
     "attention besides, or whole blocks; auto takes the cheapest that fits", one_of({"none", "norms", "attention", "block", "auto"})},
    {"memory", "recompute_layers", slot<&RunConfig::memory, &Memory::recompute_layers>, kMayChange, "layers",
     "that recompute, from the first on; -1 means all", or_special(-1, at_least(0))},
    {"memory", "limit", slot<&RunConfig::memory, &Memory::limit>, kMayChange, "",
     "what the tensors of all ranks of this machine may take, such as 48 GiB; empty means what the machine has", {}},

    {"numerics", "loss_average", slot<&RunConfig::numerics, &Numerics::loss_average>, kMayChange, "",
     "global: every label of a step weighs the same; per_rank: the mean of the means of all ranks and micro-batches, "
     "as torchtitan's", one_of({"global", "per_rank"})},
    {"numerics", "stochastic_rounding", slot<&RunConfig::numerics, &Numerics::stochastic_rounding>, kMayChange, "",
     "weights and moments in bfloat16 are rounded up or down at random, so that small changes count on average", {}},
    {"numerics", "fp8", slot<&RunConfig::numerics, &Numerics::fp8>, kMayChange, "",
     "linear layers, but not the output matrix, multiply in float8 (E4M3, a factor for each row); the gradients of their "
     "weights in bfloat16", {}},
    {"numerics", "reproducible", slot<&RunConfig::numerics, &Numerics::reproducible>, kMayChange, "",
     "training gives the same bits for 1, 2, 4, ... ranks of as many threads each, at one local_batch_size; costs memory "
     "and communication", {}},
    {"numerics", "nan_policy", slot<&RunConfig::numerics, &Numerics::nan_policy>, kMayChange, "",
     "what a loss or gradient that is no number does: stop the run, skip the update, or rewind to the last checkpoint "
     "and go on behind the data of this step", one_of({"stop", "skip", "rewind"})},
    {"numerics", "spike_policy", slot<&RunConfig::numerics, &Numerics::spike_policy>, kMayChange, "",
     "the same for a loss or gradient norm far above those of the steps before; off: it is applied as any other",
     one_of({"off", "stop", "skip", "rewind"})},
    {"numerics", "spike_deviations", slot<&RunConfig::numerics, &Numerics::spike_deviations>, kMayChange, "",
     "how far above is too far: standard deviations from the window's mean", above(0, 1e6)},
    {"numerics", "spike_window", slot<&RunConfig::numerics, &Numerics::spike_window>, kMayChange, "steps",
     "applied before this one; nothing is a spike until half of them are there", between(2, 100000)},
    {"numerics", "skip_limit", slot<&RunConfig::numerics, &Numerics::skip_limit>, kMayChange, "steps",
     "in a row whose updates may be skipped; the next one stops the run", at_least(1)},
    {"numerics", "rewind_limit", slot<&RunConfig::numerics, &Numerics::rewind_limit>, kMayChange, "",
     "how often a run may rewind; the next time it stops", at_least(1)},
  };
}

}  // namespace

const std::vector<Field>& field_table() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> all = model_fields();
    for (const auto& more : {objective_fields(), optimizer_fields(), run_fields(), data_fields()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return fields;
}

const std::vector<Field>& list_field_table() {
  static const std::vector<Field> fields = {
    {"optimizer.group", "pattern", slot<&RunConfig::optimizer, &Optimizer::group, &OptimizerGroup::pattern>, kMayChange,
     "", "of parameter names, or their beginnings: *norm*, layers.0, output", {}},
    {"optimizer.group", "lr_factor", slot<&RunConfig::optimizer, &Optimizer::group, &OptimizerGroup::lr_factor>,
     kMayChange, "", "what the learning rate is multiplied by", between(0, 1e6)},
    {"optimizer.group", "weight_decay", slot<&RunConfig::optimizer, &Optimizer::group, &OptimizerGroup::weight_decay>,
     kMayChange, "", "instead of optimizer.weight_decay, whatever weight_decay_on says; -1 means as without the group",
     or_special(-1, between(0, 100))},

    {"validation.set", "name", slot<&RunConfig::validation, &Validation::set, &ValidationSet::name>, kMayChange, "",
     "its loss is called validation_loss.NAME in the log; letters, digits, - and _", {}},
    {"validation.set", "path", slot<&RunConfig::validation, &Validation::set, &ValidationSet::path>, kMayChange, "",
     "a folder made by hearth data build", {}},
    {"validation.set", "split", slot<&RunConfig::validation, &Validation::set, &ValidationSet::split>, kMayChange, "",
     "which of its documents; empty means those of validation, or all where none were held out",
     one_of({"", "train", "validation", "test"})},

    {"data.source", "path", slot<&RunConfig::data, &Data::source, &DataSource::path>, kMayChange, "",
     "a folder made by hearth data build; relative to the run file's folder; it may move, its content may not change",
     {}},
    {"data.source", "weight", slot<&RunConfig::data, &Data::source, &DataSource::weight>, kMayChange, "",
     "its share beside the other weights, on any scale; 0 means that it is not used, or only by a segment",
     between(0, 1e15)},
    {"data.source", "epochs_max", slot<&RunConfig::data, &Data::source, &DataSource::epochs_max>, kMayChange, "epochs",
     "a run that would see it more often is refused before it starts; 0 means no limit", between(0, 1e9)},

    {"data.segment", "from_tokens", slot<&RunConfig::data, &Data::segment, &DataSegment::from_tokens>, kMayChange,
     "tokens", "of the training, rounded up to whole sequences, after which its weights hold", at_least(1)},
    {"data.segment", "weights", slot<&RunConfig::data, &Data::segment, &DataSegment::weights>, kMayChange, "",
     "one a source, in their order, instead of theirs", between(0, 1e15)},
  };
  return fields;
}
// clang-format on

}  // namespace hearth::config
