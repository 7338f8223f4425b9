// What is wrong with a run is said at once, before it begins, and not one error a start.
#include <gtest/gtest.h>

#include "data/npy.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

struct AllAtOnce : TinyData {
  // The error of a training, and that nothing was begun.
  std::string refused(const config::RunConfig& c) {
    const Error error = error_of([&] { run_training(c, {}); });
    EXPECT_EQ(error.code(), ExitCode::kUser);
    EXPECT_FALSE(path_exists(c.run_folder()));
    return error.what();
  }
};

TEST_F(AllAtOnce, WhatTheModelTheDataAndTheTokenizerDoNotHave) {
  config::RunConfig c = tiny_config(scratch);
  c.objective.kind = "masked_lm";
  c.objective.mask_token = "[MASK]";
  c.checkpoint.freeze = {"layers.7"};
  c.optimizer.group = {{"layers.8.*", 2, -1}, {"layers.0", 2, -1}, {"layers.9.*", 2, -1}};
  c.checkpoint.fresh = {"outputs"};
  c.training.token_weights = scratch / "weights.npy";
  data::write_npy_vector(scratch / "weights.npy", std::vector<float>{1, 2, 3});
  const std::string error = refused(c);
  EXPECT_TRUE(error.starts_with("error: the run has 6 errors\n")) << error;
  for (const char* what :
       {"weights.npy has 3 token weights\n      why: the tokenizer has 258 ids\n      fix: make it with",
        "objective.mask_token = \"[MASK]\" is not a special token of the tokenizer\n      why: it has",
        "optimizer.group.0.pattern: \"layers.8.*\" matches no parameter",
        "optimizer.group.2.pattern: \"layers.9.*\" matches no parameter",
        "checkpoint.fresh: \"outputs\" matches no parameter\n      why: a pattern is a parameter's name or its "
        "beginning",
        "fix: did you mean output?", "checkpoint.freeze: \"layers.7\" matches no parameter"})
    EXPECT_NE(error.find(what), std::string::npos) << what << "\n" << error;
}

TEST_F(AllAtOnce, WhatACheckpointDoesNotHave) {
  config::RunConfig first = tiny_config(scratch);
  first.training.steps = 4;
  train(first);
  config::RunConfig c = tiny_config(scratch);
  c.job.dump_folder = "second";
  c.checkpoint.initial_load_path = first.run_folder();
  c.model.n_layers = 1;
  c.model.hidden_dim = 96;
  c.checkpoint.drop = {"layers.5", "layers.6"};
  c.checkpoint.freeze = {"layers.7"};
  c.memory.limit = "1 kB";  // needs to know what is frozen
  const std::string error = refused(c);
  EXPECT_TRUE(error.starts_with("error: the run has 5 errors\n")) << error;
  for (const char* what : {"checkpoint.freeze: \"layers.7\" matches no parameter",
                           " does not fit the model:", " has weights that the model has no place for: layers.1.",
                           "checkpoint.drop: \"layers.5\" matches no weight that is left over",
                           "checkpoint.drop: \"layers.6\" matches no weight that is left over"})
    EXPECT_NE(error.find(what), std::string::npos) << what << "\n" << error;
}

TEST_F(AllAtOnce, ARestartMovesNothingBeforeAllIsRight) {
  config::RunConfig c = tiny_config(scratch);
  c.training.steps = 4;
  train(c);
  c.checkpoint.freeze = {"layers.7"};
  config::TrainOptions options;
  options.restart = true;
  EXPECT_EQ(error_of([&] { run_training(c, options); }).message(),
            "checkpoint.freeze: \"layers.7\" matches no parameter");
  EXPECT_TRUE(path_exists(c.run_folder() / "checkpoints"));
}

}  // namespace
}  // namespace hearth::train
