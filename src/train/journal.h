// SPDX-License-Identifier: Apache-2.0
// A run's output: the console, RUN/metrics.jsonl, TensorBoard's files and the rank's log. Rank 0's journal writes and
// every other rank's is silent, so the trainer does not need to know its rank.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/log.h"
#include "metrics/console.h"
#include "metrics/jsonl.h"
#include "metrics/record.h"
#include "metrics/tensorboard.h"
#include "run/run.h"
#include "run/state.h"

namespace hearth::train {

// The prefix of a console message.
constexpr std::string_view console_prefix(LogLevel level) { return level == LogLevel::kWarning ? "warning: " : ""; }

class Journal {
 public:
  struct Options {
    bool speaks = true;
    Path metrics_file;
    int64_t first_step = 0, last_step = 0, log_freq = 10;
    uint64_t next_sample = 0;  // the first sample of this start
    RankLog* log = nullptr;    // borrowed; the log of a rank that writes
    Path tensorboard{};        // the folder of TensorBoard's files; empty: none are written
    std::string configuration{};
    metrics::Console::Style style = metrics::Console::Style::kLines;
    // Called before every line of the metrics file, so at every step. Throws if a newer start has the run: a line from
    // this start would cancel the newer one's steps, and nothing that this start computes will be saved.
    std::function<void()> check_lease = [] {};
  };
  // Opens the files. Writes a resume event if the training does not begin with step 1 and sample 0, or if there are
  // metrics of an earlier start. The event cancels all earlier records of steps after first_step.
  explicit Journal(const Options& options);

  void step(const metrics::StepRecord& record);
  void sample(const metrics::SampleText& sample);
  void message(LogLevel level, std::string_view text);
  // Records that the training went back, which cancels the records of later steps. The event is on disk at the return,
  // because a later start relies on it.
  void rewind(const metrics::Event& event);
  // Call this before saving a checkpoint: puts the records of its steps on disk.
  void sync();

 private:
  void open_tensorboard(const Options& options, double now);

  std::function<void()> check_lease_;
  std::optional<metrics::JsonlWriter> file_;
  Path metrics_file_;
  std::optional<metrics::Tensorboard> tensorboard_;
  std::optional<metrics::Console> console_;
  RankLog* log_ = nullptr;
};

// The options for a training that continues from `progress`.
Journal::Options journal_options(const run::Run& run, const run::RunProgress& progress, int64_t rank, RankLog& log,
                                 metrics::Console::Style style);

}  // namespace hearth::train
