// SPDX-License-Identifier: Apache-2.0
// Trainings in GPT-NeoX's files, written for DeepSpeed: moments, float32 weights, step and schedule.
#include "torch_folders.h"
#include "zero.h"

namespace hearth::convert {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string resume_run_file(const test::ScratchFolder& scratch, const std::string& name, const ZeroCase& c,
                            const std::string& changes) {
  zero_run_file(scratch, c);
  write_text(scratch / name, read_file(scratch / "run.toml") +
                                 "steps = 20\nmixed_precision_param = \"bfloat16\"\n[optimizer]\nlr = 1e-3\n" +
                                 changes);
  return fmt::format("--config {}/{}{}", scratch.path().string(), name,
                     std::string(c.dialect) == "split" ? " --qkv-layout split" : "");
}

constexpr const char* kConstantRate = "[lr_scheduler]\nwarmup_steps = 1\ndecay_type = \"constant\"\nrule = \"neox\"\n";

struct ZeroResume : testing::TestWithParam<ZeroCase> {};

// Read from DeepSpeed's files, and written again: the same files, from a native checkpoint and directly.
TEST_P(ZeroResume, FilesAreThoseOfDeepSpeed) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const ZeroCase& c = GetParam();
  const std::string at = scratch.path().string();
  make_model(scratch, c);
  zero(fmt::format("imitate {}/f {} {} {}", at, c.tp, c.dp, c.pp));
  const std::string config = resume_run_file(scratch, "resume.toml", c, kConstantRate);
  converted(fmt::format("--to native {1} {0}/f/neox {0}/native", at, config));
  const int stages = std::max(c.pp, 1);
  const std::string to = fmt::format(
      "--to neox --resume --to-qkv-layout {} --tensor-parallel {} --pipeline-parallel {} --data-parallel {}", c.dialect,
      c.tp, stages, c.dp);
  const std::string said = converted(fmt::format("{1} {0}/native {0}/back", at, to));
  EXPECT_THAT(said, HasSubstr(fmt::format("goes on after step 7 on {} x {} x {} ranks", c.dp, stages, c.tp)));
  EXPECT_THAT(said, Not(HasSubstr("rates follow")));
  EXPECT_EQ(read_file(scratch / "back/latest"), "global_step7");
  EXPECT_EQ(zero(fmt::format("files {0}/f {0}/back/global_step7", at)), "equal");
  converted(fmt::format("{1} {2} {0}/f/neox {0}/direct", at, to, config));
  EXPECT_EQ(zero(fmt::format("files {0}/f {0}/direct/global_step7", at)), "equal");
  EXPECT_THAT(zero(fmt::format("keys {}/back", at)),
              testing::AllOf(HasSubstr("precision=bfloat16"), HasSubstr("weight_decay=0.1"),
                             HasSubstr("rms_norm_epsilon=1e-05"),
                             HasSubstr(fmt::format("no_weight_tying={}", c.tied ? "False" : "True")),
                             HasSubstr(stages > 1 ? "=type:transformer|mlp 7 " : "pipe_partition_method=None 7 "),
                             testing::EndsWith(fmt::format("7 {}", c.dp))));
}

INSTANTIATE_TEST_SUITE_P(Ranks, ZeroResume,
                         testing::Values(ZeroCase{"slots", 1, 1}, ZeroCase{"slots", 2, 3}, ZeroCase{"split", 2, 2},
                                         ZeroCase{"split", 1, 4}, ZeroCase{"slots", 2, 3, 2},
                                         ZeroCase{"split", 1, 2, 2}, ZeroCase{"slots", 1, 2, 1, true},
                                         ZeroCase{"split", 2, 2, 2, true}),
                         [](const auto& info) { return fmt::format("Case{}", info.index); });

