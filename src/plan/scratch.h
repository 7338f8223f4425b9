// SPDX-License-Identifier: Apache-2.0
// Scratch memory of CPU kernels and of sums in pairs. ops/ allocates these sizes (ops/cpu/scratch.h keeps them from
// call to call), and `hearth plan` adds them up. Sizes are for the widest vectors of any instruction set: a plan from
// one machine holds on another. Kernels with narrower vectors leave some of it unused.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "base/quantity.h"
#include "plan/parameters.h"

namespace hearth::plan {

// The scratch of ops/cpu/gemm.h, in floats: packed rows of one factor are shared by all threads, those of the other are
// per thread.
inline constexpr int64_t kGemmSharedFloats = 1 << 20;
// Partial sums of bfloat16 results between blocks of K: the tiles of a stage.
inline constexpr int64_t kGemmSumFloats = 2 << 20;
constexpr int64_t gemm_shared_floats(bool keeps_sums) { return kGemmSharedFloats + (keeps_sums ? kGemmSumFloats : 0); }
inline constexpr int64_t kGemmOwnFloats = 96 << 10;  // 384 KiB: with a panel of the other in 1 MiB, or most of 512 KiB

// The tasks and blocks of attention in ops/cpu/flash_forward.cpp and ops/cpu/flash_backward.cpp. B, S, H, G, K as in
// plan::ModelShape.
struct AttentionCut {
  // Bounds over instruction sets: floats per vector; rows and columns of a tile; queries of a block. In the backward a
  // block is a multiple of a tile's columns.
  static constexpr int64_t kLanes = 16, kTileRows = 8, kTileColumns = 32, kBlockQueries = 72;
  static constexpr int64_t kFewestTileColumns = 4;

  // Forward: a task is the queries of one or two heads of a group at up to kTaskQueries / heads positions. They share
  // the keys and values that the task copies to scratch, kForwardKeys at a time: a cost of 1 % of the products. Both
  // are multiples of every instruction set's tile columns.
  static constexpr int64_t kTaskQueries = 384, kForwardKeys = 96;

  // Backward: a task is one key/value head and its queries, or one of backward_chunks() parts of the queries. A part
  // leaves its dk and dv in shared memory, and a second pass adds the parts in order. Parts are used only if there are
  // too few heads for the cores: a part needs as much memory as dk and dv, and 2 % of the time of 2,048 queries.
  static constexpr int64_t kTasks = 16, kQueries = 2048, kBackwardKeys = 64;
  // Blocks of queries for a block of keys in the second-level cache: as many as fit next to it.
  static constexpr int64_t kMaxTogether = 8, kQueryFloats = 384 * 1024 / 4;

  int64_t B, S, H, G, K;
  int64_t Q;  // positions of queries, of S

  int64_t backward_chunks() const {
    return std::clamp<int64_t>(std::min(kTasks / (B * G), H / G * Q / kQueries), 1, kTasks);
  }
  int64_t forward_task_floats() const;
  int64_t backward_task_floats() const;
  // The size of a part of dk and dv, [2, rows, width].
  int64_t backward_part_floats() const { return 2 * round_up(S, kTileRows) * round_up(K, kLanes); }
  int64_t backward_shared_floats() const;
};

// The range of visible keys per query, as attention's kernels read it.
inline constexpr int64_t kVisibleKeysBytes = 8;

// The scratch of one rank. Attention and matrix products use the same memory in alternation.
struct ScratchPlan {
  int64_t shared_bytes = 0;  // shared by the rank's threads
  int64_t task_bytes = 0;    // per thread
};

ScratchPlan scratch_plan(const ModelShape& shape, int64_t B, int64_t S, DType compute);

}  // namespace hearth::plan
