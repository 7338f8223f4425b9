// SPDX-License-Identifier: Apache-2.0
#include "plan/scratch.h"

namespace hearth::plan {
namespace {

constexpr int64_t kCacheLine = 16;  // floats

}  // namespace

// Both functions count products of floats. Products of bfloat16 pairs need less: operands are half as large. This saves
// more than their extras need: a sixth number per query, and keys and score gradients in two orders.
int64_t AttentionCut::forward_task_floats() const {
  constexpr int64_t kPanels = kTaskQueries / kFewestTileColumns;
  const int64_t width = round_up(K, kLanes);
  // Scaled queries, output and five numbers per query. Seven parts per panel and three others are padded to a cache
  // line.
  const int64_t queries = kTaskQueries * (K + width + 5) + kPanels * 7 * kCacheLine;
  return queries + kForwardKeys * (2 * width + kTileColumns) + 3 * kCacheLine;
}

int64_t AttentionCut::backward_task_floats() const {
  const int64_t rows = round_up(S, kTileRows), width = round_up(K, kLanes);
  // The number of joint blocks depends on the instruction set's block: as many as kQueryFloats holds, at least one and
  // at most kMaxTogether.
  const int64_t block = kBlockQueries * (2 * K + 3 * width + 4) + 9 * kCacheLine;
  const int64_t blocks = std::clamp<int64_t>(kQueryFloats, block, kMaxTogether * block);
  // Two blocks of scores; keys, values and their gradients.
  return blocks + 2 * kBackwardKeys * kBlockQueries + 4 * rows * width;
}

int64_t AttentionCut::backward_shared_floats() const {
  return backward_chunks() == 1 ? 0 : B * G * backward_chunks() * backward_part_floats();
}

ScratchPlan scratch_plan(const ModelShape& shape, int64_t B, int64_t S, DType compute) {
  const int64_t Q = S / shape.key_ranks;
  const AttentionCut cut{B, S, shape.attention_heads(), shape.attention_key_heads(), shape.K, Q};
  const bool flash = compute != DType::kFloat64;  // float64 uses the plain reference without scratch
  const int64_t shared =
      std::max(gemm_shared_floats(compute == DType::kBFloat16), flash ? cut.backward_shared_floats() : 0);
  const int64_t task =
      std::max(kGemmOwnFloats, flash ? std::max(cut.forward_task_floats(), cut.backward_task_floats()) : 0);
  const auto bytes = [](int64_t floats) { return round_up(floats * dtype_size(DType::kFloat32), 64); };
  return {round_up(B * Q * kVisibleKeysBytes, 64) + bytes(shared), bytes(task)};
}

}  // namespace hearth::plan
