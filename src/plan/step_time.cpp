#include "plan/step_time.h"

#include <fmt/format.h>

#include "base/units.h"
#include "config/derived.h"

namespace hearth::plan {

std::string format_compute(const ModelShape& shape, int64_t seq_len, std::span<const Recompute> recompute) {
  ModelShape full = shape;
  full.causal = false;
  std::string text = fmt::format("  compute      {} a token, forward and backward, attention ",
                                 format_flops(flops_per_token(shape, seq_len)));
  text += shape.causal
              ? fmt::format("counted as causal; {} counted in full", format_flops(flops_per_token(full, seq_len)))
              : "in full";
  if (shape.counted < 1)
    text += fmt::format("; {} are computed, for {:.3g} % of the labels count",
                        format_flops(computed_flops_per_token(shape, seq_len)), 100 * shape.counted);
  const double again = recompute_flops_per_token(shape, seq_len, recompute);
  if (again > 0) text += fmt::format("; recomputation does {} more", format_flops(again));
  return text + "\n";
}

double StepTime::node_hours() const {
  return run_s() / 3600 * static_cast<double>(div_ceil(speed.devices, speed.per_node));
}

StepTime step_time(const config::RunConfig& config, const ModelShape& shape, const MemoryPlan& memory, int64_t steps,
                   const Speed& speed) {
  const int64_t S = config.training.seq_len;
  const auto tokens = static_cast<double>(config::tokens_per_step(config));
  const double flops_per_token =
      computed_flops_per_token(shape, S) + recompute_flops_per_token(shape, S, memory.activations.recompute);
  const double flops_per_second = speed.gemm_flops * speed.efficiency * static_cast<double>(speed.devices);
  return {tokens, tokens * flops_per_token / flops_per_second, steps, speed};
}

std::string format_step_time(const StepTime& t) {
  std::string text = fmt::format(
      "  step time    {} tokens in {}, {} a second, at {:.0f} % of what matrix products reach (tiny models: less)\n",
      format_count(t.tokens), format_duration(t.step_s), format_count(t.tokens / t.step_s), 100 * t.speed.efficiency);
  if (t.steps == 0) return text + "  run time     the run's length is not given\n";
  return text + fmt::format("  run time     {} steps, {} tokens: {} on {} device{}, {:.1f} node-hours\n", t.steps,
                            format_count(t.tokens * static_cast<double>(t.steps)), format_duration(t.run_s()),
                            t.speed.devices, t.speed.devices == 1 ? "" : "s", t.node_hours());
}

}  // namespace hearth::plan
