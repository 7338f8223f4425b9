// SPDX-License-Identifier: Apache-2.0
#include "optim/muon.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/tensor.h"
#include "plan/muon.h"

namespace hearth::optim {
namespace {

// The parameters that have a momentum: matrices that are not frozen.
std::vector<bool> updated_matrices(const parallel::ShardedWeights& weights) {
  std::vector<bool> matrices;
  for (size_t i = 0; i < weights.plan().parameters.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    matrices.push_back(weights.trained(index) && weights.momentum_only(index));
  }
  return matrices;
}

}  // namespace

double muon_lr_factor(config::MuonAdjustLrFn rule, int64_t rows, int64_t columns) {
  const auto M = static_cast<double>(rows), N = static_cast<double>(columns);
  return rule == config::MuonAdjustLrFn::kOriginal ? std::sqrt(std::max(1.0, M / N)) : 0.2 * std::sqrt(std::max(M, N));
}

Muon::Muon(const config::Optimizer& config, parallel::ShardedWeights& weights)
    : config_(config), weights_(weights), settings_(plan::parameter_settings(config, weights.plan())) {
  const plan::Precision& precision = weights.precision();
  const std::vector<bool> matrices = updated_matrices(weights);
  owners_ = plan::muon_owners(matrices, weights.plan(), weights.shards());
  const plan::MuonScratch sizes = plan::muon_scratch(matrices, weights.plan(), weights.shards());
  memory_bytes_ = sizes.num_bytes(precision);
  ops::Arena arena(memory_bytes_, weights.device());
  update_ = arena.take({sizes.update}, precision.gradients);
  parts_ = arena.take({sizes.shared}, precision.gradients);
  whole_ = arena.take({sizes.shared}, precision.gradients);
  scratch_ = {.x = arena.take({sizes.matrix}, precision.compute),
              .next = arena.take({sizes.matrix}, precision.compute),
              .gram = arena.take({sizes.square}, precision.compute),
              .polynomial = arena.take({sizes.square}, precision.compute)};
}

void Muon::step(double lr, const at::Tensor& decision) {
  for (int64_t unit = 0; unit < weights_.num_units(); ++unit)
    weights_.shard_group(unit).size() > 1 ? step_shared(unit, lr, decision) : step_own(unit, lr, decision);
}

void Muon::step_own(int64_t unit, double lr, const at::Tensor& decision) {
  const plan::Unit& of = weights_.plan().units[static_cast<size_t>(unit)];
  for (int64_t i = of.first_parameter; i < of.first_parameter + of.num_parameters; ++i) {
    if (owners_[static_cast<size_t>(i)] < 0) continue;
    const plan::Parameter& p = weights_.plan().parameters[static_cast<size_t>(i)];
    const at::Tensor update_N = update_.narrow(0, 0, p.numel);
    add_momentum(i, update_N, decision);
    orthogonalize(p, update_N, decision);
    apply(i, update_N, lr, decision);
  }
}

void Muon::orthogonalize(const plan::Parameter& p, const at::Tensor& part_N, const at::Tensor& decision) {
  // Ranks that share the layers all have the whole of a matrix that is not cut, with the same momentum.
  comm::Group* const tensor = p.is_whole() ? nullptr : weights_.ranks().tensor;
  if (tensor == nullptr) return ops::orthogonalize(part_N.view(p.shape), config_.muon_ns_steps, decision, scratch_);
  const at::Tensor parts_RN = parts_.narrow(0, 0, tensor->size() * p.numel).view({tensor->size(), p.numel});
  const at::Tensor whole = whole_.narrow(0, 0, parts_RN.numel()).view(p.shape);
  tensor->all_gather(parts_RN, part_N);
  const int64_t shared = p.part.sizes[0] < p.shape[0] ? 0 : 1, size = p.part.sizes[static_cast<size_t>(shared)];
  for (int64_t r = 0; r < tensor->size(); ++r)
    ops::copy_(whole.narrow(shared, r * size, size), parts_RN.select(0, r).view(p.part.sizes));
  ops::orthogonalize(whole, config_.muon_ns_steps, decision, scratch_);
  ops::copy_(part_N.view(p.part.sizes), whole.narrow(shared, tensor->rank() * size, size));
}

void Muon::step_shared(int64_t number, double lr, const at::Tensor& decision) {
  const plan::Unit& unit = weights_.plan().units[static_cast<size_t>(number)];
  comm::Group& shards = weights_.shard_group(number);
  const int64_t begin = unit.first_parameter, end = begin + unit.num_parameters;
  const auto owner = [&](int64_t index) { return owners_[static_cast<size_t>(index)]; };
  const auto parameter = [&](int64_t index) -> const plan::Parameter& {
    return weights_.plan().parameters[static_cast<size_t>(index)];
  };
  bool any = false;
  for (int64_t i = begin; i < end; ++i) any |= owner(i) >= 0;
  if (!any) return;
  const int64_t shard_numel = plan::slice_numel(unit, shards.size());
  const at::Tensor whole = update_.narrow(0, 0, shards.size() * shard_numel);
  const at::Tensor shard = whole.narrow(0, shards.rank() * shard_numel, shard_numel);
  // This rank's elements of a parameter in the whole unit.
  const auto own = [&](int64_t index) {
    const auto owned = weights_.owned(index);
    return whole.narrow(0, parameter(index).offset + owned.begin, owned.numel());
  };
  ops::zero_(shard);
  for (int64_t i = begin; i < end; ++i)
    if (owner(i) >= 0) add_momentum(i, own(i), decision);
  shards.all_gather(whole, shard);
  for (int64_t i = begin; i < end; ++i) {
    const at::Tensor matrix = whole.narrow(0, parameter(i).offset, parameter(i).numel);
    if (owner(i) == shards.rank()) {
      orthogonalize(parameter(i), matrix, decision);
    } else {
      ops::zero_(matrix);  // the owner's values are added
    }
  }
  shards.reduce_scatter(shard, whole);
  for (int64_t i = begin; i < end; ++i)
    if (owner(i) >= 0) apply(i, own(i), lr, decision);
}

void Muon::add_momentum(int64_t index, const at::Tensor& update_N, const at::Tensor& decision) {
  const auto owned = weights_.owned(index);
  if (owned.numel() == 0) return;
  ops::muon_momentum(update_N, owned.momentum, owned.gradient, {config_.muon_momentum, config_.muon_nesterov},
                     decision);
}

void Muon::apply(int64_t index, const at::Tensor& update_N, double lr, const at::Tensor& decision) {
  const auto owned = weights_.owned(index);
  if (owned.numel() == 0) return;
  const plan::Parameter& p = weights_.plan().parameters[static_cast<size_t>(index)];
  const plan::ParameterSettings& s = settings_[static_cast<size_t>(index)];
  const double rate = lr * s.lr_factor;
  ops::muon_apply(owned.master, update_N, rate * muon_lr_factor(config_.muon_adjust_lr_fn, p.shape[0], p.shape[1]),
                  rate * s.weight_decay, decision);
  if (owned.copy.defined()) ops::copy_(owned.copy, owned.master);
}

}  // namespace hearth::optim
