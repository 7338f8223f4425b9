// SPDX-License-Identifier: Apache-2.0
#include "run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "comm/group.h"
#include "config/derived.h"
#include "config/load.h"
#include "machine/cores.h"
#include "metrics/console.h"
#include "ops/runtime.h"
#include "run/compute_device.h"
#include "run/preflight.h"
#include "run/rank_threads.h"
#include "run/same_run.h"
#include "tokenizer/formats/chat_template.h"

namespace hearth::run {
namespace {

// The console's number of lines for chosen keys and for sources. With nine lines of one fact each there are at most 22.
constexpr size_t kLinesOfKeys = 8, kLinesOfSources = 3;
constexpr size_t kColumns = 104;  // the length of a line after its name

std::string format_chosen(const std::vector<config::ChosenKey>& keys) {
  if (keys.empty()) return "  chosen       nothing: every key has its default\n";
  return fmt::format("  chosen       {}\n",
                     fmt::join(config::chosen_lines(keys, kColumns, kLinesOfKeys), "\n               "));
}

// Rank 0's levels on every rank. Ranks with less free memory might choose others, and those that share a layer would
// then not communicate alike.
void agree(std::vector<plan::Recompute>& levels, comm::Control& control) {
  std::string text;
  for (const plan::Recompute level : levels) text += static_cast<char>('0' + static_cast<int>(level));
  text = control.broadcast("what is recomputed", text);
  for (size_t i = 0; i < text.size(); ++i) levels[i] = static_cast<plan::Recompute>(text[i] - '0');
}

// What a rank has opened. Rank 0's paths stand in the run file of all, but their content may differ between hosts.
std::vector<FoundInput> inputs_of(const Preflight& checked) {
  std::vector<FoundInput> inputs;
  const bool one = checked.config.data.source.empty();
  for (const data::TrainingSource& source : checked.data->sources()) {
    const data::DatasetManifest& manifest = source.dataset.manifest();
    inputs.push_back({one ? "data.path" : fmt::format("data.source.{}.path", source.number), source.path,
                      manifest.identity + ", tokenizer " + manifest.tokenizer_hash});
  }
  for (size_t i = 0; i < checked.config.validation.set.size() && i < checked.validation.size(); ++i)
    inputs.push_back({fmt::format("validation.set.{}.path", i), checked.config.validation.set[i].path,
                      checked.validation[i].dataset.manifest().identity});
  if (!checked.config.training.token_weights.empty())
    inputs.push_back({"training.token_weights", checked.config.training.token_weights, checked.token_weights_hash});
  return inputs;
}

}  // namespace

data::LoaderOptions Run::loading(uint64_t first_sample) const {
  data::LoaderOptions options;
  options.seed = static_cast<uint64_t>(config.training.seed);
  options.seq_len = seq_len();
  options.global_batch_size = global_batch_size;
  options.local_batch_size = config::micro_batch_size(config);
  options.rank = place.dp_replicate * config.parallelism.data_parallel_shard_degree + place.dp_shard;
  options.ranks = config.parallelism.data_ranks();
  options.first_sample = first_sample;
  options.order = data.order();
  options.labels = labels;
  if (options.labels.masking) options.labels.masking->samples = samples();
  options.token_weights = token_weights;
  options.substitute_damage = config.data.on_damage == config::OnDamage::kSubstitute;
  options.prefetch_threads = config.data.prefetch_threads;
  options.prefetch_steps = config.data.prefetch_steps;
  return options;
}

checkpoint::Manifest Run::manifest(const RunProgress& progress, const metrics::StepRecord& record) const {
  checkpoint::Manifest m;
  m.step = progress.step;
  m.tokens_seen = progress.tokens_seen;
  m.optimizer_start = progress.optimizer_start;
  data::DataState fed = data.state(progress.next_sample);
  fed.seed = static_cast<uint64_t>(config.training.seed);
  m.states[data::kDataState] = data::format_data_state(fed);
  if (progress.health != Health{}) m.states[kHealthState] = format_health(progress.health);
  if (!chat_template.empty()) m.states[tokenizer::kChatTemplateState] = chat_template;
  m.tokenizer = data.manifest().rules.tokenizer;
  m.tokenizer_hash = data.manifest().tokenizer_hash;
  m.tokenizer_file = tokenizer_file;
  m.bos = data.manifest().bos;
  m.eos = data.manifest().eos;
  m.document_bos = data.manifest().rules.bos;
  m.dataset_hash = data.identity();
  m.token_weights_hash = token_weights_hash;
  m.n_fixed = data.n_fixed();
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
      fmt::format("the training diverged (lr {:.3g}) or this step's data is unlike the data before; nothing "
                  "of this step was kept or saved",
                  lr),
      fmt::format("go on from the last checkpoint with a smaller optimizer.lr, a longer warm-up or a smaller "
                  "training.max_norm; see the step's text with: hearth data sample RUN.toml --step {}",
                  step));
}

std::string Run::run_file() const {
  config::RunConfig same = config;
  same.job.dump_folder = ".";
  if (!same.checkpoint.initial_load_path.empty())
    same.checkpoint.initial_load_path = absolute_path(config.initial_load_path()).string();
  return std::string(runfolder::kRunFileHeading) + config::to_toml(same);
}

