// SPDX-License-Identifier: Apache-2.0
#include "report/live_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/quantity.h"
#include "report/flight_verdict.h"

namespace hearth::report {
namespace {

constexpr size_t kRecent = 50;
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// The number of characters of UTF-8.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string cut(std::string text, int64_t columns) {
  while (width_of(text) > static_cast<size_t>(std::max<int64_t>(columns, 0))) {
    while (!text.empty() && (text.back() & 0xC0) == 0x80) text.pop_back();
    if (!text.empty()) text.pop_back();
  }
  return text;
}

std::string filled_bar(double part, int64_t columns) {
  const double shown = part > 0 ? std::min(part, 1.0) : 0;  // NaN: nothing
  const auto full = static_cast<size_t>(std::lround(shown * static_cast<double>(columns)));
  return fmt::format("[{}{}]", std::string(full, '#'), std::string(static_cast<size_t>(columns) - full, '.'));
}

// The newest record with a loss; null: none yet.
const metrics::StepRecord* newest_step(const LiveRun& run) {
  const auto& records = run.history.records;
  return records.empty() || records.back().step == 0 ? nullptr : &records.back();
}

std::optional<double> newest_validation(const LiveRun& run) {
  for (auto r = run.history.records.rbegin(); r != run.history.records.rend(); ++r)
    if (r->validation_loss) return r->validation_loss;
  return std::nullopt;
}

// The first step with a loss. Step 0 only validates.
int64_t first_step(const LiveRun& run) {
  const auto& records = run.history.records;
  const auto found = std::find_if(records.begin(), records.end(), [](const auto& r) { return r.step > 0; });
  return found == records.end() ? 0 : found->step;
}

// Straight lines where a short training has fewer steps than there are columns.
void fill_gaps(std::vector<double>& values) {
  std::optional<size_t> before;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    for (size_t k = before.value_or(i) + 1; k < i; ++k)
      values[k] =
          std::lerp(values[*before], values[i], static_cast<double>(k - *before) / static_cast<double>(i - *before));
    before = i;
  }
}

// Means of the loss, one for each column of dots.
std::vector<double> losses(const LiveRun& run, int64_t columns) {
  const auto& records = run.history.records;
  std::vector<double> sums(static_cast<size_t>(columns)), counts(sums.size());
  const int64_t first = first_step(run), last = std::max(records.empty() ? 0 : records.back().step, first + 1);
  for (const metrics::StepRecord& r : records) {
    if (!r.loss || r.step < first) continue;
    const double part = static_cast<double>(r.step - first) / static_cast<double>(last - first);
    const auto column = static_cast<size_t>(part * static_cast<double>(columns - 1));
    sums[column] += *r.loss;
    ++counts[column];
  }
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = counts[i] > 0 ? sums[i] / counts[i] : kNothing;
  fill_gaps(sums);
  return sums;
}

// Least and greatest loss. The first twentieth of a training would leave no room for the rest: it may go beyond.
std::pair<double, double> range_of(const std::vector<double>& values) {
  std::vector<double> present;
  for (const double value : values)
    if (!std::isnan(value)) present.push_back(value);
  if (present.empty()) return {0, 1};
  const auto begin = present.begin() + std::ssize(present) / 20;
  const auto [low, high] = std::minmax_element(begin, present.end());
  return *high > *low ? std::pair(*low, *high) : std::pair(*low - 0.5, *low + 0.5);
}

void add_curve(std::vector<std::string>& lines, const LiveRun& run, const Screen& screen, int64_t rows) {
  constexpr int64_t kLabel = 9;
  const int64_t columns = screen.columns - kLabel;
  if (rows < 2 || columns < 4) return;
  const std::vector<double> values = losses(run, 2 * columns);
  const auto [low, high] = range_of(values);
  const std::vector<std::string> curve = curve_of_dots(values, low, high, columns, rows, screen.braille);
  for (size_t i = 0; i < curve.size(); ++i) {
    const bool first = i == 0, last = i + 1 == curve.size();
    lines.push_back(fmt::format("{:>7}  {}",
                                first  ? fmt::format("{:.4g}", high)
                                : last ? fmt::format("{:.4g}", low)
                                       : "",
                                curve[i]));
  }
}

