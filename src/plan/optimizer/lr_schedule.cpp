// SPDX-License-Identifier: Apache-2.0
#include "plan/optimizer/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace hearth::plan {

namespace {

// Rounds the share of all steps to the nearest step, halves to even, as Python's round does in torchtitan.
int64_t steps_of(double ratio, int64_t total_steps) {
  return static_cast<int64_t>(std::nearbyint(ratio * static_cast<double>(total_steps)));
}

// The factor at a progress in [0, 1] of the decay: 1 at 0. At 1 it is 0, except exp(-0.693) for exponential and 1 for
// constant.
double decay(DecayType type, double progress) {
  switch (type) {
    case DecayType::kLinear:
      return 1 - progress;
    case DecayType::kCosine:
      return 0.5 * (1 + std::cos(std::numbers::pi * progress));
    case DecayType::kSqrt:
      return 1 - std::sqrt(progress);
    case DecayType::kExponential:
      return std::exp(-0.693 * progress);
    case DecayType::kConstant:
      return 1;
    case DecayType::kCosineWithRestarts:
    case DecayType::kPolynomial:
      break;  // of Transformers alone
  }
  HEARTH_CHECK(false, "decay type {}", static_cast<int>(type));
}

// GPT-NeoX counts updates from 0.
double neox_rate(const LrSchedule& s, int64_t n) {
  const bool old = s.rule == ScheduleRule::kNeox2023;
  const auto warmup = static_cast<double>(s.warmup_steps), end = static_cast<double>(s.end_step);
  if (s.warmup_steps > 0 && n <= s.warmup_steps)
    return s.lr * static_cast<double>(old ? n : std::max<int64_t>(1, n)) / warmup;
  if (s.decay_type == DecayType::kConstant) return s.lr;
  if (s.end_step <= s.warmup_steps) return s.lr * s.min_lr_factor;  // the decay ends before it begins
  const bool holds = s.decay_type == DecayType::kCosine;            // after its end a cosine would rise again
  const double past = static_cast<double>(holds ? std::min(n, s.end_step) : n) - warmup;
  const double progress = past / (end - warmup);
  // The 2023 rule's exponential decay begins at the warm-up's end, but divides by the length of the whole schedule.
  const bool by_end = old && s.decay_type == DecayType::kExponential;
  double factor = decay(s.decay_type, by_end ? past / end : progress);
  if (s.decay_type == DecayType::kCosine) factor = s.min_lr_factor + (1 - s.min_lr_factor) * factor;
  if (s.decay_type == DecayType::kLinear && old) factor = (end - past) / end;
  return s.lr * std::max(factor, s.min_lr_factor);
}

// Transformers counts updates from 0, too.
double transformers_rate(const LrSchedule& s, int64_t n) {
  if (n < s.warmup_steps) {
    const double begun = static_cast<double>(n) / static_cast<double>(s.warmup_steps);
    return s.lr * (s.stable ? s.min_lr_factor + (1 - s.min_lr_factor) * begun : begun);
  }
  if (s.decay_type == DecayType::kConstant) return s.lr;
  if (n >= s.end_step) return s.lr * s.min_lr_factor;
  const double x = static_cast<double>(n - s.warmup_steps) / static_cast<double>(s.end_step - s.warmup_steps);
  double factor = 0;
  if (s.stable) {
    // The warm-up of this schedule begins at the least rate (get_wsd_schedule).
    const int64_t begin = s.end_step - s.decay_steps;
    factor = n < begin ? 1 : decay(s.decay_type, static_cast<double>(n - begin) / static_cast<double>(s.decay_steps));
  } else if (s.decay_type == DecayType::kPolynomial) {
    factor = std::pow(1 - x, s.power);
  } else if (s.decay_type == DecayType::kCosineWithRestarts) {
    factor = decay(DecayType::kCosine, std::fmod(static_cast<double>(s.num_cycles) * x, 1.0));
  } else {
    factor = decay(s.decay_type, x);
  }
  return s.lr * (s.min_lr_factor + (1 - s.min_lr_factor) * factor);
}

// torchtitan's rates of 2024 and of spring 2025, which count updates from 0, too.
double old_torchtitan_rate(const LrSchedule& s, int64_t n) {
  const int64_t begin = s.total_steps - s.decay_steps;  // of the decay
  if (n < s.warmup_steps) return s.lr * static_cast<double>(n + 1) / static_cast<double>(s.warmup_steps + 1);
  if (n < begin || s.decay_steps == 0) return s.lr;
  const bool first = s.rule == ScheduleRule::kTorchtitan2024;
  const double progress = first ? static_cast<double>(n - begin) / static_cast<double>(s.decay_steps)
                                : static_cast<double>(n + 1 - begin) / static_cast<double>(s.decay_steps + 1);
  return s.lr * (s.min_lr_factor + (1 - s.min_lr_factor) * decay(s.decay_type, progress));
}

}  // namespace

