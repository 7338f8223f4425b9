#include "plan/step_time.h"

#include <fmt/format.h>

#include "base/quantity.h"
#include "config/derived.h"
#include "plan/muon.h"
#include "plan/pipeline_plan.h"

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
    text += fmt::format("; {} are computed, because {:.3g} % of the labels count",
                        format_flops(computed_flops_per_token(shape, seq_len)), 100 * shape.counted);
  const double again = recompute_flops_per_token(shape, seq_len, recompute);
  if (again > 0) text += fmt::format("; recomputation does {} more", format_flops(again));
  return text + "\n";
}

namespace {

std::string hours(double value) { return value < 100 ? fmt::format("{:.3g}", value) : fmt::format("{:.1f}", value); }

std::string format_devices(const StepTime& t) {
  const char* several = t.speed.devices == 1 ? "" : "s";
  if (t.speed.per_node == 1) return fmt::format("{} device{}", t.speed.devices, several);
  return fmt::format("{} GPU{}: {} GPU-hours, {} node-hours ({:.4g} node{} of {} GPUs)", t.speed.devices, several,
                     hours(t.device_hours()), hours(t.node_hours()), t.nodes(), t.nodes() == 1 ? "" : "s",
                     t.speed.per_node);
}

}  // namespace

StepTime step_time(const config::RunConfig& config, const ModelShape& shape, const MemoryPlan& memory, int64_t steps,
                   const Speed& speed) {
  const int64_t S = config.training.seq_len;
  const auto tokens = static_cast<double>(config::tokens_per_step(config));
  const double flops_per_token =
      computed_flops_per_token(shape, S) + recompute_flops_per_token(shape, S, memory.recompute);
  const double flops_per_second = speed.gemm_flops * speed.efficiency * static_cast<double>(speed.devices);
  double flops = tokens * flops_per_token;
  if (config.optimizer.name == config::OptimizerName::kMuon)
    flops += newton_schulz_flops(config, parameter_plan(shape));
  const double busy = 1 - pipeline_bubble(pipeline_plan(config, shape.L), shape);
  return {tokens, flops / flops_per_second / busy, steps, speed};
}

std::string format_step_time(const StepTime& t) {
  std::string text = fmt::format(
      "  step time    {} tokens in {}, {} per second, at {:.0f} % of the speed of matrix products (tiny models: "
      "less)\n",
      format_count(t.tokens), format_duration(t.step_s), format_count(t.tokens / t.step_s), 100 * t.speed.efficiency);
  if (t.steps == 0) return text + "  run time     the run's length is not given\n";
  return text + fmt::format("  run time     {} steps, {} tokens: {} on {}\n", t.steps,
                            format_count(t.tokens * static_cast<double>(t.steps)), format_duration(t.run_s()),
                            format_devices(t));
}

}  // namespace hearth::plan
