// SPDX-License-Identifier: Apache-2.0
#include "model/execution.h"

#include <algorithm>
#include <variant>

#include "base/error.h"
#include "model/context_parallel.h"
#include "model/expert_parallel.h"
#include "model/latent_heads.h"
#include "ops/activation.h"
#include "ops/embedding.h"
#include "ops/float8.h"
#include "ops/matmul.h"
#include "ops/moe/moe.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "ops/rows.h"
#include "ops/tensor.h"

namespace hearth::model {

size_t UnitTensors::first_of(const models::Weight& which) const {
  return static_cast<size_t>(plan.units[static_cast<size_t>(unit)].first_parameter + which.first);
}

bool UnitTensors::is_of_experts(const models::Weight& which) const {
  return which.exists() && plan.parameters[first_of(which)].unit != unit;
}

at::Tensor UnitTensors::view(const at::Tensor& flat, const models::Weight& which) const {
  if (!which.exists() || !flat.defined()) return {};
  const size_t begin = first_of(which), end = begin + static_cast<size_t>(which.count);
  int64_t numel = 0, columns = 0;  // experts of other ranks have no elements here
  for (size_t i = begin; i < end; ++i) {
    const plan::Parameter& p = plan.parameters[i];
    numel += p.numel;
    if (p.numel > 0 && p.part.sizes.size() == 2) columns = p.part.sizes[1];
  }
  const at::Tensor all = flat.narrow(0, plan.parameters[begin].offset, numel);
  return columns == 0 ? all : all.view({-1, columns});
}

at::Tensor UnitTensors::weight(const models::Weight& which) const {
  return view(is_of_experts(which) ? expert_weights : weights, which);
}

at::Tensor UnitTensors::gradient(const models::Weight& which) const {
  const Sum sum = begun_gradient(which);
  if (!sum.accumulate) ops::zero_(sum.tensor);
  return sum.tensor;
}

UnitTensors::Sum UnitTensors::begun_gradient(const models::Weight& which) const {
  const bool of_experts = is_of_experts(which);
  const UnitGradient& of_unit = of_experts ? expert_gradients : gradients;
  const at::Tensor tensor = view(of_unit.whole, which);
  if (of_unit.unwritten == nullptr || !which.exists()) return {tensor, true};
  const int64_t before = of_experts ? plan.units[static_cast<size_t>(unit)].num_parameters : 0;
  const auto first = of_unit.unwritten->begin() + (which.first - before), end = first + which.count;
  const bool is_unwritten = *first;
  HEARTH_CHECK(std::count(first, end, is_unwritten) == which.count, "a part of a gradient is written");
  std::fill(first, end, false);
  return {tensor, !is_unwritten};
}

UnitTensors layer_weights(const plan::ParameterPlan& plan, Weights& weights, int64_t layer) {
  const plan::LayerUnits units = plan.units_of(layer);
  UnitTensors tensors{plan, units.block, weights.gather(units.block), {}};
  if (units.has_experts()) tensors.expert_weights = weights.gather(units.experts);
  return tensors;
}

UnitTensors with_gradients(UnitTensors unit, Weights& weights) {
  unit.gradients = weights.gradient_to_write(unit.unit);
  const auto experts = static_cast<size_t>(unit.unit) + 1;
  if (experts < unit.plan.units.size() && unit.plan.units[experts].of_experts)
    unit.expert_gradients = weights.gradient_to_write(unit.unit + 1);
  return unit;
}

OutputWeights output_weights(const UnitTensors& unit, const models::Program& program) {
  return {unit.weight(program.output_matrix), unit.weight(program.logits_bias)};
}

namespace {

class Executor {
 public:
  Executor(const Activations& activations, const UnitTensors& unit_tensors, const Inputs& op_inputs)
      : a(activations), unit(unit_tensors), inputs(op_inputs), s(a.shape()) {}

  void operator()(const models::Embedding& op) const {
    ops::embedding_forward(a(op.out), unit.weight(op.weight), inputs.batch->tokens_T, s.vocabulary);
  }
  void operator()(const models::EmbeddingGradient& op) const {
    ops::embedding_backward(unit.gradient(op.weight), a(op.dout), inputs.batch->tokens_T, s.vocabulary);
  }
  void operator()(const models::Receive& /*op*/) const {}  // the pipeline has received it (model/pipeline.h)

