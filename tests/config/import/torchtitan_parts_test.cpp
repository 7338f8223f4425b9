// SPDX-License-Identifier: Apache-2.0
// Values of torchtitan that mean something else in Hearth, or that another key would lose.
#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// torch.nn.utils.clip_grad_norm_ multiplies by max_norm / norm.
TEST_F(ImportTest, ANormOfZeroOfTorchtitanIsRefused) {
  const std::string file = "[model]\nflavor = \"8B\"\n[training]\nsteps = 10\nlocal_batch_size = 1\n";
  const auto toml = [&](const std::string& norm) {
    return error({{"a.toml", file + "max_norm = " + norm + "\n"}}, {.ranks = 1});
  };
  for (const std::string zero : {"0", "0.0"})
    EXPECT_THAT(toml(zero), StartsWith("error: a.toml:6: training.max_norm = 0: torchtitan scales every gradient to 0 "
                                       "with it, and Hearth would not clip\n  fix: give the norm that was meant"))
        << zero;
  EXPECT_THAT(toml("0.5"), StartsWith("imported:"));
  EXPECT_THAT(error({{"a.json", R"({"model_spec": {"name": "llama3"}, "training": {"max_norm": 0}})"}}, {.ranks = 1}),
              HasSubstr("training.max_norm = 0: torchtitan scales every gradient to 0"));
}

TEST_F(ImportTest, ASecondSeedOfAForkOfTorchtitanIsNoted) {
  const auto text = [](const std::string& seeds) {
    return import_text({{"a.toml", "[model]\nflavor = \"8B\"\n[training]\nbatch_size = 1\n" + seeds}}, {.ranks = 1});
  };
  const std::string left_out = "training.shuffle_seed = 7 is left out: training.seed orders the data, too.";
  EXPECT_THAT(text("seed = 3\nshuffle_seed = 7\n"), HasSubstr(left_out));
  EXPECT_THAT(text("seed = 7\nshuffle_seed = 7\n"), Not(HasSubstr(left_out)));
  EXPECT_THAT(text("shuffle_seed = 7\n"), Not(HasSubstr(left_out)));
}

TEST_F(ImportTest, TorchtitansExpertsAreBalancedByTheirBias) {
  const auto text = [&](const std::string& flavor, const std::string& more) {
    return import_text({{"run.toml", "[model]\nname = \"qwen3\"\nflavor = \"" + flavor +
                                         "\"\n[training]\nsteps = 10\nseq_len = 128\nlocal_batch_size = 1\n"
                                         "[parallelism]\nexpert_parallel_degree = 8\n" +
                                         more}},
                       {.ranks = 64});
  };
  const std::string small = text("30B-A3B", "");
  EXPECT_THAT(small, HasSubstr("name = \"qwen3_moe\""));
  EXPECT_THAT(small, HasSubstr("expert_bias = true"));
  EXPECT_THAT(small, HasSubstr("load_balance_coeff = 0.001"));
  EXPECT_THAT(small, HasSubstr("expert_parallel_degree = 8"));
  EXPECT_THAT(small, Not(HasSubstr("rope_theta")));
  EXPECT_THAT(text("235B-A22B", ""), HasSubstr("rope_theta = 5000000"));
  EXPECT_THAT(error({{"run.toml",
                      "[model]\nname = \"qwen3\"\nflavor = \"30B-A3B\"\n[training]\nsteps = 10\n"
                      "debug_moe_force_load_balance = true\n"}},
                    {.ranks = 8}),
              HasSubstr("experts are chosen by scores"));
}

}  // namespace
}  // namespace hearth::config
