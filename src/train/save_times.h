// SPDX-License-Identifier: Apache-2.0
// The steps after which the run file asks for a checkpoint. Signals and clocks may ask for more.
#pragma once

#include <cstdint>
#include <set>

#include "config/config.h"

namespace hearth::train {

class SaveTimes {
 public:
  // `samples_per_epoch`: of the training data, as training.epochs counts them.
  SaveTimes(const config::RunConfig& config, int64_t samples_per_epoch);

  // Whether a checkpoint is saved after step `t`. [first, end): its samples, and before them the samples of steps that
  // the training went back from.
  bool after(int64_t t, uint64_t first, uint64_t end) const;

 private:
  const config::RunConfig& config_;
  const int64_t samples_per_epoch_;
  const std::set<int64_t> extra_;
};

}  // namespace hearth::train