  void operator()(const models::NormForward& op) const {
    ops::norm_forward(op.norm, groups(op.out, op.width), a(op.statistics), groups(op.x, op.width),
                      unit.weight(op.weight));
  }
  void operator()(const models::AddNormForward& op) const {
    ops::add_norm_forward(op.norm, a(op.sum), a(op.out), a(op.statistics), a(op.x), a(op.branch),
                          unit.weight(op.weight));
  }
  void operator()(const models::NormGradient& op) const {
    ops::norm_backward(op.norm, groups(op.dx, op.width), unit.gradient(op.weight), groups(op.dy, op.width),
                       groups(op.x, op.width), a(op.statistics), unit.weight(op.weight), op.adds);
  }

  void operator()(const models::NormPartSquares& op) const { ops::norm_part_squares(a(op.statistics), a(op.x)); }
  void operator()(const models::SumOverRanks& op) const { a.tensor->all_reduce(a(op.sums)); }
  void operator()(const models::NormPartForward& op) const {
    ops::norm_part_forward(op.norm, op.width, a(op.out), a(op.statistics), a(op.x), unit.weight(op.weight));
  }
  void operator()(const models::NormPartDots& op) const {
    ops::norm_part_dots(op.norm, a(op.dots), a(op.dy), a(op.x), a(op.statistics), unit.weight(op.weight));
  }
  void operator()(const models::NormPartGradient& op) const {
    ops::norm_part_backward(op.norm, op.width, a(op.dx), unit.gradient(op.weight), a(op.dy), a(op.x), a(op.statistics),
                            a(op.dots), unit.weight(op.weight));
  }

  void operator()(const models::Linear& op) const {
    const at::Tensor out = a(op.out), x = a(op.x), w = unit.weight(op.weight);
    a.float8 ? ops::matmul_float8(out, x, w) : ops::matmul(out, x, w);
  }
  void operator()(const models::LinearInputGradient& op) const { input_gradient(a(op.dx), a(op.dy), op.weight); }
  void operator()(const models::LinearWeightGradient& op) const { weight_gradient(op.weight, a(op.dy), a(op.x)); }
  void operator()(const models::SharedLinearGradients& op) const {
    const at::Tensor gathered = a(op.gathered), partial = a(op.partial), x = a(op.x), dx = a(op.dx);
    const comm::Work gather = a.tensor->start([group = a.tensor, gathered, x] { group->all_gather(gathered, x); });
    input_gradient(partial, a(op.dy), op.weight);
    gather.wait();
    const comm::Work sum = a.tensor->start([group = a.tensor, dx, partial] { group->reduce_scatter(dx, partial); });
    weight_gradient(op.weight, a(op.dy), gathered);
    sum.wait();
  }
  // Both gradients of a product in float8 at once, if that is what follows each other: their dy is converted once.
  bool both_gradients(const models::Op& one, const models::Op& next) const {
    if (a.float8 != config::Fp8Recipe::kRowwise) return false;
    const bool input_first = std::holds_alternative<models::LinearInputGradient>(one);
    const auto* input = std::get_if<models::LinearInputGradient>(input_first ? &one : &next);
    const auto* weight = std::get_if<models::LinearWeightGradient>(input_first ? &next : &one);
    if (input == nullptr || weight == nullptr || input->dy != weight->dy || input->dx == weight->x) return false;
    const UnitTensors::Sum sum = unit.begun_gradient(weight->weight);
    ops::matmul_gradients_float8(a(input->dx), sum.tensor, a(input->dy), a(weight->x), unit.weight(input->weight),
                                 sum.accumulate);
    return true;
  }
  void operator()(const models::AddBias& op) const { ops::add_bias(a(op.x), unit.weight(op.weight)); }
  void operator()(const models::BiasGradient& op) const { ops::bias_gradient(unit.gradient(op.weight), a(op.dx)); }

  void operator()(const models::Copy& op) const { ops::copy_(a(op.to), a(op.from)); }
  void operator()(const models::Scale& op) const { ops::scale(a(op.to), a(op.from), op.factor); }
  void operator()(const models::Add& op) const { ops::add_(a(op.to), a(op.from)); }
  void operator()(const models::GatherRows& op) const { a.tensor->all_gather(a(op.all), a(op.own)); }
  void operator()(const models::SumRows& op) const { a.tensor->reduce_scatter(a(op.own), a(op.summands)); }

  void operator()(const models::RowsToHeads& op) const { rows_to_heads(a, op); }
  void operator()(const models::HeadsToRows& op) const { heads_to_rows(a, op); }
  void operator()(const models::GatherKeys& op) const { gather_keys(a, op); }
  void operator()(const models::SumKeyGradients& op) const { sum_key_gradients(a, op); }

