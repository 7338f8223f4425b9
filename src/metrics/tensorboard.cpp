// SPDX-License-Identifier: Apache-2.0
#include "metrics/tensorboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hearth::metrics {

void estimate_times(std::vector<StepRecord>& records, double end) {
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (record->time == 0) record->time = end;
    end = record->time - record->step_s;
  }
}

Tensorboard::Tensorboard(const Options& options, const std::vector<StepRecord>& past)
    : last_step_(options.last_step),
      log_freq_(std::max<int64_t>(options.log_freq, 1)),
      continues_(has_event_files(options.folder)),
      file_(options.folder, options.time) {
  if (continues_)
    restart(options.time, options.first_step);
  else
    for (const StepRecord& record : past) step(record);
  begins_ = true;
  window_ = {};
  if (!options.configuration.empty())
    file_.text(options.time, options.first_step, "configuration", "```toml\n" + options.configuration + "\n```\n");
}

// Step 0 validates only, and a training that starts over does it again.
void Tensorboard::restart(double time, int64_t step) { file_.restart(time, step == 0 ? 0 : step + 1); }

void Tensorboard::rewind(double time, int64_t step) {
  restart(time, step);
  window_ = {};
}

void Tensorboard::step(const StepRecord& r) {
  std::vector<ScalarEvent> scalars;
  const auto add = [&scalars](const std::string& tag, const std::optional<double>& value) {
    if (value) scalars.push_back({tag, *value});
  };
  if (r.step_s > 0) {
    ++window_.steps;
    window_.step_s += r.step_s;
    window_.data_wait_s += r.data_wait_s;
    window_.tokens += r.tokens_per_second * r.step_s;
    window_.mfu_s += r.mfu * r.step_s;
    if (std::exchange(begins_, false) || r.step % log_freq_ == 0 || r.step == last_step_) {
      const Window w = std::exchange(window_, {});
      const double steps = static_cast<double>(w.steps);
      add("loss_metrics/global_avg_loss", r.loss);
      for (const auto& [name, value] : r.loss_parts) add("loss_metrics/" + name, value);
      add("grad_norm", r.grad_norm);
      add("lr", r.lr);
      add("n_tokens_seen", static_cast<double>(r.tokens));
      add("throughput(tps)", w.tokens / w.step_s);
      add("mfu(%)", 100 * w.mfu_s / w.step_s);
      add("time_metrics/end_to_end(s)", w.step_s / steps);
      add("time_metrics/data_loading(s)", w.data_wait_s / steps);
      add("time_metrics/data_loading(%)", 100 * std::min(1.0, w.data_wait_s / w.step_s));
      for (const ExpertLoad& load : r.expert_loads) {
        add(fmt::format("experts/most_loaded/layer_{}", load.layer), load.most);
        add(fmt::format("experts/least_loaded/layer_{}", load.layer), load.least);
        add(fmt::format("experts/idle/layer_{}", load.layer), static_cast<double>(load.idle));
        add(fmt::format("experts/entropy/layer_{}", load.layer), load.entropy);
      }
      add("memory/max_active(GiB)", static_cast<double>(r.memory_bytes) / (1 << 30));
    }
  }
  add("validation_metrics/loss", r.validation_loss);
  for (const auto& [name, loss] : r.validation_losses) add("validation_metrics/loss/" + name, loss);
  file_.scalars(r.time, r.step, scalars);
}

}  // namespace hearth::metrics
