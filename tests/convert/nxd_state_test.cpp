// SPDX-License-Identifier: Apache-2.0
// Trainings of NxD with their moments: files of torch_xla's ZeRO-1, of any number of ranks, in and out.
#include "nxd_state.h"

#include "checkpoint/load.h"

namespace hearth::convert {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct NxdState : testing::TestWithParam<NxdStateCase> {};

TEST_P(NxdState, MomentsWeightsAndStepAreThoseOfTheTraining) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const NxdStateCase& c = GetParam();
  const std::string at = scratch.path().string(), config = state_run_file(scratch, c);
  foreign(fmt::format("make {}/f meta=0 {}", at, c.model));
  foreign(fmt::format("nxd {}/f {}", at, c.files));
  nxd_state(fmt::format("train {}/f {}", at, c.training));
  converted(fmt::format("--to native {1} {0}/f/nxd {0}/native", at, config));
  for (const char* kind : {"weight", "exp_avg", "exp_avg_sq"})
    converted(fmt::format("--to native {1} {0}/f/nxd-{2} {0}/f/native-{2}", at, config, kind));
  EXPECT_EQ(nxd_state(fmt::format("same {0}/f {0}/native", at)), "equal");
  const checkpoint::Reader reader = checkpoint::Reader::open(at + "/native");
  EXPECT_EQ(reader.manifest().step, 7);
  EXPECT_EQ(reader.manifest().optimizer_start, 4);
}

constexpr const char* kCopies = "V=132 F=120 dtype=bfloat16";

INSTANTIATE_TEST_SUITE_P(Ranks, NxdState,
                         testing::Values(NxdStateCase{"dtype=bfloat16", "1 1 v2 plain separate", "1 all"},
                                         NxdStateCase{"dtype=bfloat16", "2 1 v2 plain module", "3 matrices"},
                                         NxdStateCase{"V=132 dtype=bfloat16", "2 3 v3 xser fused", "5 matrices xser"},
                                         NxdStateCase{"dtype=bfloat16", "2 1 v1 xser separate", "2 all xser bfloat16"},
                                         NxdStateCase{"dtype=bfloat16", "1 2 v2 plain separate", "1 matrices whole"},
                                         NxdStateCase{kCopies, "6 1 v3 plain module", "2 matrices"}),
                         [](const auto& info) { return fmt::format("Case{}", info.index); });

struct NxdStateWrittenCase {
  NxdStateCase of;
  const char* options;
  int dp;
};
struct NxdStateWritten : testing::TestWithParam<NxdStateWrittenCase> {};

// Read, and written again: the same files, and AdamW goes on from them with the training's bits.
TEST_P(NxdStateWritten, FilesAreThoseOfTheTrainingAndGoOn) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const auto [c, options, dp] = GetParam();
  const std::string at = scratch.path().string(), config = state_run_file(scratch, c), training = c.training;
  const std::string form = training.find("all") != std::string::npos ? "all" : "matrices";
  foreign(fmt::format("make {}/f meta=0 {}", at, c.model));
  foreign(fmt::format("nxd {}/f {}", at, c.files));
  nxd_state(fmt::format("train {}/f {}", at, training));
  converted(fmt::format("--to native {1} {0}/f/nxd {0}/native", at, config));
  const std::string said =
      converted(fmt::format("--to nxd --resume --data-parallel {1} {2} {0}/native {0}/back", at, dp, options));
  EXPECT_THAT(said, AllOf(HasSubstr("NxD goes on after step 7"), HasSubstr(form == "all" ? "LayerNorm" : "\"norm\"")));
  EXPECT_EQ(read_file(scratch / "back/newest"), "step_7");
  EXPECT_EQ(nxd_state(fmt::format("files {0}/f {0}/back/step_7 info", at)), "equal");
  EXPECT_EQ(foreign(fmt::format("nxd-same {0}/f/nxd/step_2/model {0}/back/step_7/model", at)), "equal");
  EXPECT_EQ(nxd_state(fmt::format("resume {0}/f {0}/back/step_7 {1} {2}", at, dp, form)), "equal");
  // Directly, for another number of ranks of data parallel.
  converted(fmt::format("--to nxd --resume --data-parallel 7 {2} {1} {0}/f/nxd {0}/direct", at, config, options));
  EXPECT_EQ(nxd_state(fmt::format("resume {0}/f {0}/direct/step_7 7 {1}", at, form)), "equal");
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, NxdStateWritten,
    testing::Values(NxdStateWrittenCase{{"dtype=bfloat16", "1 1 v3 plain separate", "1 all modules"}, "", 1},
                    NxdStateWrittenCase{{"dtype=bfloat16", "2 3 v2 plain module", "3 matrices modules"},
                                        "--tensor-parallel 2 --pipeline-parallel 3 --nxd-names v2 --nxd-qkv module",
                                        3},
                    NxdStateWrittenCase{{"V=132 dtype=bfloat16", "2 1 v3 xser fused", "5 matrices xser modules"},
                                        "--tensor-parallel 2 --nxd-qkv fused --xser",
                                        5},
                    NxdStateWrittenCase{
                        {kCopies, "6 1 v3 plain module", "2 all modules"}, "--tensor-parallel 6 --nxd-qkv module", 2}),
    [](const auto& info) { return fmt::format("Case{}", info.index); });

