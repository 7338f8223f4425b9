// SPDX-License-Identifier: Apache-2.0
#include "run/state.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "base/error.h"
#include "base/program.h"
#include "checkpoint/step_folder.h"
#include "mesh/tensor_box.h"
#include "model/init.h"
#include "ops/tensor.h"
#include "parallel/shard_pieces.h"
#include "plan/tensor_names.h"

namespace hearth::run {
namespace {

// The tensor names of the parameters whose `skip` is true.
std::set<std::string> skipped_names(const plan::ParameterPlan& plan, const std::vector<bool>& skip) {
  std::set<std::string> names;
  for (size_t i = 0; i < skip.size(); ++i) {
    if (!skip[i]) continue;
    const std::string& name = plan.parameters[i].name;
    names.insert(
        {plan::weight_name(name), plan::exp_avg_name(name), plan::exp_avg_sq_name(name), plan::momentum_name(name)});
  }
  return names;
}

void load(checkpoint::Reader& reader, const std::vector<parallel::ShardPiece>& pieces,
          const std::set<std::string>& skip, OtherTypes other_types) {
  for (const parallel::ShardPiece& piece : pieces) {
    if (skip.contains(piece.name)) continue;
    const mesh::TensorInfo* found = reader.find(piece.name);
    const bool convert = other_types == OtherTypes::kConvert && found != nullptr && is_floating_point(found->dtype);
    const DType stored = convert ? found->dtype : piece.dtype;
    reader.require(piece.name, stored, piece.shape);
    const bool is_here = piece.values.device().is_cpu() && stored == piece.dtype;
    const at::Tensor host = is_here ? piece.values : ops::empty(piece.values.sizes(), stored);
    reader.read(piece.name, piece.box, ops::bytes_of(host));
    if (!is_here) ops::copy_(piece.values, host);
  }
}

// The number of updates of a parameter's moments; at most the optimizer's.
int64_t own_updates(checkpoint::Reader& reader, const convert::TrainingState& training, const std::string& parameter) {
  const int64_t own = convert::updates_of(reader, training, parameter);
  // A float32 counts in steps of 2 beyond 2^24.
  if (static_cast<float>(own) > static_cast<float>(training.updates))
    throw damaged(fmt::format("{}: {} is {}", reader.folder().string(), plan::adam_step_name(parameter), own),
                  fmt::format("the optimizer has made {} updates", training.updates), "take another checkpoint");
  return static_cast<float>(own) == static_cast<float>(training.updates) ? training.updates : own;
}

}  // namespace

data::TokenizerOf tokenizer_of(const Path& folder, const checkpoint::Manifest& manifest) {
  return {folder.string(), manifest.tokenizer, manifest.tokenizer_hash, folder / manifest.tokenizer};
}

void initialize_weights(parallel::ShardedWeights& weights, uint64_t seed) {
  for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
    const at::Tensor master = weights.master(unit);
    // Drawn on the host, in float32 or wider.
    const DType masters = weights.precision().masters;
    const bool elsewhere = masters == DType::kBFloat16 || !weights.device().is_cpu();
    const DType drawn = masters == DType::kBFloat16 ? DType::kFloat32 : masters;
    const at::Tensor values = elsewhere ? ops::empty({master.numel()}, drawn) : master;
    model::init_unit(values, weights.plan(), unit, weights.slice(unit), seed);
    note_progress();
    if (elsewhere) ops::copy_(master, values);
  }
  weights.masters_changed();
}

void load_weights(checkpoint::Reader& reader, parallel::ShardedWeights& weights, const std::vector<bool>& skip,
                  OtherTypes other_types) {
  load(reader, parallel::parameter_pieces(weights, parallel::PiecesFor::kLoading), skipped_names(weights.plan(), skip),
       other_types);
  weights.masters_changed();
}

void load_moment_values(checkpoint::Reader& reader, parallel::ShardedWeights& weights, const std::vector<bool>& skip,
                        OtherTypes other_types) {
  load(reader, parallel::optimizer_pieces(weights, parallel::PiecesFor::kLoading), skipped_names(weights.plan(), skip),
       other_types);
}

// By parameter; 0 where there is no count.
std::vector<int64_t> read_updates(checkpoint::Reader& reader, const convert::TrainingState& training,
                                  const parallel::ShardedWeights& weights, const std::vector<bool>& skip) {
  std::vector<int64_t> updates(weights.plan().parameters.size());
  for (size_t i = 0; i < updates.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const bool begins_anew = !skip.empty() && skip[i];
    if (weights.trained(index) && !weights.momentum_only(index) && !begins_anew)
      updates[i] = own_updates(reader, training, weights.plan().parameters[i].name);
  }
  return updates;
}

// Moments that begin anew have their own count, as in PyTorch. With the others' large t, Adam would not correct their
// bias: the first steps would be (1 - beta1) / sqrt(1 - beta2) times too large, 3.2 at betas of 0.9 and 0.999.
void set_updates(parallel::ShardedWeights& weights, const convert::TrainingState& training,
                 const std::vector<int64_t>& updates) {
  for (size_t i = 0; i < updates.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (weights.trained(index) && !weights.momentum_only(index))
      weights.set_updates_before(index, training.updates - updates[i]);
  }
}

void load_moments(checkpoint::Reader& reader, const convert::TrainingState& training, parallel::ShardedWeights& weights,
                  const std::vector<bool>& skip, OtherTypes other_types) {
  load_moment_values(reader, weights, skip, other_types);
  set_updates(weights, training, read_updates(reader, training, weights, skip));
}

data::DataState data_state_of(const checkpoint::Manifest& manifest, const Path& folder) {
  return data::parse_data_state(manifest.state(data::kDataState), manifest.dataset_hash,
                                (folder / checkpoint::kManifestFile).string());
}

RunProgress progress_of(const checkpoint::Manifest& manifest, const Path& folder) {
  RunProgress progress{.step = manifest.step,
                       .tokens_seen = manifest.tokens_seen,
                       .next_sample = data_state_of(manifest, folder).next_sample,
                       .optimizer_start = manifest.optimizer_start,
                       .parent = checkpoint::step_name_of(manifest.step)};
  if (manifest.states.contains(kHealthState))
    progress.health = parse_health(manifest.state(kHealthState), (folder / checkpoint::kManifestFile).string());
  return progress;
}

}  // namespace hearth::run
