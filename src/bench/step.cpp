// SPDX-License-Identifier: Apache-2.0
#include "bench/step.h"

#include <c10/core/InferenceMode.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "base/random.h"
#include "config/derived.h"
#include "data/order/data_facts.h"
#include "machine/cores.h"
#include "metrics/peak_rate.h"
#include "metrics/throughput.h"
#include "ops/gpu/gpu.h"
#include "ops/runtime.h"
#include "plan/run_shape.h"
#include "run/compute_device.h"
#include "run/rank_threads.h"
#include "run/same_run.h"
#include "run/state.h"
#include "train/training.h"

namespace hearth::bench {
namespace {

// Random tokens: a step's time does not depend on the tokens, only on the number of counted labels.
data::StepBatch random_batch(const config::RunConfig& config, const plan::ModelShape& shape, int64_t micro_batches) {
  data::StepBatch step;
  const RandomKey key = random_key(0, "bench");
  uint64_t index = 0;
  const auto token = [&] { return static_cast<int32_t>(random_u64(key, index++) % static_cast<uint64_t>(shape.V)); };
  const auto label = [&] {
    const double uniform = static_cast<double>(random_u64(key, index++) >> 11) * 0x1p-53;
    return uniform < shape.counted ? token() : data::kIgnore;
  };
  for (int64_t i = 0; i < micro_batches; ++i) {
    data::Batch batch;
    batch.B = config::micro_batch_size(config);
    batch.S = config.training.seq_len;
    batch.tokens.resize(static_cast<size_t>(batch.B * batch.S));
    batch.labels.resize(batch.tokens.size());
    std::generate(batch.tokens.begin(), batch.tokens.end(), token);
    for (int64_t b = 0; b < batch.B; ++b) batch.document_starts.push_back(static_cast<int32_t>(b * batch.S));
    std::generate(batch.labels.begin(), batch.labels.end(), label);
    step.micro_batches.push_back(std::move(batch));
  }
  return step;
}

// A step's result, with the time until it was known.
struct Timed {
  train::StepResult result;
  double step_s;
};

template <typename Field>
double median(std::vector<Timed> results, Field field) {
  std::sort(results.begin(), results.end(), [&](const Timed& a, const Timed& b) { return field(a) < field(b); });
  return field(results[results.size() / 2]);
}

double whole_step(const Timed& t) { return t.step_s; }

// Waits for a line on stdin. Meanwhile the other ranks wait in the step's first collective.
void wait_for_turn() {
  for (int c = 0; c != '\n' && c != EOF;) c = std::getchar();
}

void end_turn(double step_s) {
  fmt::print("{}\n", step_s);
  std::fflush(stdout);
}

struct Shape {
  plan::RunShape run;
  int64_t micro_batches, threads;
  std::vector<plan::Recompute> recompute;
  at::Device device = at::kCPU;
};

Shape shape_of(const config::RunConfig& config) {
  Shape s;
  s.run = plan::run_shape(config, data::data_facts(config));
  s.micro_batches = config::accumulation_steps(config);
  s.threads = config::cpu_threads(config);
  s.device = run::open_compute_device(config);
  if (!s.device.is_cpu()) run::check_float8(ops::open_gpu(), config, s.run.model);
  const plan::MemoryPlan memory = plan::memory_plan(config, s.run, run::available_memory(s.device));
  plan::require_fits(memory);
  s.recompute = memory.recompute;
  return s;
}

int64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

struct StepsOfRank {
  std::vector<Timed> results;  // without the warm-up
  double page_faults_per_step = 0, first_step_end = 0;
};

// Runs the steps of one rank.
StepsOfRank run_steps(const config::BenchStepOptions& options, const Shape& s, int64_t threads, comm::Group& group) {
  const c10::InferenceMode no_gradients;
  ops::prepare_thread(threads);
  train::RankTraining training({.config = options.config,
                                .shape = s.run.model,
                                .precision = s.run.precision,
                                .recompute = s.recompute,
                                .device = s.device},
                               group);
  run::initialize_weights(training.weights, 0);
  const data::StepBatch batch = random_batch(options.config, s.run.model, s.micro_batches);
  StepsOfRank measured;
  int64_t faults_before = page_faults();
  for (int64_t t = 1; t <= options.warmup + options.steps; ++t) {
    if (options.turns && group.rank() == 0) wait_for_turn();
    const double start_s = metrics::monotonic_seconds();
    const train::StepResult made = training.step.run(batch, t, options.config.optimizer.lr).result();
    const Timed result{made, metrics::monotonic_seconds() - start_s};
    if (options.turns && group.rank() == 0) end_turn(whole_step(result));
    if (t > options.warmup) measured.results.push_back(result);
    if (t == options.warmup) faults_before = page_faults();
    if (t == 1) {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      measured.first_step_end = std::chrono::duration<double>(now).count();
    }
  }
  const int64_t faults = page_faults() - faults_before;
  measured.page_faults_per_step = static_cast<double>(faults) / static_cast<double>(options.steps);
  return measured;
}

int64_t largest(comm::Control& control, int64_t mine) {
  int64_t result = 0;
  for (const std::string& theirs : control.all_gather("the memory", fmt::format("{}", mine)))
    result = std::max<int64_t>(result, std::stoll(theirs));
  return result;
}

// The rate of matrix products of all ranks' cores or GPUs together, and the share of it that steps at `reached` have.
// Rank 0 measures while the others wait. Collective.
void measure_share(const Shape& s, comm::Control& control, double reached, StepTiming& t) {
  const int64_t cores = std::min(s.threads, machine::available_cores());
  const double of_all = run::share_measured(s.device, cores, t.threads, control);
  if (control.rank() == 0) {
    ops::prepare_thread(cores);
    metrics::PeakRate peak(of_all * run::peak_flops(s.device, s.run.precision.compute, cores),
                           [&] { return of_all * run::peak_flops_now(s.device, s.run.precision.compute); });
    t.mfu = peak.share(reached);
    t.gemm_flops = peak.flops_per_s();
  }
  control.barrier("the rate of matrix products");
}

}  // namespace

StepTiming time_steps(const config::BenchStepOptions& options, comm::Group& group) {
  Shape s;
  run::require_one_run(options.config, group.control());
  group.control().together("the shape", [&] { s = shape_of(options.config); });
  const run::RankThreads threads = run::share_threads(options.config, s.threads, group.control());
  const StepsOfRank measured = run_steps(options, s, threads.of_rank, group);
  const std::vector<Timed>& results = measured.results;

  StepTiming t;
  t.parameters = s.run.parameters.num_parameters;
  t.tokens_per_step = options.config.parallelism.data_ranks() * s.micro_batches *
                      config::micro_batch_size(options.config) * options.config.training.seq_len;
  t.threads = threads.of_run;
  t.on_gpu = !s.device.is_cpu();
  t.median_step_s = median(results, whole_step);
  const auto by_time = [](const Timed& a, const Timed& b) { return whole_step(a) < whole_step(b); };
  t.fastest_step_s = whole_step(*std::min_element(results.begin(), results.end(), by_time));
  t.slowest_step_s = whole_step(*std::max_element(results.begin(), results.end(), by_time));
  t.forward_backward_s = median(results, [](const Timed& t) { return t.result.forward_backward_s; });
  t.norm_s = median(results, [](const Timed& t) { return t.result.norm_s; });
  t.update_s = median(results, [](const Timed& t) { return t.result.update_s; });
  t.flops_per_token = plan::computed_flops_per_token(s.run.model, options.config.training.seq_len);
  const metrics::Throughput throughput{static_cast<double>(t.tokens_per_step), t.flops_per_token, /*peak_flops=*/0};
  t.tokens_per_second = throughput.tokens_per_second(t.median_step_s);
  measure_share(s, group.control(), throughput.flops_per_second(t.median_step_s), t);
  t.memory_bytes =
      largest(group.control(), t.on_gpu ? ops::gpu_memory(s.device).peak_bytes : metrics::peak_memory_bytes());
  t.page_faults_per_step = measured.page_faults_per_step;
  t.first_step_end = measured.first_step_end;
  return t;
}

std::string format_timing(const StepTiming& t) {
  std::string text;
  text += fmt::format("model        {} parameters\n", format_count(static_cast<double>(t.parameters)));
  text += fmt::format("step         {} tokens, {}\n", t.tokens_per_step, counted(t.threads, "thread"));
  text += fmt::format("speed        {:.1f} tokens/s (median step)\n", t.tokens_per_second);
  text += fmt::format("step time    {:.1f} ms median, {:.1f} ms fastest, {:.1f} ms slowest\n", 1e3 * t.median_step_s,
                      1e3 * t.fastest_step_s, 1e3 * t.slowest_step_s);
  // On a GPU these are the host's times for launching the work.
  if (t.on_gpu) text += "  host time, during which the GPU keeps working:\n";
  text += fmt::format("  forward and backward  {:.1f} ms\n", 1e3 * t.forward_backward_s);
  text += fmt::format("  gradient norm         {:.1f} ms\n", 1e3 * t.norm_s);
  text += fmt::format("  update                {:.1f} ms\n", 1e3 * t.update_s);
  text += fmt::format("mfu          {:.1f} % of {}/s, the GEMM rate measured now\n", 100 * t.mfu,
                      format_flops(t.gemm_flops));
  text += fmt::format("memory       {} at peak, {:.0f} page faults per step\n", format_bytes(t.memory_bytes),
                      t.page_faults_per_step);
  return text;
}

std::string timing_json(const StepTiming& t) {
  return fmt::format(
      "{{\"parameters\": {}, \"tokens_per_step\": {}, \"threads\": {}, \"tokens_per_second\": {}, \"median_step_s\": "
      "{}, "
      "\"fastest_step_s\": {}, \"slowest_step_s\": {}, \"forward_backward_s\": {}, \"norm_s\": {}, \"update_s\": {}, "
      "\"flops_per_token\": {}, \"gemm_flops\": {}, \"mfu\": {}, \"memory_bytes\": {}, \"page_faults_per_step\": {}, "
      "\"first_step_end\": {:.6f}}}\n",
      t.parameters, t.tokens_per_step, t.threads, t.tokens_per_second, t.median_step_s, t.fastest_step_s,
      t.slowest_step_s, t.forward_backward_s, t.norm_s, t.update_s, t.flops_per_token, t.gemm_flops, t.mfu,
      t.memory_bytes, t.page_faults_per_step, t.first_step_end);
}

ExitCode run_bench_step(const config::BenchStepOptions& options, comm::Group& group) {
  const int64_t ranks = options.config.parallelism.ranks();
  if (group.size() != ranks)
    throw user_error(fmt::format("{} started, and the layout has {}", counted(group.size(), "rank"), ranks),
                     "the degrees of [parallelism] multiply to the number of ranks",
                     fmt::format("start {}, or set the degrees", counted(ranks, "rank")));
  const StepTiming timing = time_steps(options, group);
  if (group.rank() != 0) return ExitCode::kDone;
  fmt::print("{}", options.json ? timing_json(timing) : format_timing(timing));
  std::fflush(stdout);
  return ExitCode::kDone;
}

}  // namespace hearth::bench
