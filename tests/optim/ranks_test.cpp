// SPDX-License-Identifier: Apache-2.0
// The number of ranks changes where a step is computed, not what it computes: a least-squares problem whose samples
// are spread over ranks and micro-batches, trained with clipping, AdamW and a schedule.
#include <gtest/gtest.h>

#include <cmath>

#include "comm/ranks.h"
#include "decide.h"
#include "optim/adamw.h"
#include "parallel/shard_pieces.h"
#include "plan/optimizer/lr_schedule.h"
#include "support/distance.h"
#include "support/small_plan.h"

namespace hearth::optim {
namespace {

constexpr int64_t kSamples = 8;  // a step's; each rank sees its share, two at a time where it has that many
constexpr int64_t kDescentSteps = 200;

// The loss of a sample is |w - target|^2 / 2 over all weights of all units.
double target(int64_t sample, int64_t unit, int64_t element) {
  return 0.5 + std::sin(static_cast<double>(sample * 7919 + unit * 104'729 + element) * 0.61);
}

struct Run {
  std::vector<double> losses, first_gradient, parameters;
};

template <typename T>
double add_sample(parallel::ShardedWeights& weights, const plan::ParameterPlan& plan, int64_t sample) {
  double loss = 0;
  for (const plan::Parameter& p : plan.parameters) {
    const T* w = weights.gather(p.unit).template const_data_ptr<T>() + p.offset;
    T* gradient = weights.gradient(p.unit).template mutable_data_ptr<T>() + p.offset;
    for (int64_t i = 0; i < p.numel; ++i) {
      const T difference = w[i] - static_cast<T>(target(sample, p.unit, p.offset + i));
      gradient[i] += difference / static_cast<T>(kSamples);
      loss += static_cast<double>(difference) * static_cast<double>(difference) / 2;
    }
  }
  return loss;
}

template <typename T>
Run train(int64_t ranks) {
  const plan::ParameterPlan plan = test::tiny_plan(2);
  Run run;
  comm::run_ranks(ranks, 60, [&](comm::Group& group) {
    const DType dtype = sizeof(T) == 8 ? DType::kFloat64 : DType::kFloat32;
    parallel::ShardedWeights weights(plan, dtype, group, parallel::ShardedWeights::Mode::kTraining);
    AdamW optimizer({.lr = 0.05, .weight_decay = 0.1}, weights);
    const plan::LrSchedule schedule = plan::lr_schedule({.warmup_steps = 10}, 0.05, kDescentSteps);
    const bool writes = group.rank() == 0;
    for (int64_t step = 1; step <= kDescentSteps; ++step) {
      const int64_t share = kSamples / ranks, micro_batches = (share + 1) / 2;
      weights.begin_step(micro_batches);
      double loss = 0;
      for (int64_t micro = 0; micro < micro_batches; ++micro) {
        for (int64_t i = 2 * micro; i < std::min(share, 2 * micro + 2); ++i) {
          loss += add_sample<T>(weights, plan, group.rank() * share + i);
        }
        for (int64_t unit = weights.num_units() - 1; unit >= 0; --unit) weights.gradient_ready(unit);
      }
      loss = group.control().sum("the loss", std::vector{loss}).front() / kSamples;
      if (step == 1) {
        for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
          const at::Tensor shard = weights.gradient_shard(unit);
          std::vector<double> mine;
          for (int64_t i = 0; i < shard.numel(); ++i) mine.push_back(shard.const_data_ptr<T>()[i]);
          const std::string bytes(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(double));
          for (const std::string& part : group.control().all_gather("the weights", bytes)) {
            const auto* values = reinterpret_cast<const double*>(part.data());
            if (writes) run.first_gradient.insert(run.first_gradient.end(), values, values + part.size() / 8);
          }
        }
      }
      const double scale = decision_of(gradient_norm(weights), 1).gradient_scale;
      optimizer.step(plan::learning_rate(schedule, step), step, ops::decided(step, scale));
      weights.end_step();
      if (writes) run.losses.push_back(loss);
    }
    for (const plan::Parameter& p : plan.parameters) {
      const T* values = weights.gather(p.unit).template const_data_ptr<T>() + p.offset;
      if (writes) run.parameters.insert(run.parameters.end(), values, values + p.numel);
    }
  });
  return run;
}

template <typename T>
void expect_same(double gradient_tolerance, double loss_tolerance) {
  const Run one = train<T>(1);
  EXPECT_LT(one.losses.back(), 0.8 * one.losses.front());  // the spread of the targets, 2/3 of it, stays
  for (const int64_t ranks : {2, 4, 8}) {
    const Run several = train<T>(ranks);
    EXPECT_LE(test::relative_distance(several.first_gradient, one.first_gradient), gradient_tolerance) << ranks;
    EXPECT_LE(test::relative_distance(several.parameters, one.parameters), loss_tolerance) << ranks;
    for (size_t i = 0; i < one.losses.size(); ++i) {
      ASSERT_NEAR(several.losses[i], one.losses[i], loss_tolerance * one.losses[i])
          << ranks << " ranks, step " << i + 1;
    }
  }
}

TEST(Ranks, GiveTheSameRunInFloat64) { expect_same<double>(1e-15, 1e-12); }

TEST(Ranks, GiveTheSameRunInFloat32) { expect_same<float>(1e-6, 1e-5); }

}  // namespace
}  // namespace hearth::optim
