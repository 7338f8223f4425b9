#include "train/guard.h"

#include <fmt/format.h>

#include <cmath>

namespace hearth::train {
namespace {

// How many standard deviations `value` lies above the mean of `window`; 0 where that says nothing.
double deviations(double value, const std::vector<double>& window, int64_t enough) {
  if (static_cast<int64_t>(window.size()) < enough) return 0;
  const auto n = static_cast<double>(window.size());
  double mean = 0, squares = 0;
  for (const double x : window) mean += x / n;
  for (const double x : window) squares += (x - mean) * (x - mean) / n;
  return squares > 0 ? (value - mean) / std::sqrt(squares) : 0;
}

void push(std::vector<double>& window, double value, int64_t size) {
  window.push_back(value);
  while (static_cast<int64_t>(window.size()) > size) window.erase(window.begin());
}

}  // namespace

Verdict Guard::verdict_of(const std::string& policy) const {
  if (policy == "off") return Verdict::kApply;
  if (policy == "skip" && health_.skipped_in_a_row < config_.skip_limit) return Verdict::kSkip;
  if (policy == "rewind" && health_.rewinds < config_.rewind_limit) return Verdict::kRewind;
  return Verdict::kStop;
}

Judgement Guard::judged(const std::string& policy, const char* kind, std::string reason) const {
  const Verdict verdict = verdict_of(policy);
  if (verdict == Verdict::kStop && policy == "skip")
    reason += fmt::format("; numerics.skip_limit = {} updates in a row were left out", config_.skip_limit);
  if (verdict == Verdict::kStop && policy == "rewind")
    reason += fmt::format("; the run has gone back numerics.rewind_limit = {} times", config_.rewind_limit);
  return {verdict, kind, std::move(reason)};
}

Judgement Guard::judge(double loss, double grad_norm) const {
  if (!std::isfinite(loss) || !std::isfinite(grad_norm))
    return judged(config_.nan_policy, "nan", fmt::format("the loss is {}, its gradient's norm {}", loss, grad_norm));
  if (config_.spike_policy == "off") return {};
  const int64_t enough = (config_.spike_window + 1) / 2;
  const struct {
    const char* name;
    double value, deviations;
  } measured[] = {{"the loss", loss, deviations(loss, health_.losses, enough)},
                  {"the gradient's norm", grad_norm, deviations(grad_norm, health_.grad_norms, enough)}};
  for (const auto& m : measured) {
    if (m.deviations > config_.spike_deviations)
      return judged(config_.spike_policy, "spike",
                    fmt::format("{} is {:.6g}, {:.1f} standard deviations above the {} steps before it", m.name,
                                m.value, m.deviations, health_.losses.size()));
  }
  return {};
}

void Guard::applied(double loss, double grad_norm) {
  health_.skipped_in_a_row = 0;
  if (config_.spike_policy == "off") {
    health_.losses.clear();
    health_.grad_norms.clear();
    return;
  }
  push(health_.losses, loss, config_.spike_window);
  push(health_.grad_norms, grad_norm, config_.spike_window);
}

void Guard::skipped() {
  ++health_.skipped;
  ++health_.skipped_in_a_row;
}

void Guard::rewound(const checkpoint::Health& saved) {
  const int64_t rewinds = health_.rewinds + 1;
  health_ = saved;
  health_.rewinds = rewinds;
}

}  // namespace hearth::train
