#include "run/preflight.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error_list.h"
#include "base/hash.h"
#include "checkpoint/load.h"
#include "checkpoint/retain.h"
#include "data/study/token_weights.h"
#include "ops/runtime.h"
#include "optim/parameter_groups.h"
#include "plan/name_pattern.h"
#include "run/compute_device.h"
#include "run/finite.h"
#include "run/transfer.h"

namespace hearth::run {
namespace {

using Sources = std::vector<data::TrainingSource>;

// Absolute, so that a checkpoint finds its data from wherever it is opened.
config::RunConfig with_absolute_paths(config::RunConfig config) {
  const auto make_absolute = [&config](std::string& path) {
    path = std::filesystem::absolute(config.resolve(path)).lexically_normal().string();
  };
  if (!config.data.path.empty()) make_absolute(config.data.path);
  if (!config.training.token_weights.empty()) make_absolute(config.training.token_weights);
  for (config::DataSource& source : config.data.source) make_absolute(source.path);
  for (config::ValidationSet& set : config.validation.set) make_absolute(set.path);
  return config;
}

// The documents that a set names, or its held-out ones, or all where none are held out: never what is trained on.
std::string split_of(const config::ValidationSet& set, const data::Dataset& dataset, const Sources& sources) {
  const data::Manifest& trained = sources.front().dataset.manifest();
  if (dataset.manifest().tokenizer_hash != trained.tokenizer_hash)
    throw user_error(
        fmt::format("validation set \"{}\" was built with another tokenizer than the data", set.name),
        fmt::format("that of {} is {} ({}), the data's {} ({})", set.path, dataset.manifest().rules.tokenizer,
                    dataset.manifest().tokenizer_hash, trained.rules.tokenizer, trained.tokenizer_hash),
        fmt::format("build it again: hearth data build --tokenizer {} ...", trained.rules.tokenizer));
  const std::string split = set.split.empty() ? dataset.held_out_split() : set.split;
  dataset.split(split);  // throws here, not after an hour
  if (split != "train") return split;
  for (const data::TrainingSource& source : sources) {
    if (source.dataset.manifest().identity == dataset.manifest().identity)
      throw user_error(fmt::format("validation set \"{}\" is what the run trains on", set.name),
                       set.split.empty()
                           ? fmt::format("{} is a source, and no document was held out when it was built", set.path)
                           : fmt::format("{} is a source, and the set's split is \"train\"", set.path),
                       "build it with --validation 0.05, or give another folder");
  }
  return split;
}

std::vector<ValidationSet> open_validation(const config::RunConfig& config, const Sources& sources, ErrorList& errors) {
  std::vector<ValidationSet> sets;
  const auto& given = config.validation.set;
  for (size_t i = 0; i < given.size(); ++i) {
    errors.attempt_about(fmt::format("validation.set.{}.path", i), [&] {
      data::Dataset dataset = data::Dataset::open(config.resolve(given[i].path));
      const std::string split = split_of(given[i], dataset, sources);
      sets.push_back({given[i].name, std::move(dataset), split});
    });
  }
  if (!given.empty()) return sets;
  for (const data::TrainingSource& source : sources) {
    if (source.dataset.has_split("validation")) sets.push_back({"", source.dataset, "validation"});
  }
  // Throws here, not after an hour.
  if (sets.empty()) errors.attempt_about("validation.freq", [&] { sources.front().dataset.split("validation"); });
  return sets;
}

// What find_start would find wrong later, when the run folder is there. A run that has checkpoints goes on with its
// own. `all`: other errors are known already, so that the start has the time to read every weight.
void check_initial_load(const config::RunConfig& config, const plan::ParameterPlan& plan, bool shapes_are_known,
                        bool all, ErrorList& errors) {
  const config::Checkpoint& keys = config.checkpoint;
  if (keys.initial_load_path.empty() || path_exists(config.checkpoint_folder())) return;
  errors.attempt_about("checkpoint.initial_load_path", [&] {
    const Path folder = checkpoint::find_checkpoint(config.initial_load_path().lexically_normal());
    checkpoint::Reader reader = checkpoint::Reader::open(folder);
    if (shapes_are_known) errors.attempt([&] { plan_transfer(keys, plan, reader); });
    if (!all) return;
    std::vector<bool> fresh;
    for (const plan::Parameter& p : plan.parameters)
      fresh.push_back(std::any_of(keys.fresh.begin(), keys.fresh.end(),
                                  [&p](const std::string& pattern) { return plan::matches(pattern, p.name); }));
    check_finite(reader, plan, fresh);
  });
}

// A model with the parameters' names: they are the same whatever their widths, also where those cannot be.
plan::ParameterPlan named_parameters(config::Model model) {
  model.dim = 2;
  model.n_heads = model.n_kv_heads = 1;
  model.vocab_size = 1;
  return plan::parameter_plan(plan::model_shape(model, 1));
}

class Check {
 public:
  explicit Check(const config::LoadResult& loaded) : loaded_(loaded) {
    result_.config = with_absolute_paths(loaded.config);
    const config::RunConfig& config = result_.config;
    result_.threads = config.training.threads > 0 ? config.training.threads : ops::num_threads();
  }

