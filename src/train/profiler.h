// SPDX-License-Identifier: Apache-2.0
// [profiling]: traces of some steps, one file a rank (metrics/trace_file.h), and memory snapshots. Rank r writes
//   RUN/profile_traces/iteration_N/rankR_trace.json.gz             the last profiler_active steps up to step N
//   RUN/memory_snapshot/iteration_N/rankR_memory_snapshot.json     after step N
// for each N that is a multiple of profile_freq; the names are torchtitan's. A step's span lasts from its launch to the
// next step's launch, including validation and saving. On a GPU the trace has the host's spans, and the kernels, copies
// and fills of each stream; the host waits for the GPU at the end of a trace.
//
// A snapshot has the plan's items by name, and the measured peak beside them:
//   {"step", "rank", "device", "plan": {"total_bytes", "items": [{"name", "bytes"}], "peak_at", "activations": [...]},
//    "measured": {"before_bytes", "now_bytes", "peak_bytes"}}
// On a CPU these are the process's resident sets, and before_bytes was measured before the training's first tensor. On
// a GPU they are LibTorch's allocations.
//
// If a profile cannot be written, the training warns and continues.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "base/log.h"
#include "comm/control.h"
#include "ops/gpu/trace.h"
#include "run/run.h"
#include "trace/spans.h"

namespace hearth::train {

class Profiler {
 public:
  using Say = std::function<void(LogLevel, std::string_view)>;
  // Makes the folders. Borrows `run`. Threads of the training may record until this object ends. Collective: throws
  // user_error if the run is shorter than profiling.profile_freq, and an Error of base/file.h for a bad folder.
  Profiler(const run::Run& run, comm::Control& control, Say say);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Ends the previous step and begins step `t`. Local.
  void begin_step(int64_t t);
  // Ends the last step of a training that ended well. Local.
  void finish();

 private:
  class Operators;  // LibTorch's operators become spans while this lives

  void end_step();
  void start_window(int64_t t);
  void add_gpu_work();
  void write_trace(int64_t t);
  void write_snapshot(int64_t t);
  // Calls `work`. If it throws an Error, warns with a text that begins with `complaint`.
  void try_to(std::string_view complaint, const std::function<void()>& work);

  const run::Run& run_;
  const int64_t rank_;
  const Say say_;
  trace::SpanRecorder recorder_;
  std::optional<trace::SpanSeat> seat_;  // the training's thread; only with enable_profiling
  std::unique_ptr<Operators> operators_;
  std::unique_ptr<ops::GpuTrace> gpu_;    // during a window on a GPU
  std::optional<trace::SpanScope> span_;  // the step's
  int64_t step_ = 0;                      // under way; 0: none
  int64_t first_step_ = 0;                // the first step of the present window; 0: none
  int64_t before_bytes_ = 0;
};

}  // namespace hearth::train
