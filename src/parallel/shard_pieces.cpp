// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard_pieces.h"

#include "base/error.h"
#include "ops/tensor.h"
#include "plan/tensor_names.h"

namespace hearth::parallel {

namespace {

void add_pieces(std::vector<ShardPiece>& pieces, const std::string& name, const plan::Parameter& p,
                const ShardedWeights::Owned& owned, const at::Tensor& values) {
  int64_t done = 0;
  for (mesh::Box& box : mesh::boxes_of_flat_range(p.part.sizes, owned.begin, owned.end)) {
    const int64_t numel = box.numel();
    for (size_t d = 0; d < box.offsets.size(); ++d) box.offsets[d] += p.part.offsets[d];
    pieces.push_back({name, ops::dtype_of(values), p.shape, std::move(box), values.narrow(0, done, numel)});
    done += numel;
  }
}

bool has_turn(const ShardedWeights& weights, size_t index, PiecesFor use) {
  if (use == PiecesFor::kLoading) return true;
  const plan::ParameterPlan& plan = weights.plan();
  return plan.parameters[index].counts &&
         static_cast<int64_t>(index) % weights.sharding().replicas == weights.replica();
}

}  // namespace

std::vector<ShardPiece> parameter_pieces(const ShardedWeights& weights, PiecesFor use) {
  std::vector<ShardPiece> pieces;
  const auto& parameters = weights.plan().parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto owned = weights.owned(static_cast<int64_t>(i));
    if (owned.numel() > 0 && has_turn(weights, i, use))
      add_pieces(pieces, plan::weight_name(parameters[i].name), parameters[i], owned, owned.master);
  }
  return pieces;
}

std::vector<ShardPiece> optimizer_pieces(const ShardedWeights& weights, PiecesFor use) {
  HEARTH_CHECK(weights.training(), "weights for inference have no optimizer state");
  std::vector<ShardPiece> pieces;
  const auto& parameters = weights.plan().parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto owned = weights.owned(static_cast<int64_t>(i));
    if (owned.numel() == 0 || !has_turn(weights, i, use)) continue;
    const plan::Parameter& parameter = parameters[i];
    const auto add = [&](const std::string& name, const at::Tensor& values) {
      if (values.defined()) add_pieces(pieces, name, parameter, owned, values);
    };
    add(plan::exp_avg_name(parameter.name), owned.exp_avg);
    add(plan::exp_avg_sq_name(parameter.name), owned.exp_avg_sq);
    add(plan::momentum_name(parameter.name), owned.momentum);
  }
  return pieces;
}

}  // namespace hearth::parallel
