// What a person sees while a run trains: on a terminal one progress bar that is redrawn in place, elsewhere (a log
// file, a Slurm job) one plain line every `log_freq` steps. Only rank 0 speaks.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/record.h"

namespace hearth::metrics {

// What a run is, in numbers: printed once, before the first step.
struct RunSummary {
  int64_t parameters = 0;
  int64_t ranks = 1, threads = 1;
  int64_t seq_len = 0, local_batch_size = 0, accumulation_steps = 0, global_batch_size = 0;  // sequences
  int64_t steps = 0;
  double steps_per_epoch = 0;
  double peak_flops = 0;  // per second, as measured
  std::string tokenizer, data, run_folder;
  struct Source {
    std::string path;
    double share, epochs;  // over the whole run
  };
  std::vector<Source> sources{};  // empty where there is one
  int64_t more_sources = 0;       // that are not among these
};

std::string format_summary(const RunSummary& summary);

class Console {
 public:
  enum class Style { kBar, kLines };
  // kBar where `stream` is a terminal.
  static Style style_of(std::FILE* stream);

  // `first_step` is the step the run starts or resumes after. `columns` 0: the terminal's width.
  Console(std::FILE* stream, Style style, int64_t first_step, int64_t last_step, int64_t log_freq, int columns = 0);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // One call a step. A record with validation_loss is always printed on a line of its own, so that it stays.
  void step(const Record& record);
  // A line that stays: "saved checkpoints/step-00000100".
  void message(std::string_view text);
  // Leaves the bar as it stands and goes to the next line. Called by the destructor, too.
  void finish();

 private:
  double seconds_left(int64_t step) const;
  void draw_bar();
  void clear_bar();

  std::FILE* stream_;
  Style style_;
  int64_t first_step_, last_step_, log_freq_;
  int columns_;
  double start_s_;      // of the first step
  double drawn_s_ = 0;  // when the bar was last drawn
  Record last_{};
  bool bar_visible_ = false;
};

}  // namespace hearth::metrics
