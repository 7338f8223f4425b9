// SPDX-License-Identifier: Apache-2.0
// AdamW, Muon, clipping and the learning rate against PyTorch's, over 50 steps, on one rank and on several.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "comm/ranks.h"
#include "decide.h"
#include "optim/optimizer.h"
#include "parallel/shard_pieces.h"
#include "plan/muon.h"
#include "plan/optimizer/lr_schedule.h"
#include "support/distance.h"
#include "support/environment.h"
#include "support/python.h"

namespace hearth::optim {
namespace {

constexpr int64_t kSteps = 50;

// The formulas of optimizer_reference.py.
double weight_at(int64_t index, int64_t i) { return static_cast<double>((i * 37 + index * 11) % 257 - 128) / 512; }
double gradient_at(int64_t index, int64_t i, int64_t step) {
  const double size = step % 3 == 0 ? 1.0 / 256 : 1.0 / 65536;
  return static_cast<double>((i * 7919 + index * 131 + step * 104729) % 2003 - 1001) * size;
}

struct Case {
  std::string name;
  DType dtype = DType::kFloat32;
  int64_t ranks = 1;
  config::Optimizer optimizer{.name = config::OptimizerName::kAdamW,
                              .lr = 1e-2,
                              .weight_decay = 0.1,
                              .weight_decay_on = config::WeightDecayOn::kMatrices};
  config::LrScheduler scheduler{
      .warmup_steps = 5, .decay_ratio = -1, .decay_type = config::DecayType::kLinear, .min_lr_factor = 0.1};
  double max_norm = 1;
  double tolerance = 0;      // 0: that of AdamW
  bool in_bfloat16 = false;  // products, with weights and momentum in float32

