// SPDX-License-Identifier: Apache-2.0
// The progress of a run for people. A terminal gets one progress bar, redrawn in place. A log file or Slurm job gets
// one plain line every `log_freq` steps. Only rank 0 prints.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/record.h"

namespace hearth::metrics {

// A run's size in numbers, printed once before the first step.
struct RunSummary {
  int64_t parameters = 0, active_parameters = 0;
  int64_t ranks = 1, data_ranks = 1, threads = 1;
  int64_t seq_len = 0, local_batch_size = 0, accumulation_steps = 0, global_batch_size = 0;  // sequences
  int64_t steps = 0;
  double steps_per_epoch = 0;
  double peak_flops = 0;  // per second, as measured
  std::string tokenizer, data, run_folder;
  struct Source {
    std::string path;
    double share, epochs;  // over the whole run
  };
  std::vector<Source> sources{};  // empty: a single source
  int64_t more_sources = 0;       // number of sources left out above
};

// "30.5 B parameters (30532122624), a token uses 3.35 B"; the end only if it uses fewer.
std::string format_parameters(int64_t all, int64_t active);

std::string format_summary(const RunSummary& summary);

// Writes to a stream at once. A stream that does not take the text (`hearth train | head`, a full disk) is no error,
// because the training continues without a reader.
void write_text(std::FILE* stream, std::string_view text);

class Console {
 public:
  enum class Style { kBar, kLines };
  // kBar if `stream` is a terminal that somebody looks at. `launched`: a launcher such as mpirun started this process.
  // The launcher may give each rank a terminal of its own, and write that terminal's output to a file.
  static Style style_of(std::FILE* stream, bool launched);

  // The run starts or resumes after step `first_step`. `columns` 0: the terminal's width.
  Console(std::FILE* stream, Style style, int64_t first_step, int64_t last_step, int64_t log_freq, int columns = 0);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // One call per step. A record with validation_loss always gets a permanent line.
  void step(const StepRecord& record);
  // Prints a permanent line: "saved checkpoints/step-00000100".
  void message(std::string_view text);
  // Leaves the bar on the terminal and goes to the next line. The destructor calls it, too.
  void finish();

 private:
  double seconds_left(int64_t step) const;
  void draw_bar();
  void clear_bar();

  std::FILE* stream_;
  Style style_;
  int64_t first_step_, last_step_, log_freq_;
  int columns_;
  double start_s_;      // start of the first step
  double drawn_s_ = 0;  // time of the last redraw
  StepRecord last_{};
  bool bar_visible_ = false;
};

}  // namespace hearth::metrics
