#include "train/state.h"

#include <array>
#include <bit>
#include <vector>

#include "base/error.h"
#include "checkpoint/names.h"
#include "checkpoint/save.h"
#include "checkpoint/state.h"
#include "model/init.h"
#include "parallel/shard_pieces.h"

namespace hearth::train {
namespace {

// A flat range of a tensor is seldom one box: the pieces of a rank as a checkpoint takes them, in order.
std::vector<checkpoint::TensorPiece> boxes_of(const parallel::ShardPiece& piece) {
  std::vector<checkpoint::TensorPiece> boxes;
  std::span<const std::byte> rest = piece.bytes;
  for (checkpoint::Box& box : checkpoint::boxes_of_flat_range(piece.shape, piece.begin, piece.end)) {
    const auto size_bytes = static_cast<size_t>(box.numel() * dtype_size(piece.dtype));
    boxes.push_back({{piece.name, piece.dtype, piece.shape}, std::move(box), rest.first(size_bytes)});
    rest = rest.subspan(size_bytes);
  }
  HEARTH_CHECK(rest.empty(), "{} bytes of {} are in no box", rest.size(), piece.name);
  return boxes;
}

void load(checkpoint::Reader& reader, const std::vector<parallel::ShardPiece>& pieces) {
  for (const parallel::ShardPiece& piece : pieces) {
    reader.require(piece.name, piece.dtype, piece.shape);
    std::span<std::byte> rest = piece.bytes;
    for (const checkpoint::Box& box : checkpoint::boxes_of_flat_range(piece.shape, piece.begin, piece.end)) {
      const auto size_bytes = static_cast<size_t>(box.numel() * dtype_size(piece.dtype));
      reader.read(piece.name, box, rest.first(size_bytes));
      rest = rest.subspan(size_bytes);
    }
  }
}

}  // namespace

void initialize_weights(parallel::ShardedWeights& weights, uint64_t seed) {
  for (int64_t unit = 0; unit < weights.num_units(); ++unit)
    model::init_unit(weights.master(unit), weights.plan(), unit, weights.slice(unit), seed);
  weights.masters_changed();
}

void load_weights(checkpoint::Reader& reader, parallel::ShardedWeights& weights) {
  load(reader, parallel::parameter_pieces(weights));
  weights.masters_changed();
}

void load_moments(checkpoint::Reader& reader, parallel::ShardedWeights& weights) {
  load(reader, parallel::optimizer_pieces(weights));
}

Progress progress_of(const checkpoint::Manifest& manifest) {
  return {manifest.step, manifest.tokens_seen, manifest.next_sample, checkpoint::step_name_of(manifest.step)};
}

void save_state(const parallel::ShardedWeights& weights, const Path& checkpoints, checkpoint::Manifest manifest) {
  comm::Group& group = weights.group();
  std::vector<checkpoint::TensorPiece> pieces;
  for (const auto& piece : parallel::parameter_pieces(weights))
    for (auto& box : boxes_of(piece)) pieces.push_back(std::move(box));
  for (const auto& piece : parallel::optimizer_pieces(weights))
    for (auto& box : boxes_of(piece)) pieces.push_back(std::move(box));
  // torch's AdamW counts steps per parameter; the same number for all, so rank 0 writes it.
  const auto steps = std::bit_cast<std::array<std::byte, 4>>(static_cast<float>(manifest.step));
  if (group.rank() == 0)
    for (const plan::Parameter& parameter : weights.plan().parameters)
      pieces.push_back({{checkpoint::adam_step_name(parameter.name), DType::kFloat32, {}}, {}, steps});

  const Path temporary = checkpoint::temporary_folder(checkpoints, manifest.step);
  if (group.rank() == 0) checkpoint::begin_save(temporary);
  group.barrier();
  const auto items = group.all_gather_bytes(checkpoint::write_rank_file(temporary, group.rank(), pieces));
  manifest.ranks = group.size();
  checkpoint::stamp(manifest);
  if (group.rank() == 0) {
    const Path final_folder = checkpoint::step_folder(checkpoints, manifest.step);
    checkpoint::commit(temporary, final_folder, items, std::move(manifest));
  }
  // No rank goes on before the checkpoint is good: a failure of rank 0 must not leave the others a step ahead.
  group.barrier();
}

}  // namespace hearth::train
