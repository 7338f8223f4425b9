// SPDX-License-Identifier: Apache-2.0
// The time of a step and of a run, from FLOPs and bytes and the speed of the devices that a run is on. `hearth plan`
// and a training print it after the memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "config/config.h"
#include "machine/device.h"
#include "plan/memory.h"
#include "plan/parameters.h"
#include "plan/traffic.h"

namespace hearth::plan {

// The devices and their speed.
struct Speed {
  // The usual `efficiency`: Hearth's on a CPU and on one GPU, and what published trainers reach on several, where
  // Hearth was not measured (docs/decisions/planner_fit.md). Collectives reach the share kLinkEfficiency of their
  // slowest link.
  static constexpr double kCpuEfficiency = 0.75, kOneGpuEfficiency = 0.61, kGpusEfficiency = 0.49,
                          kLinkEfficiency = 0.6;

  double gemm_flops;                   // of large matrix products in the run's type, per second and device
  int64_t devices = 1;                 // accelerators; a CPU is one for all its threads
  int64_t per_node = 1;                // devices of a node; 1: nodes are not counted
  double efficiency = kCpuEfficiency;  // a step's share of gemm_flops; steps of small models reach less
  // Figures of a device, if each rank has one. 0: not known, and no time is counted for it.
  double memory_bytes_s = 0;
  machine::Links links = {};
  double link_efficiency = kLinkEfficiency;  // the share of `links` that collectives reach
};
// The usual share of gemm_flops: on a CPU, on one GPU, on several.
double usual_efficiency(bool on_cpu, int64_t devices);
// The speed of `devices` devices of this kind. `gemm_flops` replaces the device's figure.
Speed speed_of(const machine::Device& device, double gemm_flops, int64_t devices, double efficiency);

// FLOPs per token by both conventions, the computed share, and recomputation: one line.
std::string format_compute(const ModelShape& shape, int64_t seq_len, std::span<const Recompute> recompute);

// The parts of a step, one after another, in seconds.
struct StepParts {
  double compute = 0;  // products and attention, with recomputation and Muon's iterations
  double tensor = 0;   // traffic inside layers, for which the products wait
  double context = 0;  // traffic inside sequences
  double experts = 0;  // traffic to and from experts, for which their products wait
  double wait = 0;     // in which ranks of a pipeline wait for each other
  double shard = 0;    // traffic of weights and gradients beyond what computation hides
  double update = 0;   // the optimizer's update of the weights that a rank owns
  double hidden = 0;   // traffic of weights and gradients behind computation: not in the sum

  double total() const { return compute + tensor + context + experts + wait + shard + update; }
};

struct StepTime {
  double tokens;  // of a step, over all ranks
  double step_s;
  int64_t steps;  // of the run; 0: its length is not given
  Speed speed;
  StepParts parts = {};

  double run_s() const { return step_s * static_cast<double>(steps); }
  double device_hours() const { return run_s() / 3600 * static_cast<double>(speed.devices); }
  // A fraction if the run does not fill its nodes; a bill for whole nodes is higher.
  double nodes() const { return static_cast<double>(speed.devices) / static_cast<double>(speed.per_node); }
  double node_hours() const { return run_s() / 3600 * nodes(); }
};

// Seconds for `calls` collectives in which each of n ranks sends `bytes` in all. Neighbours are `stride` ranks apart,
// and nodes hold consecutive ranks. Members on one node share the node's network.
double collective_seconds(double bytes, double calls, int64_t ranks, int64_t stride, const Speed& speed);
// The same for an all-to-all: each member's bytes go over its own part of the network.
double exchange_seconds(double bytes, int64_t ranks, int64_t stride, const Speed& speed);

// Counts the time to recompute activations, of Muon's iterations, of traffic that nothing hides, and of waits in a
// pipeline. Weights and gradients travel while a step computes: with stage 1 of ZeRO while its first and its last
// micro-batches do. Transfers between stages are hidden.
StepTime step_time(const config::RunConfig& config, const ModelShape& shape, std::span<const Recompute> recompute,
                   int64_t steps, const Speed& speed);
// The same for a search: the caller gives what it has computed already. `muon_flops`: newton_schulz_flops().
StepTime step_time(const config::RunConfig& config, const ModelShape& shape, std::span<const Recompute> recompute,
                   int64_t steps, const Speed& speed, const UnitCounts& counts, const Precision& precision,
                   const PipelinePlan& pipeline, double bubble, double muon_flops);

std::string format_step_time(const StepTime& time);  // two or three lines

}  // namespace hearth::plan
