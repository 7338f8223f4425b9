// Where every activation lies in the one arena that a rank allocates for it: sizes and offsets, no memory. The model
// runs by this plan, so what a run needs is known before it starts.
//
// An activation lives from the op that writes it to the last op that reads it (plan/micro_batch_ops.h); two that are
// never alive together may lie in the same bytes. What forward keeps for backward lives long; the rest is scratch that
// layers, and forward and backward, share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "plan/parameters.h"

namespace hearth::plan {

enum class Activation {
  // One a layer.
  kStream,                 // [T, D]         residual stream at the block's entry; entry L: input of the final norm
  kAttentionStatistics,    // [1 or 2, T]    of its norm (ops/norm.h)
  kAttentionInput,         // [T, D]         normed stream: input of wq, wk, wv
  kQkv,                    // [T, (H+2G)*K]  queries and keys after rotation, values
  kAttention,              // [T, H*K]       attention's output: input of wo
  kLogSumExp,              // [B, H, S]
  kMiddle,                 // [T, D]         stream after attention
  kFeedForwardStatistics,  // [1 or 2, T]
  kFeedForwardInput,       // [T, D]         input of w1, w3
  kGateUp,                 // [T, 2*F]       w1 x | w3 x; backward overwrites it with its gradient
  kGated,                  // [T, F]         silu(w1 x) * w3 x: input of w2
  // One for all.
  kFinalInput,         // [T, D]         normed stream: input of the output matrix
  kFinalStatistics,    // [1 or 2, T]
  kBranch,             // [T, D]         output of wo or w2, on its way into the stream
  kLogits,             // [C, V]         of loss_chunk_tokens tokens at a time; becomes their gradient in place
  kHeadInput,          // [C, D]         rows of kFinalInput that count, where not all do; else of no rows
  kHeadGradient,       // [C, D]         and their gradient
  kStreamGradient,     // [T, D]         travels from the last layer to the first
  kInputGradient,      // [T, D]         of a norm's output
  kQkvGradient,        // [T, (H+2G)*K]
  kAttentionGradient,  // [T, H*K]
  kGatedGradient,      // [T, F]
  kCount
};

// What a layer's forward does not keep, so that its backward computes it again, with the same bits:
//   kNorms      what norms and SwiGLU give: no matrix product more
//   kAttention  and queries, keys, values and attention
//   kBlock      all but the block's input
enum class Recompute { kNone, kNorms, kAttention, kBlock };

struct ActivationBuffer {
  std::string_view name;
  std::vector<int64_t> shape;
  DType dtype;
  int64_t size_bytes;                 // of one copy, rounded up
  int64_t peak_bytes = 0;             // of all its copies that are alive at the plan's peak
  std::vector<int64_t> offset_bytes;  // of each copy: L + 1 of kStream, L of those of a layer, 1 of others
};

struct ActivationPlan {
  std::vector<ActivationBuffer> buffers;  // indexed by Activation
  std::vector<Recompute> recompute;       // one a layer
  int64_t total_bytes = 0;                // of the arena
  int64_t peak_bytes = 0;                 // the most that is alive at one op; the arena is no or little larger
  std::string peak_op;

  const ActivationBuffer& operator[](Activation a) const { return buffers[static_cast<size_t>(a)]; }
};

// For micro-batches of B sequences of S positions, computed in `dtype`; statistics of rows are float32 where that is
// bfloat16. Without `training` there is no backward to keep anything for. `recompute`: one a layer; empty: none.
ActivationPlan activation_plan(const ModelShape& shape, int64_t B, int64_t S, DType dtype, int64_t loss_chunk_tokens,
                               bool training, std::span<const Recompute> recompute = {});

}  // namespace hearth::plan
