// SPDX-License-Identifier: Apache-2.0
#include "metrics/console.h"

#include <fmt/format.h>
#include <stdio_ext.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/quantity.h"
#include "metrics/throughput.h"

namespace hearth::metrics {
namespace {

constexpr double kRedrawSeconds = 0.05;  // seconds; faster redraws are invisible and cost time

int terminal_columns(std::FILE* stream) {
  struct winsize size {};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string numbers(const StepRecord& r) {
  std::string text;
  if (r.loss) text += fmt::format("  loss {:.4f}", *r.loss);
  if (r.tokens_per_second > 0) text += fmt::format("  {} tokens/s", format_count(r.tokens_per_second));
  return text;
}

std::vector<std::string> details(const StepRecord& r) {
  if (!r.loss) return {};
  return {fmt::format("  grad norm {:.3f}", r.grad_norm.value_or(0)), fmt::format("  lr {:.2e}", r.lr.value_or(0)),
          fmt::format("  mfu {:.1f}%", 100 * r.mfu)};
}

std::string set_losses(const StepRecord& r) {
  std::string text;
  for (const auto& [name, loss] : r.validation_losses)
    text += fmt::format("{}{} {:.4f}", text.empty() ? "" : ", ", name, loss);
  return text.empty() ? text : " (" + text + ")";
}

}  // namespace

std::string format_parameters(int64_t all, int64_t active) {
  const std::string text = fmt::format("{} parameters ({})", format_count(static_cast<double>(all)), all);
  return active == all ? text : fmt::format("{}, a token uses {}", text, format_count(static_cast<double>(active)));
}

std::string format_summary(const RunSummary& s) {
  const double tokens_per_step = static_cast<double>(s.global_batch_size * s.seq_len);
  std::string text;
  const auto line = [&text](const char* name, const std::string& value) {
    text += fmt::format("  {:<12} {}\n", name, value);
  };
  line("run folder", s.run_folder);
  line("data", fmt::format("{} (tokenizer {})", s.data, s.tokenizer));
  for (const RunSummary::Source& source : s.sources)
    line("", fmt::format("{:6.2f} % of the sequences, {:.2f} epochs of {}", 100 * source.share, source.epochs,
                         source.path));
  if (s.more_sources > 0) line("", fmt::format("and {} more", s.more_sources));
  line("model", format_parameters(s.parameters, s.active_parameters));
  line("step", fmt::format("{} tokens = {}{} x {} x {} x {}", format_count(tokens_per_step),
                           counted(s.data_ranks, s.ranks == s.data_ranks ? "rank" : "data-parallel rank"),
                           s.ranks == s.data_ranks ? "" : fmt::format(" (of {})", s.ranks),
                           counted(s.accumulation_steps, "micro-batch"), counted(s.local_batch_size, "sequence"),
                           counted(s.seq_len, "token")));
  line("length", fmt::format("{}, {} tokens, {:.2f} epochs of {:.1f} steps", counted(s.steps, "step"),
                             format_count(tokens_per_step * static_cast<double>(s.steps)),
                             static_cast<double>(s.steps) / s.steps_per_epoch, s.steps_per_epoch));
  line("machine", fmt::format("{}; matrix products reach {}/s here, measured now: mfu is the share of that",
                              counted(s.threads, "thread"), format_flops(s.peak_flops)));
  return text;
}

void write_text(std::FILE* stream, std::string_view text) {
  const bool whole = std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0;
  if (whole) return;
  ::__fpurge(stream);  // or the process would try to write it again at its end
  std::clearerr(stream);
}

Console::Style Console::style_of(std::FILE* stream, bool launched) {
  return !launched && ::isatty(::fileno(stream)) != 0 ? Style::kBar : Style::kLines;
}

Console::Console(std::FILE* stream, Style style, int64_t first_step, int64_t last_step, int64_t log_freq, int columns)
    : stream_(stream),
      style_(style),
      first_step_(first_step),
      last_step_(last_step),
      log_freq_(std::max<int64_t>(log_freq, 1)),
      columns_(columns),
      start_s_(monotonic_seconds()) {}

Console::~Console() { finish(); }

double Console::seconds_left(int64_t step) const {
  // The mean since the first step, with validation and saving: the remaining steps cost the same.
  if (step <= first_step_) return 0;
  const double per_step = (monotonic_seconds() - start_s_) / static_cast<double>(step - first_step_);
  return per_step * static_cast<double>(last_step_ - step);
}

void Console::step(const StepRecord& record) {
  last_ = record;
  if (record.step == first_step_) start_s_ = monotonic_seconds();  // validation before the first step does not count
  const bool last = record.step == last_step_;
  if (record.validation_loss)
    message(fmt::format("step {}/{}  validation loss {:.4f}{}", record.step, last_step_, *record.validation_loss,
                        set_losses(record)));
  if (style_ == Style::kBar) {
    const double now_s = monotonic_seconds();
    if (last || now_s - drawn_s_ >= kRedrawSeconds) draw_bar();
    return;
  }
  if (!record.loss || (record.step % log_freq_ != 0 && !last && record.step != first_step_ + 1)) return;
  std::string line = fmt::format("step {}/{}{}", record.step, last_step_, numbers(record));
  for (const std::string& more : details(record)) line += more;
  if (record.data_wait_s > 0.001) line += fmt::format("  waited {} for data", format_duration(record.data_wait_s));
  write_text(stream_, fmt::format("{}  {} left\n", line, format_duration(seconds_left(record.step))));
}

void Console::draw_bar() {
  const int columns = columns_ > 0 ? columns_ : terminal_columns(stream_);
  const double done = last_step_ > 0 ? static_cast<double>(last_.step) / static_cast<double>(last_step_) : 1;
  const std::string left = fmt::format("  {} left", format_duration(seconds_left(last_.step)));
  std::string text = fmt::format("  step {}/{}{}", last_.step, last_step_, numbers(last_));
  // What a log file also has, where the bar keeps ten columns.
  constexpr size_t kWithoutText = 1 + 7 + 10;
  for (const std::string& more : details(last_)) {
    if (text.size() + more.size() + left.size() + kWithoutText > static_cast<size_t>(std::max(columns, 0))) break;
    text += more;
  }
  text += left;
  // "100% [####....]" gets the columns next to the text; a narrow terminal cuts the text and never wraps it.
  const int width = std::clamp(columns - 1 - 7 - static_cast<int>(text.size()), 0, 40);
  const int full = static_cast<int>(done * width);
  std::string bar = fmt::format("{:3.0f}% ", 100 * done);
  if (width >= 4)
    bar += fmt::format("[{}{}]", std::string(static_cast<size_t>(full), '#'),
                       std::string(static_cast<size_t>(width - full), '.'));
  bar += text;
  bar.resize(std::min(bar.size(), static_cast<size_t>(std::max(columns - 1, 1))));
  write_text(stream_, "\r\x1b[K" + bar);
  bar_visible_ = true;
  drawn_s_ = monotonic_seconds();
}

void Console::clear_bar() {
  if (bar_visible_) write_text(stream_, "\r\x1b[K");
  bar_visible_ = false;
}

void Console::message(std::string_view text) {
  const bool redraw = bar_visible_;
  clear_bar();
  write_text(stream_, std::string(text) + "\n");
  if (redraw) draw_bar();
}

void Console::finish() {
  if (bar_visible_) write_text(stream_, "\n");
  bar_visible_ = false;
}

}  // namespace hearth::metrics