  Preflight run() {
    const config::RunConfig& config = result_.config;
    has_device_ = errors_.attempt_about("training.device", [&] { result_.device = open_compute_device(config); });
    sources_ = data::open_sources(config, errors_);
    if (!sources_.empty()) check_tokenizer();
    check_token_weights();
    check_model();
    if (sources_.size() == config.sources().size() && !has_problem({"data", "training", "parallelism", "objective"}))
      errors_.attempt_about(config.data.source.empty() ? "data.path" : "data.source.0",
                            [&] { result_.data.emplace(config, std::move(sources_)); });
    const bool refused = !errors_.empty() || !loaded_.problems.empty();
    check_initial_load(config, result_.plan, has_shape_, refused, errors_);
    config::throw_all(loaded_, errors_.list());
    return std::move(result_);
  }

 private:
  bool has_problem(std::initializer_list<std::string_view> keys) const {
    return std::any_of(keys.begin(), keys.end(), [this](auto key) { return loaded_.has_problem(key); });
  }

  // What the data's tokenizer is needed for.
  void check_tokenizer() {
    const config::RunConfig& config = result_.config;
    const data::Dataset& dataset = sources_.front().dataset;
    vocab_size_ = dataset.manifest().vocab_size;
    if (config.validation.freq > 0) result_.validation = open_validation(config, sources_, errors_);
    if (!errors_.attempt([&] { result_.tokenizer = dataset.open_tokenizer(); }) || has_problem({"objective"})) return;
    const int64_t rows = std::max(config.model.vocab_size, vocab_size_);
    errors_.attempt([&] { result_.labels = data::label_rule(config.objective, *result_.tokenizer, rows); });
  }

  void check_token_weights() {
    const std::string& file = result_.config.training.token_weights;
    if (file.empty()) return;
    errors_.attempt_about("training.token_weights", [&] {
      result_.token_weights = data::read_token_weights(file, vocab_size_);
      result_.token_weights_hash = xxh3_128_hex(std::as_bytes(std::span(result_.token_weights)));
    });
  }

  void check_model() {
    const config::RunConfig& config = result_.config;
    has_shape_ = !has_problem({"model"}) && (vocab_size_ > 0 || config.model.vocab_size > 0) &&
                 errors_.attempt([&] { result_.shape = plan::model_shape(config, vocab_size_); });
    // A recorded micro-batch takes all positions through the head (micro_batch_graph.h).
    if (weighs_labels() && !config.training.cuda_graph) {
      result_.shape.sparse_labels = true;
      result_.shape.counted *= counted_share();
    }
    // Without the number of layers nothing is known about names.
    if (loaded_.has_problem("model", /*typed=*/true) || loaded_.has_problem("model.flavor")) return;
    result_.plan = has_shape_ ? plan::parameter_plan(result_.shape) : named_parameters(config.model);
    errors_.attempt([&] { optim::parameter_settings(config.optimizer, result_.plan); });
    errors_.attempt([&] { plan::matching_parameters(config.checkpoint.fresh, result_.plan, "checkpoint.fresh"); });
    const bool trained =
        errors_.attempt([&] { result_.trained = plan::trained_parameters(config.checkpoint.freeze, result_.plan); });
    if (!has_shape_ || !has_device_) return;
    if (!result_.device.is_cpu())
      errors_.attempt_about("numerics.fp8", [&] { check_float8(ops::open_gpu(), config, result_.shape); });
    if (trained && !has_problem({"training", "memory", "parallelism", "optimizer", "objective", "numerics"}))
      check_memory();
  }

  // Whether the data say of some tokens that they do not count.
  bool weighs_labels() const {
    const auto weighs = [](const data::Dataset& dataset, const std::string& split) {
      return dataset.split(split).weights().has_value();
    };
    return std::any_of(sources_.begin(), sources_.end(),
                       [&](const data::TrainingSource& source) { return weighs(source.dataset, "train"); }) ||
           std::any_of(result_.validation.begin(), result_.validation.end(),
                       [&](const ValidationSet& set) { return weighs(set.dataset, set.split); });
  }

  double counted_share() const {
    int64_t tokens = 0, counted = 0;
    for (const data::TrainingSource& source : sources_) {
      const data::SplitEntry* split = source.dataset.manifest().find_split("train");
      tokens += split->tokens;
      counted += split->counted_tokens();
    }
    return tokens > 0 ? static_cast<double>(counted) / static_cast<double>(tokens) : 1;
  }

  // What the run takes of this machine, where all its ranks are, or of its GPU. Needs to know what is frozen.
  void check_memory() {
    const config::RunConfig& config = result_.config;
    errors_.attempt_about(config.memory.limit.empty() ? "" : "memory.limit", [&] {
      result_.memory = plan::memory_plan(
          config, result_.shape, result_.plan, plan::precision(config), available_memory(result_.device),
          config.parallelism.data_parallel_shard_degree, result_.device.is_cpu() ? result_.threads : 0);
      plan::require_fits(result_.memory);
    });
  }

  const config::LoadResult& loaded_;
  Preflight result_;
  ErrorList errors_;
  Sources sources_;
  int64_t vocab_size_ = 0;  // the tokenizer's; 0: no source opens
  bool has_device_ = false, has_shape_ = false;
};

}  // namespace

Preflight check_run(const config::LoadResult& loaded) {
  if (loaded.syntax_error) config::throw_all(loaded, {});
  return Check(loaded).run();
}

}  // namespace hearth::run
