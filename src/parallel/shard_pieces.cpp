#include "parallel/shard_pieces.h"

#include <algorithm>

#include "base/error.h"
#include "ops/tensor.h"

namespace hearth::parallel {

namespace {

// Adds what `owned`, this rank's slice of the unit of `p`, holds of `p`.
void add_piece(std::vector<ShardPiece>& pieces, std::string name, const plan::Parameter& p, plan::Slice slice,
               const at::Tensor& owned) {
  const int64_t begin = std::max(p.offset, slice.begin), end = std::min(p.offset + p.numel, slice.end);
  if (begin >= end) return;
  const DType dtype = ops::dtype_of(owned);
  const auto bytes = ops::bytes_of(owned).subspan(static_cast<size_t>((begin - slice.begin) * dtype_size(dtype)),
                                                  static_cast<size_t>((end - begin) * dtype_size(dtype)));
  pieces.push_back({std::move(name), dtype, p.shape, begin - p.offset, end - p.offset, bytes});
}

}  // namespace

std::vector<ShardPiece> parameter_pieces(const ShardedWeights& weights) {
  std::vector<ShardPiece> pieces;
  for (const plan::Parameter& p : weights.plan().parameters) {
    add_piece(pieces, p.name, p, weights.slice(p.unit), weights.master(p.unit));
  }
  return pieces;
}

std::vector<ShardPiece> optimizer_pieces(const ShardedWeights& weights) {
  HEARTH_CHECK(weights.training(), "weights for inference have no optimizer state");
  std::vector<ShardPiece> pieces;
  for (const plan::Parameter& p : weights.plan().parameters) {
    const std::string prefix = "optimizer.state." + p.name;
    add_piece(pieces, prefix + ".exp_avg", p, weights.slice(p.unit), weights.exp_avg(p.unit));
    add_piece(pieces, prefix + ".exp_avg_sq", p, weights.slice(p.unit), weights.exp_avg_sq(p.unit));
  }
  return pieces;
}

}  // namespace hearth::parallel