  plan::Precision precision() const {
    if (!in_bfloat16) return dtype;
    return {dtype, DType::kBFloat16, dtype, dtype};
  }
  double largest_distance() const { return tolerance > 0 ? tolerance : dtype == DType::kFloat64 ? 1e-12 : 1e-6; }
};

plan::ParameterPlan small_plan() {
  config::Model model;
  model.dim = 24;
  model.n_layers = 1;
  model.n_heads = 4;
  model.n_kv_heads = 2;
  model.hidden_dim = 28;
  return plan::parameter_plan(plan::model_shape(model, 37));
}

// One step's numbers, as the reference writes them.
struct Step {
  double norm, lr;
  std::vector<double> parameters;
};

nlohmann::json settings_of(const plan::ParameterPlan& plan, const Case& c) {
  nlohmann::json settings = {{"dtype", dtype_name(c.dtype)},
                             {"products", dtype_name(c.precision().compute)},
                             {"momentum", c.optimizer.muon_momentum},
                             {"nesterov", c.optimizer.muon_nesterov},
                             {"ns_steps", c.optimizer.muon_ns_steps},
                             {"adjust_lr_fn", name_of(c.optimizer.muon_adjust_lr_fn)},
                             {"steps", kSteps},
                             {"lr", c.optimizer.lr},
                             {"beta1", c.optimizer.beta1},
                             {"beta2", c.optimizer.beta2},
                             {"eps", c.optimizer.eps},
                             {"weight_decay", c.optimizer.weight_decay},
                             {"weight_decay_on", name_of(c.optimizer.weight_decay_on)},
                             {"max_norm", c.max_norm},
                             {"name", name_of(c.optimizer.name)},
                             {"groups", nlohmann::json::array()},
                             {"names", nlohmann::json::array()},
                             {"schedule",
                              {{"total", kSteps},
                               {"warmup", c.scheduler.warmup_steps},
                               {"decay_ratio", c.scheduler.decay_ratio},
                               {"type", name_of(c.scheduler.decay_type)},
                               {"floor", c.scheduler.min_lr_factor}}}};
  for (const plan::Parameter& p : plan.parameters) {
    settings["shapes"].push_back(p.shape);
    settings["names"].push_back(p.name);
  }
  for (const config::OptimizerGroup& g : c.optimizer.group)
    settings["groups"].push_back(
        {{"pattern", g.pattern}, {"lr_factor", g.lr_factor}, {"weight_decay", g.weight_decay}});
  return settings;
}

// All cases in one run of Python: loading torch takes longer than training. Steps of all cases, one after the other.
std::vector<Step> ask_pytorch(const plan::ParameterPlan& plan, const std::vector<Case>& cases) {
  const test::ScratchFolder folder;
  nlohmann::json runs;
  for (const Case& c : cases) runs.push_back(settings_of(plan, c));
  write_file_atomic(folder / "settings.json", runs.dump());
  const test::CommandResult result = test::run_python(fmt::format(
      "tests/optim/optimizer_reference.py {} {}", (folder / "settings.json").string(), (folder / "out.f64").string()));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const std::string bytes = read_file(folder / "out.f64");
  const auto row = static_cast<size_t>(2 + plan.num_parameters);
  EXPECT_EQ(bytes.size(), cases.size() * kSteps * row * 8);
  std::vector<double> numbers(bytes.size() / 8);
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  std::vector<Step> steps;
  for (size_t begin = 0; begin + row <= numbers.size(); begin += row) {
    const double* at = numbers.data() + begin;
    steps.push_back({at[0], at[1], {at + 2, at + row}});
  }
  return steps;
}

template <typename T>
double element(const void* data, int64_t i) {
  return static_cast<double>(static_cast<const T*>(data)[i]);
}
double read(const at::Tensor& t, int64_t i) {
  return t.scalar_type() == at::kDouble ? element<double>(t.data_ptr(), i) : element<float>(t.data_ptr(), i);
}
void write(const at::Tensor& t, int64_t i, double value) {
  if (t.scalar_type() == at::kDouble) {
    t.mutable_data_ptr<double>()[i] = value;
  } else {
    t.mutable_data_ptr<float>()[i] = static_cast<float>(value);
  }
}

// The whole parameters, in plan order. Collective.
std::vector<double> parameters_of(parallel::ShardedWeights& weights) {
  std::vector<double> values;
  for (const plan::Parameter& p : weights.plan().parameters) {
    const at::Tensor whole = weights.group().size() == 1 ? weights.master(p.unit) : weights.gather(p.unit);
    for (int64_t i = 0; i < p.numel; ++i) values.push_back(read(whole, p.offset + i));
  }
  return values;
}

void write_weights(parallel::ShardedWeights& weights) {
  const auto& parameters = weights.plan().parameters;
  for (size_t index = 0; index < parameters.size(); ++index) {
    const plan::Parameter& p = parameters[index];
    const plan::Slice slice = weights.slice(p.unit);
    for (int64_t i = 0; i < p.numel; ++i) {
      const int64_t at = p.offset + i - slice.begin;
      if (at >= 0 && at < slice.numel()) write(weights.master(p.unit), at, weight_at(static_cast<int64_t>(index), i));
    }
  }
  weights.masters_changed();
}

// Rank 0 brings twice the gradient and rank 1 takes it away again, so that only the sum over ranks is right.
void write_gradients(parallel::ShardedWeights& weights, int64_t step) {
  const comm::Group& group = weights.group();
  const double share = group.size() == 1 ? 1 : group.rank() == 0 ? 2 : group.rank() == 1 ? -1 : 0;
  const auto& parameters = weights.plan().parameters;
  for (size_t index = 0; index < parameters.size(); ++index) {
    const plan::Parameter& p = parameters[index];
    const at::Tensor gradient = weights.gradient(p.unit);
    for (int64_t i = 0; i < p.numel; ++i) {
      write(gradient, p.offset + i, share * gradient_at(static_cast<int64_t>(index), i, step));
    }
  }
}

std::vector<Step> run_ours(const plan::ParameterPlan& plan, const Case& c) {
  std::vector<Step> steps;
  comm::run_ranks(c.ranks, 60, [&](comm::Group& group) {
    parallel::ShardedWeights weights(plan, c.precision(), group, parallel::ShardedWeights::Mode::kTraining, {}, {},
                                     at::kCPU, plan::muon_matrices(c.optimizer, plan));
    ShardedOptimizer optimizer(c.optimizer, weights);
    const ops::StepDecision decision({}, at::kCPU);
    const plan::LrSchedule schedule = plan::lr_schedule(c.scheduler, c.optimizer.lr, kSteps);
    write_weights(weights);
    for (int64_t step = 1; step <= kSteps; ++step) {
      weights.begin_step(1);
      write_gradients(weights, step);
      for (int64_t unit = 0; unit < weights.num_units(); ++unit) weights.gradient_ready(unit);
      const double lr = plan::learning_rate(schedule, step);
      decision.decide(ops::zeros({2}, DType::kFloat64), squared_gradient_norm(weights), 0, c.max_norm);
      const double norm = ops::read_decision(decision.decision()).grad_norm;
      optimizer.step(lr, step, decision.decision());
      weights.end_step();
      std::vector<double> parameters = parameters_of(weights);
      if (group.rank() == 0) steps.push_back({norm, lr, std::move(parameters)});
    }
  });
  return steps;
}

Case with(
    std::string name, DType dtype, int64_t ranks, void (*change)(Case&) = [](Case&) {}) {
  Case c;
  c.name = std::move(name);
  c.dtype = dtype;
  c.ranks = ranks;
  change(c);
  return c;
}

std::vector<Case> cases() {
  return {with("float32", DType::kFloat32, 1),
          with("float64", DType::kFloat64, 1),
          with("float32 on 3 ranks", DType::kFloat32, 3),
          with("float64 on 4 ranks", DType::kFloat64, 4),
          with("decay on all", DType::kFloat64, 2,
               [](Case& c) { c.optimizer.weight_decay_on = config::WeightDecayOn::kAll; }),
          with("no clipping", DType::kFloat64, 1, [](Case& c) { c.max_norm = 0; }),
          with("cosine", DType::kFloat64, 1, [](Case& c) { c.scheduler.decay_type = config::DecayType::kCosine; }),
          with("warm-up, stable, decay", DType::kFloat64, 1,
               [](Case& c) {
                 c.scheduler.decay_ratio = 0.25;  // 12.5 steps: Python rounds to 12
                 c.scheduler.decay_type = config::DecayType::kSqrt;
                 c.scheduler.min_lr_factor = 0;
               }),
          with("other betas, no warm-up", DType::kFloat32, 1,
               [](Case& c) {
                 c.optimizer.beta1 = 0.8;
                 c.optimizer.beta2 = 0.999;
                 c.optimizer.eps = 1e-5;
                 c.scheduler.warmup_steps = 0;
               }),
          with("Adam", DType::kFloat64, 2, [](Case& c) { c.optimizer.name = config::OptimizerName::kAdam; }),
          with("Adam in float32", DType::kFloat32, 1, [](Case& c) { c.optimizer.name = config::OptimizerName::kAdam; }),
          with("groups", DType::kFloat64, 3, [](Case& c) {
            c.optimizer.group = {{"layers.0.attention_norm.weight", 3, 0.5},  // a norm, which would not decay
                                 {"*norm*", 0.25, -1},
                                 {"layers.*.attention.wq.weight", 0, -1},
                                 {"output.*", 0.5, 0}};
          })};
}

// Muon's matrices are square, wide (2:1 and 7:6) and tall.
Case muon(
    std::string name, DType dtype, double tolerance, void (*change)(Case&) = [](Case&) {}) {
  Case c = with(std::move(name), dtype, 1, change);
  c.optimizer.name = config::OptimizerName::kMuon;
  c.tolerance = tolerance;
  return c;
}

std::vector<Case> muon_cases() {
  return {muon("Muon in float64", DType::kFloat64, 1e-12),
          muon("original", DType::kFloat64, 1e-12,
               [](Case& c) { c.optimizer.muon_adjust_lr_fn = config::MuonAdjustLrFn::kOriginal; }),
          muon("not nesterov", DType::kFloat64, 1e-12, [](Case& c) { c.optimizer.muon_nesterov = false; }),
          muon("other momentum and steps", DType::kFloat64, 1e-12,
               [](Case& c) {
                 c.optimizer.muon_momentum = 0.8;
                 c.optimizer.muon_ns_steps = 3;
               }),
          muon("groups and no decay", DType::kFloat64, 1e-12,
               [](Case& c) {
                 c.optimizer.weight_decay = 0;
                 c.optimizer.group = {{"layers.*.attention.wq.weight", 0, -1},
                                      {"layers.*.attention.w*", 3, 0.5},
                                      {"output.*", 0.5, 0.25}};
               }),
          muon("Muon in float32", DType::kFloat32, 2e-6),
          muon("Muon with products in bfloat16", DType::kFloat32, 1e-2, [](Case& c) { c.in_bfloat16 = true; })};
}

void expect_same_steps(const std::vector<Case>& all) {
  const plan::ParameterPlan plan = small_plan();
  const std::vector<Step> expected = ask_pytorch(plan, all);
  ASSERT_EQ(expected.size(), all.size() * kSteps);
  for (size_t k = 0; k < all.size(); ++k) {
    SCOPED_TRACE(all[k].name);
    const std::vector<Step> ours = run_ours(plan, all[k]);
    const double tolerance = all[k].largest_distance();
    const double exact = all[k].dtype == DType::kFloat64 ? 1e-12 : 1e-6;  // the gradients do not depend on the weights
    bool clipped = false, unclipped = false;
    for (size_t i = 0; i < kSteps; ++i) {
      const Step& reference = expected[k * kSteps + i];
      EXPECT_NEAR(ours[i].lr, reference.lr, 1e-12 * reference.lr) << "step " << i + 1;
      EXPECT_NEAR(ours[i].norm, reference.norm, exact * reference.norm) << "step " << i + 1;
      EXPECT_LE(test::relative_distance(ours[i].parameters, reference.parameters), tolerance) << "step " << i + 1;
      (ours[i].norm > 1 ? clipped : unclipped) = true;
    }
    EXPECT_TRUE(clipped && unclipped);  // both sides of the limit were visited
    EXPECT_GT(test::relative_distance(ours.back().parameters, ours.front().parameters), 0.1);
  }
}

TEST(OptimizerOracle, MakesTheSameFiftySteps) {
  HEARTH_NEEDS_ORACLE();
  expect_same_steps(cases());
}

TEST(OptimizerOracle, MakesTheSameFiftyStepsOfMuon) {
  HEARTH_NEEDS_ORACLE();
  expect_same_steps(muon_cases());
}

}  // namespace
}  // namespace hearth::optim