void add_bars(std::vector<std::string>& lines, const LiveRun& run, const metrics::StepRecord& newest,
              const Screen& screen) {
  const int64_t columns = std::clamp<int64_t>(screen.columns - 50, 4, 40);
  const auto add = [&](std::string_view what, double part, const std::string& text) {
    lines.push_back(cut(fmt::format("{:10} {} {}", what, filled_bar(part, columns), text), screen.columns));
  };
  double fastest = 0;
  for (const metrics::StepRecord& r : run.history.records) fastest = std::max(fastest, r.tokens_per_second);
  const std::string rate = format_count(newest.tokens_per_second) + "/s";
  if (const auto planned = run.plan.tokens_per_second)
    add("tokens", newest.tokens_per_second / *planned, fmt::format("{}, planned {}/s", rate, format_count(*planned)));
  else if (fastest > 0)
    add("tokens", newest.tokens_per_second / fastest,
        fmt::format("{}, fastest step {}/s", rate, format_count(fastest)));
  if (newest.mfu > 0) add("mfu", newest.mfu, fmt::format("{:.1f} %", 100 * newest.mfu));
  if (newest.memory_bytes > 0 && run.plan.memory_bytes) {
    const int64_t planned = *run.plan.memory_bytes + run.plan.before_bytes;
    add("memory", static_cast<double>(newest.memory_bytes) / static_cast<double>(planned),
        fmt::format("{}, planned {}", format_bytes(newest.memory_bytes), format_bytes(planned)));
  } else if (newest.memory_bytes > 0) {
    lines.push_back(fmt::format("{:10} {}", "memory", format_bytes(newest.memory_bytes)));
  }
  if (newest.step_s > 0) {
    const double waits = newest.data_wait_share();
    add("data wait", waits, fmt::format("{:.1f} % of a step of {}", 100 * waits, format_duration(newest.step_s)));
  }
}

std::string rank_text(const trace::Flight& rank, double now) {
  if (rank.calls.empty()) return fmt::format("rank {:4}  no calls yet", rank.rank);
  const trace::FlightCall& last = rank.calls.back();
  const auto since = [now](int64_t ns) { return format_duration(std::max(0.0, now - static_cast<double>(ns) / 1e9)); };
  const std::string what = rank.ended ? "ended"
                           : last.under_way()
                               ? fmt::format("in {}, for {}", describe_call(rank, last), since(last.begin_ns))
                               : fmt::format("computes, for {}", since(last.end_ns));
  return fmt::format("rank {:4}  step {:6}  {}", rank.rank, last.step, what);
}

}  // namespace

std::vector<std::string> curve_of_dots(const std::vector<double>& values, double low, double high, int64_t columns,
                                       int64_t rows, bool braille) {
  // The bits of a braille character's dots (Unicode 10, chapter 21), by row and column.
  constexpr int kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  const int64_t dots = 4 * rows;
  std::vector<int> cells(static_cast<size_t>(columns * rows));
  const auto set = [&](int64_t x, int64_t y) {
    cells[static_cast<size_t>(y / 4 * columns + x / 2)] |= kBits[y % 4][x % 2];
  };
  std::optional<int64_t> before;
  for (int64_t x = 0; x < std::min<int64_t>(std::ssize(values), 2 * columns); ++x) {
    const double value = values[static_cast<size_t>(x)];
    if (std::isnan(value)) continue;
    const double height = std::clamp((value - low) / (high - low), 0.0, 1.0);
    const int64_t y = dots - 1 - std::llround(height * static_cast<double>(dots - 1));
    set(x, y);
    for (int64_t between = std::min(y, before.value_or(y)) + 1; between < std::max(y, before.value_or(y)); ++between)
      set(x, between);
    before = y;
  }
  std::vector<std::string> lines(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int bits = cells[static_cast<size_t>(row * columns + column)];
      std::string& line = lines[static_cast<size_t>(row)];
      if (!braille) {
        line += bits == 0                                        ? ' '
                : (bits & 0xC0) == bits || (bits & 0xE4) == bits ? '.'
                : (bits & 0x1B) == bits                          ? '\''
                                                                 : '|';
        continue;
      }
      // U+2800 + bits in UTF-8.
      line += {static_cast<char>(0xE2), static_cast<char>(0xA0 | (bits >> 6)), static_cast<char>(0x80 | (bits & 0x3F))};
    }
  }
  return lines;
}

