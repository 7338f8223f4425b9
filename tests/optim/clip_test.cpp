// SPDX-License-Identifier: Apache-2.0
#include "optim/clip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "comm/ranks.h"
#include "decide.h"
#include "optim/adamw.h"
#include "support/small_plan.h"

namespace hearth::optim {
namespace {

using test::tiny_plan;

// Every rank's share of the gradient of one element.
void reduce_one(parallel::ShardedWeights& weights, int64_t unit, int64_t element, float share) {
  weights.begin_step(1);
  weights.gradient(unit).mutable_data_ptr<float>()[element] = share;
  for (int64_t u = 0; u < weights.num_units(); ++u) weights.gradient_ready(u);
}

TEST(GradientNorm, IsGlobalAndTheSameOnEveryRank) {
  const plan::ParameterPlan plan = tiny_plan();
  for (int64_t ranks = 1; ranks <= 4; ++ranks) {
    comm::run_ranks(ranks, 60, [&](comm::Group& group) {
      parallel::ShardedWeights weights(plan, DType::kFloat32, group, parallel::ShardedWeights::Mode::kTraining);
      for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
        weights.begin_step(1);
        for (int64_t u = 0; u < weights.num_units(); ++u) {
          weights.gradient(u).mutable_data_ptr<float>()[3] = u == unit ? 3 : 0;
          weights.gradient(u).mutable_data_ptr<float>()[15] = u == unit ? 4 : 0;
          weights.gradient_ready(u);
        }
        EXPECT_EQ(gradient_norm(weights), 5 * static_cast<double>(ranks));
      }
    });
  }
}

TEST(GradientNorm, LetsNanAndInfinityThroughOnEveryRank) {
  const plan::ParameterPlan plan = tiny_plan();
  comm::run_ranks(3, 60, [&](comm::Group& group) {
    parallel::ShardedWeights weights(plan, DType::kFloat32, group, parallel::ShardedWeights::Mode::kTraining);
    const bool last = group.rank() == 2;
    reduce_one(weights, 1, 7, last ? std::numeric_limits<float>::quiet_NaN() : 1);
    EXPECT_TRUE(std::isnan(gradient_norm(weights)));
    reduce_one(weights, 0, 0, last ? std::numeric_limits<float>::infinity() : 1);
    EXPECT_TRUE(std::isinf(gradient_norm(weights)));
    reduce_one(weights, 0, 0, 1e30f);  // its square is too large for float32
    EXPECT_NEAR(gradient_norm(weights), 3e30, 1e24);
  });
}

TEST(GradientScale, IsTorchsCoefficient) {
  const auto scale = [](double norm, double max_norm) { return decision_of(norm, max_norm).gradient_scale; };
  EXPECT_EQ(scale(4, 1), 1 / (4 + 1e-6));
  EXPECT_EQ(scale(0.5, 1), 1);
  EXPECT_LT(scale(1, 1), 1);  // torch adds 1e-6, too
  EXPECT_EQ(scale(0, 1), 1);
  EXPECT_EQ(scale(100, 0), 1);  // off
  EXPECT_EQ(scale(std::numeric_limits<double>::infinity(), 1), 0);
  EXPECT_TRUE(std::isnan(scale(std::nan(""), 1)));
}

}  // namespace
}  // namespace hearth::optim