// Other numbers of ranks, some of them with slices that have nothing but padding: every bit comes back.
TEST(ZeroResume, AnyNumberOfRanksKeepsTheTraining) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const ZeroCase c{"slots", 2, 3, 2, true};
  const std::string at = scratch.path().string();
  make_model(scratch, c);
  zero(fmt::format("imitate {}/f {} {} {}", at, c.tp, c.dp, c.pp));
  const std::string config = resume_run_file(scratch, "resume.toml", c, kConstantRate);
  converted(fmt::format("--to native {1} {0}/f/neox {0}/native", at, config));
  for (const auto& [layout, tp, pp, dp] :
       {std::tuple{"slots", 1, 1, 1}, {"slots", 1, 2, 97}, {"split", 2, 1, 5}, {"split", 1, 2, 1}}) {
    const std::string name = fmt::format("{}/{}-{}-{}-{}", at, layout, tp, pp, dp);
    converted(
        fmt::format("--to neox --resume --to-qkv-layout {} --tensor-parallel {} --pipeline-parallel {} "
                    "--data-parallel {} --dtype float16 {}/native {}",
                    layout, tp, pp, dp, at, name));
    converted(fmt::format("--to native --qkv-layout {0} {1} {2} {2}-back", layout, config, name));
    EXPECT_EQ(zero(fmt::format("alike {}/native {}-back", at, name)), "equal");
    EXPECT_TRUE(path_exists(name + "/global_step7/zero_pp_rank_0_mp_rank_00_optim_states.pt"));
  }
}

// A folder of PyTorch's DCP keeps the step, too: here it is not the moments' count of updates.
TEST(ZeroResume, DcpKeepsStepAndTokens) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const ZeroCase c{"slots", 1, 1};
  const std::string at = scratch.path().string();
  make_model(scratch, c);
  zero(fmt::format("imitate {}/f 1 1 0", at));
  const std::string config = resume_run_file(scratch, "resume.toml", c, kConstantRate);
  converted(fmt::format("--to native --rope-pairs interleaved {1} {0}/f/neox {0}/native", at, config));
  converted(fmt::format("--to dcp {0}/native {0}/dcp", at));
  EXPECT_EQ(zero(fmt::format("counts {}/dcp", at)), "7 0 7");
  edit(scratch / "resume.toml", "\"halves\"", "\"interleaved\"");
  converted(fmt::format("--to native --config {0}/resume.toml {0}/dcp {0}/back", at));
  EXPECT_EQ(zero(fmt::format("alike {0}/native {0}/back", at)), "equal");
  const checkpoint::Manifest manifest = checkpoint::Reader::open(at + "/back").manifest();
  EXPECT_EQ(manifest.step, 7);
  EXPECT_EQ(manifest.optimizer_start, 4);
  converted(fmt::format("--to dcp {0}/dcp {0}/again", at));
  EXPECT_EQ(zero(fmt::format("counts {}/again", at)), "7 0 7");
}

TEST(ZeroResume, WhatGptNeoxTakesOtherwiseIsSaid) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const ZeroCase c{"slots", 1, 1};
  const std::string at = scratch.path().string();
  make_model(scratch, c);
  zero(fmt::format("imitate {}/f 1 1 0", at));
  const auto resumed = [&](const std::string& name, const std::string& changes) {
    const std::string config = resume_run_file(scratch, name + ".toml", c, changes);
    return converted(fmt::format("--to neox --resume --to-qkv-layout slots {1} {0}/f/neox {0}/{2}", at, config, name));
  };
  EXPECT_THAT(resumed("other",
                      "form = \"transformers\"\nweight_decay_on = \"all\"\n[lr_scheduler]\nwarmup_steps = 15\n"
                      "decay_type = \"cosine\"\nmin_lr_factor = 0.1\n"),
              testing::AllOf(HasSubstr("rates follow GPT-NeoX's formula from the second step on: that of step"),
                             HasSubstr("(lr_scheduler.rule = \"neox_2023\" has GPT-NeoX's)"),
                             HasSubstr("optimizer.form = \"transformers\" has no home there")));
  EXPECT_THAT(zero(fmt::format("keys {}/other", at)),
              testing::AllOf(HasSubstr("warmup_iters=15"), HasSubstr("decay_lr_to=0.1")));
  EXPECT_THAT(resumed("same", "[lr_scheduler]\nwarmup_steps = 3\ndecay_type = \"cosine\"\nrule = \"neox_2023\"\n"),
              Not(HasSubstr("rates follow")));
  // Without decay, GPT-NeoX has one group of weights.
  resumed("still", std::string("weight_decay = 0.0\n") + kConstantRate);
  EXPECT_THAT(zero(fmt::format("keys {}/still", at)), HasSubstr("weight_decay=0.0"));
  const std::string config = resume_run_file(scratch, "again.toml", c, kConstantRate);
  for (const char* name : {"f/neox", "still"})
    converted(fmt::format("--to native {0} {1}/{2} {1}/{2}-native", config, at, name));
  EXPECT_EQ(zero(fmt::format("alike {0}/f/neox-native {0}/still-native", at)), "equal");
}

