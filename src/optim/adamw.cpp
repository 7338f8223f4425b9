// SPDX-License-Identifier: Apache-2.0
#include "optim/adamw.h"

#include "base/error.h"

namespace hearth::optim {

AdamW::AdamW(const config::Optimizer& config, parallel::ShardedWeights& weights, std::optional<uint64_t> rounding_seed)
    : config_(config),
      weights_(weights),
      rounding_seed_(rounding_seed),
      settings_(plan::parameter_settings(config, weights.plan())) {
  HEARTH_CHECK(!rounding_seed || weights.precision().masters == DType::kBFloat16, "only bfloat16 is rounded");
}

void AdamW::step(double lr, int64_t step, const at::Tensor& decision) {
  const bool decoupled = config_.name != config::OptimizerName::kAdam;
  for (size_t i = 0; i < settings_.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const auto owned = weights_.owned(index);
    if (!owned.exp_avg.defined() || owned.numel() == 0) continue;
    const plan::ParameterSettings& s = settings_[i];
    const ops::AdamWStep update{.lr = lr * s.lr_factor,
                                .beta1 = config_.beta1,
                                .beta2 = config_.beta2,
                                .eps = config_.eps,
                                .decay = decoupled ? s.weight_decay : 0,
                                .l2 = decoupled ? 0 : s.weight_decay,
                                .form = config_.form == config::OptimizerForm::kTransformers
                                            ? ops::AdamForm::kTransformers
                                            : ops::AdamForm::kTorch,
                                .updates_before = weights_.updates_before(index)};
    if (!rounding_seed_) {
      ops::adamw(owned.master, owned.gradient, owned.exp_avg, owned.exp_avg_sq, update, decision, std::nullopt,
                 owned.copy);
      continue;
    }
    const plan::Parameter& p = weights_.plan().parameters[i];
    const RandomKey key = random_key(*rounding_seed_, fmt::format("rounding:{}:{}", step, p.name));
    for (const plan::FlatRun& run : plan::flat_runs(p, owned.begin, owned.end)) {
      const auto part = [&](const at::Tensor& of) { return of.narrow(0, run.begin - owned.begin, run.numel); };
      ops::adamw(part(owned.master), part(owned.gradient), part(owned.exp_avg), part(owned.exp_avg_sq), update,
                 decision, ops::StochasticRounding{key, static_cast<uint64_t>(run.whole)});
    }
  }
}

}  // namespace hearth::optim
