// Memory that the kernels of a CPU, and sums in pairs, work in. ops/ allocates what is said here (ops/cpu/scratch.h
// keeps it from call to call), and `hearth plan` adds it up. Sizes hold for the widest vectors of any instruction set,
// so that a plan made on one machine is good for another; a kernel with narrower ones leaves some of it untouched.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "base/units.h"
#include "plan/parameters.h"

namespace hearth::plan {

// The scratch of ops/cpu/gemm.h, in floats: packed rows of one factor, for all threads, and of the other, a thread's
// own.
inline constexpr int64_t kGemmSharedFloats = 1 << 20;
// Where sums that end in bfloat16 wait for their next block of K: tiles of a stage.
inline constexpr int64_t kGemmSumFloats = 2 << 20;
constexpr int64_t gemm_shared_floats(bool keeps_sums) { return kGemmSharedFloats + (keeps_sums ? kGemmSumFloats : 0); }
inline constexpr int64_t kGemmOwnFloats = 96 << 10;  // 384 KiB beside a panel of the other in 1 MiB, or most of 512 KiB

// What ops/cpu/flash_forward.cpp and ops/cpu/flash_backward.cpp cut attention into; B, S, H, G, K as in
// plan::ModelShape.
struct AttentionCut {
  // Bounds of what instruction sets have: floats of a vector; rows and columns of a tile; queries of a block, the
  // backward's multiple of a tile's columns.
  static constexpr int64_t kLanes = 16, kTileRows = 8, kTileColumns = 32, kBlockQueries = 72;
  static constexpr int64_t kFewestTileColumns = 4;

  // Forward: a task is the queries of one or two heads of a group at up to kTaskQueries / heads positions: they share
  // the keys and values that it brings into scratch memory, kForwardKeys at a time, which then costs 1 % of the
  // products. Multiples of every instruction set's tile columns.
  static constexpr int64_t kTaskQueries = 384, kForwardKeys = 96;

  // Backward: a task is one key/value head and its queries, or one of backward_chunks() parts of the queries: then it
  // leaves its part of dk and dv in memory of all, and a second pass adds the parts in order. Only where there are too
  // few heads to keep some cores busy: a part takes as much memory as dk and dv, and 2 % of the time of 2,048 queries.
  static constexpr int64_t kTasks = 16, kQueries = 2048, kBackwardKeys = 64;
  // Blocks of queries that meet a block of keys while it is in the second cache: as many as fit there beside it.
  static constexpr int64_t kMaxTogether = 8, kQueryFloats = 384 * 1024 / 4;

  int64_t B, S, H, G, K;

  int64_t backward_chunks() const {
    return std::clamp<int64_t>(std::min(kTasks / (B * G), H / G * S / kQueries), 1, kTasks);
  }
  int64_t forward_task_floats() const;
  int64_t backward_task_floats() const;
  // The size of a part of dk and dv, [2, rows, width].
  int64_t backward_part_floats() const { return 2 * round_up(S, kTileRows) * round_up(K, kLanes); }
  int64_t backward_shared_floats() const;
};

// Which keys a query sees, as attention's kernels take it.
inline constexpr int64_t kVisibleKeysBytes = 8;

// The scratch of one rank. Attention and matrix products take turns in the same memory.
struct ScratchPlan {
  int64_t shared_bytes = 0;  // of all the rank's threads
  int64_t task_bytes = 0;    // of each
};

ScratchPlan scratch_plan(const ModelShape& shape, int64_t B, int64_t S, DType compute);

// numerics.reproducible: of a step's micro-batches, how many a rank adds up one after the other before it adds sums in
// pairs (parallel/sharded_weights.h). All of them where the run need not be reproducible.
int64_t straight_micro_batches(int64_t micro_batches_of_rank, int64_t ranks, bool reproducible);

// How many partial sums of its gradients a rank then keeps beside them.
int64_t num_partial_sums(int64_t micro_batches_of_rank, int64_t straight);

}  // namespace hearth::plan
