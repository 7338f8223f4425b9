// SPDX-License-Identifier: Apache-2.0
// Loads the state of a training: weights, the optimizer's state, and progress. The number of ranks may differ from that
// of the save (run/saver.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "checkpoint/manifest.h"
#include "convert/training_state.h"
#include "data/order/data_state.h"
#include "data/shard/same_tokenizer.h"
#include "parallel/sharded_weights.h"
#include "run/health.h"

namespace hearth::run {

// The tokenizer of a checkpoint's training data.
data::TokenizerOf tokenizer_of(const Path& folder, const checkpoint::Manifest& manifest);

// The progress of a training. Together with weights, moments and configuration it determines all later steps.
struct RunProgress {
  int64_t step = 0;          // optimizer steps done
  int64_t tokens_seen = 0;   // over all ranks
  uint64_t next_sample = 0;  // the first sample not yet trained on
  // The step after which the optimizer's moments began. Step number `step` is update number `step - optimizer_start` of
  // the moments. Nonzero if a run took over a step without moments, or moments without their step. Each skipped update
  // adds one.
  int64_t optimizer_start = 0;
  Health health{};
  std::string parent;  // the checkpoint that this continues: "step-00000100", or a path; empty: initial values
  bool operator==(const RunProgress&) const = default;
};

// Gives every weight its initial value, which depends only on the seed. Local.
void initialize_weights(parallel::ShardedWeights& weights, uint64_t seed);

// How to treat weights whose floating-point type in the checkpoint differs from the run's.
enum class OtherTypes { kRefuse, kConvert };

// Fill this rank's masters, or its moments, from a checkpoint. Parameters whose `skip` is true stay unchanged (`skip`
// empty: load all). Throw user_error if a tensor is missing or has another shape or type, damaged() for a wrong
// checksum. Local; every rank has its own Reader. load_moments also loads each parameter's count of updates; a skipped
// parameter's count starts at zero. They are all in one file, so many ranks let one of them read the counts.
void load_weights(checkpoint::Reader& reader, parallel::ShardedWeights& weights, const std::vector<bool>& skip = {},
                  OtherTypes other_types = OtherTypes::kRefuse);
void load_moments(checkpoint::Reader& reader, const convert::TrainingState& training, parallel::ShardedWeights& weights,
                  const std::vector<bool>& skip = {}, OtherTypes other_types = OtherTypes::kRefuse);

// The two parts of load_moments.
void load_moment_values(checkpoint::Reader& reader, parallel::ShardedWeights& weights,
                        const std::vector<bool>& skip = {}, OtherTypes other_types = OtherTypes::kRefuse);
std::vector<int64_t> read_updates(checkpoint::Reader& reader, const convert::TrainingState& training,
                                  const parallel::ShardedWeights& weights, const std::vector<bool>& skip = {});
void set_updates(parallel::ShardedWeights& weights, const convert::TrainingState& training,
                 const std::vector<int64_t>& updates);

// The states of the data and of progress in a checkpoint's manifest. Throw damaged(), which names `folder`, the
// checkpoint.
data::DataState data_state_of(const checkpoint::Manifest& manifest, const Path& folder);
RunProgress progress_of(const checkpoint::Manifest& manifest, const Path& folder);

}  // namespace hearth::run
