// The output of a run: console, RUN/metrics.jsonl and the rank's log. Rank 0 has one that speaks, every other rank one
// that is silent, so that the trainer need not ask who it is.
#pragma once

#include <optional>
#include <string_view>

#include "base/file.h"
#include "base/log.h"
#include "metrics/console.h"
#include "metrics/jsonl.h"
#include "metrics/record.h"

namespace hearth::train {

// The prefix of a message on the console.
constexpr std::string_view console_prefix(LogLevel level) { return level == LogLevel::kWarning ? "warning: " : ""; }

class Journal {
 public:
  struct Options {
    bool speaks = true;
    Path metrics_file;
    int64_t first_step = 0, last_step = 0, log_freq = 10;
    uint64_t next_sample = 0;  // with which it begins
    RankLog* log = nullptr;    // borrowed; of a rank that speaks
  };
  // Opens the files. A training that does not begin with step 1 and sample 0, or where metrics of an earlier start lie,
  // writes a resume down: from here on whatever stands past first_step never happened.
  explicit Journal(const Options& options);

  void step(const metrics::Record& record);
  void message(LogLevel level, std::string_view text);
  // The training has gone back: records of later steps are void. On disk when it returns, because a later start goes on
  // from there.
  void rewind(const metrics::Event& event);
  // Before a checkpoint: the steps it holds have their lines on disk.
  void sync();

 private:
  std::optional<metrics::JsonlWriter> file_;
  std::optional<metrics::Console> console_;
  RankLog* log_ = nullptr;
};

}  // namespace hearth::train
