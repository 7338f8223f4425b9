// SPDX-License-Identifier: Apache-2.0
// Trainings of GPT-NeoX with their moments: DeepSpeed's ZeRO-1 files, of any number of ranks.
#include "zero.h"
#include "foreign.h"

#include "checkpoint/load.h"

namespace hearth::convert {
namespace {

using testing::HasSubstr;

struct Zero : testing::TestWithParam<ZeroCase> {};

TEST_P(Zero, MomentsWeightsAndStepAreThoseOfTheTraining) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const ZeroCase& c = GetParam();
  make_model(scratch, c);
  zero(fmt::format("imitate {}/f {} {} {}", scratch.path().string(), c.tp, c.dp, c.pp));
  expect_the_training(scratch, c);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Zero,
                         testing::Values(ZeroCase{"slots", 1, 1}, ZeroCase{"slots", 2, 3}, ZeroCase{"split", 2, 2},
                                         ZeroCase{"split", 1, 4, 1}, ZeroCase{"slots", 2, 3, 2},
                                         ZeroCase{"split", 2, 1, 0, true}, ZeroCase{"slots", 1, 2, 1, true},
                                         ZeroCase{"split", 2, 2, 2, true}),
                         [](const auto& info) { return fmt::format("Case{}", info.index); });

// The folder itself begins a run: step 8 of a training whose moments have seen 3 updates.
TEST(Zero, ABranchGoesOnWithMomentsAndStep) {
  HEARTH_NEEDS_TRAINER();
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f meta=0 L=2 D=144 V=258", at));
  foreign(fmt::format("neox {}/f slots 2 0", at));
  zero(fmt::format("imitate {}/f 2 2 0", at));
  std::string text;
  for (int i = 0; i < 200; ++i) text += fmt::format("{{\"text\": \"line {} of {}\"}}\n", i, i * i * i);
  write_text(scratch / "text.jsonl", text);
  const std::string build = fmt::format("data build {0}/text.jsonl --tokenizer bytes --out {0}/data", at);
  ASSERT_EQ(test::run_hearth(build).exit_code, 0);
  write_text(scratch / "run.toml",
             "[model]\ndim = 144\nn_layers = 2\nn_heads = 6\nn_kv_heads = 2\nhidden_dim = 112\nvocab_size = 258\n"
             "rope_theta = 500000\nrope_pairs = \"halves\"\n[training]\nseq_len = 16\nsteps = 8\n"
             "[data]\npath = \"data\"\n[lr_scheduler]\nwarmup_steps = 0\n"
             "[checkpoint]\ninitial_load_path = \"f/neox\"\ninitial_load_model_only = false\n");
  const test::CommandResult trained = test::run_hearth(fmt::format("train {}/run.toml 2>&1", at));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  EXPECT_THAT(trained.output, HasSubstr("branching off after step 7"));
  EXPECT_THAT(trained.output, HasSubstr("and 0.001 in the checkpoint"));
  converted(fmt::format("--to native --tokenizer bytes {1} {0}/f/neox {0}/native", at,
                        fmt::format("--config {}/run.toml", at)));
  EXPECT_EQ(zero(fmt::format("step {0}/native {0}", at)), "one step of AdamW");
}

// The files of a save on one stage among those of a save on two.
TEST(ZeroRefusals, NameAWeightOfTwoStages) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const ZeroCase c{"slots", 1, 1, 2};
  make_model(scratch, c);
  const std::string at = scratch.path().string(), step = at + "/f/neox/global_step2";
  zero(fmt::format("imitate {}/f 1 1 2", at));
  write_text(step + "/bf16_zero_pp_rank_0_mp_rank_02_optim_states.pt",
             read_file(step + "/bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt"));
  EXPECT_THAT(refused(fmt::format("--to native {1} {0}/f/neox {0}/out", at, zero_run_file(scratch, c))),
              HasSubstr("two stages have the moments of 3.attention.dense.weight"));
}

TEST(ZeroRefusals, NameWhatIsMissing) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const ZeroCase c{"slots", 1, 3};
  make_model(scratch, c);
  const std::string at = scratch.path().string(), step = at + "/f/neox/global_step2";
  zero(fmt::format("imitate {}/f 1 3 0", at));
  const std::string config = zero_run_file(scratch, c);
  const auto refusal = [&](int exit_code = 2) {
    return refused(fmt::format("--to native {} {}/f/neox {}/out", config, at, at), exit_code);
  };
  const auto file = [&](int slice) {
    return fmt::format("{}/bf16_zero_pp_rank_{}_mp_rank_00_optim_states.pt", step, slice);
  };
  const std::string moved = at + "/moved";
  rename_path(file(1), moved);
  EXPECT_THAT(refusal(), HasSubstr("lacks slice 1 of rank 0"));
  rename_path(moved, file(1));
  rename_path(file(2), moved);
  EXPECT_THAT(refusal(), HasSubstr("elements of the moments of"));
  rename_path(moved, file(2));
  write_text(step + "/zero_pp_rank_1_mp_rank_00_optim_states.pt", "");
  EXPECT_THAT(refusal(), HasSubstr("two files of rank 0 and slice 1"));
  std::filesystem::remove(step + "/zero_pp_rank_1_mp_rank_00_optim_states.pt");
  write_text(scratch / "change.py", R"(
import sys
sys.argv = sys.argv[1:]
exec(open(sys.argv[0]).read().split('if __name__')[0])
classes(as_tuple=True)
file, what = sys.argv[1:]
whole = torch.load(file, weights_only=False)
state = whole['optimizer_state_dict']
adam = state['base_optimizer_state']['state'][1]
mapping = state['param_slice_mappings'][0]
name = next(iter(mapping))
if what == 'stage':
    del state['single_partition_of_fp32_groups']
elif what == 'count':
    adam['step'] += 1
elif what == 'uncounted':
    for g in (0, 1):
        del state['base_optimizer_state']['state'][g]['step']
elif what == 'half':
    adam['step'] += 0.5
elif what == 'outside':
    mapping[name] = type(mapping[name])(mapping[name].numel, 10**9)
elif what == 'name':
    mapping['sequential.77.x'] = mapping.pop(name)
elif what == 'type':
    adam['exp_avg'] = adam['exp_avg'].double()
elif what == 'shape':
    adam['exp_avg'] = adam['exp_avg'].view(2, -1)
torch.save(whole, file)
)");
  const auto changed = [&](const std::string& what, int exit_code = 2, int slice = 1) {
    write_text(moved, read_file(file(slice)));
    const std::string words =
        fmt::format("{}/change.py {} {} {}", at, test::source_path("tests/convert/zero.py"), file(slice), what);
    const test::CommandResult result = test::run_python(words);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    const std::string said = refusal(exit_code);
    rename_path(moved, file(slice));
    return said;
  };
  EXPECT_THAT(changed("stage"), HasSubstr("does not say where its parameters lie"));
  EXPECT_THAT(changed("count", 3), HasSubstr("groups have seen 3 and 4 updates"));
  EXPECT_THAT(changed("half", 3), HasSubstr("step is 3.5"));
  EXPECT_THAT(changed("uncounted"), HasSubstr("does not count its updates"));
  EXPECT_THAT(changed("outside", 3), HasSubstr("lies outside the slice"));
  EXPECT_THAT(changed("name"), HasSubstr("the model has no sequential.77.x, whose moments are there"));
  EXPECT_THAT(changed("type", 3), HasSubstr("the weights and moments of group 1 have different types"));
  EXPECT_THAT(changed("shape", 3), HasSubstr("exp_avg are not one row of numbers"));
}

}  // namespace
}  // namespace hearth::convert
