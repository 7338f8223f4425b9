// SPDX-License-Identifier: Apache-2.0
#include "train/journal.h"

#include <fmt/format.h>

#include <cstdio>
#include <numeric>
#include <vector>

#include "metrics/throughput.h"

namespace hearth::train {
namespace {

double mean_count(const metrics::CountBins& bins) {
  double spikes = 0;
  for (const std::vector<uint8_t>& bin : bins) spikes = std::accumulate(bin.begin(), bin.end(), spikes);
  return spikes / static_cast<double>(bins.size() * bins.front().size());
}

std::string summary(const metrics::SampleBins& bins) {
  std::string text = fmt::format("{} time bins of {} neurons, {:.3f} spikes a bin and neuron", bins.made.size(),
                                 bins.made.front().size(), mean_count(bins.made));
  if (!bins.real.empty()) text += fmt::format(" ({:.3f} in the recording)", mean_count(bins.real));
  return text;
}

}  // namespace

Journal::Journal(const Options& options) : check_lease_(options.check_lease) {
  if (!options.speaks) return;
  log_ = options.log;
  const bool again = options.first_step > 0 || options.next_sample > 0 || path_exists(options.metrics_file);
  file_.emplace(options.metrics_file);
  metrics_file_ = options.metrics_file;
  const double now = metrics::wall_seconds();
  if (again)
    file_->append(
        metrics::Event{.name = "resume", .step = options.first_step, .next_sample = options.next_sample, .time = now});
  if (!options.tensorboard.empty()) open_tensorboard(options, now);
  console_.emplace(stdout, options.style, options.first_step, options.last_step, options.log_freq);
}

Journal::Options journal_options(const run::Run& run, const run::RunProgress& progress, int64_t rank, RankLog& log,
                                 metrics::Console::Style style) {
  return {.speaks = rank == 0,
          .metrics_file = run.folder.metrics_file(),
          .first_step = progress.step,
          .last_step = run.steps,
          .log_freq = run.config.metrics.log_freq,
          .next_sample = progress.next_sample,
          .log = &log,
          .tensorboard = run.folder.tensorboard(),
          .configuration = run.config_toml,
          .style = style,
          .check_lease = [&folder = run.folder] { folder.check_lease(); }};
}

void Journal::open_tensorboard(const Options& options, double now) {
  std::vector<metrics::StepRecord> past;
  if (!metrics::has_event_files(options.tensorboard)) past = metrics::read_metrics(options.metrics_file);
  metrics::estimate_times(past, now);
  tensorboard_.emplace(metrics::Tensorboard::Options{.folder = options.tensorboard,
                                                     .first_step = options.first_step,
                                                     .last_step = options.last_step,
                                                     .log_freq = options.log_freq,
                                                     .time = now,
                                                     .configuration = options.configuration},
                       past);
}

void Journal::step(const metrics::StepRecord& record) {
  if (file_) check_lease_();
  if (file_) file_->append(record);
  if (tensorboard_) tensorboard_->step(record);
  if (console_) console_->step(record);
}

// On one line: texts stand in quotes, with line breaks as \\n.
void Journal::sample(const metrics::SampleText& sample) {
  if (!file_) return;
  check_lease_();
  file_->append(sample);
  message(LogLevel::kInfo, fmt::format("step {}  sample {} -> {}", sample.step, metrics::quoted(sample.prompt),
                                       sample.bins.made.empty() ? metrics::quoted(sample.text) : summary(sample.bins)));
}

void Journal::message(LogLevel level, std::string_view text) {
  if (console_) console_->message(fmt::format("{}{}", console_prefix(level), text));
  if (log_ != nullptr) log_->write(level, text);
}

void Journal::rewind(const metrics::Event& event) {
  if (!file_) return;
  check_lease_();
  file_->append(event);
  file_->sync();
  if (tensorboard_) tensorboard_->rewind(event.time, event.step);
}

void Journal::sync() {
  if (file_) file_->sync();
  if (tensorboard_) tensorboard_->sync();
}

}  // namespace hearth::train
