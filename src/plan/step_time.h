// The time of a step and of a run, from FLOPs and the speed of matrix products on the device. `hearth plan` and a
// training print it after the memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "config/config.h"
#include "plan/memory.h"
#include "plan/parameters.h"

namespace hearth::plan {

// The devices and their speed.
struct Speed {
  double gemm_flops;         // of large matrix products in the run's type, per second and device
  int64_t devices = 1;       // accelerators; a CPU is one for all its threads
  int64_t per_node = 1;      // devices of a node; 1: nodes are not counted
  double efficiency = 0.75;  // a step's share of gemm_flops; steps of small models reach less
};

// FLOPs per token by both conventions, the computed share, and recomputation: one line.
std::string format_compute(const ModelShape& shape, int64_t seq_len, std::span<const Recompute> recompute);

struct StepTime {
  double tokens;  // of a step, over all ranks
  double step_s;
  int64_t steps;  // of the run; 0: its length is not given
  Speed speed;

  double run_s() const { return step_s * static_cast<double>(steps); }
  double device_hours() const { return run_s() / 3600 * static_cast<double>(speed.devices); }
  // A fraction if the run does not fill its nodes; a bill for whole nodes is higher.
  double nodes() const { return static_cast<double>(speed.devices) / static_cast<double>(speed.per_node); }
  double node_hours() const { return run_s() / 3600 * nodes(); }
};

// Counts the time to recompute the activations of `memory`, of Muon's iterations, and of waits in a pipeline, too.
StepTime step_time(const config::RunConfig& config, const ModelShape& shape, const MemoryPlan& memory, int64_t steps,
                   const Speed& speed);

std::string format_step_time(const StepTime& time);  // two lines

}  // namespace hearth::plan
