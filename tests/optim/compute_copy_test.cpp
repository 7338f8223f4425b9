// SPDX-License-Identifier: Apache-2.0
// Steps in bfloat16 from float32 masters: the optimizer writes the compute copy, so no gather casts. Every gathered
// weight is compared with its master, rounded, and with a run whose gathers cast.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <span>
#include <vector>

#include "comm/ranks.h"
#include "ops/step_decision.h"
#include "optim/optimizer.h"
#include "plan/muon.h"
#include "support/small_plan.h"

namespace hearth::optim {
namespace {

struct CopyCase {
  const char* name;
  int64_t ranks = 1;
  plan::Sharding sharding = {};
  bool muon = false, frozen = false;
};
void PrintTo(const CopyCase& c, std::ostream* out) { *out << c.name; }

constexpr int64_t kCopySteps = 4, kSkippedStep = 2;

std::vector<bool> trained_of(const CopyCase& c, const plan::ParameterPlan& plan) {
  std::vector<bool> trained(plan.parameters.size(), true);
  if (c.frozen) trained[0] = trained[static_cast<size_t>(plan.find("layers.1.attention.wk.weight"))] = false;
  return trained;
}

void add_gradients(parallel::ShardedWeights& weights, double number) {
  for (int64_t unit = weights.num_units() - 1; unit >= 0; --unit) {
    const at::Tensor w = weights.gather(unit);
    if (unit > 0) weights.prefetch(unit - 1);
    weights.gradient(unit).add_(w.to(at::kFloat), 0.5).add_(number);
    weights.release(unit);
    weights.gradient_ready(unit);
  }
}

// The bits of all weights that each step of rank 0 uses, and at last those of its masters. `casts`: from the masters.
std::vector<double> run_of(const CopyCase& c, comm::Group& group, bool casts) {
  const c10::InferenceMode no_gradients;
  const plan::ParameterPlan plan = test::small_plan();
  config::Optimizer config{.lr = 0.05, .weight_decay = 0.1};
  if (c.muon) config.name = config::OptimizerName::kMuon;
  const plan::Precision precision{DType::kFloat32, DType::kBFloat16, DType::kFloat32, DType::kFloat32};
  parallel::ShardedWeights weights(plan, precision, group, parallel::ShardedWeights::Mode::kTraining,
                                   trained_of(c, plan), c.sharding, at::kCPU, plan::muon_matrices(config, plan));
  ShardedOptimizer optimizer(config, weights);
  for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
    const plan::Slice slice = weights.slice(unit);
    float* const master = weights.master(unit).mutable_data_ptr<float>();
    for (int64_t i = slice.begin; i < slice.end; ++i)
      master[i - slice.begin] = std::sin(static_cast<float>(i * 31 + unit * 7));
  }
  weights.masters_changed();
  std::vector<double> seen;
  for (int64_t step = 1; step <= kCopySteps; ++step) {
    weights.begin_step(1);
    add_gradients(weights, 0.1 * static_cast<double>(step + 4 * group.rank()));
    kernels::Decision decision = ops::read_decision(ops::decided(step));
    decision.apply = step == kSkippedStep ? 0 : 1;
    optimizer.step(0.05, step, ops::from_bytes(std::as_bytes(std::span(&decision, 1))));
    weights.end_step();
    if (casts) weights.masters_changed();
    for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
      const plan::Slice slice = weights.slice(unit);
      const at::Tensor whole = weights.gather(unit), own = whole.narrow(0, slice.begin, slice.numel());
      EXPECT_TRUE(own.equal(weights.master(unit).to(at::kBFloat16))) << "step " << step << " unit " << unit;
      for (const double w : ops::to_doubles(whole)) seen.push_back(w);
      weights.release(unit);
    }
  }
  for (int64_t unit = 0; unit < weights.num_units(); ++unit)
    for (const double w : ops::to_doubles(weights.master(unit))) seen.push_back(w);
  return seen;
}

class ComputeCopy : public testing::TestWithParam<CopyCase> {};

TEST_P(ComputeCopy, IsWhatACastWouldBe) {
  const CopyCase& c = GetParam();
  comm::run_ranks(c.ranks, 60, [&](comm::Group& group) {
    const std::vector<double> written = run_of(c, group, false);
    EXPECT_EQ(written, run_of(c, group, true));
    for (const double w : written) ASSERT_TRUE(std::isfinite(w));
  });
}
INSTANTIATE_TEST_SUITE_P(Of, ComputeCopy,
                         testing::Values(CopyCase{.name = "one"}, CopyCase{.name = "frozen", .frozen = true},
                                         CopyCase{.name = "muon", .muon = true},
                                         CopyCase{.name = "two_ranks", .ranks = 2},
                                         CopyCase{.name = "three_ranks", .ranks = 3, .frozen = true},
                                         CopyCase{.name = "two_ranks_muon", .ranks = 2, .muon = true, .frozen = true},
                                         CopyCase{.name = "zero2", .ranks = 2, .sharding = {.zero_stage = 2}},
                                         CopyCase{.name = "zero3", .ranks = 2, .sharding = {.zero_stage = 3}},
                                         CopyCase{.name = "hsdp", .ranks = 4, .sharding = {.replicas = 2}}));

// A master that nobody announces as changed shows whether a gather casts.
TEST(ComputeCopyOfSteps, IsCastOnlyAfterOtherChangesOfMasters) {
  const c10::InferenceMode no_gradients;
  const plan::ParameterPlan plan = test::small_plan();
  const auto group = comm::single();
  const plan::Precision precision{DType::kFloat32, DType::kBFloat16, DType::kFloat32, DType::kFloat32};
  parallel::ShardedWeights weights(plan, precision, *group, parallel::ShardedWeights::Mode::kTraining);
  ShardedOptimizer optimizer({.lr = 0.05}, weights);
  const auto step = [&](int64_t number, bool by_optimizer) {
    weights.begin_step(1);
    add_gradients(weights, 1);
    if (by_optimizer) optimizer.step(0.05, number, ops::decided(number));
    weights.end_step();
  };
  const auto gathered_after = [&](float value) {
    weights.master(1).fill_(value);
    return weights.gather(1)[0].item<float>();
  };
  step(1, true);
  EXPECT_LT(gathered_after(8), 0);  // what AdamW has written
  step(2, false);
  EXPECT_EQ(gathered_after(16), 16);
  step(3, true);
  EXPECT_NE(gathered_after(8), 8);
  weights.master(1).fill_(32);
  weights.masters_changed();
  EXPECT_EQ(weights.gather(1)[0].item<float>(), 32);
}

}  // namespace
}  // namespace hearth::optim
