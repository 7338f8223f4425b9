#include "config/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace hearth::config {
namespace {

template <auto Section, auto Member>
Slot slot(RunConfig& config) {
  return &(config.*Section.*Member);
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
const std::vector<Field>& table() {
  static const std::vector<Field> fields = {
    {"job", "dump_folder", slot<&RunConfig::job, &Job::dump_folder>, kMayChange, "",
     "the run folder, for checkpoints and metrics.jsonl; relative to the run file's folder", {}},
    {"job", "description", slot<&RunConfig::job, &Job::description>, kMayChange, "",
     "what this run is about, for people", {}},

    {"model", "name", slot<&RunConfig::model, &Model::name>, kRefuse, "",
     "the architecture", one_of({"llama3"})},
    {"model", "flavor", slot<&RunConfig::model, &Model::flavor>, kMayChange, "",
     "a named shape; keys given beside it win, empty means all from the keys",
     one_of({"", "debugmodel", "250M", "870M", "1B", "2B", "3B", "5B", "7B", "8B", "70B", "405B"})},
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
    {"model", "norm_eps", slot<&RunConfig::model, &Model::norm_eps>, kRefuse, "",
     "added to the mean square in RMSNorm", between(0, 1)},
    {"model", "rope_theta", slot<&RunConfig::model, &Model::rope_theta>, kRefuse, "",
     "base of the rotary frequencies", at_least(1)},
    {"model", "enable_weight_tying", slot<&RunConfig::model, &Model::enable_weight_tying>, kRefuse, "",
     "the output matrix is the token embedding", {}},
    {"model", "depth_init", slot<&RunConfig::model, &Model::depth_init>, kNoEffect, "",
     "the initial scale of wo, w2 and w3 falls with the layer's own depth, else with n_layers", {}},
    {"model", "vocab_size", slot<&RunConfig::model, &Model::vocab_size>, kRefuse, "tokens",
     "rows of the embedding; 0 means the tokenizer's vocabulary", between(0, 1 << 26)},

    {"optimizer", "name", slot<&RunConfig::optimizer, &Optimizer::name>, kRefuse, "",
     "the update rule", one_of({"AdamW"})},
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

    {"lr_scheduler", "warmup_steps", slot<&RunConfig::lr_scheduler, &LrScheduler::warmup_steps>, kMayChange, "steps",
     "the rate rises linearly over these", at_least(0)},
    {"lr_scheduler", "warmup_fraction", slot<&RunConfig::lr_scheduler, &LrScheduler::warmup_fraction>, kMayChange, "",
     "of all steps, instead of warmup_steps; 0 means warmup_steps counts", between(0, 1)},
    {"lr_scheduler", "decay_ratio", slot<&RunConfig::lr_scheduler, &LrScheduler::decay_ratio>, kMayChange, "",
     "share of all steps, at the end, that decay (warm-up, stable, decay); -1 means all after the warm-up",
     or_special(-1, between(0, 1))},
    {"lr_scheduler", "decay_type", slot<&RunConfig::lr_scheduler, &LrScheduler::decay_type>, kMayChange, "",
     "shape of the decay; constant means none", one_of({"linear", "cosine", "sqrt", "constant"})},
    {"lr_scheduler", "min_lr_factor", slot<&RunConfig::lr_scheduler, &LrScheduler::min_lr_factor>, kMayChange, "",
     "what the decay ends at, as a share of lr", between(0, 1)},

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
    {"training", "seed", slot<&RunConfig::training, &Training::seed>, kRefuse, "",
     "of the initial weights and the order of the data", at_least(0)},
    {"training", "dtype", slot<&RunConfig::training, &Training::dtype>, kRefuse, "",
     "element type of weights and computation", one_of({"float32", "float64"})},
    {"training", "threads", slot<&RunConfig::training, &Training::threads>, kMayChange, "threads",
     "of the CPU; 0 means all the process may use; another number changes the last bits of the results",
     between(0, 4096)},

    {"parallelism", "data_parallel_shard_degree",
     slot<&RunConfig::parallelism, &Parallelism::data_parallel_shard_degree>, kMayChange, "ranks",
     "that share the weights and the batch; on a CPU they are threads of one process",
     between(1, 1 << 20)},

    {"checkpoint", "folder", slot<&RunConfig::checkpoint, &Checkpoint::folder>, kMayChange, "",
     "where checkpoints go, relative to the run folder", {}},
    {"checkpoint", "interval", slot<&RunConfig::checkpoint, &Checkpoint::interval>, kMayChange, "steps",
     "between checkpoints; 0 means only the last step", at_least(0)},
    {"checkpoint", "interval_seconds", slot<&RunConfig::checkpoint, &Checkpoint::interval_seconds>, kMayChange, "s",
     "between checkpoints, besides interval; 0 means none", at_least(0)},
    {"checkpoint", "keep_latest_k", slot<&RunConfig::checkpoint, &Checkpoint::keep_latest_k>, kMayChange, "checkpoints",
     "that stay; older ones are deleted, but never the last one that was verified; 0 means all are kept", at_least(0)},
    {"checkpoint", "initial_load_path", slot<&RunConfig::checkpoint, &Checkpoint::initial_load_path>, kNoEffect, "",
     "a checkpoint folder, ours or PyTorch's, to start from where the run has none; relative to the run file's folder",
     {}},
    {"checkpoint", "initial_load_model_only", slot<&RunConfig::checkpoint, &Checkpoint::initial_load_model_only>,
     kNoEffect, "",
     "take its weights only and start at step 0; false takes optimizer, step and data position too: a branch", {}},

    {"validation", "freq", slot<&RunConfig::validation, &Validation::freq>, kMayChange, "steps",
     "between measurements on the held-out documents, and at step 0; 0 means never", at_least(0)},
    {"validation", "steps", slot<&RunConfig::validation, &Validation::steps>, kMayChange, "global batches",
     "how much is measured; -1 means all of the held-out documents", or_special(-1, at_least(1))},

    {"metrics", "log_freq", slot<&RunConfig::metrics, &Metrics::log_freq>, kMayChange, "steps",
     "between lines of output where it is no terminal", at_least(1)},

    {"comm", "train_timeout_seconds", slot<&RunConfig::comm, &Comm::train_timeout_seconds>, kMayChange, "s",
     "a rank that waits longer for the others gives up and names who is missing", above(0)},

    {"data", "path", slot<&RunConfig::data, &Data::path>, kMayChange, "",
     "a folder made by hearth data build; relative to the run file's folder; it may move, its content may not change",
     {}},
    {"data", "prefetch_threads", slot<&RunConfig::data, &Data::prefetch_threads>, kMayChange, "threads",
     "that read batches ahead, for each rank", between(1, 256)},
    {"data", "prefetch_steps", slot<&RunConfig::data, &Data::prefetch_steps>, kMayChange, "steps",
     "read ahead at most", between(1, 10000)},

    {"memory", "loss_chunk_tokens", slot<&RunConfig::memory, &Memory::loss_chunk_tokens>, kMayChange, "tokens",
     "logits exist for this many tokens at a time", between(1, 1 << 30)},
  };
  return fields;
}
// clang-format on

constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kSections = {{
    {"job", "Where the run lives."},
    {"model", "The shape of the model."},
    {"optimizer", "How gradients become updates."},
    {"lr_scheduler", "The learning rate over the steps: warm-up, stable, decay."},
    {"training", "What is trained, how long, in which batches."},
    {"parallelism", "How ranks share the work."},
    {"checkpoint", "What is saved, and what a run starts from."},
    {"validation", "Measuring on held-out documents while training."},
    {"metrics", "What is shown."},
    {"comm", "Talk between ranks."},
    {"data", "The token shards."},
    {"memory", "Memory against speed."},
}};

// The shapes of torchtitan's Llama 3 and of the neural-data repositories that grew from it. Sources: torchtitan,
// models/llama3; "1B", "3B", 250M to 7B: their flavor tables. "1B" and "3B" are not the shapes of Meta's Llama 3.2.
constexpr Flavor kFlavors[] = {
    {"debugmodel", 256, 8, 16, 16, 0, 256, 500000},  {"250M", 1024, 16, 16, 8, 1.3, 1024, 10000},
    {"870M", 2048, 16, 32, 8, 1.3, 1024, 10000},     {"1B", 2048, 16, 32, 8, 1.3, 1024, 500000},
    {"2B", 3072, 16, 32, 8, 1.3, 1024, 10000},       {"3B", 3072, 28, 24, 8, 1.3, 1024, 500000},
    {"5B", 4096, 16, 32, 8, 1.3, 1024, 10000},       {"7B", 4096, 32, 32, 8, 1.3, 1024, 10000},
    {"8B", 4096, 32, 32, 8, 1.3, 1024, 500000},      {"70B", 8192, 80, 64, 8, 1.3, 4096, 500000},
    {"405B", 16384, 126, 128, 8, 1.2, 4096, 500000},
};

std::string bound_text(double bound) {
  return std::abs(bound) < 1e15 && bound == std::floor(bound) ? fmt::format("{}", static_cast<int64_t>(bound))
                                                              : fmt::format("{}", bound);
}

}  // namespace

std::string Field::name() const { return fmt::format("{}.{}", section, key); }

Value Field::value(const RunConfig& config) const {
  // The slot of a const object is only read.
  return std::visit([](const auto* member) { return Value(*member); }, slot(const_cast<RunConfig&>(config)));
}

Value Field::default_value() const {
  static const RunConfig kDefaults;
  return value(kDefaults);
}

std::string_view Field::type() const {
  switch (default_value().index()) {
    case 0:
      return "bool";
    case 1:
      return "integer";
    case 2:
      return "number";
    default:
      return "string";
  }
}

std::string Limits::text() const {
  if (!choices.empty()) {
    std::string text = "one of ";
    for (size_t i = 0; i < choices.size(); ++i) text += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", choices[i]);
    return text;
  }
  std::string text;
  if (std::isfinite(least)) text = (least_open ? "more than " : "at least ") + bound_text(least);
  if (std::isfinite(most)) {
    if (!text.empty()) text += ", ";
    text += (most_open ? "less than " : "at most ") + bound_text(most);
  }
  if (!std::isnan(special)) text += ", or " + bound_text(special);
  return text;
}

bool Limits::allow(double number) const {
  if (number == special) return true;
  return (least_open ? number > least : number >= least) && (most_open ? number < most : number <= most) &&
         std::isfinite(number);
}

bool Limits::allow(std::string_view text) const {
  return choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end();
}

std::string to_toml_value(const Value& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const int64_t* number = std::get_if<int64_t>(&value)) return fmt::format("{}", *number);
  if (const double* number = std::get_if<double>(&value)) {
    // The shortest text that reads back as the same bits; ".0" says that it is no integer.
    const std::string text = fmt::format("{}", *number);
    return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
  }
  std::string text = "\"";
  for (const char c : std::get<std::string>(value)) {
    if (c == '"' || c == '\\')
      text += fmt::format("\\{}", c);
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      text += fmt::format("\\u{:04x}", c);
    else
      text += c;
  }
  return text + "\"";
}

std::span<const Field> fields() { return table(); }

const Field* find_field(std::string_view name) {
  for (const Field& field : fields()) {
    const size_t dot = field.section.size();
    if (name.size() == dot + 1 + field.key.size() && name.starts_with(field.section) && name[dot] == '.' &&
        name.ends_with(field.key))
      return &field;
  }
  return nullptr;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const auto& [name, help] : kSections) names.emplace_back(name);
  return names;
}

std::string_view section_help(std::string_view section) {
  for (const auto& [name, help] : kSections) {
    if (name == section) return help;
  }
  return {};
}

std::span<const Flavor> flavors() { return kFlavors; }

}  // namespace hearth::config
