#include "config/check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/environment.h"

namespace hearth::config {
namespace {

// What is wrong with a complete run file with `sets` applied.
std::vector<std::string> problems(std::vector<std::string> sets, Purpose purpose = Purpose::kTrain) {
  const test::ScratchFolder data;  // looks like a dataset
  write_file_atomic(data / "manifest.json", "{}");
  const std::vector<std::string> complete = {"data.path=" + data.path().string(), "training.steps=1000"};
  sets.insert(sets.begin(), complete.begin(), complete.end());
  LoadResult run = read_run({}, sets);
  check(run, purpose);
  std::vector<std::string> texts;
  for (const Problem& problem : run.problems) texts.push_back(problem.what);
  return texts;
}

std::vector<std::string> one(const std::string& text) { return {text}; }

TEST(Check, ACompleteConfigurationHasNoProblems) { EXPECT_EQ(problems({}), std::vector<std::string>{}); }

TEST(Check, ExactlyOneLengthIsGiven) {
  EXPECT_EQ(problems({"training.steps=0"}), one("the length of the training is not given"));
  EXPECT_EQ(problems({"training.tokens=1000"}),
            one("the length of the training is given two times: steps = 1000, tokens = 1000, epochs = 0"));
  EXPECT_EQ(problems({"training.tokens=1000", "training.epochs=0.5"}),
            one("the length of the training is given three times: steps = 1000, tokens = 1000, epochs = 0.5"));
  EXPECT_TRUE(problems({"training.steps=0", "training.epochs=0.5"}).empty());
}

TEST(Check, TheGlobalBatchIsAMultipleOfWhatAllRanksComputeAtOnce) {
  EXPECT_EQ(problems({"training.global_batch_size=30", "training.local_batch_size=4",
                      "parallelism.data_parallel_shard_degree=2"}),
            one("training.global_batch_size = 30 is not a multiple of 8 = local_batch_size 4 x ranks 2"));
  EXPECT_EQ(problems({"training.global_batch_size=4"}),
            one("training.global_batch_size = 4 is not a multiple of 8 = local_batch_size 8 x ranks 1"));
  EXPECT_TRUE(problems({"training.global_batch_size=32"}).empty());
}

TEST(Check, HeadsDivideTheModel) {
  EXPECT_EQ(problems({"model.n_heads=3"}), one("model.n_heads = 3 does not divide model.dim = 256"));
  EXPECT_EQ(problems({"model.n_kv_heads=3"}), one("model.n_kv_heads = 3 does not divide model.n_heads = 4"));
  EXPECT_EQ(problems({"model.dim=12"}), one("the head width model.dim / model.n_heads = 12 / 4 = 3 is odd"));
  EXPECT_EQ(problems({"model.n_heads=3", "model.n_kv_heads=2"}).size(), 2u);
}

TEST(Check, TheFeedForwardWidthIsGivenOnce) {
  EXPECT_EQ(problems({"model.hidden_dim=64", "model.ffn_dim_multiplier=1.5"}),
            one("model.hidden_dim and model.ffn_dim_multiplier are both given"));
}

TEST(Check, TheWarmUpIsGivenOnceAndFitsIn) {
  EXPECT_EQ(problems({"lr_scheduler.warmup_steps=5", "lr_scheduler.warmup_fraction=0.1"}),
            one("lr_scheduler.warmup_steps and lr_scheduler.warmup_fraction are both given"));
  EXPECT_EQ(problems({"lr_scheduler.warmup_steps=1001"}),
            one("lr_scheduler.warmup_steps = 1001 is more than training.steps = 1000"));
  EXPECT_EQ(problems({"training.steps=100"}),
            one("lr_scheduler.warmup_steps = 200 (the default) is more than training.steps = 100"));
  EXPECT_TRUE(problems({"training.steps=100", "lr_scheduler.warmup_fraction=0.1"}).empty());
  EXPECT_TRUE(problems({"lr_scheduler.warmup_steps=1000"}).empty());  // all of it
}

TEST(Check, AKeyThatWouldHaveNoEffectIsAnError) {
  EXPECT_EQ(problems({"lr_scheduler.decay_type=constant", "lr_scheduler.decay_ratio=0.2"}),
            one("lr_scheduler.decay_ratio = 0.2 has no effect with decay_type = \"constant\""));
  EXPECT_EQ(problems({"lr_scheduler.decay_type=constant", "lr_scheduler.min_lr_factor=0.2"}),
            one("lr_scheduler.min_lr_factor = 0.2 has no effect with decay_type = \"constant\""));
  EXPECT_EQ(problems({"validation.steps=3"}), one("validation.steps = 3 has no effect with validation.freq = 0"));
  EXPECT_EQ(problems({"checkpoint.initial_load_model_only=false"}),
            one("checkpoint.initial_load_model_only = false has no effect without checkpoint.initial_load_path"));
}

TEST(Check, DataIsGivenAndADataset) {
  EXPECT_EQ(problems({"data.path="}), one("data.path is not given"));
  const test::ScratchFolder folder;
  const std::string nowhere = (folder / "nowhere").string(), text = folder.path().string();
  for (const auto purpose : {Purpose::kTrain, Purpose::kBench}) {
    EXPECT_EQ(problems({"data.path=" + nowhere}, purpose),
              one(fmt::format("data.path = \"{0}\": {0} does not exist", nowhere)));
    EXPECT_EQ(problems({"data.path=" + text}, purpose),
              one(fmt::format("data.path = \"{0}\": {0} holds no dataset", text)));
  }
}

TEST(Check, ABenchmarkNeedsNeitherDataNorALengthButAShape) {
  EXPECT_TRUE(problems({"data.path=", "training.steps=0"}, Purpose::kBench).empty());
  EXPECT_EQ(problems({"model.n_heads=3"}, Purpose::kBench), one("model.n_heads = 3 does not divide model.dim = 256"));
}

TEST(Check, ARuleIsSilentAboutAKeyThatIsWrongInItself) {
  EXPECT_EQ(problems({"model.n_heads=0"}), one("model.n_heads = 0 is out of range"));
  EXPECT_EQ(problems({"training.local_batch_size=no", "training.global_batch_size=3"}),
            one("training.local_batch_size = no: not a whole number"));
}

TEST(Check, AProblemNamesTheLineOfAKeyThatIsInTheFile) {
  const test::ScratchFolder folder;
  write_file_atomic(folder / "run.toml",
                    "[training]\nsteps = 5\n\n[lr_scheduler]\nwarmup_fraction = 0.5\n[model]\ndim = 30\n"
                    "[data]\npath = \"gone\"\n");
  LoadResult run = read_run(folder / "run.toml", {"training.global_batch_size=3"});
  check(run, Purpose::kTrain);
  ASSERT_EQ(run.problems.size(), 3u);
  EXPECT_EQ(run.problems[0].where, (folder / "run.toml").string() + ":7");
  EXPECT_EQ(run.problems[0].what, "model.n_heads = 4 does not divide model.dim = 30");
  EXPECT_EQ(run.problems[1].where, "--set");
  EXPECT_EQ(run.problems[2].where, (folder / "run.toml").string() + ":9");
  EXPECT_EQ(run.problems[2].what, fmt::format("data.path = \"gone\": {} does not exist", (folder / "gone").string()));
}

}  // namespace
}  // namespace hearth::config
