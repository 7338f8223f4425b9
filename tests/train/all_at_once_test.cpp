// SPDX-License-Identifier: Apache-2.0
// All errors of a run are reported together, before it begins, and not one at each start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "config/load.h"
#include "formats/npy.h"
#include "plan/run_shape.h"
#include "poisoned.h"
#include "run/compute_device.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;

struct AllAtOnce : TinyData {
  // The error of a training that began nothing.
  std::string refused(const config::RunConfig& c) {
    const Error error = error_of([&] { run_training(c, {}); });
    EXPECT_EQ(error.code(), ExitCode::kUser);
    EXPECT_FALSE(path_exists(c.run_folder()));
    return error.what();
  }
};

TEST_F(AllAtOnce, WhatTheModelTheDataAndTheTokenizerDoNotHave) {
  config::RunConfig c = tiny_config(scratch);
  c.objective.kind = config::ObjectiveKind::kMaskedLm;
  c.objective.mask_token = "[MASK]";
  c.checkpoint.freeze = {"layers.7"};
  c.optimizer.group = {{"layers.8.*", 2, -1}, {"layers.0", 2, -1}, {"layers.9.*", 2, -1}};
  c.checkpoint.fresh = {"outputs"};
  c.training.token_weights = scratch / "weights.npy";
  formats::write_npy_vector(scratch / "weights.npy", std::vector<float>{1, 2, 3});
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
    EXPECT_THAT(error, HasSubstr(what)) << what << "\n" << error;
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
  c.memory.limit = "1 kB";  // needs the list of frozen parameters
  const std::string error = refused(c);
  EXPECT_TRUE(error.starts_with("error: the run has 5 errors\n")) << error;
  for (const char* what : {"checkpoint.freeze: \"layers.7\" matches no parameter",
                           " does not fit the model:", " has weights that the model lacks: layers.1.",
                           "checkpoint.drop: \"layers.5\" matches no weight that the model lacks",
                           "checkpoint.drop: \"layers.6\" matches no weight that the model lacks"})
    EXPECT_THAT(error, HasSubstr(what)) << what << "\n" << error;
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

// A run file, and the errors of a training with it.
struct RunFile : AllAtOnce {
  RunFile() {
    config::RunConfig first = tiny_config(scratch);
    first.training.steps = 4;
    train(first);
    poisoned = poisoned_checkpoint(first, 4, scratch / "poisoned").string();
    formats::write_npy_vector(scratch / "weights.npy", std::vector<float>{1, -2, 3});
  }

  // The error's lines without "why" and "fix". From the third column on, each is "FILE:LINE: WHAT".
  std::vector<std::string> errors_of(const std::vector<std::string>& lines) {
    toml = scratch / "run.toml";
    write_file_atomic(toml, join(lines, "\n") + "\n");
    const Error error = error_of([&] { run_training(config::read_and_check(toml, {}), {}); });
    code = error.code();
    std::vector<std::string> found;
    for (const std::string& line : split_lines(error.message())) {
      const bool is_detail = line.starts_with("    ");
      if (!is_detail) found.push_back(line);
    }
    return found;
  }

  // Checks that errors[index] begins with the file, `line` (0: no line) and `what`.
  static void expect(const std::vector<std::string>& errors, size_t index, int line, const std::string& what) {
    ASSERT_LT(index, errors.size()) << what;
    const size_t at = errors[index].find("run.toml");
    ASSERT_NE(at, std::string::npos) << errors[index];
    EXPECT_EQ(errors[index].substr(at, 10 + what.size() + std::to_string(line).size() + 1),
              fmt::format("run.toml:{}: {}", line, what));
  }

  std::string poisoned;
  Path toml;
  ExitCode code = ExitCode::kDone;
};

// Every fault and its line. One of the last two sources is missing, so the other decides about tokens. The model's
// names are known, so patterns are checked, and the checkpoint is searched for NaN. Memory and shapes are not checked:
// the model is not valid.
TEST_F(RunFile, EveryFaultStandsWithItsLine) {
  const std::vector<std::string> lines = {
      "[model]",
      "dim = 32",
      "n_layers = 2",
      "n_heads = 5",  // 4
      "vocab_size = 300",
      "[objective]",
      "kind = \"masked_lm\"",
      "mask_id = 300",  // 8
      "[training]",
      "steps = 400",
      "seq_len = 16777217",               // 11: longer than any table of angles
      "token_weights = \"weights.npy\"",  // 12
      "[numerics]",
      "fp8 = true",  // 14
      "[checkpoint]",
      "folder = \"new\"",
      fmt::format("initial_load_path = \"{}\"", poisoned),  // 17
      "fresh = [\"outputs\"]",                              // 18
      "freeze = [\"layers.7\"]",                            // 19
      "[[data.source]]",
      "path = \"data\"",
      "[[data.source]]",
      "path = \"nowhere\"",  // 23
      "[[optimizer.group]]",
      "pattern = \"layers.9\"",  // 25
      "lr_factor = 2",
  };
  const std::vector<std::string> errors = errors_of(lines);
  EXPECT_EQ(code, ExitCode::kUser);
  const std::string weights = (scratch / "weights.npy").string();
  const std::vector<std::pair<int, std::string>> expected = {
      {4, "model.n_heads = 5 does not divide model.dim = 32"},
      {8, "objective.mask_id = 300 is outside model.vocab_size = 300"},
      {11, "training.seq_len = 16777217 is out of range"},
      {12, weights + " has 3 token weights"},
      {12, weights + ": the weight of token 1 is -2"},
      {14, "numerics.fp8 needs a GPU that computes in bfloat16"},
      {17, poisoned + " holds NaN or infinity"},
      {18, "checkpoint.fresh: \"outputs\" matches no parameter"},
      {19, "checkpoint.freeze: \"layers.7\" matches no parameter"},
      {23, "data.source.1.path = \"nowhere\": "},
      {25, "optimizer.group.0.pattern: \"layers.9\" matches no parameter"}};
  ASSERT_EQ(errors.size(), 1 + expected.size()) << join(errors, "\n");
  EXPECT_EQ(errors[0], toml.string() + " has 11 errors");
  for (size_t i = 0; i < expected.size(); ++i) expect(errors, i + 1, expected[i].first, expected[i].second);
}

TEST_F(RunFile, AModelThatCanBeIsHeldAgainstMemoryAndTheCheckpoint) {
  std::vector<std::string> lines = {
      "[model]",
      "dim = 32",
      "n_layers = 2",
      "n_heads = 4",
      "vocab_size = 100",  // 5: too few
      "[objective]",
      "kind = \"masked_lm\"",
      "mask_token = \"[MASK]\"",  // 8
      "[training]",
      "steps = 400",
      "seq_len = 32",
      "[checkpoint]",
      "folder = \"new\"",
      fmt::format("initial_load_path = \"{}\"", poisoned),  // 14
      "[memory]",
      "limit = \"1 kB\"",  // 16
      "[data]",
      "path = \"data\"",
      "[[validation.set]]",
      "name = \"same\"",
      "path = \"data\"",  // 21
      "split = \"train\"",
      "[validation]",
      "freq = 2",
  };
  std::vector<std::string> errors = errors_of(lines);
  ASSERT_EQ(errors.size(), 6u) << join(errors, "\n");
  expect(errors, 1, 5, "model.vocab_size = 100 is smaller than the tokenizer's 258");
  expect(errors, 2, 8, "objective.mask_token = \"[MASK]\" is not a special token of the tokenizer");
  expect(errors, 3, 14, poisoned + " holds the weights of another model:");  // other key/value heads
  expect(errors, 4, 14, poisoned + " holds NaN or infinity");
  expect(errors, 5, 21, "validation set \"same\" is also training data");
  lines[4] = "vocab_size = 258";
  errors = errors_of(lines);
  ASSERT_EQ(errors.size(), 7u) << join(errors, "\n");
  expect(errors, 1, 8, "objective.mask_token");
  expect(errors, 2, 14, poisoned + " does not fit the model:");
  expect(errors, 3, 14, poisoned + " holds the weights of another model:");
  expect(errors, 4, 14, poisoned + " holds NaN or infinity");
  expect(errors, 5, 16, "the training needs ");
  expect(errors, 6, 21, "validation set ");
}

TEST_F(RunFile, WhatIsDamagedAloneKeepsItsExitCodeAndSaysWhere) {
  std::vector<std::string> lines = {
      "[model]",        "dim = 32",        "n_layers = 2",     "n_heads = 4",
      "n_kv_heads = 2", "hidden_dim = 64", "[training]",       "steps = 400",
      "seq_len = 32",   "[checkpoint]",    "folder = \"new\"", fmt::format("initial_load_path = \"{}\"", poisoned),
      "[data]",         "path = \"data\"", "[lr_scheduler]",   "warmup_steps = 1"};
  std::vector<std::string> errors = errors_of(lines);
  EXPECT_EQ(code, ExitCode::kDamaged);
  expect(errors, 0, 12, poisoned + " holds NaN or infinity");
  lines[3] = "n_heads = 32";
  lines[4] = "n_kv_heads = 32";
  errors = errors_of(lines);
  EXPECT_EQ(code, ExitCode::kUser);
  EXPECT_EQ(errors.size(), 3u);
  expect(errors, 1, 4, "the head width model.dim / model.n_heads = 32 / 32 = 1 is odd");
  expect(errors, 2, 12, poisoned + " holds NaN or infinity");
  lines[11] += "\nfresh = [\"layers.1\"]";  // layers.1 is then not loaded
  errors = errors_of(lines);
  EXPECT_EQ(errors.size(), 1u);
  expect(errors, 0, 4, "the head width ");
}

// A misspelled key has an unknown meaning: faults that follow from it are not reported.
TEST_F(RunFile, WhatFollowsFromAFaultIsNotSaid) {
  const std::vector<std::string> errors =
      errors_of({"[model]", "n_layer = 9", "dim = \"wide\"", "[training]", "steps = 400", "[checkpoint]",
                 "freeze = [\"layers.8\"]", "[memory]", "limit = \"1 kB\"", "[data]", "path = \"data\""});
  ASSERT_EQ(errors.size(), 3u) << join(errors, "\n");
  expect(errors, 1, 2, "model.n_layer is not a key");
  expect(errors, 2, 3, "model.dim = \"wide\": not a whole number");
}

TEST_F(RunFile, BothProgramsSayTheSame) {
  errors_of({"[model]", "n_heads = 5", "[training]", "steps = 400", "[checkpoint]", "freeze = [\"layers.7\"]", "[data]",
             "path = \"data\""});
  const std::string hearth = std::string(HEARTH_BIN_DIR) + "/hearth";
  const test::CommandResult one = test::run_command(fmt::format("{} train {}", hearth, toml.string()));
  const test::CommandResult two = test::run_command(fmt::format("{}-train train {}", hearth, toml.string()));
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_EQ(one.output, fmt::format("error: {0} has 2 errors\n"
                                    "  {0}:2: model.n_heads = 5 does not divide model.dim = 256\n"
                                    "      fix: every head has dim / n_heads elements; give model.head_dim for another "
                                    "width\n"
                                    "  {0}:6: checkpoint.freeze: \"layers.7\" matches no parameter\n"
                                    "      why: a pattern is a parameter's name or its beginning, such as \"output\", "
                                    "\"layers.3\" or \"*norm*\"\n"
                                    "      fix: did you mean layers?\n",
                                    toml.string()));
  EXPECT_EQ(two.output, one.output);
}

// A library of an older build: the layout of its table is unknown, so nothing in it is called.
TEST(GpuLibrary, OneOfAnotherBuildIsRefused) {
  const test::ScratchFolder scratch;
  for (const char* name : {"hearth-train", "libhwy.so.1"})
    if (path_exists(Path(HEARTH_BIN_DIR) / name))
      std::filesystem::copy_file(Path(HEARTH_BIN_DIR) / name, scratch / name);
  write_file_atomic(scratch / "other.c",
                    "void* hearth_gpu_kernels(void) { static unsigned table[64] = {1}; return table; }\n");
  const test::CommandResult built = test::run_command(fmt::format(
      "cc -shared -fPIC -o {} {}", (scratch / "libhearth_cuda.so").string(), (scratch / "other.c").string()));
  ASSERT_EQ(built.exit_code, 0) << built.output;
  const test::CommandResult result =
      test::run_command(fmt::format("{} bench step --set training.device=cuda", (scratch / "hearth-train").string()));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_TRUE(result.output.starts_with(fmt::format(
      "error: {} belongs to another build than this program\n  why: its interface is 00000001, this program's ",
      (scratch / "libhearth_cuda.so").string())))
      << result.output;
}

TEST(Float8, AGpuThatHasNoneIsNamed) {
  config::RunConfig c;
  c.numerics.fp8 = true;
  c.numerics.fp8_recipe = config::Fp8Recipe::kRowwiseHpWgrad;
  plan::ModelShape shape = plan::model_shape(c, plan::DataFacts{.vocab_size = 256});
  ops::Gpu gpu{"a GPU", "", 0, 0, 8, 6};
  EXPECT_STREQ(error_of([&] { run::check_float8(gpu, c, shape); }).what(),
               "error: numerics.fp8: a GPU cannot multiply in float8\n  why: its compute capability is 8.6, and float8 "
               "needs 8.9\n  fix: remove numerics.fp8");
  gpu.minor = 9;
  run::check_float8(gpu, c, shape);
  shape.layers.front().F = 24;
  EXPECT_EQ(error_of([&] { run::check_float8(gpu, c, shape); }).message(),
            "numerics.fp8: the feed-forward width is 24, which is not a multiple of 16");
  shape.layers.front().F = 32;
  run::check_float8(gpu, c, shape);
  c.parallelism.tensor_parallel_degree = 4;
  EXPECT_EQ(error_of([&] { run::check_float8(gpu, c, shape); }).message(),
            "numerics.fp8: the feed-forward width on one of the tensor-parallel ranks is 8, which is not a multiple of "
            "16");
  c.numerics.fp8 = false;
  run::check_float8(gpu, c, shape);
}

// Sums of float8 in float32 need Hopper, and their depth is the tokens.
TEST(Float8, GradientsOfWeightsNeedHopperAndWholeSixteensOfTokens) {
  config::RunConfig c;
  c.numerics.fp8 = true;
  c.numerics.fp8_recipe = config::Fp8Recipe::kRowwise;
  c.training.seq_len = 24;
  c.training.local_batch_size = 2;
  const plan::ModelShape shape = plan::model_shape(c, plan::DataFacts{.vocab_size = 256});
  EXPECT_STREQ(error_of([&] {
                 run::check_float8({"a GPU", "", 0, 0, 8, 9}, c, shape);
               }).what(),
               "error: numerics.fp8_recipe = \"rowwise\": a GPU cannot add products of float8 to float32\n  why: its "
               "compute capability is 8.9, and cuBLASLt has a factor for each row on 9.0 only\n  fix: set "
               "numerics.fp8_recipe = \"rowwise_hp_wgrad\": gradients of weights stay in bfloat16");
  const ops::Gpu hopper{"a GPU", "", 0, 0, 9, 0};
  run::check_float8(hopper, c, shape);
  c.training.local_batch_size = 1;
  EXPECT_EQ(error_of([&] { run::check_float8(hopper, c, shape); }).message(),
            "numerics.fp8_recipe = \"rowwise\": a rank's micro-batch has 24 tokens, not a multiple of 16");
  c.numerics.fp8_recipe = config::Fp8Recipe::kRowwiseHpWgrad;
  run::check_float8(hopper, c, shape);
}

}  // namespace
}  // namespace hearth::train
