#include "train/run.h"

#include <algorithm>
#include <utility>

#include "base/error_list.h"
#include "base/hash.h"
#include "checkpoint/load.h"
#include "checkpoint/retain.h"
#include "config/derived.h"
#include "config/load.h"
#include "data/token_weights.h"
#include "metrics/console.h"
#include "ops/runtime.h"
#include "optim/parameter_groups.h"
#include "plan/name_pattern.h"
#include "train/compute_device.h"
#include "train/transfer.h"

namespace hearth::train {

data::LoaderOptions Run::loading(int64_t rank, uint64_t first_sample) const {
  data::LoaderOptions options;
  options.seed = static_cast<uint64_t>(config.training.seed);
  options.seq_len = seq_len();
  options.global_batch_size = global_batch_size;
  options.local_batch_size = config.training.local_batch_size;
  options.rank = rank;
  options.ranks = ranks;
  options.first_sample = first_sample;
  options.order = data.order();
  options.labels = labels;
  options.token_weights = token_weights;
  options.substitute_damage = config.data.on_damage == "substitute";
  options.prefetch_threads = config.data.prefetch_threads;
  options.prefetch_steps = config.data.prefetch_steps;
  return options;
}

checkpoint::Manifest Run::manifest(const Progress& progress, const metrics::Record& record) const {
  checkpoint::Manifest m;
  m.step = progress.step;
  m.tokens_seen = progress.tokens_seen;
  m.optimizer_start = progress.optimizer_start;
  m.data_seed = static_cast<uint64_t>(config.training.seed);
  m.next_sample = progress.next_sample;
  m.health = progress.health;
  data::DataState state = data.state(progress.next_sample);
  m.data_sources = std::move(state.sources);
  m.data_segments = std::move(state.segments);
  m.order_samples = state.order_samples;
  m.order_version = state.order_version;
  m.tokenizer = data.manifest().rules.tokenizer;
  m.tokenizer_hash = data.manifest().tokenizer_hash;
  m.tokenizer_file = tokenizer_file;
  m.bos = data.manifest().bos;
  m.eos = data.manifest().eos;
  m.document_bos = data.manifest().rules.bos;
  m.dataset_hash = data.identity();
  m.token_weights_hash = token_weights_hash;
  m.config_toml = config_toml;
  m.libtorch_version = HEARTH_LIBTORCH_VERSION;
  m.parent = progress.parent;
  if (record.loss) m.metrics["loss"] = *record.loss;
  if (record.validation_loss) m.metrics["validation_loss"] = *record.validation_loss;
  for (const auto& [name, loss] : record.validation_losses) m.metrics["validation_loss." + name] = loss;
  return m;
}

Error Run::diverged(int64_t step, const std::string& reason, double lr) const {
  return damaged(
      fmt::format("step {}: {}", step, reason),
      fmt::format("the training diverged (lr {:.3g}) or the data of this step is not what the model expects; nothing "
                  "of this step was kept or saved",
                  lr),
      fmt::format("go on from the last checkpoint with a smaller optimizer.lr, a longer warm-up or a smaller "
                  "training.max_norm; see the step's text with: hearth data sample RUN.toml --step {}",
                  step));
}

std::string Run::describe() const {
  metrics::RunSummary s;
  s.parameters = plan.num_parameters;
  s.ranks = ranks;
  s.threads = threads;
  s.seq_len = seq_len();
  s.local_batch_size = config.training.local_batch_size;
  s.accumulation_steps = accumulation_steps;
  s.global_batch_size = global_batch_size;
  s.steps = steps;
  s.steps_per_epoch = steps_per_epoch;
  s.flops_per_token = throughput.flops_per_token;
  s.peak_flops = throughput.peak_flops;
  s.tokenizer = data.manifest().rules.tokenizer;
  s.data = data.sources().front().path;
  if (data.sources().size() > 1) {
    s.data = fmt::format("{} sources", data.sources().size());
    const auto use = data.use(data::sampler_of(data.splits(), loading(0, 0)), samples());
    for (size_t i = 0; i < use.size(); ++i) s.sources.push_back({data.sources()[i].path, use[i].share, use[i].epochs});
  }
  s.run_folder = folder.path().string();
  return config_toml + "\n" + metrics::format_summary(s) + plan::format_memory(memory);
}

namespace {

// What the run takes of this machine, where all its ranks are, or of its GPU. Throws user_error where that is too much.
plan::MemoryPlan memory_of(const config::RunConfig& config, const plan::ModelShape& shape,
                           const plan::ParameterPlan& parameters, at::Device device, int64_t threads) {
  const plan::MemoryPlan memory =
      plan::memory_plan(config, shape, parameters, plan::precision(config), available_memory(device),
                        config.parallelism.data_parallel_shard_degree, device.is_cpu() ? threads : 0);
  plan::require_fits(memory);
  return memory;
}

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
std::string split_of(const config::ValidationSet& set, const data::Dataset& dataset, const data::TrainingData& data) {
  if (dataset.manifest().tokenizer_hash != data.manifest().tokenizer_hash)
    throw user_error(
        fmt::format("validation set \"{}\" was built with another tokenizer than the data", set.name),
        fmt::format("that of {} is {} ({}), the data's {} ({})", set.path, dataset.manifest().rules.tokenizer,
                    dataset.manifest().tokenizer_hash, data.manifest().rules.tokenizer, data.manifest().tokenizer_hash),
        fmt::format("build it again: hearth data build --tokenizer {} ...", data.manifest().rules.tokenizer));
  const std::string split = !set.split.empty() ? set.split : dataset.has_split("validation") ? "validation" : "train";
  dataset.split(split);  // throws here, not after an hour
  if (split != "train") return split;
  for (const data::TrainingData::Source& source : data.sources()) {
    if (source.dataset.manifest().identity == dataset.manifest().identity)
      throw user_error(fmt::format("validation set \"{}\" is what the run trains on", set.name),
                       set.split.empty()
                           ? fmt::format("{} is a source, and no document was held out when it was built", set.path)
                           : fmt::format("{} is a source, and the set's split is \"train\"", set.path),
                       "build it with --validation 0.05, or give another folder");
  }
  return split;
}

std::vector<ValidationSet> open_validation(const config::RunConfig& config, const data::TrainingData& data) {
  std::vector<ValidationSet> sets;
  if (config.validation.freq == 0) return sets;
  for (const config::ValidationSet& set : config.validation.set) {
    data::Dataset dataset = data::Dataset::open(config.resolve(set.path));
    const std::string split = split_of(set, dataset, data);
    sets.push_back({set.name, std::move(dataset), split});
  }
  if (!sets.empty()) return sets;
  for (const data::TrainingData::Source& source : data.sources()) {
    if (source.dataset.has_split("validation")) sets.push_back({"", source.dataset, "validation"});
  }
  if (sets.empty()) data.sources().front().dataset.split("validation");  // throws here, not after an hour
  return sets;
}

// What find_start would find wrong later, said with the rest. A run that has checkpoints goes on with its own.
void check_initial_load(const config::RunConfig& config, const plan::ParameterPlan& plan) {
  if (config.checkpoint.initial_load_path.empty() || path_exists(config.checkpoint_folder())) return;
  const Path folder = checkpoint::find_checkpoint(config.initial_load_path().lexically_normal());
  plan_transfer(config.checkpoint, plan, checkpoint::Reader::open(folder));
}

}  // namespace

Run open_run(const config::RunConfig& given) {
  ErrorList errors;
  const config::RunConfig config = with_absolute_paths(given);
  const at::Device device = open_compute_device(config);  // before the data is read: it may not be there
  data::TrainingData data(config);
  std::vector<ValidationSet> validation;
  errors.attempt([&] { validation = open_validation(config, data); });
  std::vector<float> token_weights;
  std::string token_weights_hash;
  errors.attempt([&] {
    if (config.training.token_weights.empty()) return;
    token_weights = data::read_token_weights(config.training.token_weights, data.manifest().vocab_size);
    token_weights_hash = xxh3_128_hex(std::as_bytes(std::span(token_weights)));
  });
  const auto tokenizer = data.sources().front().dataset.open_tokenizer();

  const plan::ModelShape shape = plan::model_shape(config, data.manifest().vocab_size);
  plan::ParameterPlan plan = plan::parameter_plan(shape);
  data::LabelRule labels;
  errors.attempt([&] { labels = data::label_rule(config.objective, *tokenizer, shape.V); });
  errors.attempt([&] { check_float8(config, shape); });
  errors.attempt([&] { optim::parameter_settings(config.optimizer, plan); });
  errors.attempt([&] { plan::matching_parameters(config.checkpoint.fresh, plan, "checkpoint.fresh"); });
  std::vector<bool> trained(plan.parameters.size(), true);
  const int64_t threads = config.training.threads > 0 ? config.training.threads : ops::num_threads();
  plan::MemoryPlan memory;  // takes no moments for what is frozen
  if (errors.attempt([&] { trained = plan::trained_parameters(config.checkpoint.freeze, plan); }))
    errors.attempt([&] { memory = memory_of(config, shape, plan, device, threads); });
  if (!errors.empty()) errors.attempt([&] { check_initial_load(config, plan); });
  errors.throw_if_any("the run");
  const int64_t samples_per_epoch = data.windows();
  const int64_t steps = config::total_steps(config, samples_per_epoch);
  const int64_t batch = config::global_batch_size(config);
  ops::prepare_thread(threads);
  const plan::Precision precision = plan::precision(config);
  const metrics::Throughput throughput{static_cast<double>(config::tokens_per_step(config)),
                                       plan::flops_per_token(shape, config.training.seq_len),
                                       gemm_flops(device, precision.compute, threads)};
  return {.folder = RunFolder(config),
          .config = config,
          .config_toml = config::to_toml(config),
          .data = std::move(data),
          .validation = std::move(validation),
          .labels = std::move(labels),
          .token_weights = std::move(token_weights),
          .token_weights_hash = std::move(token_weights_hash),
          .tokenizer_file = std::string(tokenizer->file_content()),
          .shape = shape,
          .plan = std::move(plan),
          .trained = std::move(trained),
          .precision = precision,
          .device = device,
          .memory = std::move(memory),
          .ranks = config.parallelism.data_parallel_shard_degree,
          .threads = threads,
          .global_batch_size = batch,
          .accumulation_steps = config::accumulation_steps(config),
          .steps = steps,
          .steps_per_epoch = static_cast<double>(samples_per_epoch) / static_cast<double>(batch),
          .schedule = optim::lr_schedule(config.lr_scheduler, config.optimizer.lr, steps),
          .throughput = throughput};
}

}  // namespace hearth::train
