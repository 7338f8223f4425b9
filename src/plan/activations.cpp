#include "plan/activations.h"

#include <algorithm>

#include "base/error.h"
#include "base/quantity.h"
#include "plan/context_parallel.h"
#include "plan/micro_batch_ops.h"

namespace hearth::plan {
namespace {

// From an op to an op, both included.
struct Interval {
  int64_t first, last;
};

// A copy of a buffer: when it is alive, and its place.
struct Block {
  int64_t size_bytes, offset_bytes = 0;
  std::vector<Interval> alive{};
  int64_t* placed;  // receives its offset in the plan
  bool in_slot = false;

  bool is_alive(int64_t op) const {
    return std::any_of(alive.begin(), alive.end(), [op](const Interval& t) { return t.first <= op && op <= t.last; });
  }
  bool meets(const Block& other) const {
    for (const Interval& a : alive)
      for (const Interval& b : other.alive)
        if (a.first <= b.last && b.first <= a.last) return true;
    return false;
  }
};

std::vector<ActivationBuffer> buffers_of(const ModelShape& s, int64_t B, int64_t S, DType dtype, int64_t C,
                                         Backward backward) {
  constexpr int64_t kAlignmentBytes = 64;
  // Between the layers' products each rank has its rows of the stream (sequence parallel).
  const int64_t T = B * S / s.context, rows = T / s.tensor.size, qkv = s.qkv_width(),
                N = is_centred(s.norm.type) ? 2 : 1;
  const int64_t Q = S / s.key_ranks, W = B * Q, heads = s.attention_heads();
  const int64_t keys_values = 2 * s.attention_key_heads() * s.K, heads_qkv = heads * s.K + keys_values;
  const DType exact = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
  std::vector<ActivationBuffer> buffers;
  auto add = [&](Activation which, std::string_view name, std::vector<int64_t> shape, int64_t copies, DType of) {
    HEARTH_CHECK(static_cast<size_t>(which) == buffers.size(), "activation {} out of order", name);
    int64_t size_bytes = dtype_size(of);
    for (const int64_t size : shape) size_bytes *= size;
    buffers.push_back({name, std::move(shape), of, round_up(size_bytes, kAlignmentBytes), 0,
                       std::vector<int64_t>(static_cast<size_t>(copies)),
                       std::vector<bool>(static_cast<size_t>(copies))});
  };
  using enum Activation;
  add(kStream, "stream", {rows, s.D}, s.L + 1, dtype);
  add(kAttentionStatistics, "attention_statistics", {N, rows}, s.L, exact);
  add(kAttentionInput, "attention_input", {rows, s.D}, s.L, dtype);
  add(kQkv, "qkv", {W, heads_qkv}, s.L, dtype);
  const int64_t normed = s.qk_norm ? s.qk_heads() : 0;
  add(kHeadNormInput, "head_norm_input", {T, normed * s.K}, s.L, dtype);
  add(kHeadNormStatistics, "head_norm_statistics", {1, T * normed}, s.L, exact);
  add(kAttention, "attention", {T, s.H * s.K}, s.L, dtype);
  add(kLogSumExp, "log_sum_exp", {B, heads, Q}, s.L, exact);
  add(kMiddle, "middle", {rows, s.D}, s.L, dtype);
  add(kFeedForwardStatistics, "feed_forward_statistics", {N, rows}, s.L, exact);
  add(kFeedForwardInput, "feed_forward_input", {rows, s.D}, s.L, dtype);
  add(kGateUp, "gate_up", {T, 2 * s.F}, s.L, dtype);
  add(kGated, "gated", {T, s.F}, s.L, dtype);
  add(kFinalInput, "final_input", {rows, s.D}, 1, dtype);
  add(kFinalStatistics, "final_statistics", {N, rows}, 1, exact);
  add(kBranch, "branch", {rows, s.D}, 1, dtype);
  add(kLogits, "logits", {std::min(T, C), s.V}, 1, dtype);
  const int64_t sparse = s.sparse_labels || !s.causal ? std::min(T, C) : 0;
  add(kHeadInput, "head_input", {sparse, s.D}, 1, dtype);
  add(kHeadGradient, "head_gradient", {sparse, s.D}, 1, dtype);
  add(kStreamGradient, "stream_gradient", {rows, s.D}, 1, dtype);
  add(kInputGradient, "input_gradient", {rows, s.D}, 1, dtype);
  const int64_t halves = backward == Backward::kInHalves ? s.L : 1;
  add(kQkvGradient, "qkv_gradient", {T, qkv}, halves, dtype);
  add(kAttentionGradient, "attention_gradient", {T, s.H * s.K}, 1, dtype);
  add(kGatedGradient, "gated_gradient", {T, s.F}, 1, dtype);
  add(kGatheredRows, "gathered_rows", {T, s.D}, 1, dtype);
  add(kPartialRows, "partial_rows", {T, s.D}, 1, dtype);
  add(kAttentionHeads, "attention_heads", {W, heads * s.K}, s.L, dtype);
  add(kAttentionHeadsGradient, "attention_heads_gradient", {W, heads * s.K}, 1, dtype);
  add(kQkvHeadsGradient, "qkv_heads_gradient", {W, heads_qkv}, 1, dtype);
  add(kQkvRows, "qkv_rows", {T, qkv}, 1, dtype);
  add(kExchange, "exchange", {Q, heads_qkv}, 1, dtype);
  add(kKeysValues, "keys_values", {B * S, keys_values}, 1, dtype);
  add(kKeysValuesGradient, "keys_values_gradient", {B * S, keys_values}, 1, dtype);
  add(kKeyExchange, "key_exchange", {S, keys_values}, 1, dtype);
  add(kAttentionBranchGradient, "attention_branch_gradient", {rows, s.D}, halves, dtype);
  add(kFeedForwardBranchGradient, "feed_forward_branch_gradient", {rows, s.D}, halves, dtype);
  return buffers;
}

// A block for each copy of a buffer, with the times at which it is alive. [which][copy]
std::vector<std::vector<Block>> blocks_of(std::vector<ActivationBuffer>& buffers, const std::vector<Op>& ops) {
  std::vector<std::vector<Block>> blocks;
  for (ActivationBuffer& buffer : buffers) {
    auto& copies = blocks.emplace_back();
    for (int64_t& offset : buffer.offset_bytes) copies.push_back({.size_bytes = buffer.size_bytes, .placed = &offset});
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    const auto now = static_cast<int64_t>(i);
    auto at = [&](const BufferRef& p) -> Block& {
      return blocks[static_cast<size_t>(p.which)].at(static_cast<size_t>(p.copy));
    };
    for (const BufferRef& p : ops[i].reads) {
      HEARTH_CHECK(!at(p).alive.empty(), "{} reads {} before it is written", ops[i].name,
                   buffers[static_cast<size_t>(p.which)].name);
      at(p).alive.back().last = now;
    }
    for (const BufferRef& p : ops[i].writes)
      if (at(p).alive.empty() || at(p).alive.back().last < now) at(p).alive.push_back({now, now});
  }
  return blocks;
}

// Places the largest first, each at the lowest offset that is free whenever it is alive. Returns the arena's size.
int64_t place(std::vector<Block*> blocks) {
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const Block* a, const Block* b) { return a->size_bytes > b->size_bytes; });
  int64_t total = 0;
  std::vector<const Block*> placed;  // by offset
  for (Block* block : blocks) {
    int64_t offset = 0;
    for (const Block* other : placed) {
      if (other->offset_bytes >= offset + block->size_bytes) break;
      if (other->offset_bytes + other->size_bytes > offset && block->meets(*other))
        offset = other->offset_bytes + other->size_bytes;
    }
    *block->placed = block->offset_bytes = offset;
    total = std::max(total, offset + block->size_bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), block,
                                   [](const Block* a, const Block* b) { return a->offset_bytes < b->offset_bytes; }),
                  block);
  }
  return total;
}

