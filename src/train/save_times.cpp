// SPDX-License-Identifier: Apache-2.0
#include "train/save_times.h"

#include "config/derived.h"
#include "runfolder/run_checkpoints.h"

namespace hearth::train {

SaveTimes::SaveTimes(const config::RunConfig& config, int64_t samples_per_epoch)
    : config_(config), samples_per_epoch_(samples_per_epoch), extra_(runfolder::keep_rules(config.checkpoint).steps) {}

bool SaveTimes::after(int64_t t, uint64_t first, uint64_t end) const {
  const int64_t interval = config_.checkpoint.interval;
  if ((interval > 0 && t % interval == 0) || extra_.contains(t)) return true;
  return config::epoch_parts(config_, samples_per_epoch_, end) >
         config::epoch_parts(config_, samples_per_epoch_, first);
}

}  // namespace hearth::train
