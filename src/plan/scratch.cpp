#include "plan/scratch.h"

#include <bit>

namespace hearth::plan {

// Both are stated for products of floats. Those of bfloat16 in pairs take less: their operands are half as large, which
// is more than a sixth number for a query, keys in two orders, and a gradient of the scores in two orders need.
int64_t AttentionCut::forward_task_floats() const {
  constexpr int64_t kPanels = kTaskQueries / kFewestTileColumns;
  const int64_t width = round_up(K, kLanes);
  // Scaled queries, output and five numbers a query; seven parts a panel and three others end at a cache line.
  const int64_t queries = kTaskQueries * (K + width + 5) + kPanels * 7 * 16;
  return queries + kForwardKeys * (2 * width + kTileColumns) + 3 * 16;
}

int64_t AttentionCut::backward_task_floats() const {
  const int64_t rows = round_up(S, kTileRows), width = round_up(K, kLanes);
  // How many blocks are together depends on the instruction set's: as many as kQueryFloats holds, kMaxTogether at most,
  // one at least.
  const int64_t block = kBlockQueries * (2 * K + 3 * width + 4) + 9 * 16;
  const int64_t blocks = std::clamp<int64_t>(kQueryFloats, block, kMaxTogether * block);
  // Two blocks of scores; keys, values and their gradients.
  return blocks + 2 * kBackwardKeys * kBlockQueries + 4 * rows * width;
}

int64_t AttentionCut::backward_shared_floats() const {
  return backward_chunks() == 1 ? 0 : B * G * backward_chunks() * backward_part_floats();
}

ScratchPlan scratch_plan(const ModelShape& shape, int64_t B, int64_t S, DType compute) {
  const AttentionCut cut{B, S, shape.H, shape.G, shape.K};
  const bool flash = compute != DType::kFloat64;  // float64 runs the plain reference, which needs none
  const int64_t shared =
      std::max(gemm_shared_floats(compute == DType::kBFloat16), flash ? cut.backward_shared_floats() : 0);
  const int64_t task =
      std::max(kGemmOwnFloats, flash ? std::max(cut.forward_task_floats(), cut.backward_task_floats()) : 0);
  const auto bytes = [](int64_t floats) { return round_up(floats * dtype_size(DType::kFloat32), 64); };
  return {round_up(B * S * kVisibleKeysBytes, 64) + bytes(shared), bytes(task)};
}

int64_t straight_micro_batches(int64_t micro_batches_of_rank, int64_t ranks, bool reproducible) {
  int64_t straight = micro_batches_of_rank;
  if (!reproducible) return straight;
  straight *= ranks;
  while (straight % 2 == 0) straight /= 2;
  return straight;
}

int64_t num_partial_sums(int64_t micro_batches_of_rank, int64_t straight) {
  // After group g of n, but the last, its sum is put where the number of twos in g says: as many places as n - 1 has
  // binary digits.
  return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(micro_batches_of_rank / straight - 1)));
}

}  // namespace hearth::plan