  void operator()(const models::Rotate& op) const {
    const auto rotate = op.is_gradient ? ops::rope_backward : ops::rope_forward;
    const ops::RopeTables& tables = op.local ? a.ropes.local : a.ropes.main;
    rotate(a.heads(op.heads).narrow(3, s.first_rotated(), s.K - s.first_rotated()),
           op.are_queries ? tables.queries_SR : tables.heads_SR, s.rope.halves, inputs.mask.document_starts_N,
           inputs.mask.queries);
  }
  void operator()(const models::Attention& op) const {
    ops::attention_forward(a.heads(op.out), a(op.log_sum_exp), a.heads(op.q), a.heads(op.k), a.heads(op.v),
                           mask(op.reach), op.scale);
  }
  void operator()(const models::AttentionGradient& op) const {
    ops::attention_backward(a.heads(op.dq), a.heads(op.dk), a.heads(op.dv), a.heads(op.dout), a.heads(op.out),
                            a(op.log_sum_exp), a.heads(op.q), a.heads(op.k), a.heads(op.v), mask(op.reach), op.scale);
  }
  void operator()(const models::AttentionSinks& op) const {
    ops::add_sinks(a.heads(op.out), a(op.log_sum_exp), of_own_heads(unit.weight(op.sinks), a(op.log_sum_exp)));
  }
  void operator()(const models::SinksGradient& op) const {
    const at::Tensor lse = a(op.log_sum_exp);
    ops::sinks_gradient(of_own_heads(unit.gradient(op.sinks), lse), a.heads(op.dout), a.heads(op.out), lse,
                        of_own_heads(unit.weight(op.sinks), lse));
  }
  void operator()(const models::CachedAttention& op) const {
    inputs.attend_cached(a(op.out), a(op.qkv), unit.weight(op.sinks));
  }

  void operator()(const models::Gate& op) const { ops::gate_forward(a(op.out), a(op.x), a(op.gate)); }
  void operator()(const models::GateGradient& op) const { ops::gate_backward(a(op.dout), a(op.gate), a(op.x)); }
  void operator()(const models::Activate& op) const { ops::activation_forward(op.function, a(op.out), a(op.x)); }
  void operator()(const models::ActivateGradient& op) const {
    ops::activation_backward(op.function, a(op.x), a(op.dout), a(op.x), a(op.again));
  }

  void operator()(const models::ExpandLatents& op) const { expand_latents(a, op); }
  void operator()(const models::ExpandLatentsGradient& op) const { expand_latents_gradient(a, op); }
  void operator()(const models::DropZeros& op) const { drop_zeros(a, op); }
  void operator()(const models::AddZeros& op) const { add_zeros(a, op); }

  void operator()(const models::Route& op) const {
    ops::route(routing(op.to), a(op.x), {unit.weight(op.gate), unit.weight(op.bias), unit.weight(op.logit_bias)},
               op.router, rows_of(op.rows));
  }
  void operator()(const models::SumLoads& op) const {
    for (comm::Group* group : {a.context.heads, a.context.keys, op.tensor ? a.tensor : nullptr}) {
      if (group != nullptr) group->all_reduce(a(op.loads));
    }
  }
  void operator()(const models::Dispatch& op) const { ops::dispatch(a(op.rows), a(op.x), routing(op.by)); }
  void operator()(const models::Combine& op) const { ops::combine(a(op.out), a(op.rows), routing(op.by), op.adds); }
  void operator()(const models::ScaleSlots& op) const { ops::scale_slots(a(op.rows), a(op.factors)); }
  void operator()(const models::FactorsGradient& op) const {
    ops::factors_gradient(a(op.dfactors), a(op.drows), a(op.rows));
  }
  void operator()(const models::RouteGradient& op) const {
    const LossScale& scale = inputs.scale;
    const bool counts = scale.loads_LE.defined();
    ops::route_gradient(a(op.dlogits), a(op.dfactors), routing(op.of), op.router, rows_of(op.rows), a.S(),
                        scale.per_position, counts ? scale.router_sums_L3.select(0, op.layer) : at::Tensor());
    if (counts) ops::add_loads(scale.loads_LE.select(0, op.layer), routing(op.of), rows_of(op.rows));
  }
  void operator()(const models::RouterInputGradient& op) const {
    ops::router_input_gradient(a(op.dx), a(op.dlogits), unit.weight(op.gate));
  }
  void operator()(const models::RouterWeightGradient& op) const {
    const UnitTensors::Sum sum = unit.begun_gradient(op.gate);
    ops::router_weight_gradient(sum.tensor, a(op.dlogits), a(op.x), sum.accumulate);
  }
  void operator()(const models::SendCounts& op) const { send_counts(a, op); }
  void operator()(const models::ShareCounts& op) const { share_counts(a, op); }
  void operator()(const models::SendRows& op) const { send_rows(a, op); }
  void operator()(const models::ReturnRows& op) const { return_rows(a, op); }
  void operator()(const models::ExpertsLinear& op) const {
    ops::experts_matmul(a(op.out), a(op.x), unit.weight(op.weight), a(op.ends));
  }
  void operator()(const models::ExpertsInputGradient& op) const {
    ops::experts_input_gradient(a(op.dx), a(op.dy), unit.weight(op.weight), a(op.ends));
  }
  void operator()(const models::ExpertsWeightGradient& op) const {
    const UnitTensors::Sum sum = unit.begun_gradient(op.weight);
    ops::experts_weight_gradient(sum.tensor, a(op.dy), a(op.x), a(op.ends), sum.accumulate);
  }
  void operator()(const models::AddExpertsBias& op) const {
    ops::add_experts_bias(a(op.x), unit.weight(op.weight), a(op.ends), a(op.factors));
  }
  void operator()(const models::ExpertsBiasGradient& op) const {
    ops::experts_bias_gradient(unit.gradient(op.weight), a(op.dx), a(op.ends), a(op.factors));
  }
  void operator()(const models::BiasFactorsGradient& op) const {
    ops::bias_factors_gradient(a(op.dfactors), a(op.dx), unit.weight(op.weight), a(op.ends));
  }

