// SPDX-License-Identifier: Apache-2.0
// Masks in a text, filled by a model that was trained to.
#include "infer/fill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "train/tiny_run.h"

namespace hearth::infer {
namespace {

using testing::HasSubstr;

struct Fill : ::testing::Test {
  // A text in which every third letter follows from its neighbours.
  Fill() {
    std::string text;
    for (int i = 0; i < 600; ++i) text += i % 2 == 0 ? "abc " : "xyz ";
    make_folders(scratch / "text");
    write_file_atomic(scratch / "text/a.txt", text);
    data::BuildOptions options;
    options.out = scratch / "data";
    options.paths = {scratch / "text"};
    data::BuildProgress progress;
    data::build_dataset(options, progress);
  }
  config::RunConfig config(const std::string& kind) const {
    config::RunConfig c = train::tiny_config(scratch);
    c.job.dump_folder = kind;
    c.training.steps = 150;
    c.model.vocab_size = 259;
    c.objective.kind = *hearth::config::find_choice<hearth::config::ObjectiveKind>(kind);
    if (kind == "masked_lm") c.objective.mask_id = 258;
    c.checkpoint.interval = 0;
    return c;
  }
  test::ScratchFolder scratch;
};

TEST_F(Fill, AModelPutsBackWhatItLearnedSurestFirst) {
  train::train(config("masked_lm"));
  const auto model = load_model(scratch / "masked_lm");
  EXPECT_EQ(mask_text(*model), "[MASK]");
  const Filled filled = fill_masks(*model, {.text = "abc x[MASK]z a[MASK][MASK] xyz"});
  EXPECT_EQ(filled.text, "abc xyz abc xyz");
  ASSERT_EQ(filled.positions.size(), 3u);
  std::vector<int64_t> sorted = filled.positions;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted[1] - sorted[0], 4);
  EXPECT_EQ(sorted[2] - sorted[1], 1);
  // The same request gives the same text; a temperature may give another one.
  const Filling drawn{.text = "[MASK][MASK][MASK][MASK]", .sampling = {.temperature = 5}, .seed = 3};
  EXPECT_EQ(fill_masks(*model, drawn).ids, fill_masks(*model, drawn).ids);

  EXPECT_EQ(test::error_of([&] { fill_masks(*model, {.text = "abc"}); }).message(), "the text has no mask");
  EXPECT_EQ(test::error_of([&] { fill_masks(*model, {.text = std::string(40, 'a') + "[MASK]"}); }).message(),
            "the text has 43 tokens");
  const Error error = test::error_of([&] { run_generate({.checkpoint = scratch / "masked_lm", .prompt = "abc"}); });
  EXPECT_THAT(error.message(), HasSubstr("does not continue a text")) << error.what();
}

TEST_F(Fill, AModelOfTheNextTokenRefuses) {
  config::RunConfig c = config("causal_lm");
  c.training.steps = 1;
  c.lr_scheduler.warmup_steps = 0;
  train::train(c);
  const auto model = load_model(scratch / "causal_lm");
  EXPECT_THAT(test::error_of([&] { fill_masks(*model, {.text = "a[MASK]"}); }).message(),
              HasSubstr("does not fill masks"));
  EXPECT_EQ(test::error_of([&] {
              run_generate({.checkpoint = scratch / "causal_lm", .prompt = "a", .picture = "x.png"});
            }).message(),
            "--picture is for recordings");
}

}  // namespace
}  // namespace hearth::infer
