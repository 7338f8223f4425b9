// SPDX-License-Identifier: Apache-2.0
// `hearth bench step`: the time of a training step of a given shape on this machine, and of its parts. It uses random
// tokens, but the trainer's own step, and the same processes and group of ranks as a run.
#pragma once

#include <string>

#include "base/error.h"
#include "comm/group.h"
#include "config/options.h"

namespace hearth::bench {

struct StepTiming {
  int64_t parameters = 0, tokens_per_step = 0, threads = 0;
  double median_step_s = 0, fastest_step_s = 0, slowest_step_s = 0;
  bool on_gpu = false;
  double forward_backward_s = 0, norm_s = 0, update_s = 0;  // medians
  double tokens_per_second = 0;                             // at the median
  double flops_per_token = 0, gemm_flops = 0, mfu = 0;
  int64_t memory_bytes = 0;         // peak: of the rank's process, or of its tensors on the GPU; the largest rank's
  double page_faults_per_step = 0;  // of rank 0's timed steps: 0 for a step that allocates nothing
  double first_step_end = 0;        // seconds since 1970, for a caller that knows when it started the process
};

// `group`: all ranks, as many as the options' parallelism says. Collective; times are rank 0's.
StepTiming time_steps(const config::BenchStepOptions& options, comm::Group& group);

std::string format_timing(const StepTiming& timing);  // for display
std::string timing_json(const StepTiming& timing);    // one JSON object with the names above

// Collective; rank 0 prints. Throws user_error if the launcher started another number of ranks.
ExitCode run_bench_step(const config::BenchStepOptions& options, comm::Group& group);

}  // namespace hearth::bench
