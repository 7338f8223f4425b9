// SPDX-License-Identifier: Apache-2.0
// Gives the training its batches. It loads one step ahead, and gathers what all ranks say about that step
// (train/step_note.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include "comm/control.h"
#include "data/batch/loader.h"
#include "run/run.h"
#include "train/step_note.h"

namespace hearth::train {

class StepFeed {
 public:
  // A step's batch.
  struct Step {
    data::StepBatch batch;
    StepNote note = {};        // merged over all ranks
    double data_wait_s = 0;    // how long the step waited for the loader
    uint64_t next_sample = 0;  // the following step's first sample
  };

  // Borrows both.
  StepFeed(const run::Run& run, comm::Control& control)
      : run_(run),
        control_(control),
        data_ranks_(mesh::Mesh(run.config.parallelism.degrees()).group(0, mesh::kDataAxes)) {
    const auto me = std::find(data_ranks_.begin(), data_ranks_.end(), control.rank());
    if (me != data_ranks_.end()) data_index_ = me - data_ranks_.begin();
  }

  // The next step is `t`, whose first sample is `sample`. Collective.
  void begin(int64_t t, uint64_t sample);
  // The note of all ranks about the next step. Not after the training's last step. Collective.
  const StepNote& note();
  // The next step, number `t`. Posts the note about the one after it. Throws the data's error on all ranks if any rank
  // has no batch. Collective.
  Step take(int64_t t);

  // Requests up to now, the same on all ranks. A save is asked for by a signal or by rank 0's clock.
  bool asked_to_leave() const { return asked_to_leave_; }
  bool asked_to_save() const { return asked_to_save_; }
  // For a single rank, which has nobody to agree with: reads requests now, so that it need not compute another step.
  void hear_requests();
  // Tells that a save has begun: the clock starts again.
  void saved();
  // Tells the next notes that this rank has written its part of all saves up to this step.
  void set_written_step(int64_t step) { written_step_ = step; }

 private:
  struct Prepared {
    int64_t t = 0;
    Step step;
    std::exception_ptr failure;  // in place of the batch
    comm::Posted posted;
    std::optional<StepNote> note;
  };
  void prepare(int64_t t);
  bool clock_is_due() const;

  const run::Run& run_;
  comm::Control& control_;
  const std::vector<int64_t> data_ranks_;  // one rank for each part of the data, ascending
  std::optional<int64_t> data_index_;      // this rank's index in data_ranks_
  std::optional<data::Loader> loader_;
  std::optional<Prepared> prepared_;
  bool asked_to_leave_ = false, asked_to_save_ = false;
  double saved_s_ = 0;
  int64_t written_step_ = 0;
};

}  // namespace hearth::train
