// The rules about the optimizer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "problems.h"

namespace hearth::config {
namespace {

TEST(Check, GroupsOfTheOptimizerHaveAPatternAndChangeSomething) {
  const auto group = [](const std::string& text) {
    const test::ScratchFolder folder;
    write_file_atomic(folder / "run.toml", "[[optimizer.group]]\n" + text);
    LoadResult run = read_run(folder / "run.toml", {"data.path=" + dataset(), "training.steps=1000"});
    check(run, Purpose::kTrain);
    std::vector<std::string> texts;
    for (const Problem& problem : run.problems) texts.push_back(problem.what);
    return texts;
  };
  EXPECT_TRUE(group("pattern = \"*norm*\"\nlr_factor = 2\n").empty());
  EXPECT_EQ(group("lr_factor = 2\n"), one("optimizer.group.0.pattern is not given"));
  EXPECT_EQ(group("pattern = \"*norm*\"\n"), one("optimizer.group.0 changes nothing"));
  EXPECT_EQ(problems({"optimizer.name=Adam", "optimizer.form=transformers"}),
            one("optimizer.form = \"transformers\" has no effect with optimizer.name = \"Adam\""));
}

TEST(Check, MuonsKeysAreForMuonAloneAndMuonIsForOneRankOnACpu) {
  const std::pair<const char*, const char*> keys[] = {{"optimizer.muon_momentum", "0.9"},
                                                      {"optimizer.muon_nesterov", "false"},
                                                      {"optimizer.muon_ns_steps", "6"},
                                                      {"optimizer.muon_adjust_lr_fn", "original"}};
  for (const auto& [key, value] : keys) {
    const std::string set = fmt::format("{}={}", key, value);
    const std::vector<std::string> without = problems({set});
    ASSERT_EQ(without.size(), 1U) << key;
    EXPECT_TRUE(without[0].starts_with(key)) << without[0];
    EXPECT_TRUE(without[0].ends_with("has no effect with optimizer.name = \"AdamW\"")) << without[0];
    EXPECT_EQ(problems({"optimizer.name=Muon", set}), std::vector<std::string>{});
  }
  EXPECT_EQ(problems({"optimizer.name=Muon", "optimizer.form=transformers"}), std::vector<std::string>{});
  EXPECT_EQ(problems({"optimizer.name=Muon", "parallelism.data_parallel_shard_degree=2"}),
            one("optimizer.name = \"Muon\" does not go with parallelism.data_parallel_shard_degree = 2: it "
                "orthogonalises whole matrices, and each rank owns parts of them"));
  EXPECT_EQ(problems({"optimizer.name=Muon", "training.device=cuda"}),
            one("optimizer.name = \"Muon\" does not go with training.device = \"cuda\": its kernels are for a CPU"));
  EXPECT_EQ(problems({"optimizer.name=Muon", "numerics.stochastic_rounding=true", "training.dtype=bfloat16",
                      "training.mixed_precision_param=bfloat16"}),
            one("numerics.stochastic_rounding does not go with optimizer.name = \"Muon\": its update of a matrix is "
                "rounded to nearest"));
  for (const char* wrong : {"optimizer.muon_momentum=1", "optimizer.muon_ns_steps=0", "optimizer.muon_ns_steps=100",
                            "optimizer.muon_adjust_lr_fn=none"}) {
    EXPECT_EQ(problems({"optimizer.name=Muon", wrong}).size(), 1U) << wrong;
  }
}

}  // namespace
}  // namespace hearth::config