// Whether other micro-batches come while a buffer is alive: between two passes, or while another stage receives or
// sends it.
bool is_in_slot(Activation which, size_t copy, const Block& block, const std::vector<Op>& ops) {
  if (which == Activation::kStreamGradient || (which == Activation::kStream && copy == 0)) return true;
  return std::any_of(block.alive.begin(), block.alive.end(), [&](const Interval& t) {
    return ops[static_cast<size_t>(t.first)].pass != ops[static_cast<size_t>(t.last)].pass;
  });
}

}  // namespace

ActivationPlan activation_plan(const ModelShape& s, int64_t B, int64_t S, DType dtype, int64_t loss_chunk_tokens,
                               Backward backward, std::span<const Recompute> recompute, int64_t slots) {
  ActivationPlan plan;
  plan.num_slots = slots;
  plan.backward = backward;
  plan.recompute.assign(recompute.begin(), recompute.end());
  if (recompute.empty()) plan.recompute.assign(static_cast<size_t>(s.L), Recompute::kNone);
  HEARTH_CHECK(static_cast<int64_t>(plan.recompute.size()) == s.L, "{} levels for {} layers", recompute.size(), s.L);
  HEARTH_CHECK(divides_sequence({0, s.context, s.key_ranks}, S) && B * S / s.context % s.tensor.size == 0,
               "{} x {} positions for {} x {} ranks", B, S, s.context, s.tensor.size);
  plan.buffers = buffers_of(s, B, S, dtype, loss_chunk_tokens, backward);
  const std::vector<Op> ops = micro_batch_ops(s, plan.recompute, backward);
  std::vector<std::vector<Block>> blocks = blocks_of(plan.buffers, ops);

  std::vector<Block*> shared;
  std::vector<int64_t> alive_bytes(ops.size());
  for (size_t which = 0; which < blocks.size(); ++which) {
    for (size_t copy = 0; copy < blocks[which].size(); ++copy) {
      Block& block = blocks[which][copy];
      if (block.alive.empty()) continue;
      block.in_slot = slots > 0 && is_in_slot(static_cast<Activation>(which), copy, block, ops);
      plan.buffers[which].in_slot[copy] = block.in_slot;
      if (block.in_slot) {
        *block.placed = plan.slot_bytes;
        plan.slot_bytes += block.size_bytes;
        continue;
      }
      shared.push_back(&block);
      for (const Interval& t : block.alive)
        for (int64_t i = t.first; i <= t.last; ++i) alive_bytes[static_cast<size_t>(i)] += block.size_bytes;
    }
  }
  const auto peak = std::max_element(alive_bytes.begin(), alive_bytes.end());
  plan.peak_bytes = *peak + slots * plan.slot_bytes;
  const auto peak_at = peak - alive_bytes.begin();
  plan.peak_op = ops[static_cast<size_t>(peak_at)].name;
  for (size_t i = 0; i < blocks.size(); ++i)
    for (const Block& block : blocks[i])
      plan.buffers[i].peak_bytes += block.in_slot             ? slots * block.size_bytes
                                    : block.is_alive(peak_at) ? block.size_bytes
                                                              : 0;
  plan.shared_bytes = place(std::move(shared));
  plan.total_bytes = plan.shared_bytes + slots * plan.slot_bytes;
  for (size_t i = 0; i < blocks.size(); ++i) {
    // A buffer that no op writes has no rows.
    if (blocks[i].front().alive.empty()) plan.buffers[i].shape.front() = plan.buffers[i].size_bytes = 0;
  }
  return plan;
}

}  // namespace hearth::plan
