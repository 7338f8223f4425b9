// SPDX-License-Identifier: Apache-2.0
// The learning rate as a pure function of the step, so there is no state to save. A run can be prolonged (a larger
// total), and a cool-down can branch off from any checkpoint (decay_ratio over a new total).
//
// The shape is torchtitan's (components/lr_scheduler.py, end of 2025), warm-up, stable, decay:
//   warm-up   W steps: factor s / W at step s, so the first update already moves and step W has the full rate
//   stable    factor 1
//   decay     the last steps: 1 - p (linear), (1 + cos(pi p)) / 2 (cosine), 1 - sqrt(p) (sqrt), from 1 to
//             min_lr_factor. p reaches 1 one step after the last ("virtual last step"): the last update is never lost.
// decay_ratio = -1: everything after the warm-up decays. decay_ratio in (0, 1): WSD (arXiv 2404.06395).
// decay_type = "constant": no decay at all.
//
// "torchtitan_2024": torchtitan's rule until March 2025. With n = s - 1 at update s, W warm-up steps and D steps of
// decay:
//   warm-up      n < W: (n + 1) / (W + 1), also where the run ends before W
//   decay        1 - p with p = (n - W) / D, and D all steps after the warm-up
// "torchtitan_2025": its rule from then until June 2025. The warm-up is the same. The decay has the shapes of today,
// and p = (n + 1 - (E - D)) / (D + 1) with E steps in all.
//
// lr_scheduler.rule = "neox": GPT-NeoX's AnnealingLR (main, 2025). With n = s - 1 at update s, W warm-up steps, E the
// end of the decay (lr_decay_iters), x = (n - W) / (E - W) and m = min_lr_factor, in units of lr:
//   warm-up      n <= W: max(1, n) / W
//   linear       1 - x          cosine   m + (1 - m) (1 + cos(pi x)) / 2        exponential   exp(-0.693 x)
// The result is at least m. After E the formulas continue, except the cosine: GPT-NeoX's rises again there, and ours
// stays. "neox_2023" is the rule of Llemma's branch: the warm-up is n / W, so the first update has rate 0, and the
// linear decay is (E - n + W) / E.
//
// "transformers": Hugging Face's transformers/optimization.py (5.23). With the same n, W, E, x and m:
//   warm-up      n < W: n / W, so the first update has rate 0
//   linear       f = 1 - x       cosine   f = (1 + cos(pi x)) / 2       polynomial   f = (1 - x)^power
//   cosine_with_restarts   f = (1 + cos(pi (num_cycles x mod 1))) / 2
// The factor is m + (1 - m) f, and m from step E on. The library has an m for some of these decays only.
// With decay_ratio it is get_wsd_schedule: the warm-up is m + (1 - m) n / W, and x = (n - (E - D)) / D in the last D
// steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace hearth::plan {

using config::DecayType;
using config::ScheduleRule;

struct LrSchedule {
  ScheduleRule rule;
  double lr;  // the highest rate
  int64_t total_steps, warmup_steps, decay_steps;
  DecayType decay_type;
  double min_lr_factor;
  int64_t end_step;  // for the rules of GPT-NeoX and Transformers
  int64_t num_cycles;
  double power;
  bool stable;  // rule "transformers": the rate stays between warm-up and decay
  // Settings that did not fit the number of steps, and their adjustment (torchtitan warns, too). The caller prints
  // them.
  std::vector<std::string> notes;
};

// `lr` is optimizer.lr.
LrSchedule lr_schedule(const config::LrScheduler& config, double lr, int64_t total_steps);

// The rate of update number `step`, from 1 as in AdamW's t, metrics and checkpoint names. After the total the rate
// stays at the last one.
double learning_rate(const LrSchedule& schedule, int64_t step);

}  // namespace hearth::plan
