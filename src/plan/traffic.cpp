// SPDX-License-Identifier: Apache-2.0
#include "plan/traffic.h"

#include <fmt/format.h>

#include <string_view>

#include "base/dtype.h"
#include "base/quantity.h"
#include "config/config.h"
#include "config/derived.h"
#include "models/messages.h"
#include "plan/stage_activations.h"

namespace hearth::plan {

using models::sent_share;

namespace {

// Elements of a stage's weights on one rank of a tensor-parallel group, without experts.
double weights_of(const ModelShape& shape, const UnitCounts& counts, const StageLayers& layers, int64_t tp) {
  const auto of_unit = [&](int64_t unit) {
    const auto i = static_cast<size_t>(unit);
    return counts.shared[i] / static_cast<double>(tp) + counts.whole[i];
  };
  const bool is_first = layers.begin == 0, is_last = layers.end == shape.L();
  double sum = is_last ? of_unit(shape.L() + 1) : 0;
  if (is_first || (shape.tied && is_last)) sum += of_unit(0);
  for (int64_t layer = layers.begin; layer < layers.end; ++layer) sum += of_unit(layer + 1);
  return sum;
}

// Elements of a stage's experts on one rank. Tensor-parallel ranks cut them, or ranks have different ones.
double experts_of(const UnitCounts& counts, const StageLayers& layers, const mesh::Degrees& degrees) {
  double sum = 0;
  for (int64_t layer = layers.begin; layer < layers.end; ++layer) sum += counts.experts[static_cast<size_t>(layer)];
  return sum / static_cast<double>(degrees.ep > 1 ? degrees.ep : degrees.tp);
}

}  // namespace

UnitCounts unit_counts(const ParameterPlan& whole) {
  const size_t layers = whole.layers.size();
  UnitCounts counts{std::vector<double>(layers + 2), std::vector<double>(layers + 2), std::vector<double>(layers)};
  size_t index = 0;  // of the unit, without those of experts
  for (const Unit& unit : whole.units) {
    const auto parameters =
        std::span(whole.parameters)
            .subspan(static_cast<size_t>(unit.first_parameter), static_cast<size_t>(unit.num_parameters));
    for (const Parameter& p : parameters) {
      double& count = unit.of_experts ? counts.experts[index - 2] : (p.is_shared ? counts.shared : counts.whole)[index];
      count += static_cast<double>(p.numel);
    }
    if (!unit.of_experts) ++index;
  }
  return counts;
}

StepTraffic step_traffic(const ModelShape& shape, const UnitCounts& counts, const mesh::Degrees& degrees,
                         const Sharding& sharding, const Precision& precision, const TrafficStep& step,
                         const PipelinePlan& plan, int64_t stage) {
  const StageLayers& layers = plan.layers[static_cast<size_t>(stage)];
  const bool is_first = layers.begin == 0, is_last = layers.end == shape.L();
  const auto A = static_cast<double>(step.micro_batches);
  const auto tp = static_cast<double>(degrees.tp), D = static_cast<double>(shape.D);
  const double T =
      static_cast<double>(step.batch) * static_cast<double>(step.seq_len) / static_cast<double>(degrees.cp);
  const auto element = static_cast<double>(dtype_size(precision.compute));

  StepTraffic traffic;
  const auto add_weights = [&](double weights, int64_t shards) {
    const double gradient_bytes = weights * static_cast<double>(dtype_size(precision.gradients));
    const double gathers = sharding.has_whole_weights(shards, precision) ? 1 : 2 * A;
    const double reductions = sharding.has_whole_gradients(shards) && !sharding.reproducible ? 1 : A;
    traffic.shard += sent_share(shards) * (gathers * weights * element + reductions * gradient_bytes);
    // Once a step, but where the order of the sum is fixed.
    traffic.replicate += 2 * sent_share(degrees.dp_replicate) * (sharding.reproducible ? A : 1) * gradient_bytes /
                         static_cast<double>(shards);
  };
  const int64_t shards = degrees.dp_shard * degrees.cp;
  add_weights(weights_of(shape, counts, layers, degrees.tp), shards);
  add_weights(experts_of(counts, layers, degrees), degrees.ep > 1 ? degrees.expert_shards() : shards);

  const models::ModelMessages messages = models::model_messages(
      model_part(shape, {0, degrees.tp}, degrees.cp, {0, degrees.ep}), step.seq_len, precision.compute, step.backward);
  models::Messages sequence;  // of the layers and ends of the stage
  if (is_first) sequence += messages.embedding;
  if (is_last) sequence += messages.output;
  for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
    const auto index = static_cast<size_t>(layer);
    sequence += messages.layers[index].step;
    if (!step.recompute.empty()) sequence += messages.layers[index].again[static_cast<size_t>(step.recompute[index])];
  }
  const double sequences = A * static_cast<double>(step.batch);
  traffic.tensor = sequences * sequence.tensor;
  traffic.context = sequences * sequence.context;
  traffic.experts = sequences * sequence.experts;

  // Neighbouring stages are on other ranks, except on a single rank.
  const int neighbours = plan.pipeline.ranks == 1 ? 0 : (is_first ? 0 : 1) + (is_last ? 0 : 1);
  traffic.pipeline = A * static_cast<double>(neighbours) * T / tp * D * element;
  return traffic;
}

StepTraffic run_traffic(const config::RunConfig& config, const ModelShape& shape, const Precision& precision,
                        std::span<const Recompute> recompute) {
  return run_traffic(config, shape, unit_counts(parameter_plan(shape)), precision, pipeline_plan(config, shape.L()),
                     recompute);
}

StepTraffic run_traffic(const config::RunConfig& config, const ModelShape& shape, const UnitCounts& counts,
                        const Precision& precision, const PipelinePlan& plan, std::span<const Recompute> recompute) {
  const TrafficStep step{.micro_batches = config::accumulation_steps(config),
                         .batch = config::micro_batch_size(config),
                         .seq_len = config.training.seq_len,
                         .recompute = recompute,
                         .backward = backward_of(plan)};
  StepTraffic most;
  for (int64_t rank = 0; rank < plan.pipeline.ranks; ++rank) {
    StepTraffic sum;
    for (int64_t stage = rank; stage < plan.pipeline.num_stages(); stage += plan.pipeline.ranks) {
      const StepTraffic one =
          step_traffic(shape, counts, config.parallelism.degrees(), sharding_of(config), precision, step, plan, stage);
      for (const auto bytes : {&StepTraffic::shard, &StepTraffic::replicate, &StepTraffic::tensor,
                               &StepTraffic::context, &StepTraffic::experts, &StepTraffic::pipeline})
        sum.*bytes += one.*bytes;
    }
    if (sum.total() > most.total()) most = sum;
  }
  return most;
}

std::string format_traffic(const StepTraffic& traffic) {
  if (traffic.total() == 0) return "";
  std::vector<std::string> parts;
  const auto add = [&](double bytes, std::string_view what) {
    if (bytes > 0) parts.push_back(fmt::format("{} {}", format_bytes(static_cast<int64_t>(bytes)), what));
  };
  add(traffic.shard, "of weights and gradients");
  add(traffic.replicate, "between copies");
  add(traffic.tensor, "inside layers");
  add(traffic.context, "inside sequences");
  add(traffic.experts, "to and from experts");
  add(traffic.pipeline, "between stages");
  return fmt::format("  traffic      each rank sends {} a step: {}\n",
                     format_bytes(static_cast<int64_t>(traffic.total())), fmt::join(parts, ", "));
}

}  // namespace hearth::plan
