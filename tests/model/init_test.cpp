#include "model/init.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/unit_views.h"
#include "ops/tensor.h"

namespace hearth::model {
namespace {

plan::ParameterPlan small_plan() {
  config::Model m;
  m.dim = 128, m.n_layers = 2, m.n_heads = 4, m.n_kv_heads = 2, m.hidden_dim = 192;
  return plan::parameter_plan(plan::model_shape(m, 258));
}

at::Tensor whole(const plan::ParameterPlan& plan, int64_t unit, DType dtype = DType::kFloat64) {
  const int64_t numel = plan.units[static_cast<size_t>(unit)].numel;
  at::Tensor flat = ops::empty({numel}, dtype);
  init_unit(flat, plan, unit, {0, numel}, 42);
  return flat;
}

TEST(Init, StandardDeviationsAreTheSeedsRecipe) {
  const plan::ParameterPlan plan = small_plan();
  auto deviation = [&](const std::string& name) {
    const auto& p = plan.parameters.at(static_cast<size_t>(plan.find(name)));
    const at::Tensor x = parameter_view(whole(plan, p.unit), p);
    EXPECT_NEAR(x.mean().item<double>(), 0, 4 * p.init_std / std::sqrt(static_cast<double>(p.numel))) << name;
    return x.std().item<double>();
  };
  EXPECT_NEAR(deviation("tok_embeddings.weight"), 1, 0.02);
  EXPECT_NEAR(deviation("layers.1.attention.wq.weight"), 0.02, 0.0005);
  EXPECT_NEAR(deviation("layers.0.attention.wo.weight"), 0.02 / std::sqrt(2.0), 0.0005);
  EXPECT_NEAR(deviation("layers.1.feed_forward.w3.weight"), 0.02 / std::sqrt(4.0), 0.0005);
  // A normal cut at three standard deviations keeps 0.98658 of its deviation.
  EXPECT_NEAR(deviation("output.weight"), 0.98658 / std::sqrt(128.0), 0.001);
  const auto& output = plan.parameters.back();
  EXPECT_LE(parameter_view(whole(plan, output.unit), output).abs().max().item<double>(), 3 / std::sqrt(128.0));
}

TEST(Init, AnySliceHasTheNumbersOfTheWhole) {
  const plan::ParameterPlan plan = small_plan();
  for (int64_t unit = 0; unit < static_cast<int64_t>(plan.units.size()); ++unit) {
    const at::Tensor flat = whole(plan, unit);
    for (int64_t rank = 0; rank < 3; ++rank) {
      const plan::Slice slice = plan::unit_slice(plan.units[static_cast<size_t>(unit)], rank, 3);
      at::Tensor part = ops::empty({slice.numel()}, DType::kFloat64);
      init_unit(part, plan, unit, slice, 42);
      EXPECT_TRUE(part.equal(flat.narrow(0, slice.begin, slice.numel()))) << unit << " " << rank;
    }
  }
}

TEST(Init, SeedsDifferAndFloat32IsTheRoundedFloat64) {
  const plan::ParameterPlan plan = small_plan();
  EXPECT_TRUE(whole(plan, 1, DType::kFloat32).equal(whole(plan, 1).to(at::kFloat)));
  at::Tensor other = at::empty_like(whole(plan, 1));
  init_unit(other, plan, 1, {0, other.numel()}, 43);
  EXPECT_FALSE(other.equal(whole(plan, 1)));
}

}  // namespace
}  // namespace hearth::model