  void operator()(const models::Loss& op) const {
    const OutputWeights output{unit.weight(op.weight), unit.weight(op.bias)};
    if (!op.dinput.exists()) return loss_forward(inputs.sums_2, a, op, output, *inputs.batch);
    const UnitTensors::Sum gradient = unit.begun_gradient(op.weight);
    const at::Tensor of_bias = op.bias.exists() ? unit.gradient(op.bias) : at::Tensor();
    loss_forward_backward(inputs.sums_2, a, op, output, {gradient.tensor, of_bias}, gradient.accumulate, *inputs.batch,
                          inputs.scale);
  }

 private:
  // The sinks of the heads that this rank has in attention. Ranks of context parallel have all sinks.
  at::Tensor of_own_heads(const at::Tensor& sinks_H, const at::Tensor& lse_BHQ) const {
    const int64_t heads = lse_BHQ.size(1), rank = a.context.heads == nullptr ? 0 : a.context.heads->rank();
    return sinks_H.narrow(0, rank * heads, heads);
  }
  ops::RoutedRows rows_of(const models::SequenceRows& sequences) const {
    if (inputs.batch == nullptr) return {sequences};
    return {sequences, inputs.batch->counts_T, inputs.batch->row_tokens_B};
  }
  ops::RoutingTensors routing(const models::Routing& r) const {
    return {a(r.scores), a(r.log_sums), a(r.experts), a(r.slots), a(r.choices), a(r.factors), a(r.ends), a(r.loads)};
  }
  // The batch's mask for a layer.
  ops::AttentionMask mask(int64_t reach) const {
    ops::AttentionMask of_layer = inputs.mask;
    of_layer.reach = reach;
    return of_layer;
  }
  // Rows in groups of `width` elements, [T, groups, width]; 0: as they are.
  at::Tensor groups(const models::Ref& ref, int64_t width) const {
    const at::Tensor rows = a(ref);
    return width == 0 ? rows : rows.view({rows.size(0), rows.size(1) / width, width});
  }
  void input_gradient(const at::Tensor& dx, const at::Tensor& dy, const models::Weight& weight) const {
    const at::Tensor w = unit.weight(weight);
    a.float8 ? ops::matmul_input_gradient_float8(dx, dy, w)
             : ops::matmul_input_gradient(dx, dy, w, /*accumulate=*/false);
  }
  void weight_gradient(const models::Weight& weight, const at::Tensor& dy, const at::Tensor& x) const {
    const UnitTensors::Sum sum = unit.begun_gradient(weight);
    const auto product =
        a.float8 == config::Fp8Recipe::kRowwise ? ops::matmul_weight_gradient_float8 : ops::matmul_weight_gradient;
    product(sum.tensor, dy, x, sum.accumulate);
  }

  const Activations& a;
  const UnitTensors& unit;
  const Inputs& inputs;
  const plan::ModelShape& s;
};

}  // namespace

void execute(const Activations& a, std::span<const models::Op> ops, const UnitTensors& unit, const Inputs& inputs) {
  const Executor executor(a, unit, inputs);
  for (size_t i = 0; i < ops.size(); ++i) {
    if (i + 1 < ops.size() && executor.both_gradients(ops[i], ops[i + 1])) {
      ++i;
    } else {
      std::visit(executor, ops[i]);
    }
  }
}

}  // namespace hearth::model
