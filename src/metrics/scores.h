// SPDX-License-Identifier: Apache-2.0
// RUN/scores.jsonl: what `hearth score` measured of a run's checkpoints. One JSON object per line:
//   {"step": 4000, "name": "arc_easy.acc", "value": 0.4125, "of": "5d41402abc4b2a76b9719d911017c592"}
// Names are validation_loss, validation_loss.SET, and TASK.acc, TASK.acc_norm, TASK.acc_bytes, TASK.acc_tokens. "of" is
// a hash over the checkpoint's manifest and over the rules of the measure: a score with the same hash is not measured
// again. A later line of the same step and name replaces an earlier one. Numbers are read back with the same bits. A
// kill may leave half a line at the end; the next writer removes it, and readers ignore it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace hearth::metrics {

struct Score {
  int64_t step = 0;
  std::string name;
  double value = 0;
  std::string of;
  bool operator==(const Score&) const = default;
};

// By step and name, each once. Empty if the file is missing. Throws damaged() for a line that is no score, except the
// last.
std::vector<Score> read_scores(const Path& path);

// Appends the scores, and fsyncs; a missing file is made. Values are finite.
void append_scores(const Path& path, const std::vector<Score>& scores);

}  // namespace hearth::metrics
