// SPDX-License-Identifier: Apache-2.0
#include "run/snapshot.h"

#include <bit>

#include "parallel/shard_pieces.h"
#include "plan/tensor_names.h"

namespace hearth::run {
namespace {

std::vector<parallel::ShardPiece> pieces_to_save(const parallel::ShardedWeights& weights) {
  constexpr auto kSaving = parallel::PiecesFor::kSaving;
  std::vector<parallel::ShardPiece> pieces = parallel::parameter_pieces(weights, kSaving);
  for (parallel::ShardPiece& piece : parallel::optimizer_pieces(weights, kSaving)) pieces.push_back(std::move(piece));
  return pieces;
}

// A tensor's pieces are next to each other, and so are their elements. Calls `use(first, last, numel)` for each tensor.
template <class Use>
void for_each_tensor(const std::vector<parallel::ShardPiece>& pieces, Use use) {
  for (size_t first = 0; first < pieces.size();) {
    size_t last = first;
    int64_t numel = 0;
    while (last < pieces.size() && pieces[last].name == pieces[first].name) numel += pieces[last++].values.numel();
    use(first, last, numel);
    first = last;
  }
}

}  // namespace

Snapshot::Snapshot(const parallel::ShardedWeights& weights, Memory memory) : weights_(weights) {
  if (memory == Memory::kWeights) return;
  const std::vector<parallel::ShardPiece> pieces = pieces_to_save(weights);
  int64_t bytes = 0;
  for_each_tensor(pieces, [&](size_t first, size_t, int64_t numel) {
    bytes += ops::Arena::bytes_for({numel}, pieces[first].dtype);
  });
  copies_ = ops::Arena::host_memory_for(weights.device(), bytes);
  for_each_tensor(pieces, [&](size_t first, size_t last, int64_t numel) {
    const at::Tensor whole = copies_->take({numel}, pieces[first].dtype);
    ops::zero_(whole);  // has the memory from the system now, and not in the first save
    int64_t done = 0;
    for (size_t i = first; i < last; ++i) {
      values_.push_back(whole.narrow(0, done, pieces[i].values.numel()));
      done += pieces[i].values.numel();
    }
  });
}

void Snapshot::take(int64_t updates) {
  const std::vector<parallel::ShardPiece> pieces = pieces_to_save(weights_);
  pieces_.clear();
  values_.resize(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    const parallel::ShardPiece& piece = pieces[i];
    if (copies_) {
      ops::copy_(values_[i], piece.values);
    } else {
      values_[i] = ops::on_host(piece.values);
    }
    pieces_.push_back({{piece.name, piece.dtype, piece.shape}, piece.box, ops::bytes_of(values_[i])});
  }
  // torch's AdamW stores a count of updates for each trained parameter, and torch's Muon none. Rank 0 writes the
  // counts.
  const auto& parameters = weights_.plan().parameters;
  counts_.resize(parameters.size());
  if (weights_.group().control().rank() != 0) return;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (!weights_.trained(index) || weights_.momentum_only(index)) continue;
    counts_[i] = std::bit_cast<std::array<std::byte, 4>>(static_cast<float>(updates - weights_.updates_before(index)));
    pieces_.push_back({{plan::adam_step_name(parameters[i].name), DType::kFloat32, {}}, {}, counts_[i]});
  }
}

}  // namespace hearth::run
