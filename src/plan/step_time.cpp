// SPDX-License-Identifier: Apache-2.0
#include "plan/step_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/quantity.h"
#include "config/derived.h"
#include "plan/muon.h"
#include "plan/pipeline_plan.h"
#include "plan/precision.h"

namespace hearth::plan {

std::string format_compute(const ModelShape& shape, int64_t seq_len, std::span<const Recompute> recompute) {
  ModelShape full = shape;
  full.causal = false;
  for (models::Layer& layer : full.layers) layer.window = 0;
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

constexpr double kHopSeconds = 2e-5;  // from a node to the next, of a ring; assumed

double total_of(const UnitCounts& counts) {
  return std::accumulate(counts.shared.begin(), counts.shared.end(), 0.0) +
         std::accumulate(counts.whole.begin(), counts.whole.end(), 0.0) +
         std::accumulate(counts.experts.begin(), counts.experts.end(), 0.0);
}

std::string hours(double value) { return value < 100 ? fmt::format("{:.3g}", value) : fmt::format("{:.1f}", value); }

std::string format_devices(const StepTime& t) {
  const char* several = t.speed.devices == 1 ? "" : "s";
  if (t.speed.per_node == 1) return fmt::format("{} device{}", t.speed.devices, several);
  return fmt::format("{} GPU{}: {} GPU-hours, {} node-hours ({:.4g} node{} of {} GPUs)", t.speed.devices, several,
                     hours(t.device_hours()), hours(t.node_hours()), t.nodes(), t.nodes() == 1 ? "" : "s",
                     t.speed.per_node);
}

}  // namespace

double collective_seconds(double bytes, double calls, int64_t ranks, int64_t stride, const Speed& speed) {
  const machine::Links& links = speed.links;
  if (ranks == 1 || links.node_bytes_s == 0) return 0;
  const double share = speed.link_efficiency;
  if (ranks * stride <= 2 && links.package_bytes_s > 0) return bytes / (links.package_bytes_s * share);
  const int64_t on_node = std::clamp<int64_t>(speed.per_node / stride, 1, ranks);
  const double inside = on_node > 1 ? bytes / (links.node_bytes_s * share) : 0;
  if (on_node == ranks) return inside;
  // A ring passes each node once; its members send over their parts of the network side by side.
  const double between = bytes / (links.fabric_bytes_s * share * static_cast<double>(on_node));
  const auto nodes = static_cast<double>(div_ceil(ranks, on_node));
  return std::max(inside, between) + calls * (nodes - 1) * kHopSeconds;
}

double exchange_seconds(double bytes, int64_t ranks, int64_t stride, const Speed& speed) {
  if (ranks == 1 || speed.links.node_bytes_s == 0) return 0;
  if (ranks * stride <= speed.per_node) return collective_seconds(bytes, 0, ranks, stride, speed);
  return bytes / (speed.links.fabric_bytes_s * speed.link_efficiency);
}

double usual_efficiency(bool on_cpu, int64_t devices) {
  if (on_cpu) return Speed::kCpuEfficiency;
  return devices == 1 ? Speed::kOneGpuEfficiency : Speed::kGpusEfficiency;
}

Speed speed_of(const machine::Device& device, double gemm_flops, int64_t devices, double efficiency) {
  return {.gemm_flops = gemm_flops,
          .devices = devices,
          .per_node = device.per_node,
          .efficiency = efficiency,
          .memory_bytes_s = device.memory_bytes_s,
          .links = device.links};
}

StepTime step_time(const config::RunConfig& config, const ModelShape& shape, std::span<const Recompute> recompute,
                   int64_t steps, const Speed& speed) {
  const ParameterPlan parameters = parameter_plan(shape);
  const PipelinePlan pipeline = pipeline_plan(config, shape.L());
  const bool muon = config.optimizer.name == config::OptimizerName::kMuon;
  return step_time(config, shape, recompute, steps, speed, unit_counts(parameters), precision(config), pipeline,
                   pipeline_bubble(pipeline, shape, config.training.seq_len),
                   muon ? newton_schulz_flops(config, parameters) : 0);
}

StepTime step_time(const config::RunConfig& config, const ModelShape& shape, std::span<const Recompute> recompute,
                   int64_t steps, const Speed& speed, const UnitCounts& counts, const Precision& precision,
                   const PipelinePlan& pipeline, double bubble, double muon_flops) {
  const int64_t S = config.training.seq_len;
  const mesh::Degrees mesh = config.parallelism.degrees();
  const auto tokens = static_cast<double>(config::tokens_per_step(config));
  const double flops_per_token = computed_flops_per_token(shape, S) + recompute_flops_per_token(shape, S, recompute);
  const double flops_per_second = speed.gemm_flops * speed.efficiency * static_cast<double>(speed.devices);
  StepParts parts;
  parts.compute = (tokens * flops_per_token + muon_flops) / flops_per_second;

  const StepTraffic traffic = run_traffic(config, shape, counts, precision, pipeline, recompute);
  parts.tensor = collective_seconds(traffic.tensor, 0, mesh.tp, 1, speed);
  parts.context = exchange_seconds(traffic.context, mesh.cp, mesh.tp, speed);
  parts.experts = exchange_seconds(traffic.experts, mesh.ep, 1, speed);
  const double busy = parts.compute + parts.tensor + parts.context + parts.experts;
  parts.wait = busy * bubble / (1 - bubble);

  const int64_t shards = mesh.dp_shard * mesh.cp,
                passes = std::max<int64_t>(1, config::accumulation_steps(config) / pipeline.pipeline.micro_batches);
  const int64_t stage = config.parallelism.zero_stage;
  const double hides = stage == 1 ? busy / static_cast<double>(passes) : busy;
  // Each unit is gathered and reduced by itself.
  const auto units = static_cast<double>(counts.shared.size()) / static_cast<double>(mesh.pp);
  const auto times = static_cast<double>(config::accumulation_steps(config));
  const double reductions = stage == 1 || config.parallelism.reduce_once_per_step ? 1 : times;
  const double calls = units * ((stage == 3 ? 2 * times : 1) + reductions);
  const double travels = collective_seconds(traffic.shard, calls, shards, mesh.tp, speed) +
                         collective_seconds(traffic.replicate, units, mesh.dp_replicate, mesh.tp * shards, speed);
  parts.shard = std::max(0.0, travels - hides);
  parts.hidden = travels - parts.shard;
  if (speed.memory_bytes_s > 0) {
    // AdamW reads master, gradient and moments, and writes all but the gradient.
    const double owned = total_of(counts) / static_cast<double>(mesh.tp * mesh.pp * shards);
    const auto bytes = static_cast<double>(2 * dtype_size(precision.masters) + dtype_size(precision.gradients) +
                                           4 * dtype_size(precision.moments));
    parts.update = owned * bytes / speed.memory_bytes_s;
  }
  return {tokens, parts.total(), steps, speed, parts};
}

std::string format_step_time(const StepTime& t) {
  std::string text = fmt::format(
      "  step time    {} tokens in {}, {} per second, at {:.0f} % of the speed of matrix products (tiny models: "
      "less)\n",
      format_count(t.tokens), format_duration(t.step_s), format_count(t.tokens / t.step_s), 100 * t.speed.efficiency);
  std::vector<std::string> parts;
  const auto add = [&](double seconds, std::string_view what) {
    if (seconds > 0.005 * t.step_s) parts.push_back(fmt::format("{:.0f} % {}", 100 * seconds / t.step_s, what));
  };
  add(t.parts.tensor, "traffic inside layers");
  add(t.parts.context, "traffic inside sequences");
  add(t.parts.experts, "traffic to and from experts");
  add(t.parts.shard, "traffic of weights and gradients that nothing hides");
  add(t.parts.wait, "waits in the pipeline");
  add(t.parts.update, "update of the weights");
  if (!parts.empty()) text += fmt::format("               of it {}\n", fmt::join(parts, ", "));
  if (t.steps == 0) return text + "  run time     the run's length is not given\n";
  return text + fmt::format("  run time     {}, {} tokens: {} on {}\n", counted(t.steps, "step"),
                            format_count(t.tokens * static_cast<double>(t.steps)), format_duration(t.run_s()),
                            format_devices(t));
}

}  // namespace hearth::plan
