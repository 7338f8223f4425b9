// DeepSpeed goes on from files that Hearth wrote, as GPT-NeoX runs it: see zero_pipe.py. HEARTH_DEEPSPEED_PYTHON names
// a Python that has DeepSpeed 0.19.8.
#include <cstdlib>

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
  EXPECT_EQ(result.exit_code, 0) << words << "\n" << result.output;
  std::string text = result.output;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// A model with a file for each layer in SCRATCH/f, and the run file of its training.
std::string make_layers(const test::ScratchFolder& scratch, const ZeroCase& c) {
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f meta=0 L=2 D=144 V=132", at));
  foreign(fmt::format("neox {}/f {} {} 1", at, c.dialect, c.tp));
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

struct Pipe : testing::TestWithParam<PipeCase> {};

// Steps 4 and 5 after a way through Hearth have the bits of the training that nobody interrupted.
TEST_P(Pipe, DeepSpeedGoesOnFromHearthsFiles) {
  HEARTH_NEEDS_ORACLE();
  if (std::getenv("HEARTH_DEEPSPEED_PYTHON") == nullptr)
    GTEST_SKIP() << "HEARTH_DEEPSPEED_PYTHON names no Python with DeepSpeed";
  const test::ScratchFolder scratch;
  const ZeroCase& c = GetParam().model;
  const std::string at = scratch.path().string(), config = make_layers(scratch, c);
  const auto train = [&](const std::string& out, int tp, int dp, const std::string& steps, const std::string& from) {
    pipe(fmt::format("train {} {} {} 1 {} {} {}", out, tp, dp, steps, GetParam().accumulation, from));
  };
  train(at + "/f", c.tp, c.dp, "3+2", "");
  converted(fmt::format("--to native {1} {0}/f/trained/global_step3 {0}/native", at, config));
  const std::string to = fmt::format("--to neox --resume --to-qkv-layout {} --data-parallel {}", c.dialect, c.dp);
  converted(fmt::format("{1} --tensor-parallel {2} {0}/native {0}/ours", at, to, c.tp));
  make_folders(scratch / "on");
  std::filesystem::copy(scratch / "f/neox", scratch / "on/neox", std::filesystem::copy_options::recursive);
  train(at + "/on", c.tp, c.dp, "2", at + "/ours");
  expect_state(at + "/on", at + "/native", config);
  EXPECT_EQ(pipe(fmt::format("same {0}/f/trained/global_step5 {0}/on/trained/global_step5", at)), "equal");
  if (c.tp == 1) return;
  // One rank of tensor parallel goes on with the training of several.
  converted(fmt::format("{1} {0}/native {0}/whole", at, to));
  foreign(fmt::format("make {}/one meta=0 L=2 D=144 V=132", at));
  foreign(fmt::format("neox {}/one {} 1 1", at, c.dialect));
  train(at + "/one", 1, c.dp, "1", at + "/whole");
  expect_state(at + "/one", at + "/native", config);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Pipe,
                         testing::Values(PipeCase{{"split", 2, 2}, "fp32"}, PipeCase{{"slots", 1, 3}, "bf16"},
                                         PipeCase{{"slots", 2, 1}, "bf16"}),
                         [](const auto& info) { return fmt::format("Case{}", info.index); });

struct Stages : testing::TestWithParam<PipeCase> {};

// Stages of a pipeline have layers of their own, and their moments: two stages of two ranks of data parallel.
TEST_P(Stages, MomentsOfPipelineStagesAreThoseOfTheTraining) {
  HEARTH_NEEDS_ORACLE();
  if (std::getenv("HEARTH_DEEPSPEED_PYTHON") == nullptr)
    GTEST_SKIP() << "HEARTH_DEEPSPEED_PYTHON names no Python with DeepSpeed";
  const test::ScratchFolder scratch;
  const ZeroCase& c = GetParam().model;
  const std::string at = scratch.path().string(), config = make_layers(scratch, c);
  const std::string files = pipe(fmt::format("train {}/f {} {} 2 3 {}", at, c.tp, c.dp, GetParam().accumulation));
  EXPECT_THAT(files, testing::HasSubstr(fmt::format("bf16_zero_pp_rank_{}_mp_rank_{:02}_", c.dp - 1, 2 * c.tp - 1)));
  converted(fmt::format("--to native {1} {0}/f/trained {0}/native", at, config));
  EXPECT_EQ(checkpoint::Reader::open(at + "/native").manifest().step, 3);
  expect_state(at + "/f", at + "/native", config);
}

// DeepSpeed's stages exchange activations in parts where there are ranks of tensor parallel, which gloo cannot do.
INSTANTIATE_TEST_SUITE_P(Ranks, Stages, testing::Values(PipeCase{{"split", 1, 2}, "fp32"}),
                         [](const auto& info) { return fmt::format("Case{}", info.index); });

}  // namespace
}  // namespace hearth::convert
