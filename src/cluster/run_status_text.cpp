// SPDX-License-Identifier: Apache-2.0
// The texts of run_status.h.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/quantity.h"
#include "cluster/run_status.h"

namespace hearth::cluster {
namespace {

std::string step_of_steps(const RunStatus& s) {
  return s.steps > 0 ? fmt::format("{} of {}", s.step, s.steps) : fmt::format("{}", s.step);
}

std::string state_text(const RunStatus& s) {
  std::string text(name_of(s.state));
  if (!s.why.empty()) text += fmt::format(" ({})", s.why);
  return text;
}

}  // namespace

std::string status_line(const RunStatus& s) {
  std::string text = fmt::format("{:8} step {}", name_of(s.state), step_of_steps(s));
  if (s.loss) text += fmt::format(", loss {:.4f}", *s.loss);
  if (s.tokens_per_second > 0 && s.state == RunState::kRunning)
    text += fmt::format(", {} tokens/s", format_count(s.tokens_per_second));
  if (s.seconds_left && s.state == RunState::kRunning)
    text += fmt::format(", {} left", format_duration(*s.seconds_left));
  if (!s.job.empty()) text += fmt::format(", job {}", s.job);
  if (!s.why.empty()) text += fmt::format(" ({})", s.why);
  return fmt::format("{}: {}", s.run.filename().string(), text);
}

std::string status_text(const RunStatus& s) {
  std::string text;
  const auto row = [&text](std::string_view name, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:12} {}\n", name, value);
  };
  row("run", s.run.string());
  row("state", state_text(s));
  std::string job = s.job;
  if (s.slurm) {
    job += fmt::format(", {}", s.slurm->state);
    if (!s.slurm->nodes.empty()) job += fmt::format(" on {}", s.slurm->nodes);
    if (!s.slurm->left.empty() && s.slurm->is_active())
      job += fmt::format(", {} left of its time limit", s.slurm->left);
  }
  row("job", job);
  std::string step = step_of_steps(s);
  if (s.seconds_since_step >= 0) step += fmt::format(", {} ago", format_duration(s.seconds_since_step));
  row("step", step);
  if (s.loss)
    row("loss", fmt::format("{:.4f}{}", *s.loss,
                            s.validation_loss ? fmt::format(", on held-out text {:.4f}", *s.validation_loss) : ""));
  if (s.tokens_per_second > 0)
    row("speed", fmt::format("{} tokens/s, {} tokens so far", format_count(s.tokens_per_second),
                             format_count(static_cast<double>(s.tokens))));
  if (s.seconds_left && s.state != RunState::kDone)
    row("left", fmt::format("{} of training at this speed", format_duration(*s.seconds_left)));
  row("checkpoint", s.checkpoint_step > 0 ? fmt::format("step {}", s.checkpoint_step) : "none yet");
  if (const Goodput& g = s.goodput; g.starts > 0 && g.allocated_s > 0)
    row("goodput", fmt::format("{:.1f} %: steps that stay took {}, of {} that {} had", 100 * g.share(),
                               format_duration(g.useful_s), format_duration(g.allocated_s),
                               g.starts == 1 ? "one start" : fmt::format("{} starts", g.starts)));
  int64_t ends = 0;
  for (const StartEvent& e : s.events) ends += e.name == "end" ? 1 : 0;
  if (ends > 0) text += "ends\n";
  for (const StartEvent& e : s.events)
    if (e.name == "end") text += fmt::format("  {}  job {} at step {}: {}; {}\n", e.time, e.job, e.step, e.why, e.next);
  return text;
}

std::string status_json(const RunStatus& s) {
  nlohmann::ordered_json object = {
      {"run", s.run.string()}, {"state", name_of(s.state)}, {"why", s.why}, {"job", s.job}};
  if (s.slurm) object["slurm"] = {{"state", s.slurm->state}, {"reason", s.slurm->reason}, {"nodes", s.slurm->nodes}};
  object["step"] = s.step;
  if (s.steps > 0) object["steps"] = s.steps;
  if (s.loss) object["loss"] = *s.loss;
  if (s.validation_loss) object["validation_loss"] = *s.validation_loss;
  object["tokens"] = s.tokens;
  object["tokens_per_second"] = s.tokens_per_second;
  if (s.seconds_left) object["seconds_left"] = *s.seconds_left;
  object["checkpoint_step"] = s.checkpoint_step;
  if (s.goodput.allocated_s > 0)
    object["goodput"] = {{"share", s.goodput.share()},
                         {"useful_s", s.goodput.useful_s},
                         {"allocated_s", s.goodput.allocated_s},
                         {"starts", s.goodput.starts}};
  auto ends = nlohmann::ordered_json::array();
  for (const StartEvent& e : s.events)
    if (e.name == "end")
      ends.push_back(
          {{"time", e.time}, {"job", e.job}, {"step", e.step}, {"code", e.code}, {"next", e.next}, {"why", e.why}});
  object["ends"] = ends;
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace hearth::cluster
