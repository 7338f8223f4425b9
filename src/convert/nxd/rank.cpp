#include <algorithm>

#include "convert/nxd.h"

namespace hearth::convert {

std::vector<RankTensor> nxd_tensors(const std::vector<Transfer>& tensors, const plan::ModelShape& shape,
                                    const NxdLayout& layout, const NxdPlace& counts, const NxdPlace& place) {
  // With a key for each query, another module has the fused matrix.
  const RankTable table = rank_table("nxd").with({layout.qkv == NxdQkv::kSeparate ? "separate"
                                                  : layout.qkv == NxdQkv::kModule ? "module"
                                                  : shape.H == shape.G            ? "stride"
                                                                                  : "fused"});
  const auto [ranks, stages] = counts;
  const RankLayout heads(shape.H, shape.G, ranks, KeyOrder::kInTurn);
  std::vector<RankTensor> found;
  const auto add = [&](const RankRow& row) { found.push_back(cut(tensors, row, heads, place.first)); };
  const int64_t stage = place.second, layers = shape.L() / stages;
  if (stage == 0) std::for_each(table.before.begin(), table.before.end(), add);
  for (int64_t i = stage * layers; i < (stage + 1) * layers; ++i) {
    for (const RankRow& row : table.block) add(row.of_layer(i));
  }
  if (stage == stages - 1) std::for_each(table.behind.begin(), table.behind.end(), add);
  return found;
}

}  // namespace hearth::convert
