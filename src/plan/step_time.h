// How long a step and a whole run take: from FLOPs, and from what matrix products of the device reach. `hearth plan`
// prints it behind the memory, and so does a training.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "config/config.h"
#include "plan/memory.h"
#include "plan/parameters.h"

namespace hearth::plan {

// What computes.
struct Speed {
  double gemm_flops;         // per second and device, what large matrix products reach in the type of the run
  int64_t devices = 1;       // accelerators, or one CPU whatever its threads
  int64_t per_node = 1;      // devices; 1: there are no nodes of several to count
  double efficiency = 0.75;  // the share of gemm_flops which a step reaches; steps of small models reach less
};

// FLOPs of a token under both conventions, what is computed of them and what again: one line.
std::string format_compute(const ModelShape& shape, int64_t seq_len, std::span<const Recompute> recompute);

struct StepTime {
  double tokens;  // of a step, over all ranks
  double step_s;
  int64_t steps;  // of the run; 0: its length is not given
  Speed speed;

  double run_s() const { return step_s * static_cast<double>(steps); }
  double device_hours() const { return run_s() / 3600 * static_cast<double>(speed.devices); }
  // The share of a node's devices where the run does not take all: who is billed whole nodes rounds up.
  double nodes() const { return static_cast<double>(speed.devices) / static_cast<double>(speed.per_node); }
  double node_hours() const { return run_s() / 3600 * nodes(); }
};

// What `memory` recomputes costs time, too.
StepTime step_time(const config::RunConfig& config, const ModelShape& shape, const MemoryPlan& memory, int64_t steps,
                   const Speed& speed);

std::string format_step_time(const StepTime& time);  // two lines

}  // namespace hearth::plan
