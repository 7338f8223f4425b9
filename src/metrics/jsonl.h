// RUN/metrics.jsonl: one JSON object a line. A step is a Record,
//   {"step": 7, "loss": 5.5451774597167969, "grad_norm": ..., "lr": ..., "tokens": ..., "tokens_per_second": ...,
//    "mfu": ..., "first_sample": ..., "samples": ..., "data_wait_s": ..., "step_s": ..., "memory_bytes": ...,
//    "validation_loss": ..., "validation_loss.NAME": ...}
// with one of the last for each named set of the validation, and "substituted": N where sequences stood in for damaged
// ones, and "skipped": "no_labels", "nan" or "spike" where the update was left out. Numbers read back as the same
// bits, and what was not measured is not there. Everything else is an event,
//   {"event": "resume", "step": N, "next_sample": G}
//   {"event": "rewind", "step": N, "next_sample": G, "from_step": M, "rewinds": ..., "reason": "...", "loss": ...,
//    "grad_norm": ...}
// which says that training went on from step N with sample G: what stands above it for steps past N never happened. A
// rewind is a run's own, from step M, which it did not apply, for this reason; the loss is not there where it is no
// number.
// A kill may leave half a line at the end; the next writer removes it, and readers ignore it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "metrics/record.h"

namespace hearth::metrics {

struct Event {
  std::string name;                       // "resume" or "rewind"
  int64_t step = 0;                       // after which training goes on
  std::optional<uint64_t> next_sample{};  // with which it does; empty: an older Hearth wrote it
  // Of a rewind.
  int64_t from_step = 0;  // the step that was not applied
  int64_t rewinds = 0;    // of the run so far, this one included
  std::string reason{};
  std::optional<double> loss{}, grad_norm{};  // of that step; empty: no number
  bool operator==(const Event&) const = default;
};

class JsonlWriter {
 public:
  // Appends to the file, which is made if it is missing.
  explicit JsonlWriter(const Path& path);
  void append(const Record& record);
  void append(const Event& event);
  // Makes the lines so far survive a power cut. Called before a checkpoint, whose steps must have their lines.
  void sync() { file_.sync(); }

 private:
  File file_;
};

// The training as it happened: ascending steps, each once, without what a resume undid. A missing file is no steps.
// Throws damaged() for a line that is no record and not the last.
std::vector<Record> read_metrics(const Path& path);

// The resumes and rewinds of the training as it happened, in the order of the file: without those that a later one,
// from an earlier step, undid. Looks at no other line, so that a long run's file is read in no time.
std::vector<Event> read_events(const Path& path);

}  // namespace hearth::metrics
