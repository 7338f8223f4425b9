// SPDX-License-Identifier: Apache-2.0
#include "run/preflight.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error_list.h"
#include "base/hash.h"
#include "config/derived.h"
#include "convert/initial_load.h"
#include "data/batch/prompt.h"
#include "data/order/data_facts.h"
#include "data/shard/same_tokenizer.h"
#include "data/study/token_weights.h"
#include "plan/layouts/search.h"
#include "plan/name_pattern.h"
#include "plan/optimizer/parameter_groups.h"
#include "recordings/prompt.h"
#include "run/compute_device.h"
#include "run/finite.h"
#include "run/last_save.h"

namespace hearth::run {
namespace {

using Sources = std::vector<data::TrainingSource>;

// Throws if the set has another tokenizer than the training data, lacks the split, or contains training documents.
void check_set(const config::ValidationSet& set, const data::Dataset& dataset, const std::string& split,
               const Sources& sources) {
  const data::TrainingSource& first = sources.front();
  data::require_same_tokenizer(data::tokenizer_of(set.path, dataset.manifest()),
                               data::tokenizer_of(first.path, first.dataset.manifest()));
  dataset.split(split);  // throws now, not after an hour
  if (split != "train") return;
  for (const data::TrainingSource& source : sources) {
    if (source.dataset.manifest().identity == dataset.manifest().identity)
      throw user_error(fmt::format("validation set \"{}\" is also training data", set.name),
                       set.split.empty()
                           ? fmt::format("{} is a source, and no document was held out when it was built", set.path)
                           : fmt::format("{} is a source, and the set's split is \"train\"", set.path),
                       "build it with --validation 0.05, or give another folder");
  }
}

// Finds errors that find_start would find later, when the run folder exists. Does nothing for a run with checkpoints,
// which continues from those. `all`: there are other errors, so every weight is read now.
void check_initial_load(const config::RunConfig& config, const plan::ParameterPlan& plan, bool shapes_are_known,
                        bool all, ErrorList& errors) {
  const config::Checkpoint& keys = config.checkpoint;
  if (keys.initial_load_path.empty() || path_exists(config.checkpoint_folder())) return;
  errors.attempt_about("checkpoint.initial_load_path", [&] {
    convert::Source source = convert::open_for_run(normal_path(config.initial_load_path()), config.model);
    checkpoint::Reader& reader = source.reader;
    if (shapes_are_known) errors.attempt([&] { convert::plan_initial_load(keys, plan, reader); });
    // A branch from a run of Hearth compares all keys.
    if (keys.initial_load_model_only || !reader.has_manifest())
      errors.attempt([&] { convert::check_same_model(source, config); });
    if (!all) return;
    std::vector<bool> fresh;
    for (const plan::Parameter& p : plan.parameters)
      fresh.push_back(std::ranges::any_of(keys.fresh, [&p](const auto& of) { return plan::matches(of, p.name); }));
    check_finite(reader, plan, fresh);
  });
}

// A model with the right parameter names. Names do not depend on widths, so this works even if the widths are wrong.
plan::ParameterPlan named_parameters(config::Model model) {
  model.dim = 2;
  model.n_heads = model.n_kv_heads = 1;
  model.head_dim = 0;
  model.vocab_size = 1;
  return plan::parameter_plan(plan::model_shape(model, 1));
}

// Throws if the run's model cannot continue a recording of validation.generate. Makes its path absolute.
void check_recording(std::string& path, const config::RunConfig& config, const recordings::ArrayVocabulary& tokenizer,
                     const data::LabelRule& labels) {
  if (labels.masking)
    throw user_error("validation.generate does not fill in the masks of recordings",
                     "the model was trained to do so (objective.kind = \"masked_lm\")", "leave it out");
  path = absolute_path(config.resolve(path)).string();
  recordings::read_array_prompt(tokenizer, path,
                                {.context_bins = config.validation.generate_context_bins,
                                 .source = "validation.generate",
                                 .context_source = "validation.generate_context_bins",
                                 .why = "the data are recordings, so that the model continues recordings"});
}

// Throws if the run's model cannot continue a prompt of validation.generate, or fill in its masks.
void check_prompt(const std::string& prompt, const config::RunConfig& config, const tokenizer::Tokenizer& tokenizer,
                  bool document_bos, const data::LabelRule& labels) {
  if (!tokenizer.has_text())
    throw user_error("validation.generate needs data of text or recordings",
                     fmt::format("the tokenizer of the data is {}", tokenizer.name()), "leave it out");
  if (config.validation.generate_context_bins > 0)
    throw user_error("validation.generate_context_bins is for recordings", "the data are text", "leave it out");
  if (!labels.masking) {
    if (!data::prompt_tokens(tokenizer, document_bos, prompt).empty()) return;
    throw user_error("a prompt of validation.generate is empty", "the tokenizer has neither BOS nor EOS",
                     "give the start of a text");
  }
  const data::MaskedPrompt masked = data::masked_prompt(tokenizer, document_bos, labels.masking->mask_id, prompt);
  if (masked.open.empty())
    throw user_error(
        fmt::format("the prompt \"{}\" of validation.generate has no mask", prompt),
        "the model fills in hidden tokens (objective.kind = \"masked_lm\")",
        fmt::format("write {} for each token to be filled in", data::mask_text(tokenizer, labels.masking->mask_id)));
  if (std::ssize(masked.ids) > config.training.seq_len)
    throw user_error(fmt::format("a prompt of validation.generate has {} tokens", masked.ids.size()),
                     fmt::format("training.seq_len is {}", config.training.seq_len), "give a shorter text");
}

class Check {
 public:
  explicit Check(const config::LoadResult& loaded) : loaded_(loaded) {
    result_.config = with_absolute_paths(loaded.config);
    const config::RunConfig& config = result_.config;
    result_.threads = config::cpu_threads(config);
  }

