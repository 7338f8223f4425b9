// SPDX-License-Identifier: Apache-2.0
#include "train/profiler.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "metrics/throughput.h"
#include "metrics/trace_file.h"
#include "ops/gpu/gpu.h"
#include "plan/memory.h"

namespace hearth::train {
namespace {

using Json = nlohmann::ordered_json;

// The beginning of an operator's span.
struct OperatorContext final : at::ObserverContext {
  int64_t begin_ns = trace::monotonic_ns();
};

std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction&) {
  return std::make_unique<OperatorContext>();
}

void operator_ends(const at::RecordFunction& function, at::ObserverContext* context) {
  trace::SpanRecorder* const recorder = trace::span_recorder();
  if (recorder == nullptr || context == nullptr) return;
  recorder->add({.kind = trace::SpanKind::kOp,
                 .thread = trace::span_place.thread,
                 .begin_ns = static_cast<OperatorContext*>(context)->begin_ns,
                 .end_ns = trace::monotonic_ns(),
                 .name = recorder->kept(function.name())});
}

trace::SpanKind kind_of(const ops::GpuActivity& activity) {
  switch (activity.kind) {
    case ops::GpuActivity::Kind::kKernel:
      return trace::SpanKind::kKernel;
    case ops::GpuActivity::Kind::kCopy:
      return trace::SpanKind::kGpuCopy;
    case ops::GpuActivity::Kind::kFill:
      break;
  }
  return trace::SpanKind::kGpuFill;
}

Json items_json(const std::vector<plan::MemoryItem>& items) {
  Json list = Json::array();
  for (const plan::MemoryItem& item : items) list.push_back({{"name", item.name}, {"bytes", item.bytes}});
  return list;
}

}  // namespace

class Profiler::Operators {
 public:
  Operators()
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(operator_begins, operator_ends).scopes({at::RecordScope::FUNCTION}))) {}
  ~Operators() { at::removeCallback(handle_); }
  Operators(const Operators&) = delete;
  Operators& operator=(const Operators&) = delete;

 private:
  at::CallbackHandle handle_;
};

Profiler::Profiler(const run::Run& run, comm::Control& control, Say say)
    : run_(run), rank_(control.rank()), say_(std::move(say)) {
  const config::Profiling& p = run.config.profiling;
  if (!p.enable_profiling && !p.enable_memory_snapshot) return;
  control.together("the folders of profiles", [&] {
    if (p.profile_freq > run.steps)
      throw user_error(
          fmt::format("profiling.profile_freq = {} is more than the run's {} steps", p.profile_freq, run.steps),
          "none of its traces and snapshots would be written", "give at most that many");
    if (p.enable_profiling) make_folders(run.folder.traces());
    if (p.enable_memory_snapshot) make_folders(run.folder.memory_snapshots());
  });
  if (p.enable_profiling) seat_.emplace(&recorder_, "training");
  before_bytes_ = run.device.is_cpu() ? metrics::resident_memory_bytes() : 0;
}

Profiler::~Profiler() = default;

void Profiler::begin_step(int64_t t) {
  const config::Profiling& p = run_.config.profiling;
  if (!p.enable_profiling && !p.enable_memory_snapshot) return;
  if (step_ > 0 && t == step_ + 1) {
    end_step();
  } else {  // the training went back, or begins
    span_.reset();
    operators_.reset();
    gpu_.reset();
    if (std::exchange(first_step_, 0) > 0) recorder_.stop();
  }
  step_ = t;
  if (!p.enable_profiling) return;
  if (first_step_ == 0 && (t - 1) % p.profile_freq >= p.profile_freq - p.profiler_active) start_window(t);
  if (first_step_ > 0) span_.emplace(trace::SpanKind::kStep, "step", t);
}

void Profiler::finish() {
  if (step_ > 0) end_step();
  step_ = 0;
}

void Profiler::start_window(int64_t t) {
  first_step_ = t;
  recorder_.start();
  operators_ = std::make_unique<Operators>();
  if (run_.device.is_cpu()) return;
  try_to("the GPU's work is not in a trace", [&] { gpu_ = std::make_unique<ops::GpuTrace>(); });
}

// As spans of the window, by stream.
void Profiler::add_gpu_work() {
  const std::unique_ptr<ops::GpuTrace> gpu = std::move(gpu_);
  for (const ops::GpuActivity& activity : gpu->stop())
    recorder_.add({.kind = kind_of(activity),
                   .thread = recorder_.stream(fmt::format("GPU {} stream {}", activity.device, activity.stream)),
                   .begin_ns = activity.begin_ns - recorder_.epoch_ns(),
                   .end_ns = activity.end_ns - recorder_.epoch_ns(),
                   .name = recorder_.kept(activity.name)});
}

void Profiler::end_step() {
  span_.reset();
  if (step_ % run_.config.profiling.profile_freq != 0) return;
  if (first_step_ > 0) write_trace(step_);
  if (run_.config.profiling.enable_memory_snapshot) write_snapshot(step_);
}

void Profiler::try_to(std::string_view complaint, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    say_(LogLevel::kWarning, fmt::format("{}: {}", complaint, e.what()));
  }
}

void Profiler::write_trace(int64_t t) {
  operators_.reset();
  if (gpu_) try_to("the GPU's work is not in a trace", [&] { add_gpu_work(); });
  const int64_t first = std::exchange(first_step_, 0);
  const trace::SpanRecorder::Window window = recorder_.stop();
  const Path file = metrics::trace_file(run_.folder.traces(), t, rank_);
  try_to("a trace was not written", [&] {
    metrics::write_gzip(file, metrics::trace_json(window, {rank_, run_.ranks, first, t}));
    say_(LogLevel::kInfo, fmt::format("wrote a trace of {} to {}",
                                      first == t ? fmt::format("step {}", t) : fmt::format("steps {} to {}", first, t),
                                      file.parent_path().string()));
  });
}

void Profiler::write_snapshot(int64_t t) {
  const plan::MemoryPlan& memory = run_.memory;
  const bool on_cpu = run_.device.is_cpu();
  const ops::GpuMemory gpu = on_cpu ? ops::GpuMemory{} : ops::gpu_memory(run_.device);
  // The kernel brings its count of the peak up to date now and then only.
  const int64_t now_bytes = on_cpu ? metrics::resident_memory_bytes() : gpu.allocated_bytes;
  const Json json = {{"step", t},
                     {"rank", rank_},
                     {"device", on_cpu ? "cpu" : "gpu"},
                     {"plan",
                      {{"total_bytes", memory.total_bytes},
                       {"items", items_json(plan::memory_items(memory))},
                       {"peak_at", memory.activations.peak_step},
                       {"activations", items_json(plan::peak_activations(memory))}}},
                     {"measured",
                      {{"before_bytes", before_bytes_},
                       {"now_bytes", now_bytes},
                       {"peak_bytes", std::max(now_bytes, on_cpu ? metrics::peak_memory_bytes() : gpu.peak_bytes)}}}};
  const Path folder = run_.folder.memory_snapshots();
  const Path file = folder / fmt::format("iteration_{}", t) / fmt::format("rank{}_memory_snapshot.json", rank_);
  try_to("a memory snapshot was not written", [&] {
    make_folders(file.parent_path());
    write_file_atomic(file, json.dump(2) + "\n");
  });
}

}  // namespace hearth::train
