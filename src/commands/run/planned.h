// SPDX-License-Identifier: Apache-2.0
// What `hearth plan` computes for one run file, and the device that it is for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/cluster_file.h"
#include "config/load.h"
#include "machine/device.h"
#include "plan/memory.h"
#include "plan/run_shape.h"
#include "plan/step_time.h"
#include "plan/traffic.h"

namespace hearth::commands {

struct PlanOptions {
  std::string device;  // a name, or a cluster file; empty: this machine's CPU, if the run computes on a CPU
  std::optional<cluster::ClusterFile> cluster{};  // the file, if `device` names one
  int64_t gpus = 0;                               // 0: as the run file says
  double gemm_tflops = 0;
  double efficiency = 0;  // 0: the device's usual share
  bool search = false, json = false, compare = false;
  int64_t limit = 0;  // layouts to list; 0: 10

  // Whether the plan is for a CPU: this machine's, or the CPUs of a cluster without GPUs.
  bool on_cpu() const;
};

// Reads the cluster file if --device names one; a device of the same name wins. Throws user_error for an unknown name,
// for a file that does not say its device, and for all faults of the file.
void find_plan_device(PlanOptions& options);

// The rate of matrix products in the run's type.
struct PlanRate {
  double flops = 0;  // per second; 0: not known
  std::string source;
};

struct Planned {
  config::RunConfig config;
  plan::RunShape shape = {};
  machine::Device device = {};  // from the table of devices, or from `options.cluster`
  plan::MemoryPlan memory = {};
  plan::StepTraffic traffic = {};
  PlanRate rate = {};
  plan::Speed speed = {};
  std::optional<plan::StepTime> time = {};  // empty if the rate is not known
};

// The plan of a run file without errors. `options` must outlive it.
Planned planned(config::LoadResult& loaded, const PlanOptions& options);

// Optimizer steps of the whole run; 0 if its length is not given.
int64_t steps_of(const config::RunConfig& config);

// The speed of this many of the plan's devices, whose rate must be known. Without options.efficiency, many devices
// count with a smaller share of it than one.
plan::Speed speed_for(const Planned& planned, const PlanOptions& options, int64_t devices);

// `hearth plan --compare`: both plans side by side, with their differences marked. Names: the run files.
std::string comparison_text(const Planned& a, const Planned& b, const std::string& name_a, const std::string& name_b);

}  // namespace hearth::commands
