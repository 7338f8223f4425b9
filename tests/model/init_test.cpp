// SPDX-License-Identifier: Apache-2.0
#include "model/init.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/tensor.h"
#include "parameter_view.h"

namespace hearth::model {
namespace {

using config::InitLaw;

config::Model small_model() {
  config::Model m;
  m.dim = 128, m.n_layers = 2, m.n_heads = 4, m.n_kv_heads = 2, m.hidden_dim = 192;
  m.qkv_bias = m.qk_norm = true;
  return m;
}

plan::ParameterPlan small_plan() { return plan::parameter_plan(plan::model_shape(small_model(), 258)); }

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

// Parts of a model whose layers ranks share: each element has the value that it has in the whole model.
TEST(Init, OfPartsIsThatOfTheWholeToTheBit) {
  const plan::ModelShape shape = plan::model_shape(small_model(), 259);  // odd: the parts of the vocabulary differ
  const plan::ParameterPlan one = plan::parameter_plan(shape);
  for (const int64_t rank : {0, 1}) {
    const plan::ParameterPlan part = plan::parameter_plan(shape, {rank, 2});
    EXPECT_EQ(part.num_parameters, one.num_parameters);
    for (size_t i = 0; i < one.parameters.size(); ++i) {
      const plan::Parameter &p = part.parameters[i], &q = one.parameters[i];
      at::Tensor expected = parameter_view(whole(one, q.unit), q);
      for (size_t d = 0; d < p.shape.size(); ++d)
        expected = expected.narrow(static_cast<int64_t>(d), p.part.offsets[d], p.part.sizes[d]);
      EXPECT_TRUE(parameter_view(whole(part, p.unit), p).equal(expected)) << p.name;
    }
  }
}

// GPT-NeoX's laws, by their formulas: width 128, 2 layers. Llemma's weights began with small_init and wang_init.
TEST(Init, GptNeoxsLawsHaveTheirStandardDeviations) {
  struct Case {
    InitLaw init, output_init;
    double std, output_std;
  };
  for (const Case& c : {Case{InitLaw::kNormal, InitLaw::kScaledNormal, 0.03, 0.03 / 2},
                        {InitLaw::kScaledNormal, InitLaw::kNormal, 0.03 / 2, 0.03},
                        {InitLaw::kSmallInit, InitLaw::kWangInit, std::sqrt(2.0 / 640), 1 / std::sqrt(128.0)},
                        {InitLaw::kWangInit, InitLaw::kSmallInit, 1 / std::sqrt(128.0), std::sqrt(2.0 / 640)}}) {
    config::Model m = small_model();
    m.init = c.init, m.output_init = c.output_init, m.init_std = 0.03;
    m.enable_weight_tying = c.init == InitLaw::kSmallInit;
    const plan::ParameterPlan plan = plan::parameter_plan(plan::model_shape(m, 258));
    std::vector<at::Tensor> units;
    for (size_t u = 0; u < plan.units.size(); ++u) units.push_back(whole(plan, static_cast<int64_t>(u)));
    for (const plan::Parameter& p : plan.parameters) {
      const at::Tensor x = parameter_view(units[static_cast<size_t>(p.unit)], p);
      const bool writes = p.name.ends_with("wo.weight") || p.name.ends_with("w2.weight");
      const bool norm = p.name.ends_with("norm.weight");
      const double expected = norm || p.name.ends_with(".bias") ? 0 : writes ? c.output_std : c.std;
      // The standard deviation of a sample's is std / sqrt(2 n).
      EXPECT_NEAR(x.std().item<double>(), expected, 5 * expected / std::sqrt(2.0 * static_cast<double>(p.numel)))
          << name_of(c.init) << " " << p.name;
      EXPECT_NEAR(x.mean().item<double>(), norm ? 1 : 0, 5 * expected / std::sqrt(static_cast<double>(p.numel)));
    }
  }
}

// Gemma's norms multiply by 1 + their weights.
TEST(Init, NormsThatAddOneBeginAtZero) {
  config::Model m = small_model();
  m.norm_type = config::NormType::kRmsNorm1p;
  m.norm_placement = config::NormPlacement::kBoth;
  m.output_bias = m.ffn_bias = true;
  const plan::ParameterPlan plan = plan::parameter_plan(plan::model_shape(m, 258));
  int norms = 0, biases = 0;
  for (const plan::Parameter& p : plan.parameters) {
    norms += p.name.ends_with("norm.weight") ? 1 : 0;
    biases += p.name.ends_with(".bias") ? 1 : 0;
    if (p.shape.size() > 1) continue;
    EXPECT_EQ(parameter_view(whole(plan, p.unit), p).abs().max().item<double>(), 0) << p.name;
  }
  EXPECT_EQ(norms, 2 * 6 + 1);  // of inputs and outputs, of queries and of keys
  EXPECT_EQ(biases, 2 * (3 + 1 + 3));
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
