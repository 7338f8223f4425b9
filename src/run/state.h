// Saves and loads the state of a training: weights, both moments and progress. Any number of ranks can read a
// checkpoint of any other number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "checkpoint/manifest.h"
#include "data/order/data_state.h"
#include "data/shard/same_tokenizer.h"
#include "parallel/sharded_weights.h"
#include "run/health.h"

namespace hearth::run {

// The tokenizer of the checkpoint's training data.
data::TokenizerOf tokenizer_of(const Path& folder, const checkpoint::Manifest& manifest);

// Progress of a training. With weights, moments and configuration it determines all later steps.
struct Progress {
  int64_t step = 0;          // optimizer steps done
  int64_t tokens_seen = 0;   // over all ranks
  uint64_t next_sample = 0;  // the first sample that was not trained on
  // The step after which the optimizer's moments began: step N is their update number N - optimizer_start. It is not 0
  // if a run loaded a step without moments, or moments without their step. A skipped update counts as a step before the
  // start.
  int64_t optimizer_start = 0;
  Health health{};
  std::string parent;  // the checkpoint that it continues: "step-00000100", or a path; empty: initial values
  bool operator==(const Progress&) const = default;
};

// Initial values for every weight, from the seed alone. Local.
void initialize_weights(parallel::ShardedWeights& weights, uint64_t seed);

// The handling of weights whose floating-point type in the checkpoint differs from the run's.
enum class OtherTypes { kRefuse, kConvert };

// Fills this rank's masters, or its moments, from a checkpoint. Parameters with `skip` true stay unchanged (empty: none
// is skipped). Throws user_error if a tensor is missing or has another shape or type, damaged() if a checksum is wrong.
// Local; every rank has its own Reader. Moments include their parameter's count of updates; skipped ones start at the
// next update. load_moments needs reader.has_manifest().
void load_weights(checkpoint::Reader& reader, parallel::ShardedWeights& weights, const std::vector<bool>& skip = {},
                  OtherTypes other_types = OtherTypes::kRefuse);
void load_moments(checkpoint::Reader& reader, parallel::ShardedWeights& weights, const std::vector<bool>& skip = {});

// Data state and progress of a checkpoint's manifest. Both throw damaged() naming `folder`, the checkpoint.
data::DataState data_state_of(const checkpoint::Manifest& manifest, const Path& folder);
Progress progress_of(const checkpoint::Manifest& manifest, const Path& folder);

// Saves the state as CHECKPOINTS/step-N with N = manifest.step; the caller has filled in the manifest's other fields.
// On return, the checkpoint was read back and has its final name. On an exception, the older checkpoints are unchanged.
// Collective.
void save_state(const parallel::ShardedWeights& weights, const Path& checkpoints, checkpoint::Manifest manifest);

}  // namespace hearth::run
