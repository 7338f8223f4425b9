// SPDX-License-Identifier: Apache-2.0
// RUN/metrics.jsonl: one JSON object per line. A step is a StepRecord,
//   {"step": 7, "loss": 5.5451774597167969, "grad_norm": ..., "lr": ..., "tokens": ..., "tokens_per_second": ...,
//    "mfu": ..., "first_sample": ..., "samples": ..., "data_wait_s": ..., "step_s": ..., "time": ...,
//    "memory_bytes": ..., "validation_loss": ..., "validation_loss.NAME": ...}
// A named validation set has a field validation_loss.NAME. "substituted": N counts sequences that replaced damaged
// ones. "expert_loads": [[layer, least, most, idle], ...] has an ExpertLoad for each layer with experts. "skipped" is
// "no_labels", "nan" or "spike" if the update was skipped. Numbers are read back with the same bits. Values that were
// not measured are left out. All other lines are events,
//   {"event": "resume", "step": N, "next_sample": G, "time": ...}
//   {"event": "rewind", "step": N, "next_sample": G, "from_step": M, "rewinds": ..., "reason": "...", "loss": ...,
//    "grad_norm": ..., "time": ...}
//   {"event": "sample", "step": N, "prompt": "...", "text": "...", "tokens": ..., "ended": ..., "seed": ..., "time":
//   ...}
// A sample is a text that the model made after step N's validation (validation.generate). Bytes that are not UTF-8
// become U+FFFD. The continuation of a recording has, in place of "text", "bins": the counts of all neurons for each
// time bin that the model made. "before" has the counts of the last bins that the model read, and "real" the
// recording's counts after them. The other events say that training continued after step N with sample G: earlier lines
// of steps past N are undone. A rewind is the run's own decision at step M, whose update was not applied; "reason" says
// why. A loss that is NaN or infinite is left out. A kill may leave half a line at the end; the next writer removes it,
// and readers ignore it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "metrics/record.h"

namespace hearth::metrics {

struct Event {
  std::string name;                       // "resume" or "rewind"
  int64_t step = 0;                       // training continues after this step
  std::optional<uint64_t> next_sample{};  // and with this sample; empty: an older Hearth wrote it
  int64_t from_step = 0;                  // of a rewind: the step that was not applied; of a resume: see History
  // Only for a rewind.
  int64_t rewinds = 0;  // of the run so far, with this one
  std::string reason{};
  std::optional<double> loss{}, grad_norm{};  // of that step; empty: NaN or infinite
  double time = 0;                            // in seconds since 1970; 0: an older Hearth wrote it
  bool operator==(const Event&) const = default;
};

// The text as a string of JSON, with quotes; bytes that are no UTF-8 become U+FFFD.
std::string quoted(const std::string& text);

// Opens a file of lines to append to; a missing file is made. Half a line at its end is removed: the next one must
// begin a line of its own.
File open_lines(const Path& path);

// Calls `visit` with each complete line of a text, and its number from 1. Returns false if the last line has no end: it
// is being written, or a kill cut it.
bool for_each_whole_line(std::string_view text,
                         const std::function<void(std::string_view line, int64_t number)>& visit);

class JsonlWriter {
 public:
  // Appends to the file; a missing file is made. A file that somebody removes meanwhile is made again, with a warning.
  explicit JsonlWriter(const Path& path);
  void append(const StepRecord& record);
  void append(const Event& event);
  void append(const SampleText& sample);
  // Fsyncs the lines so far. Call it before a checkpoint, so that the checkpoint's steps are in the file.
  void sync() { file_.sync(); }

 private:
  void write(const std::string& line);
  File file_;
};

// The steps of the training, ascending, each once, without those that a resume or rewind undid, and without those that
// an older start wrote after it had lost the lease. Empty if the file is missing. Throws damaged() for a line that is
// not a record, except the last.
std::vector<StepRecord> read_metrics(const Path& path);

// The resumes and rewinds of the training, in the order of the file. Leaves out events that a later event undid,
// because that one went back further. Skips all other lines, so a long run's file is read quickly.
std::vector<Event> read_events(const Path& path);

// Everything in the file. Use it in place of read_metrics() where a damaged line must not be an error.
struct History {
  std::vector<StepRecord> records;     // as read_metrics gives them
  std::vector<Event> events;           // every resume and rewind, in the order of the file; a resume's from_step is the
                                       // last step that was recorded before it
  std::vector<SampleText> samples;     // of those records, in the order of the file
  int64_t repeated_steps = 0;          // records that a resume or rewind undid, or that an older start wrote late
  std::vector<int64_t> damaged_lines;  // left out: not of the forms above; counted from 1
  bool torn = false;                   // the last line has no end: it is being written, or a kill cut it
};
// Empty if the file is missing.
History read_history(const Path& path);

}  // namespace hearth::metrics
