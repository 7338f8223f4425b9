// SPDX-License-Identifier: Apache-2.0
// A training's metrics for TensorBoard, in a folder of event files. Tags are torchtitan's (2025):
//   loss_metrics/global_avg_loss, grad_norm, lr, n_tokens_seen, throughput(tps), mfu(%), time_metrics/end_to_end(s),
//   time_metrics/data_loading(s), time_metrics/data_loading(%), memory/max_active(GiB), validation_metrics/loss
// A named validation set has validation_metrics/loss/NAME. There is a point every `log_freq` steps, at the first step
// after a start and at the last. Loss, gradient norm and learning rate are that step's. Speed, times and mfu are means
// since the previous point. Tokens are counted over all ranks. Every measured validation loss is a point.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "metrics/event_file.h"
#include "metrics/record.h"

namespace hearth::metrics {

// Estimates the times of records that an older Hearth wrote without one. It subtracts the steps' lengths from the time
// of the next record that has a time, or from `end`.
void estimate_times(std::vector<StepRecord>& records, double end);

class Tensorboard {
 public:
  struct Options {
    Path folder;
    int64_t first_step = 0;  // the training continues after this step
    int64_t last_step = 0;
    int64_t log_freq = 10;
    double time = 0;              // of the start
    std::string configuration{};  // as TOML; shown as text
  };
  // Begins a new file. Earlier files' points of steps after `first_step` no longer count. Without earlier files, `past`
  // is written first: the records of the training up to now.
  Tensorboard(const Options& options, const std::vector<StepRecord>& past);

  void step(const StepRecord& record);
  // The training went back and continues after `step`.
  void rewind(double time, int64_t step);
  void sync() { file_.sync(); }

 private:
  // What a point averages over.
  struct Window {
    int64_t steps = 0;
    double step_s = 0, data_wait_s = 0, tokens = 0, mfu_s = 0;
  };
  void restart(double time, int64_t step);

  int64_t last_step_, log_freq_;
  bool begins_ = true;  // the next step is the first one after a start
  bool continues_;      // there were files
  EventFile file_;
  Window window_{};
};

}  // namespace hearth::metrics
