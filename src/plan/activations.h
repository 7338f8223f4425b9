// The place of every activation in the one arena that a rank allocates: sizes and offsets, no memory. The model runs by
// this plan: its memory is known before the start.
//
// An activation lives from the op that writes it to the last op that reads it (plan/micro_batch_ops.h). Two activations
// that are never alive together may share bytes. Forward's outputs for backward live long. The rest is scratch, shared
// by layers and by forward and backward.
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
  // One per layer.
  kStream,                 // [T, D]         residual stream at the block's entry; entry L: input of the final norm
  kAttentionStatistics,    // of attention's norm (ops/norm.h)
  kAttentionInput,         // [T, D]         normed stream: input of wq, wk, wv
  kQkv,                    // [T, (H+2G)*K]  queries and keys after rotation, values
  kHeadNormInput,          // [T, (H+G)*K]   queries and keys before their norm, if there is one
  kHeadNormStatistics,     // [1, T*(H+G)]   of the queries' heads, then of the keys'
  kAttention,              // [T, H*K]       attention's output: input of wo
  kLogSumExp,              // [B, H, S]
  kMiddle,                 // [T, D]         stream after attention
  kFeedForwardStatistics,  // [1 or 2, T]
  kFeedForwardInput,       // [T, D]         input of w1, w3
  kGateUp,                 // [T, 2*F]       w1 x | w3 x; backward overwrites it with its gradient
  kGated,                  // [T, F]         silu(w1 x) * w3 x: input of w2
  // One for all layers.
  kFinalInput,         // [T, D]         normed stream: input of the output matrix
  kFinalStatistics,    // [1 or 2, T]
  kBranch,             // output of wo or w2, to be added to the stream
  kLogits,             // of C = loss_chunk_tokens tokens at a time; becomes their gradient in place
  kHeadInput,          // rows of kFinalInput that count, if not all do; else no rows
  kHeadGradient,       // gradient of kHeadInput
  kStreamGradient,     // from the last layer to the first; before that, a stage's output
  kInputGradient,      // [T, D]         of a norm's output
  kQkvGradient,        // [T, (H+2G)*K]; one per layer with Backward::kInHalves
  kAttentionGradient,  // [T, H*K]
  kGatedGradient,      // [T, F]
  // Only where ranks share the layers; [T, D], while `stream` and the inputs of norms and products have T / ranks rows.
  kGatheredRows,  // of all ranks
  kPartialRows,   // this rank's summands of all rows
  // Only where ranks exchange heads: T is B*S / ranks, and these have all positions of a rank's heads in attention, as
  // kQkv and kLogSumExp have. They are B*S, or fewer where ranks also gather keys (plan/context_parallel.h).
  kAttentionHeads,  // one per layer; attention's output
  kAttentionHeadsGradient,
  kQkvHeadsGradient,
  kQkvRows,   // [T, (H+2G)*K]  before the exchange; kQkv then has heads
  kExchange,  // what a sequence's ranks exchange
  // Only where ranks gather keys: [B*S, 2*G*K] of all positions and a rank's heads.
  kKeysValues,
  kKeysValuesGradient,
  kKeyExchange,  // of one sequence, in the order of the ranks
  // Only where gradients of weights are computed later (Backward::kInHalves); one per layer. [T, D]
  kAttentionBranchGradient,
  kFeedForwardBranchGradient,
  kCount
};

// Activations that a layer's forward does not keep and its backward computes again, with the same bits:
//   kNorms      outputs of norms and SwiGLU: no further matrix product
//   kAttention  also queries, keys, values and attention
//   kBlock      all except the block's input
enum class Recompute { kNone, kNorms, kAttention, kBlock };

// kInHalves: gradients of inputs, and those of weights later, from what the first half leaves.
enum class Backward { kNone, kWhole, kInHalves };

struct ActivationBuffer {
  std::string_view name;
  std::vector<int64_t> shape;
  DType dtype;
  int64_t size_bytes;                 // of one copy, rounded up
  int64_t peak_bytes = 0;             // of all copies that are alive at the plan's peak
  std::vector<int64_t> offset_bytes;  // of each copy: L + 1 of kStream, L of a layer's other buffers, 1 of others
  std::vector<bool> in_slot;          // of each copy: its offset is one in a slot
};

struct ActivationPlan {
  std::vector<ActivationBuffer> buffers;  // indexed by Activation
  std::vector<Recompute> recompute;       // one per layer
  Backward backward = Backward::kNone;
  int64_t slot_bytes = 0, num_slots = 0;  // what a micro-batch keeps between its passes; 0: everything is shared
  int64_t shared_bytes = 0;               // all else
  int64_t total_bytes = 0;                // of the arena
  int64_t peak_bytes = 0;                 // the most that is alive at one op; the arena is as large or slightly larger
  std::string peak_op;

  const ActivationBuffer& operator[](Activation a) const { return buffers[static_cast<size_t>(a)]; }
};

// For micro-batches of B sequences of S positions, computed in `dtype`. `shape` may be a part of a model (model_part):
// then each rank keeps T / ranks rows of the residual stream and of what has its width. Row statistics are float32 if
// `dtype` is bfloat16. Without a backward nothing is kept for it. `recompute`: one per layer; empty: none.
//
// `slots`: of a stage of a pipeline, the micro-batches that it holds at once. 0: each ends before the next begins.
ActivationPlan activation_plan(const ModelShape& shape, int64_t B, int64_t S, DType dtype, int64_t loss_chunk_tokens,
                               Backward backward, std::span<const Recompute> recompute = {}, int64_t slots = 0);

}  // namespace hearth::plan
