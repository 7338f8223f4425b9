#include "optim/adamw.h"

#include <algorithm>

#include "base/error.h"

namespace hearth::optim {

namespace {

bool decays_all(const config::Optimizer& config) {
  if (config.weight_decay_on == "all") return true;
  if (config.weight_decay_on == "matrices") return false;
  throw user_error(fmt::format("optimizer.weight_decay_on = \"{}\" is not known", config.weight_decay_on), {},
                   "use \"matrices\" or \"all\"");
}

}  // namespace

AdamW::AdamW(const config::Optimizer& config, parallel::ShardedWeights& weights) : config_(config), weights_(weights) {
  const bool all = decays_all(config);
  decayed_.resize(static_cast<size_t>(weights.num_units()));
  for (const plan::Parameter& p : weights.plan().parameters) {
    if (!all && p.shape.size() < 2) continue;
    const plan::Slice slice = weights.slice(p.unit);
    const int64_t begin = std::max(p.offset, slice.begin), end = std::min(p.offset + p.numel, slice.end);
    if (begin >= end) continue;
    decayed_[static_cast<size_t>(p.unit)].push_back({begin - slice.begin, end - slice.begin});
  }
  // The kernel wants them ascending; a unit's parameters need not lie in the order they are listed in.
  for (std::vector<ops::Range>& ranges : decayed_) {
    std::sort(ranges.begin(), ranges.end(), [](ops::Range a, ops::Range b) { return a.begin < b.begin; });
  }
}

void AdamW::step(double lr, int64_t t, double gradient_scale) {
  const ops::AdamWStep step{.lr = lr,
                            .beta1 = config_.beta1,
                            .beta2 = config_.beta2,
                            .eps = config_.eps,
                            .weight_decay = config_.weight_decay,
                            .t = t,
                            .gradient_scale = gradient_scale};
  for (int64_t unit = 0; unit < weights_.num_units(); ++unit) {
    if (weights_.slice(unit).numel() == 0) continue;
    ops::adamw(weights_.master(unit), weights_.gradient_shard(unit), weights_.exp_avg(unit), weights_.exp_avg_sq(unit),
               step, decayed_[static_cast<size_t>(unit)]);
  }
}

}  // namespace hearth::optim
