// The state of a training, to a checkpoint and back: weights, both moments, and how far it has come. Whatever number of
// ranks wrote it, any other number can read it.
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

// The tokenizer of the data that a checkpoint was trained on.
data::TokenizerOf tokenizer_of(const Path& folder, const checkpoint::Manifest& manifest);

// How far a training has come. Together with the weights, the moments and the configuration this decides all that
// follows.
struct Progress {
  int64_t step = 0;          // optimizer steps done
  int64_t tokens_seen = 0;   // over all ranks
  uint64_t next_sample = 0;  // the first sample not yet trained on
  // The step after which the optimizer's moments began: update number `step - optimizer_start` of theirs. Not 0 where a
  // run took over a step without moments, or moments without their step; a skipped update counts as one before.
  int64_t optimizer_start = 0;
  Health health{};
  std::string parent;  // the checkpoint this came from: "step-00000100", or a path; empty: from nothing
  bool operator==(const Progress&) const = default;
};

// Initial values for every weight, from the seed alone. Local.
void initialize_weights(parallel::ShardedWeights& weights, uint64_t seed);

// What becomes of weights that a checkpoint has in another floating-point type than the run.
enum class OtherTypes { kRefuse, kConvert };

// Fills this rank's masters, or its moments, from a checkpoint; parameters of which `skip` is true stay as they are
// (empty: none). Throws user_error where a tensor is missing or has another shape or type, damaged() where a checksum
// is wrong. Local; every rank has a Reader of its own. Moments bring their parameter's count of updates along; those
// that are skipped begin with the next. load_moments needs reader.has_manifest().
void load_weights(checkpoint::Reader& reader, parallel::ShardedWeights& weights, const std::vector<bool>& skip = {},
                  OtherTypes other_types = OtherTypes::kRefuse);
void load_moments(checkpoint::Reader& reader, parallel::ShardedWeights& weights, const std::vector<bool>& skip = {});

// What a checkpoint's manifest says of the data, and of progress. Throw damaged() naming `folder`, the checkpoint.
data::DataState data_state_of(const checkpoint::Manifest& manifest, const Path& folder);
Progress progress_of(const checkpoint::Manifest& manifest, const Path& folder);

// Saves everything as CHECKPOINTS/step-N, N = manifest.step, whose other fields the caller has filled in. When it
// returns, the checkpoint was read back and has its name; when it throws, the checkpoints that were there still are.
// Collective.
void save_state(const parallel::ShardedWeights& weights, const Path& checkpoints, checkpoint::Manifest manifest);

}  // namespace hearth::run
