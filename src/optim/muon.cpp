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
    : config_(config), weights_(weights), settings_(parameter_settings(config, weights.plan())) {
  HEARTH_CHECK(weights.group().size() == 1, "Muon on {} ranks", weights.group().size());
  const plan::Precision& precision = weights.precision();
  const plan::MuonScratch sizes = plan::muon_scratch(updated_matrices(weights), weights.plan());
  memory_bytes_ = sizes.num_bytes(precision);
  ops::Arena arena(memory_bytes_, weights.device());
  update_ = arena.take({sizes.matrix}, precision.gradients);
  scratch_ = {.x = arena.take({sizes.matrix}, precision.compute),
              .next = arena.take({sizes.matrix}, precision.compute),
              .gram = arena.take({sizes.square}, precision.compute),
              .polynomial = arena.take({sizes.square}, precision.compute)};
}

void Muon::step(double lr, const at::Tensor& decision) {
  const ops::MuonMomentum momentum{config_.muon_momentum, config_.muon_nesterov};
  for (size_t i = 0; i < settings_.size(); ++i) {
    const auto owned = weights_.owned(static_cast<int64_t>(i));
    if (!owned.momentum.defined()) continue;
    const plan::Parameter& p = weights_.plan().parameters[i];
    const ParameterSettings& s = settings_[i];
    const at::Tensor whole_MN = ops::view_as(update_, 0, p.shape), owned_N = update_.narrow(0, 0, owned.numel());
    ops::muon_momentum(owned_N, owned.momentum, owned.gradient, momentum, decision);
    ops::orthogonalize(whole_MN, config_.muon_ns_steps, decision, scratch_);
    const double rate = lr * s.lr_factor;
    ops::muon_apply(owned.master, owned_N, rate * muon_lr_factor(config_.muon_adjust_lr_fn, p.shape[0], p.shape[1]),
                    rate * s.weight_decay, decision);
  }
}

}  // namespace hearth::optim
