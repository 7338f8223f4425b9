// SPDX-License-Identifier: Apache-2.0
// What each rank tells the others about a coming step. Notes travel while the previous step is computed, so no rank
// waits for them (comm::Control::post). On their way they are merged into one note, which is hardly longer for
// thousands of ranks than for two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::train {

struct StepNote {
  std::vector<double> counts = {};            // of each of the rank's micro-batches: counted_weight (train/step.h)
  std::vector<std::string> substitutes = {};  // for damaged sequences: data::StepBatch::substitutes
  bool failed = false;                        // the rank has no batch; all ranks stop before the step
  bool leave = false, save = false;  // requests of a signal or of rank 0's clock, for the end of the previous step
  int64_t written_step = 0;          // run::Saver::written_step
};

// `data_index`: the rank's number among the ranks that read different data, in rank order. nullopt for a rank that
// reads the same data as one of them: its counts and substitutes are left out.
std::string to_bytes(const StepNote& note, std::optional<int64_t> data_index);

// Merges two neighbours' notes (comm::NoteMerge): counts are added in pairs of data ranks, substitutes follow each
// other, flags are true if true on any, and the step is the first of all.
void merge_step_notes(std::string& lower, std::string_view upper);

// The note of all ranks, the same on every rank. Without counts if a rank failed.
StepNote agreed_note(std::string_view merged, int64_t data_ranks);

}  // namespace hearth::train
