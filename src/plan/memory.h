// SPDX-License-Identifier: Apache-2.0
// The tensors of one rank of a training, item by item, before it starts. `hearth plan` and training print this table.
// Training takes its recomputation from it and refuses a run that does not fit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "plan/activations.h"
#include "plan/parameters.h"
#include "plan/precision.h"
#include "plan/sharding.h"

namespace hearth::plan {

struct MemoryItem {
  std::string name;
  int64_t bytes;
};

// GPU memory that is not for tensors: its context, code and workspaces of cuBLAS, cuDNN and LibTorch, and buffers of a
// communicator of NCCL or RCCL. These are estimates: public reports say 0.3 to 0.6 GiB for a context, and 100 to 600
// MiB for a communicator.
inline constexpr int64_t kContextBytes = int64_t{512} << 20, kLibrariesBytes = int64_t{512} << 20,
                         kCommunicatorBytes = int64_t{400} << 20;
// The most that cuBLASLt takes for a product of float8 that is added to float32 (ops/gpu/cublaslt.cpp).
inline constexpr int64_t kFloat8SumsBytes = int64_t{32} << 20;

// Communicators of a rank, as comm/mesh_groups.h and parallel/sharded_weights.h make them: one of all ranks, and one
// for each dimension of the mesh with several ranks. `shape`: the whole model, or a rank's part.
int64_t num_communicators(const config::RunConfig& config, const ModelShape& shape);
// memory.margin, or the usual one: 0.5 GiB for one GPU, 2 GiB for up to 8, which a node has, and 4 GiB for more.
int64_t margin_bytes(const config::RunConfig& config);
// What takes memory of a rank's GPU in addition to tensors, with the margin last. Empty on a CPU.
std::vector<MemoryItem> beside_tensors(const config::RunConfig& config, const ModelShape& shape);

// The pairs of levels that "auto" tries. The first layers of a rank get the dearer level, as few as make the plan fit;
// the others get the cheaper one. The pair with the least recomputation wins.
inline constexpr std::pair<Recompute, Recompute> kRecomputePairs[] = {{Recompute::kNorms, Recompute::kNone},
                                                                      {Recompute::kAttention, Recompute::kNorms},
                                                                      {Recompute::kBlock, Recompute::kNorms},
                                                                      {Recompute::kBlock, Recompute::kAttention}};

// Sets the levels of the layers of one rank, which has these stages: `first` for its first `count` layers, else
// `others`.
void set_levels(std::vector<Recompute>& levels, const std::vector<StageLayers>& stages, int64_t count, Recompute first,
                Recompute others);

struct MemoryPlan {
  std::vector<MemoryItem> weights;   // weights, masters, gradients, moments, of the rank that owns most
  ActivationBytes activations;       // of all stages of the rank
  std::vector<Recompute> recompute;  // of every layer of the model
  std::vector<MemoryItem> work;      // scratch of CPU kernels and of reproducible sums (plan/scratch.h)
  int64_t weights_bytes = 0;
  int64_t work_bytes = 0;
  int64_t table_bytes = 0;         // the rotary table
  int64_t workspace_bytes = 0;     // of the GPU's kernels, in addition to planned buffers
  int64_t copy_bytes = 0;          // the copy of the state from which checkpoints are written
  int64_t total_bytes = 0;         // per rank
  int64_t host_bytes = 0;          // with a GPU the copy is in the host's memory, not in total_bytes
  std::vector<MemoryItem> beside;  // GPU memory not for tensors; limit_bytes does not contain it
  int64_t ranks_here = 1;          // ranks of one process or device: they share limit_bytes
  int64_t limit_bytes = 0;
  bool shards_more = false;  // a higher stage of ZeRO would leave less on each rank

