// SPDX-License-Identifier: Apache-2.0
#include "plan/name_pattern.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/errors.h"

namespace hearth::plan {
namespace {

TEST(NamePattern, IsANameItsBeginningOrHasStars) {
  const std::string name = "layers.12.attention.wq.weight";
  for (const char* yes : {"layers", "layers.12", "layers.12.attention.wq.weight", "layers.*.attention", "*wq*", "*",
                          "layers.*.wq.weight", "l*s", "*.weight", "**wq**"})
    EXPECT_TRUE(matches(yes, name)) << yes;
  for (const char* no : {"layer", "layers.1", "attention", "layers.12.", "wq", "*wk*", "", "layers.*.wq.bias"})
    EXPECT_FALSE(matches(no, name)) << no;
}

TEST(NamePattern, WhatMatchesNothingIsAnErrorWithTheNearestName) {
  config::Model model;
  model.vocab_size = 10;
  const ParameterPlan plan = parameter_plan(model_shape(model, 0));
  const std::vector<bool> found = matching_parameters({"output", "*norm*"}, plan, "checkpoint.fresh");
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string& name = plan.parameters[i].name;
    EXPECT_EQ(found[i], name == "output.weight" || name.find("norm") != std::string::npos) << name;
  }
  const Error error = test::error_of([&] {
    matching_parameters({"output", "tok_embedding"}, plan, "checkpoint.fresh");
  });
  EXPECT_EQ(error.message(), "checkpoint.fresh: \"tok_embedding\" matches no parameter");
  EXPECT_EQ(error.fix(), "did you mean tok_embeddings.weight?");
}

}  // namespace
}  // namespace hearth::plan
