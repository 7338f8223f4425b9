// SPDX-License-Identifier: Apache-2.0
// The steps after which a run has a checkpoint, without those that are asked for by a signal or a clock.
#pragma once

#include <cstdint>
#include <set>

#include "config/config.h"

namespace hearth::train {

class SaveTimes {
 public:
  // `samples_per_epoch`: of the training data, as training.epochs counts them.
  SaveTimes(const config::RunConfig& config, int64_t samples_per_epoch);

  // Whether step `t` has a checkpoint. It ends the samples [first, end) of the training: its own, and those of steps
  // that the training went back from.
  bool after(int64_t t, uint64_t first, uint64_t end) const;

 private:
  const config::RunConfig& config_;
  const int64_t samples_per_epoch_;
  const std::set<int64_t> extra_;
};

}  // namespace hearth::train
