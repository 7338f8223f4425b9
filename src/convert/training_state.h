// SPDX-License-Identifier: Apache-2.0
// The state of a training besides its weights: how a source has it, and how it reaches a target.
//
// Moments are tensors of the source's reader with the names of plan/tensor_names.h, in the weights' order of pairs
// (give_pairs moves both) and in any floating-point type. A source with a TrainingState has them for every weight that
// was trained. A weight may also have a tensor `.step`: the number of updates that its moments have seen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "convert/transfer.h"

namespace hearth::convert {

// Where a training stood when its checkpoint was saved.
struct TrainingState {
  int64_t step = 0;                              // optimizer steps done
  int64_t tokens_seen = 0;                       // over all ranks; 0: not known
  int64_t updates = 0;                           // AdamW's t of moments without a tensor `.step`
  std::optional<double> next_lr = std::nullopt;  // rate of the next update, where the source has it
};

// The state of the training whose manifest this is.
TrainingState training_of(const checkpoint::Manifest& manifest);

// Whether the reader has moments of any weight.
bool has_moments(const checkpoint::Reader& reader);

// The moments of all weights for a target, under Hearth's names: no `.step`.
std::vector<Transfer> moments_of(const checkpoint::Reader& reader);

// A number that counts steps or tokens. Throws damaged(), with `what` in front, unless it is whole and from 0 to 2^53.
int64_t counted(double number, const std::string& what);

// The number of updates that the moments of `parameter` have seen.
int64_t updates_of(checkpoint::Reader& reader, const TrainingState& training, const std::string& parameter);

}  // namespace hearth::convert
