// SPDX-License-Identifier: Apache-2.0
// What a flavor sets, and what beats it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "config/families.h"
#include "config/load.h"
#include "run_file.h"

namespace hearth::config {
namespace {

using FlavorTest = RunFileTest;

TEST_F(FlavorTest, AGivenWidthBeatsTheFlavorsRuleForIt) {
  const LoadResult run = read_run(file("[model]\nflavor = \"8B\"\nhidden_dim = 100\n"), {});
  EXPECT_EQ(run.config.model.hidden_dim, 100);
  EXPECT_EQ(run.config.model.ffn_dim_multiplier, 0);
}

TEST_F(FlavorTest, QwensFlavorsAlsoSetTheirWidthsBiasesAndNorms) {
  const LoadResult small = read_run(file("[model]\nname = \"qwen2.5\"\nflavor = \"0.5B\"\n"), {});
  EXPECT_TRUE(small.problems.empty());
  EXPECT_EQ(small.config.model.hidden_dim, 4864);
  EXPECT_TRUE(small.config.model.qkv_bias);
  EXPECT_FALSE(small.config.model.qk_norm);
  EXPECT_EQ(small.config.model.norm_eps, 1e-6);
  EXPECT_EQ(small.origin("model.head_dim").kind, Origin::Kind::kDefault);
  const LoadResult large =
      read_run(file("[model]\nname = \"qwen3\"\nflavor = \"32B\"\nqk_norm = false\n"), {"model.ffn_dim_multiplier=2"});
  EXPECT_TRUE(large.problems.empty());
  EXPECT_EQ(large.config.model.head_dim, 128);
  EXPECT_EQ(large.origin("model.head_dim").kind, Origin::Kind::kFlavor);
  EXPECT_FALSE(large.config.model.qk_norm) << "given";
  EXPECT_EQ(large.config.model.hidden_dim, 0) << "the given factor counts";
}

// The order of keys in a family's files does not matter: gemma3 has keys that apply only where later ones are set.
TEST(Flavor, ARunWithItHasAllOfItsKeys) {
  for (const Flavor& flavor : flavors()) {
    RunConfig published;
    published.model = model_of(flavor);
    const LoadResult run = read_run_text(
        fmt::format("[model]\nname = \"{}\"\nflavor = \"{}\"\n", flavor.model_name, flavor.name), "run.toml", ".");
    for (const Field& field : fields()) {
      const auto holds = [&](const Condition& condition) { return condition.holds(published); };
      if (field.section != "model" || field.key == "name" || field.key == "flavor" ||
          !std::all_of(field.applies_when.begin(), field.applies_when.end(), holds))
        continue;
      EXPECT_EQ(field.value(run.config), field.value(published))
          << flavor.model_name << " " << flavor.name << " " << field.name();
    }
  }
}

}  // namespace
}  // namespace hearth::config