  bool fits() const { return total_bytes * ranks_here <= limit_bytes; }
};

// The allocations of parallel::ShardedWeights on rank 0 of `shards` ranks in each replica, which owns most. `trained`:
// a flag for each parameter; empty: all are trained.
// `momentum_only`: a flag for each parameter whose state is Muon's momentum alone (plan/muon.h); empty: none.
std::vector<MemoryItem> weights_memory(const ParameterPlan& plan, const Precision& precision, const Shards& shards,
                                       const Sharding& sharding = {}, const std::vector<bool>& trained = {},
                                       const std::vector<bool>& momentum_only = {});

// The positions that a layer keeps of a cache of `capacity` (decode/layer_cache.h).
int64_t cached_positions(const models::Layer& layer, int64_t capacity);

// The sequences in which a training makes the texts of validation.generate (train/sample_texts.h): B prompts at a time.
// No text has more than `longest` tokens. They take memory in addition to the training's micro-batches.
struct SampleBatch {
  int64_t B = 0, S = 0;
};
SampleBatch sample_batch(const config::RunConfig& config, int64_t longest);
// Whether each token is computed once, with a cache of keys and values (decode/decoder.h). Otherwise each new token
// costs a forward of whole sequences: for masked models, and with tensor or pipeline parallel.
bool samples_are_cached(const config::RunConfig& config);
inline constexpr int64_t kSampleLossChunkTokens = 64;  // no loss is asked for

// The activations and caches of these texts on a rank; 0 without validation.generate. Assumes that a text has at most
// about as many tokens as bytes, and that a recording (found from its name) fills the window. `shape`: a rank's part,
// without context parallel: each rank has whole sequences.
int64_t sample_bytes(const config::RunConfig& config, const ModelShape& shape, const Precision& precision,
                     int64_t pipeline_rank = 0);

// Memory of a copy that run::Snapshot makes, on the rank that needs most.
int64_t snapshot_bytes(const config::RunConfig& config, const ParameterPlan& parameters, const Precision& precision);

// `memory_bytes`: memory of the device that ranks_here ranks share; on a GPU beside_tensors() is taken from it.
// memory.limit, if given, replaces it if lower. `cpu_threads`: the threads of those ranks together; 0 on a GPU.
// memory.recompute = "auto" takes the cheapest levels that fit, or the smallest plan if none fits. Otherwise the keys
// give the levels. If ranks share the layers, `shape` and `parameters` are a rank's part. In a pipeline, `shape` has
// all layers, and `pipeline_rank` says which rank is planned; layers of other ranks get no recomputation.
// `levels`: of all layers, instead of memory.recompute; empty: not given. `samples`: sample_bytes.
MemoryPlan memory_plan(const config::RunConfig& config, const ModelShape& shape, const ParameterPlan& parameters,
                       const Precision& precision, int64_t memory_bytes, int64_t ranks_here, int64_t cpu_threads,
                       int64_t pipeline_rank = 0, std::span<const Recompute> levels = {}, int64_t samples = 0);

// The largest workspace of the GPU's kernels at a time. The vendor's backward of attention returns new tensors:
// gradients of queries summed in float32, of keys and values for every query head. Products of float8 need their
// operands, whose blocks the caching allocator does not give to others: one product's, or with "rowwise" those of both
// gradients of a layer.
// `W`: positions of a micro-batch's whole windows.
int64_t gpu_workspace_bytes(const ModelShape& shape, int64_t W, const Precision& precision,
                            std::optional<config::Fp8Recipe> float8);

// FLOPs per token that recomputation adds.
double recompute_flops_per_token(const ModelShape& shape, int64_t seq_len, std::span<const Recompute> levels);

std::string describe(std::span<const Recompute> levels);  // "norms", "block in 3 of 16 layers, norms in the others"

// All items of total_bytes; and the items of activations.total_bytes that are alive at its peak, the largest first.
std::vector<MemoryItem> memory_items(const MemoryPlan& plan);
std::vector<MemoryItem> peak_activations(const MemoryPlan& plan);

// The table, one line per item.
std::string format_memory(const MemoryPlan& plan);
std::string format_beside(const MemoryPlan& plan);        // a line about memory that is not for tensors
std::string format_memory_total(const MemoryPlan& plan);  // the plan's total in one line

// Throws user_error with possible changes if the plan does not fit. `others`: layouts that do fit, for the error's
// text; may be empty.
void require_fits(const MemoryPlan& plan, std::string_view others = {});

}  // namespace hearth::plan
