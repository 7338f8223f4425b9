// RUN/metrics.jsonl: one JSON object a line. A step is a Record,
//   {"step": 7, "loss": 5.5451774597167969, "grad_norm": ..., "lr": ..., "tokens": ..., "tokens_per_second": ...,
//    "mfu": ..., "data_wait_s": ..., "step_s": ..., "memory_bytes": ..., "validation_loss": ...,
//    "validation_loss.NAME": ...}
// with one of the last for each named set of the validation, and "substituted": N where sequences stood in for damaged
// ones, and "skipped": "no_labels", "nan" or "spike" where the update was left out. Numbers read back as the same
// bits, and what was not measured is not there. Everything else is an event,
//   {"event": "resume", "step": N}
// which says that training went on from step N: what stands above it for steps past N never happened. "rewind" in its
// place says the same of a run that went back by itself.
// A kill may leave half a line at the end; the next writer removes it, and readers ignore it.
#pragma once

#include <string_view>
#include <vector>

#include "base/file.h"
#include "metrics/record.h"

namespace hearth::metrics {

class JsonlWriter {
 public:
  // Appends to the file, which is made if it is missing.
  explicit JsonlWriter(const Path& path);
  void append(const Record& record);
  void append_event(std::string_view event, int64_t step);
  // Makes the lines so far survive a power cut. Called before a checkpoint, whose steps must have their lines.
  void sync() { file_.sync(); }

 private:
  File file_;
};

// The training as it happened: ascending steps, each once, without what a resume undid. A missing file is no steps.
// Throws damaged() for a line that is no record and not the last.
std::vector<Record> read_metrics(const Path& path);

}  // namespace hearth::metrics
