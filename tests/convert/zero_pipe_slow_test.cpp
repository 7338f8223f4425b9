// SPDX-License-Identifier: Apache-2.0
// DeepSpeed goes on from files that Hearth wrote, as GPT-NeoX runs it: see zero_pipe.py. HEARTH_DEEPSPEED_PYTHON names
// a Python that has DeepSpeed 0.19.8.
#include <cstdlib>

#include "convert/neox/rank.h"
#include "zero.h"

namespace hearth::convert {
namespace {

struct PipeCase {
  ZeroCase model;
  const char* accumulation;  // of gradients: decides which of its two optimizers DeepSpeed takes
};

// Runs a command of zero_pipe.py; returns the last line that it prints.
std::string pipe(const std::string& words) {
  const std::string script = test::source_path("tests/convert/zero_pipe.py");
  const test::CommandResult result = test::run_command(
      fmt::format("DS_ACCELERATOR=cpu '{}' '{}' {} 2>&1", std::getenv("HEARTH_DEEPSPEED_PYTHON"), script, words));
  return last_line(result, words);
}

// A model with a file for each layer in SCRATCH/NAME, for this many ranks of tensor parallel.
void make_layers(const test::ScratchFolder& scratch, const std::string& name, const ZeroCase& c, int tp) {
  const std::string at = (scratch / name).string();
  foreign(fmt::format("make {} meta=0 L={} D=144 V=132 tied={:d}", at, c.layers, c.tied));
  foreign(fmt::format("neox {} {} {} 1", at, c.dialect, tp));
}

// The run file of the training.
std::string pipe_run_file(const test::ScratchFolder& scratch, const ZeroCase& c) {
  const std::string config = zero_run_file(scratch, c);
  write_text(scratch / "run.toml",
             read_file(scratch / "run.toml") +
                 "steps = 20\nmixed_precision_param = \"bfloat16\"\n[optimizer]\nlr = 1e-3\n[lr_scheduler]\n"
                 "rule = \"neox\"\nwarmup_steps = 4\nend_step = 20\ndecay_type = \"linear\"\n");
  return config;
}

// The state of DeepSpeed's optimizer that zero_pipe.py left in the folder is that of the native checkpoint.
void expect_state(const std::string& folder, const std::string& native, const std::string& config) {
  for (const char* kind : {"weight", "exp_avg", "exp_avg_sq"})
    converted(fmt::format("--to native {0} {1}/state-{2}/global_step2 {1}/native-{2}", config, folder, kind));
  EXPECT_EQ(zero(fmt::format("same {} {}", folder, native)), "equal");
}

TEST(PipeParts, AreDeepSpeeds) {
  if (std::getenv("HEARTH_DEEPSPEED_PYTHON") == nullptr)
    GTEST_SKIP() << "HEARTH_DEEPSPEED_PYTHON names no Python with DeepSpeed";
  constexpr int64_t kLayers = 24;
  std::string ours;
  for (int64_t layers = 1; layers <= kLayers; ++layers) {
    plan::ModelShape shape{};
    shape.layers.resize(static_cast<size_t>(layers));
    for (int64_t count = 1; count <= layers; ++count)
      ours +=
          fmt::format("{}{}", ours.empty() ? "" : " ", fmt::join(neox_stages(shape, count, QkvLayout::kSplit), ","));
  }
  EXPECT_EQ(pipe(fmt::format("parts {}", kLayers)), ours);
}

struct Pipe : testing::TestWithParam<PipeCase> {};

// A training that begins with the weights in Hearth's files has the bits of one that begins with the model's.
TEST_P(Pipe, DeepSpeedBeginsWithHearthsWeights) {
  HEARTH_NEEDS_ORACLE();
  if (std::getenv("HEARTH_DEEPSPEED_PYTHON") == nullptr)
    GTEST_SKIP() << "HEARTH_DEEPSPEED_PYTHON names no Python with DeepSpeed";
  const test::ScratchFolder scratch;
  const ZeroCase& c = GetParam().model;
  const std::string at = scratch.path().string();
  make_layers(scratch, "f", c, c.tp);
  make_layers(scratch, "on", c, c.tp);
  converted(
      fmt::format("--to neox --to-qkv-layout {1} --tensor-parallel {2} --pipeline-parallel {3} {4} {0}/f/neox "
                  "{0}/ours",
                  at, c.dialect, c.tp, c.pp, pipe_run_file(scratch, c)));
  const auto train = [&](const std::string& out, const std::string& from) {
    pipe(fmt::format("train {}/{} {} {} {} 1 {} {}", at, out, c.tp, c.dp, c.pp, GetParam().accumulation, from));
  };
  train("f", "");
  train("on", "weights:" + at + "/ours");
  EXPECT_EQ(pipe(fmt::format("same {0}/f/trained/global_step1 {0}/on/trained/global_step1", at)), "equal");
}

// DeepSpeed's moments after 3 steps are those that Hearth reads. Steps 4 and 5 after a way through Hearth have the bits
// of the training that nobody interrupted.
TEST_P(Pipe, DeepSpeedGoesOnFromHearthsFiles) {
  HEARTH_NEEDS_ORACLE();
  if (std::getenv("HEARTH_DEEPSPEED_PYTHON") == nullptr)
    GTEST_SKIP() << "HEARTH_DEEPSPEED_PYTHON names no Python with DeepSpeed";
  const test::ScratchFolder scratch;
  const ZeroCase& c = GetParam().model;
  const std::string at = scratch.path().string(), config = pipe_run_file(scratch, c);
  const auto train = [&](const std::string& out, const ZeroCase& on, const std::string& steps,
                         const std::string& from) {
    return pipe(
        fmt::format("train {} {} {} {} {} {} {}", out, on.tp, on.dp, on.pp, steps, GetParam().accumulation, from));
  };
  make_layers(scratch, "f", c, c.tp);
  const std::string files = train(at + "/f", c, "3+2", "");
  EXPECT_THAT(files, testing::HasSubstr(fmt::format("bf16_zero_pp_rank_{}_mp_rank_{:02}_", c.dp - 1, c.pp * c.tp - 1)));
  converted(fmt::format("--to native {1} {0}/f/trained/global_step3 {0}/native", at, config));
  EXPECT_EQ(checkpoint::Reader::open(at + "/native").manifest().step, 3);
  expect_state(at + "/f", at + "/native", config);
  const std::string to = fmt::format("--to neox --resume --to-qkv-layout {} --data-parallel {}", c.dialect, c.dp);
  converted(fmt::format("{1} --tensor-parallel {2} --pipeline-parallel {3} {0}/native {0}/ours", at, to, c.tp, c.pp));
  make_folders(scratch / "on");
  std::filesystem::copy(scratch / "f/neox", scratch / "on/neox", std::filesystem::copy_options::recursive);
  train(at + "/on", c, "2", at + "/ours");
  expect_state(at + "/on", at + "/native", config);
  EXPECT_EQ(pipe(fmt::format("same {0}/f/trained/global_step5 {0}/on/trained/global_step5", at)), "equal");
  if (c.tp * c.pp == 1) return;
  // One rank, then, goes on with the training of several.
  converted(fmt::format("{1} {0}/native {0}/whole", at, to));
  make_layers(scratch, "one", c, 1);
  train(at + "/one", {c.dialect, 1, c.dp, 1}, "1", at + "/whole");
  expect_state(at + "/one", at + "/native", config);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Pipe,
                         testing::Values(PipeCase{{"split", 2, 2, 1}, "fp32"}, PipeCase{{"slots", 1, 3, 1}, "bf16"},
                                         PipeCase{{"slots", 2, 1, 1, true}, "bf16"},
                                         PipeCase{{"split", 1, 1, 2}, "fp32"}, PipeCase{{"slots", 2, 1, 2}, "bf16"},
                                         PipeCase{{"slots", 1, 2, 2, true}, "bf16"},
                                         PipeCase{{"split", 2, 2, 2, true}, "fp32"},
                                         PipeCase{{"split", 1, 1, 3, false, 5}, "bf16"}),
                         [](const auto& info) { return fmt::format("Case{}", info.index); });

}  // namespace
}  // namespace hearth::convert