  Preflight run() {
    const config::RunConfig& config = result_.config;
    has_device_ = errors_.attempt_about("training.device", [&] { result_.device = open_compute_device(config); });
    sources_ = data::open_sources(config, errors_);
    for (const data::TrainingSource& source : sources_) manifests_.sources.push_back(&source.dataset.manifest());
    if (!sources_.empty()) check_tokenizer();
    check_token_weights();
    check_model();
    if (sources_.size() == config.sources().size() && !has_problem({"data", "training", "parallelism", "objective"}))
      errors_.attempt_about(config.data.source.empty() ? "data.path" : "data.source.0",
                            [&] { result_.data.emplace(config, std::move(sources_)); });
    const bool refused = !errors_.empty() || !loaded_.problems.empty();
    check_initial_load(config, result_.shape.parameters, has_shape_, refused, errors_);
    config::throw_all(loaded_, errors_.list());
    return std::move(result_);
  }

 private:
  bool has_problem(std::initializer_list<std::string_view> keys) const {
    return std::any_of(keys.begin(), keys.end(), [this](auto key) { return loaded_.has_problem(key); });
  }

  // Makes everything that needs the data's tokenizer.
  void check_tokenizer() {
    const config::RunConfig& config = result_.config;
    const data::Dataset& dataset = sources_.front().dataset;
    if (config.validation.freq > 0) open_validation();
    if (!errors_.attempt([&] { result_.tokenizer = dataset.open_tokenizer(); }) || has_problem({"objective"})) return;
    const int64_t rows = std::max(config.model.vocab_size, vocab_size());
    const bool labelled = errors_.attempt([&] {
      result_.labels = data::label_rule(config.objective, config.model.attention_scope, *result_.tokenizer, rows);
    });
    if (labelled) check_prompts();
  }

  void check_prompts() {
    const config::RunConfig& config = result_.config;
    const recordings::ArrayVocabulary* const arrays = result_.tokenizer->arrays();
    for (std::string& prompt : result_.config.validation.generate)
      errors_.attempt_about("validation.generate", [&] {
        if (arrays != nullptr)
          check_recording(prompt, config, *arrays, result_.labels);
        else
          check_prompt(prompt, config, *result_.tokenizer, dataset_bos(), result_.labels);
      });
  }

  bool dataset_bos() const { return sources_.front().dataset.manifest().rules.bos; }

  void open_validation() {
    const config::RunConfig& config = result_.config;
    const auto& given = config.validation.set;
    const auto key = [](size_t i) { return fmt::format("validation.set.{}.path", i); };
    sets_.resize(given.size());
    for (size_t i = 0; i < given.size(); ++i) {
      errors_.attempt_about(key(i), [&] { sets_[i] = data::Dataset::open(config.resolve(given[i].path)); });
      manifests_.sets.push_back(sets_[i] ? &sets_[i]->manifest() : nullptr);
    }
    for (const data::MeasuredSplit& measured : data::measured_splits(config, manifests_)) {
      const size_t i = measured.number;
      if (given.empty()) {
        result_.validation.push_back({"", sources_[i].dataset, measured.split});
      } else if (errors_.attempt_about(key(i), [&] { check_set(given[i], *sets_[i], measured.split, sources_); })) {
        result_.validation.push_back({given[i].name, *sets_[i], measured.split});
      }
    }
    // Throws now, not after an hour.
    if (given.empty() && result_.validation.empty())
      errors_.attempt_about("validation.freq", [&] { sources_.front().dataset.split("validation"); });
  }