TEST(NxdStateRefusals, NameWhatIsMissingOrUnknown) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const NxdStateCase c{"dtype=bfloat16", "2 1 v2 plain separate", "3 matrices"};
  const std::string at = scratch.path().string(), config = state_run_file(scratch, c), step = at + "/f/nxd/step_2";
  foreign(fmt::format("make {}/f meta=0 {}", at, c.model));
  foreign(fmt::format("nxd {}/f {}", at, c.files));
  nxd_state(fmt::format("train {}/f {}", at, c.training));
  const auto refusal = [&](int exit_code = 2) {
    return refused(fmt::format("--to native {1} {0}/f/nxd {0}/out", at, config), exit_code);
  };
  const auto file = [&](int slice, int rank) {
    return fmt::format("{}/optim/dp_rank_{:02}_tp_rank_{:02}_pp_rank_00.pt", step, slice, rank);
  };
  const std::string moved = at + "/moved";
  rename_path(file(1, 0), moved);
  EXPECT_THAT(refusal(), HasSubstr("lacks slice 1 of tensor rank 0 and stage 0"));
  rename_path(moved, file(1, 0));
  rename_path(file(2, 1), moved);
  EXPECT_THAT(refusal(), HasSubstr("has 2 slices of tensor rank 1 and stage 0"));
  rename_path(moved, file(2, 1));
  std::filesystem::copy(file(0, 0), step + "/optim/dp_rank_00_ep_rank_00_tp_rank_00_pp_rank_00.pt");
  EXPECT_THAT(refusal(), HasSubstr("several files of slice 0 of tensor rank 0"));
  std::filesystem::remove(step + "/optim/dp_rank_00_ep_rank_00_tp_rank_00_pp_rank_00.pt");
  write_text(scratch / "change.py", R"(
import sys, torch
path, what = sys.argv[1:]
state = torch.load(path, weights_only=False)
if what == "groups": state["param_groups"][0]["params"], state["param_groups"][1]["params"] = [0, 1], list(range(2, 30))
if what == "steps": state["base_state"][4]["step"] += 1
if what == "none": [moments.pop("step") for moments in state["base_state"].values()]
if what == "frozen": state["base_state"].pop(3)
if what == "shape": state["shape_info"][3] = torch.Size([5, 5])
torch.save(state, path)
)");
  const auto changed = [&](const char* what, int exit_code = 2) {
    std::filesystem::copy(file(0, 0), moved);
    EXPECT_EQ(test::run_python(fmt::format("{}/change.py {} {}", at, file(0, 0), what)).exit_code, 0);
    const std::string said = refusal(exit_code);
    rename_path(moved, file(0, 0));
    return said;
  };
  EXPECT_THAT(changed("groups"), AllOf(HasSubstr("it is not known which weights its numbers mean"),
                                       HasSubstr("groups of 2 and 28 parameters")));
  EXPECT_THAT(changed("steps", 3), HasSubstr("parameters have seen 3 and 4 updates"));
  EXPECT_THAT(changed("none"), HasSubstr("does not count its updates"));
  EXPECT_THAT(changed("frozen"), HasSubstr("has no moments of model.layers.0.self_attn.v_proj.weight"));
  EXPECT_THAT(changed("shape", 3), HasSubstr("parameter 3 has shape [5, 5]"));
  write_text(step + "/optim/.metadata", "");
  EXPECT_THAT(refusal(), HasSubstr("is a folder of PyTorch's DCP"));
  // The fix that all of these give.
  std::filesystem::rename(step + "/optim", at + "/optim");
  converted(fmt::format("--to native {1} {0}/f/nxd {0}/out", at, config));
}

TEST(NxdStateRefusals, NameStatesThatHaveNoHome) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const NxdStateCase c{"dtype=bfloat16", "1 1 v2 plain separate", "1 matrices"};
  const std::string at = scratch.path().string(), config = state_run_file(scratch, c);
  foreign(fmt::format("make {}/f meta=0 {}", at, c.model));
  EXPECT_THAT(refused(fmt::format("--to nxd --resume {0}/f/hf {0}/out", at)), HasSubstr("no state of a training"));
  EXPECT_THAT(refused(fmt::format("--to nxd --resume --nxd-names pretrained {0}/f/hf {0}/out", at)),
              HasSubstr("--resume does not go with --nxd-names pretrained"));
  EXPECT_THAT(refused(fmt::format("--to nxd --data-parallel 2 {0}/f/hf {0}/out", at)),
              HasSubstr("--data-parallel is for --to neox --resume and --to nxd --resume"));
  foreign(fmt::format("nxd {}/f {}", at, c.files));
  nxd_state(fmt::format("train {}/f {}", at, c.training));
  write_text(scratch / "run.toml",
             read_file(scratch / "run.toml") + "[[optimizer.group]]\npattern = \"*norm*\"\nweight_decay = 0.5\n");
  EXPECT_THAT(refused(fmt::format("--to nxd --resume {1} {0}/f/nxd {0}/out", at, config)),
              HasSubstr("no home in NxD's state"));
}

}  // namespace
}  // namespace hearth::convert