LrSchedule lr_schedule(const config::LrScheduler& config, double lr, int64_t total_steps) {
  HEARTH_CHECK(total_steps >= 1, "{} steps", total_steps);
  LrSchedule s{.rule = config.rule,
               .lr = lr,
               .total_steps = total_steps,
               .warmup_steps = config.warmup_steps,
               .decay_steps = 0,
               .decay_type = config.decay_type,
               .min_lr_factor = config.min_lr_factor,
               .end_step = config.end_step > 0 ? config.end_step : total_steps,
               .num_cycles = config.num_cycles,
               .power = config.power,
               .stable = config.rule == ScheduleRule::kTransformers && config.decay_ratio >= 0,
               .notes = {}};
  const bool by_end =
      s.rule == ScheduleRule::kNeox || s.rule == ScheduleRule::kNeox2023 || s.rule == ScheduleRule::kTransformers;
  // The rates of these programs reach nothing else if the run ends earlier.
  const bool cuts_warmup = s.rule != ScheduleRule::kTorchtitan2024 && s.rule != ScheduleRule::kTorchtitan2025;
  if (config.warmup_fraction > 0) s.warmup_steps = steps_of(config.warmup_fraction, by_end ? s.end_step : total_steps);
  if (s.warmup_steps > total_steps && cuts_warmup) {
    s.notes.push_back(
        fmt::format("lr_scheduler: the warm-up of {} steps is cut to the run's {}: the rate never stays "
                    "at its full value",
                    s.warmup_steps, total_steps));
    s.warmup_steps = total_steps;
  }
  s.decay_steps = std::max<int64_t>(total_steps - s.warmup_steps, 0);
  if (s.decay_type == DecayType::kConstant) {
    s.decay_steps = 0;
  } else if (config.decay_ratio >= 0) {
    const int64_t wanted = steps_of(config.decay_ratio, total_steps);
    if (wanted > s.decay_steps && !s.stable) {
      s.notes.push_back(
          fmt::format("lr_scheduler: warm-up ({} steps) and decay ({}) exceed the run's {} steps: the "
                      "decay is cut to {}",
                      s.warmup_steps, wanted, total_steps, s.decay_steps));
    }
    s.decay_steps = s.stable ? wanted : std::min(wanted, s.decay_steps);
  }
  return s;
}

double learning_rate(const LrSchedule& s, int64_t step) {
  HEARTH_CHECK(step >= 1, "step {}", step);
  step = std::min(step, s.total_steps);
  if (s.rule == ScheduleRule::kTransformers) return transformers_rate(s, step - 1);
  if (s.rule == ScheduleRule::kNeox || s.rule == ScheduleRule::kNeox2023) return neox_rate(s, step - 1);
  if (s.rule != ScheduleRule::kTorchtitan) return old_torchtitan_rate(s, step - 1);
  if (step <= s.warmup_steps) return s.lr * (static_cast<double>(step) / static_cast<double>(s.warmup_steps));
  // Decay ends at total_steps + 1, which no update reaches.
  const int64_t decay_begin = s.total_steps + 1 - s.decay_steps;
  if (step <= decay_begin) return s.lr;
  const double progress = static_cast<double>(step - decay_begin) / static_cast<double>(s.decay_steps);
  return s.lr * (s.min_lr_factor + (1 - s.min_lr_factor) * decay(s.decay_type, progress));
}

}  // namespace hearth::plan