std::string Run::describe(bool verbose) const {
  metrics::RunSummary s;
  s.parameters = plan.num_parameters;
  s.active_parameters = plan.num_active;
  s.ranks = ranks;
  s.data_ranks = config.parallelism.data_ranks();
  s.threads = threads;
  s.seq_len = seq_len();
  s.local_batch_size = config::micro_batch_size(config);
  s.accumulation_steps = accumulation_steps;
  s.global_batch_size = global_batch_size;
  s.steps = steps;
  s.steps_per_epoch = steps_per_epoch;
  s.peak_flops = throughput.peak_flops;
  s.tokenizer = data.manifest().rules.tokenizer;
  s.data = data.sources().front().path;
  if (data.sources().size() > 1) {
    s.data = fmt::format("{} sources", data.sources().size());
    const auto use = data.use(data::sampler_of(data.splits(), loading(0)), samples());
    for (size_t i = 0; i < use.size(); ++i) s.sources.push_back({data.sources()[i].path, use[i].share, use[i].epochs});
  }
  s.run_folder = folder.path().string();
  if (!verbose && s.sources.size() > kLinesOfSources + 1) {
    std::ranges::stable_sort(s.sources, std::greater(), [](const auto& source) { return source.share; });
    s.more_sources = static_cast<int64_t>(s.sources.size() - kLinesOfSources);
    s.sources.resize(kLinesOfSources);
  }
  return (verbose ? config_toml + "\n" : format_chosen(chosen)) + metrics::format_summary(s) +
         plan::format_compute(shape, seq_len(), memory.recompute) +
         (verbose ? plan::format_memory(memory) : plan::format_memory_total(memory)) +
         plan::format_pipeline(pipeline, shape, config.training.seq_len) + plan::format_step_time(expected_time);
}

Run open_run(const config::LoadResult& loaded, comm::Control& control) {
  Preflight checked;
  control.together("the checks of the run file", [&] { checked = check_run(loaded); });
  require_same("the data of all ranks", inputs_of(checked), control);
  agree(checked.memory.recompute, control);
  const bool first = control.rank() == 0;
  const RankThreads threads = share_threads(checked.config, checked.threads, control);
  const int64_t cores = std::min(checked.threads, machine::available_cores());
  const double share = share_measured(checked.device, cores, threads.of_run, control);
  std::optional<runfolder::RunFolder> folder;
  control.together("the run folder", [&] { folder.emplace(checked.config, first); });
  const std::string lease = control.broadcast("the lease of the run folder", first ? folder->lease()->id() : "");
  control.together("the run folder of all ranks", [&] {
    if (!first) folder->require_shared(lease);
  });
  const config::RunConfig& config = checked.config;
  const mesh::Coordinates place = mesh::Mesh(config.parallelism.degrees()).coordinates(control.rank());
  const int64_t samples_per_epoch = checked.data->windows();
  const int64_t steps = config::total_steps(config, samples_per_epoch);
  const int64_t batch = config::global_batch_size(config);
  if (first) ops::prepare_thread(cores);
  const DType compute = checked.shape.precision.compute;
  const metrics::Throughput throughput{static_cast<double>(config::tokens_per_step(config)),
                                       plan::computed_flops_per_token(checked.shape.model, config.training.seq_len),
                                       first ? share * peak_flops(checked.device, compute, cores) : 0};
  const plan::StepTime expected_time =
      plan::step_time(config, checked.shape.model, checked.memory.recompute, steps,
                      {.gemm_flops = first ? share * gemm_flops(checked.device, compute, cores) : 0,
                       .efficiency = plan::usual_efficiency(checked.device.is_cpu(), control.size())});
  return {.folder = std::move(*folder),
          .config = config,
          .config_toml = config::to_toml(config),
          .chosen = config::chosen_keys(loaded),
          .data = std::move(*checked.data),
          .validation = std::move(checked.validation),
          .labels = std::move(checked.labels),
          .token_weights = std::move(checked.token_weights),
          .token_weights_hash = std::move(checked.token_weights_hash),
          .tokenizer_file = std::string(checked.tokenizer->file_content()),
          .chat_template = {},  // find_start() finds it
          .shape = checked.shape.model,
          .plan = std::move(checked.shape.parameters),
          .pipeline = plan::pipeline_plan(config, checked.shape.model.L()),
          .place = place,
          .expert_place =
              mesh::Mesh::of_experts(config.parallelism.degrees()).rank_in_group(control.rank(), {mesh::Axis::kEp}),
          .trained = std::move(checked.trained),
          .precision = checked.shape.precision,
          .device = checked.device,
          .memory = std::move(checked.memory),
          .ranks = config.parallelism.ranks(),
          .threads = threads.of_run,
          .rank_threads = threads.of_rank,
          .global_batch_size = batch,
          .accumulation_steps = config::accumulation_steps(config),
          .steps = steps,
          .steps_per_epoch = static_cast<double>(samples_per_epoch) / static_cast<double>(batch),
          .schedule = plan::lr_schedule(config.lr_scheduler, config.optimizer.lr, steps),
          .throughput = throughput,
          .expected_time = expected_time};
}

Run open_run(const config::RunConfig& config) {
  const std::unique_ptr<comm::Group> alone = comm::single();
  return open_run(config::without_file(config), alone->control());
}

}  // namespace hearth::run
