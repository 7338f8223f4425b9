// What each rank tells the others about a coming step. Notes travel while the step before is computed, so no rank waits
// for them (comm::Control::post).
#pragma once

#include <string>
#include <vector>

#include "data/batch/batch.h"

namespace hearth::train {

struct StepNote {
  std::vector<double> counts = {};            // of each of the rank's micro-batches: counted_weight (train/step.h)
  std::vector<std::string> substitutes = {};  // for damaged sequences: data::StepBatch::substitutes
  bool failed = false;                        // the rank has no batch; all ranks stop before the step
  bool leave = false, save = false;           // a signal asked for it, or rank 0's clock; after the step before
  int64_t written_step = 0;                   // run::Saver::written_step
};

std::string to_text(const StepNote& note);

// The ranks' notes as one, the same on every rank: counts are added over ranks in pairs, substitutes follow each other,
// flags are true if true on any, and the step is the first of all. `texts`: by to_text, in the order of ranks. Other
// ranks may read the same data as one of `data_ranks`: only these have counts and substitutes.
StepNote agreed_note(const std::vector<std::string>& texts, const std::vector<int64_t>& data_ranks);

}  // namespace hearth::train