TEST(ZeroResume, WithoutAHomeIsAnError) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const ZeroCase c{"slots", 1, 1};
  const std::string at = scratch.path().string(), to = "--to neox --to-qkv-layout slots";
  make_model(scratch, c);
  zero(fmt::format("imitate {}/f 1 1 0", at));
  const std::string fine = resume_run_file(scratch, "fine.toml", c, kConstantRate);
  const auto refusal = [&](const std::string& changes) {
    const std::string config = resume_run_file(scratch, "changed.toml", c, changes);
    return refused(fmt::format("{1} --resume {2} {0}/f/neox {0}/out", at, to, config));
  };
  EXPECT_THAT(refusal("[lr_scheduler]\ndecay_ratio = 0.2\nwarmup_steps = 2\n"),
              HasSubstr("lr_scheduler.decay_ratio = 0.2 has no home in GPT-NeoX's schedule"));
  EXPECT_THAT(refusal("[lr_scheduler]\ndecay_type = \"sqrt\"\n"),
              HasSubstr("lr_scheduler.decay_type = \"sqrt\" has no home in GPT-NeoX's schedule"));
  EXPECT_THAT(refusal("[[optimizer.group]]\npattern = \"output.weight\"\nlr_factor = 2.0\n"),
              HasSubstr("the optimizer's settings of output.weight have no home in GPT-NeoX's state"));
  EXPECT_THAT(refusal("[[optimizer.group]]\npattern = \"output.weight\"\nweight_decay = 0.3\n"),
              HasSubstr("the optimizer's settings of output.weight have no home in GPT-NeoX's state"));
  EXPECT_THAT(refusal("weight_decay = 0.0\n[[optimizer.group]]\npattern = \"*norm*\"\nweight_decay = 0.3\n"),
              HasSubstr("a decay of norms alone has no home in GPT-NeoX's state"));
  EXPECT_THAT(refused(fmt::format("{1} --data-parallel 2 {2} {0}/f/neox {0}/out", at, to, fine)),
              HasSubstr("--data-parallel is for --to neox --resume"));
  EXPECT_THAT(refused(fmt::format("{1} --resume --data-parallel 0 {2} {0}/f/neox {0}/out", at, to, fine)),
              HasSubstr("--data-parallel 0 is not a number of ranks"));
  converted(fmt::format("{1} {2} {0}/f/neox {0}/weights", at, to, fine));
  EXPECT_THAT(refused(fmt::format("{1} --resume {2} {0}/weights {0}/out", at, to, fine)),
              HasSubstr("has no state of a training for --resume"));
}

// From torchtitan's folders. Its optimizer counts for each weight; DeepSpeed once.
TEST(ZeroResume, TorchtitansMomentsNeedOneCount) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), to = "--to neox --resume --to-qkv-layout split";
  const std::string config = fmt::format("--config {}/run.toml", at);
  torch_folders(fmt::format("make {}/theirs 2025 1 1 float32 0", at));
  write_text(scratch / "run.toml", run_file_of_torch(false));
  converted(fmt::format("{1} --data-parallel 2 {2} {0}/theirs {0}/out", at, to, config));
  EXPECT_TRUE(path_exists(scratch / "out/global_step3/zero_pp_rank_1_mp_rank_00_optim_states.pt"));
  write_text(scratch / "changed.py", R"(
import sys, torch, torch.distributed.checkpoint as dcp
sys.path.insert(0, sys.argv[3])
from torch_folders import loaded
state = loaded(sys.argv[1])
state['optimizer.state.norm.weight.step'] = torch.tensor(2.0)
dcp.save(state, checkpoint_id=sys.argv[2] + '/count', no_dist=True)
del state['optimizer.state.norm.weight.exp_avg']
dcp.save(state, checkpoint_id=sys.argv[2] + '/frozen', no_dist=True)
)");
  const test::CommandResult made =
      test::run_python(fmt::format("{0}/changed.py {0}/theirs {0} {1}", at, test::source_path("tests/convert")));
  ASSERT_EQ(made.exit_code, 0) << made.output;
  EXPECT_THAT(refused(fmt::format("{1} {2} {0}/count {0}/other", at, to, config)),
              HasSubstr("have seen 3 updates, and those of norm.weight 2"));
  EXPECT_THAT(refused(fmt::format("{1} {2} {0}/frozen {0}/other", at, to, config)),
              HasSubstr("has no moments of AdamW for norm.weight"));
}

}  // namespace
}  // namespace hearth::convert