  void check_token_weights() {
    const std::string& file = result_.config.training.token_weights;
    if (file.empty()) return;
    errors_.attempt_about("training.token_weights", [&] {
      result_.token_weights = data::read_token_weights(file, vocab_size());
      result_.token_weights_hash = xxh3_128_hex(std::as_bytes(std::span(result_.token_weights)));
    });
  }

  void check_model() {
    const config::RunConfig& config = result_.config;
    has_shape_ = !has_problem({"model"}) && (vocab_size() > 0 || config.model.vocab_size > 0) && errors_.attempt([&] {
      result_.shape = plan::run_shape(config, data::data_facts(config, manifests_));
    });
    // Names need the number of layers.
    if (loaded_.has_problem("model", /*typed=*/true) || loaded_.has_problem("model.flavor")) return;
    plan::ParameterPlan& parameters = result_.shape.parameters;
    if (!has_shape_) parameters = named_parameters(config.model);
    errors_.attempt([&] { plan::parameter_settings(config.optimizer, parameters); });
    errors_.attempt([&] { plan::matching_parameters(config.checkpoint.fresh, parameters, "checkpoint.fresh"); });
    const bool trained =
        errors_.attempt([&] { result_.trained = plan::trained_parameters(config.checkpoint.freeze, parameters); });
    if (!has_shape_ || !has_device_) return;
    if (config.checkpoint.last_save_in_hf)
      errors_.attempt_about("checkpoint.last_save_in_hf", [&] { check_hugging_face(config, result_.shape.model); });
    if (!result_.device.is_cpu())
      errors_.attempt_about("numerics.fp8", [&] { check_float8(ops::open_gpu(), config, result_.shape.model); });
    if (trained && !has_problem({"training", "memory", "parallelism", "optimizer", "objective", "numerics"}))
      check_memory();
  }

  // The tokenizer's vocabulary size; 0 if no source opens.
  int64_t vocab_size() const { return sources_.empty() ? 0 : sources_.front().dataset.manifest().vocab_size; }

  // The memory of all ranks on this machine, or of its GPU. Needs the frozen parameters.
  void check_memory() {
    const config::RunConfig& config = result_.config;
    errors_.attempt_about(config.memory.limit.empty() ? "" : "memory.limit", [&] {
      result_.memory = plan::memory_plan(config, result_.shape, available_memory(result_.device));
      plan::require_fits(result_.memory, result_.memory.fits() ? std::string() : other_layouts());
    });
  }

  // Layouts of as many ranks that fit. Nothing is known of their speed here; those that send least come first.
  std::string other_layouts() const {
    const int64_t ranks = result_.config.parallelism.ranks();
    if (ranks == 1) return {};
    const plan::Speed speed{.gemm_flops = 1, .devices = ranks, .per_node = ranks};
    return plan::list_layouts(
        plan::search_layouts(result_.config, result_.shape, available_memory(result_.device), 1, speed, 3));
  }

  const config::LoadResult& loaded_;
  Preflight result_;
  ErrorList errors_;
  Sources sources_;
  std::vector<std::optional<data::Dataset>> sets_;  // of validation.set; empty for a set that does not open
  data::RunManifests manifests_;
  bool has_device_ = false, has_shape_ = false;
};

}  // namespace

config::RunConfig with_absolute_paths(config::RunConfig config) {
  const auto make_absolute = [&config](std::string& path) { path = absolute_path(config.resolve(path)).string(); };
  if (!config.data.path.empty()) make_absolute(config.data.path);
  if (!config.training.token_weights.empty()) make_absolute(config.training.token_weights);
  for (config::DataSource& source : config.data.source) make_absolute(source.path);
  for (config::ValidationSet& set : config.validation.set) make_absolute(set.path);
  return config;
}

Preflight check_run(const config::LoadResult& loaded) {
  if (loaded.syntax_error) config::throw_all(loaded, {});
  return Check(loaded).run();
}

}  // namespace hearth::run
