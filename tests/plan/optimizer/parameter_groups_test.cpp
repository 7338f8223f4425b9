// SPDX-License-Identifier: Apache-2.0
#include "plan/optimizer/parameter_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/errors.h"
#include "support/small_plan.h"

namespace hearth::plan {
namespace {

using testing::HasSubstr;

ParameterSettings of(const std::vector<ParameterSettings>& all, const plan::ParameterPlan& plan, const char* name) {
  return all.at(static_cast<size_t>(plan.find(name)));
}

TEST(ParameterGroups, TheFirstPatternThatMatchesCounts) {
  const plan::ParameterPlan plan = test::small_plan();
  config::Optimizer config{.weight_decay = 0.1};
  config.group = {{"layers.0.*norm*", 0.5, 0.3}, {"*norm*", 2, -1}, {"layers.*.attention.wq", 1, 0}};
  const auto settings = parameter_settings(config, plan);
  const auto expect = [&](const char* name, double lr_factor, double weight_decay) {
    EXPECT_EQ(of(settings, plan, name).lr_factor, lr_factor) << name;
    EXPECT_EQ(of(settings, plan, name).weight_decay, weight_decay) << name;
  };
  expect("layers.0.ffn_norm.weight", 0.5, 0.3);  // a norm that decays, because its group says so
  expect("layers.1.ffn_norm.weight", 2, 0);
  expect("norm.weight", 2, 0);
  expect("layers.1.attention.wq.weight", 1, 0);
  expect("layers.1.attention.wv.weight", 1, 0.1);
  expect("tok_embeddings.weight", 1, 0.1);
}

TEST(ParameterGroups, APatternThatMatchesNothingIsRefused) {
  const plan::ParameterPlan plan = test::small_plan();
  config::Optimizer config;
  config.group = {{"layers.7.*", 2, -1}};
  EXPECT_EQ(test::error_of([&] { parameter_settings(config, plan); }).message(),
            "optimizer.group.0.pattern: \"layers.7.*\" matches no parameter");
  config.group = {{"layers.*", 2, -1}, {"layers.1.*", 3, -1}};
  EXPECT_EQ(test::error_of([&] { parameter_settings(config, plan); }).message(),
            "optimizer.group.1.pattern: \"layers.1.*\" matches only what groups above it match");
  config.group = {{"layers.7", 2, -1}, {"output", 2, -1}, {"output", 3, -1}};
  const std::string both = test::error_of([&] { parameter_settings(config, plan); }).what();
  EXPECT_THAT(both, HasSubstr("optimizer.group.0.pattern: \"layers.7\" matches no parameter")) << both;
  EXPECT_THAT(both, HasSubstr("optimizer.group.2.pattern: \"output\" matches only what groups above"));
  config.group = {{"ffn_norm", 2, -1}};  // a beginning, not a part
  EXPECT_EQ(test::error_of([&] { parameter_settings(config, plan); }).code(), ExitCode::kUser);
}

}  // namespace
}  // namespace hearth::plan