std::optional<double> seconds_left(const LiveRun& run) {
  const metrics::StepRecord* const newest = newest_step(run);
  if (newest == nullptr || run.steps <= newest->step) return std::nullopt;
  const auto& records = run.history.records;
  const metrics::StepRecord& earlier = records[records.size() - std::min(records.size(), kRecent)];
  double step_s = newest->step_s;
  if (earlier.step < newest->step && earlier.time > 0 && newest->time > earlier.time)
    step_s = (newest->time - earlier.time) / static_cast<double>(newest->step - earlier.step);
  return step_s > 0 ? std::optional(step_s * static_cast<double>(run.steps - newest->step)) : std::nullopt;
}

std::string live_line(const LiveRun& run) {
  const metrics::StepRecord* const newest = newest_step(run);
  if (newest == nullptr) return fmt::format("no steps yet  {}", run.state);
  std::string text = fmt::format("step {}", newest->step);
  if (run.steps > 0) text += fmt::format("/{}", run.steps);
  if (newest->loss) text += fmt::format("  loss {:.4f}", *newest->loss);
  if (const auto validation = newest_validation(run)) text += fmt::format("  validation {:.4f}", *validation);
  text += fmt::format("  {} tokens/s", format_count(newest->tokens_per_second));
  if (newest->mfu > 0) text += fmt::format("  mfu {:.1f}%", 100 * newest->mfu);
  if (const auto left = seconds_left(run)) text += fmt::format("  {} left", format_duration(*left));
  return text + "  " + run.state;
}

std::vector<std::string> live_view(const LiveRun& run, const Screen& screen) {
  std::vector<std::string> lines, below;
  const metrics::StepRecord* const newest = newest_step(run);
  lines.push_back(cut(fmt::format("{}  {}", run.name, live_line(run)), screen.columns));
  if (newest == nullptr) {
    lines.push_back(cut("the training writes metrics.jsonl at its first step", screen.columns));
    return lines;
  }
  if (run.steps > 0) {
    const double done = static_cast<double>(newest->step) / static_cast<double>(run.steps);
    lines.push_back(
        fmt::format("{} {:5.1f} %", filled_bar(done, std::max<int64_t>(screen.columns - 11, 4)), 100 * done));
  }
  below.push_back(cut(fmt::format("{:>9}steps {} to {}, loss", "", first_step(run), newest->step), screen.columns));
  add_bars(below, run, *newest, screen);
  const int64_t skipped = std::count_if(run.history.records.begin(), run.history.records.end(),
                                        [](const auto& r) { return !r.skipped.empty(); });
  if (!run.history.events.empty() || skipped > 0)
    below.push_back(cut(fmt::format("{:10} restarts or rewinds: {}, {}", "events", run.history.events.size(),
                                    counted(skipped, "skipped update")),
                        screen.columns));
  constexpr size_t kMostRanks = 8;
  for (size_t i = 0; i < std::min(run.ranks.size(), kMostRanks); ++i)
    below.push_back(cut(rank_text(run.ranks[i], run.now), screen.columns));
  if (run.ranks.size() > kMostRanks) below.push_back(fmt::format("and {} more ranks", run.ranks.size() - kMostRanks));
  below.push_back(cut("q or Ctrl-C ends", screen.columns));
  add_curve(lines, run, screen, std::min<int64_t>(screen.rows - std::ssize(lines) - std::ssize(below), 16));
  lines.insert(lines.end(), below.begin(), below.end());
  if (std::ssize(lines) > screen.rows) lines.resize(static_cast<size_t>(std::max<int64_t>(screen.rows, 1)));
  return lines;
}

}  // namespace hearth::report
