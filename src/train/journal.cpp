#include "train/journal.h"

#include <fmt/format.h>

#include <cstdio>

namespace hearth::train {

Journal::Journal(const Options& options) {
  if (!options.speaks) return;
  log_ = options.log;
  const bool again = options.first_step > 0 || options.next_sample > 0 || path_exists(options.metrics_file);
  file_.emplace(options.metrics_file);
  if (again)
    file_->append(metrics::Event{.name = "resume", .step = options.first_step, .next_sample = options.next_sample});
  console_.emplace(stdout, metrics::Console::style_of(stdout), options.first_step, options.last_step, options.log_freq);
}

void Journal::step(const metrics::Record& record) {
  if (file_) file_->append(record);
  if (console_) console_->step(record);
}

void Journal::message(LogLevel level, std::string_view text) {
  if (console_) console_->message(fmt::format("{}{}", console_prefix(level), text));
  if (log_ != nullptr) log_->write(level, text);
}

void Journal::rewind(const metrics::Event& event) {
  if (!file_) return;
  file_->append(event);
  file_->sync();
}

void Journal::sync() {
  if (file_) file_->sync();
}

}  // namespace hearth::train
