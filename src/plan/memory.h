// What a training keeps in memory, item by item, before it starts: tensors of one rank. `hearth plan` prints this
// table, training prints it and takes its recomputation from it, and a run that does not fit is refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "plan/activations.h"
#include "plan/parameters.h"
#include "plan/precision.h"

namespace hearth::plan {

struct MemoryItem {
  std::string name;
  int64_t bytes;
};

struct MemoryPlan {
  std::vector<MemoryItem> weights;  // weights, masters, gradients, moments, of the rank that owns most
  ActivationPlan activations;
  std::vector<MemoryItem> work;  // what kernels of a CPU, and reproducible sums, work in (plan/scratch.h)
  int64_t weights_bytes = 0;
  int64_t work_bytes = 0;
  int64_t table_bytes = 0;      // of the rotary table
  int64_t workspace_bytes = 0;  // of the GPU's kernels, beside the plan's own buffers
  int64_t total_bytes = 0;      // of a rank
  int64_t ranks_here = 1;       // of one process or device: they share limit_bytes
  int64_t limit_bytes = 0;

  bool fits() const { return total_bytes * ranks_here <= limit_bytes; }
};

// The memory of weights that are whole on every rank, with masters and moments sharded over `ranks`: what
// parallel::ShardedWeights allocates on rank 0. `trained`: a flag for each parameter; empty: all are.
std::vector<MemoryItem> weights_memory(const ParameterPlan& plan, const Precision& precision, int64_t ranks,
                                       const std::vector<bool>& trained = {});

// `memory_bytes`: what there is (of a GPU a gibibyte is left to the libraries) where ranks_here ranks run;
// memory.limit, if given, is less. `cpu_threads`: of those ranks together; 0 where they compute on a GPU. With
// memory.recompute = "auto", the levels that cost least of those that fit, or the smallest if none does; else what the
// keys say.
MemoryPlan memory_plan(const config::RunConfig& config, const ModelShape& shape, const ParameterPlan& parameters,
                       const Precision& precision, int64_t memory_bytes, int64_t ranks_here, int64_t cpu_threads);

// What the GPU's kernels take for themselves at most, at a time: attention's backward, whose vendor's kernels return
// new tensors (queries' gradients summed in float32, keys' and values' for every query head), or the operands of a
// float8 product.
int64_t gpu_workspace_bytes(const ModelShape& shape, int64_t T, const Precision& precision, bool float8);

// FLOPs that recomputation adds to a token.
double recompute_flops_per_token(const ModelShape& shape, int64_t seq_len, std::span<const Recompute> levels);

std::string describe(std::span<const Recompute> levels);  // "norms", "block in 3 of 16 layers, norms in the others"

// All of total_bytes; and of activations.total_bytes those that are alive at its worst moment, the largest first.
std::vector<MemoryItem> memory_items(const MemoryPlan& plan);
std::vector<MemoryItem> peak_activations(const MemoryPlan& plan);

// The table, a line an item.
std::string format_memory(const MemoryPlan& plan);
std::string format_memory_total(const MemoryPlan& plan);  // the same in one line

// Throws user_error, with what could be changed, where it does not fit.
void require_fits(const MemoryPlan& plan);

}  // namespace hearth::plan
