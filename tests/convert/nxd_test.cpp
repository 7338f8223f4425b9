// AWS Neuron's NxD checkpoints: every version of the names, each way of saving, joined and single matrices.
#include "foreign.h"

namespace hearth::convert {
namespace {

using testing::HasSubstr;

struct NxdCase {
  const char *model, *files;
};

std::string nxd_run_file(const test::ScratchFolder& scratch, int keys, bool tied = false) {
  write_text(scratch / "run.toml",
             fmt::format("[model]\ndim = 96\nn_layers = 3\nn_heads = 6\nn_kv_heads = {}\nhidden_dim = 112\n"
                         "rope_theta = 500000\nenable_weight_tying = {}\n",
                         keys, tied));
  return "--config " + (scratch / "run.toml").string();
}

struct Nxd : testing::TestWithParam<NxdCase> {};

TEST_P(Nxd, BecomesTheModelThatItWasMadeFrom) {
  HEARTH_NEEDS_ORACLE();
  const auto [model, files] = GetParam();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), words = model;
  foreign(fmt::format("make {}/f meta=0 {}", at, model));
  foreign(fmt::format("nxd {}/f {}", at, files));
  const bool all_keys = words.find("G=6") != std::string::npos, tied = words.find("tied=1") != std::string::npos;
  const std::string config = nxd_run_file(scratch, all_keys ? 6 : 2, tied);
  EXPECT_THAT(converted(fmt::format("{0} --to hf {1}/f/nxd {1}/hf", config, at)), HasSubstr("nxd to hf"));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/hf", at)), "equal");
  EXPECT_EQ(foreign(fmt::format("logits {0}/f {0}/hf", at)), "0.0");
}

INSTANTIATE_TEST_SUITE_P(
    Files, Nxd,
    testing::Values(NxdCase{"dtype=bfloat16", "1 1 v1 plain separate"}, NxdCase{"", "2 1 v2 plain module"},
                    NxdCase{"V=132", "2 2 v3 plain fused"}, NxdCase{"G=6", "2 3 v2 plain stride"},
                    NxdCase{"dtype=bfloat16", "2 2 v3 xser fused"}, NxdCase{"G=6", "1 2 v1 xser separate"},
                    NxdCase{"", "2 2 v1 pretrained separate"}, NxdCase{"", "2 1 v1 pretrained-xser module"},
                    NxdCase{"tied=1", "2 1 v2 plain separate"}),
    [](const auto& info) { return fmt::format("Case{}", info.index); });

TEST(NxdRefusals, NameWhatIsMissingOrUnknown) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), step = at + "/f/nxd/step_2", model = step + "/model";
  foreign(fmt::format("make {}/f meta=0", at));
  foreign(fmt::format("nxd {}/f 2 2 v2 xser separate", at));
  const std::string config = nxd_run_file(scratch, 2);
  const auto refusal = [&](const std::string& words, int exit_code = 2) {
    return refused(fmt::format("--to native {} {}/out", words, at), exit_code);
  };
  EXPECT_THAT(refusal(step), HasSubstr("does not describe its model"));
  EXPECT_THAT(refused(fmt::format("--to nxd {} {} {}/out", config, step, at)), HasSubstr("--to"));
  EXPECT_THAT(refusal(nxd_run_file(scratch, 6) + " " + step), HasSubstr("have the weights of the model"));
  EXPECT_THAT(refusal(nxd_run_file(scratch, 1) + " " + step), HasSubstr("which do not divide the heads of [model]"));
  nxd_run_file(scratch, 2);
  write_text(at + "/f/nxd/newest", "step_1\nstep_3\n");
  EXPECT_THAT(refusal(config + " " + at + "/f/nxd"), HasSubstr("names \"step_3\", which is no folder there"));
  write_text(step + "/checkpoint", "1");
  EXPECT_THAT(refusal(config + " " + step), HasSubstr("was not saved to its end"));
  write_text(step + "/done", "1");
  const std::string last = model + "/dp_rank_00_tp_rank_01_pp_rank_01.pt", moved = at + "/moved";
  rename_path(last + ".tensors/tensor_3.pt", moved);
  EXPECT_THAT(refusal(config + " " + step), HasSubstr("tensor_3.pt is missing"));
  rename_path(moved, last + ".tensors/tensor_3.pt");
  rename_path(last, moved);
  EXPECT_THAT(refusal(config + " " + step), HasSubstr("lacks the file of tensor rank 1 and stage 1"));
  rename_path(moved, last);
  const std::string twice = model + "/tp_rank_01_pp_rank_01.pt",
                    expert = model + "/dp_rank_00_ep_rank_01_tp_rank_01_pp_rank_01.pt";
  write_text(twice, read_file(last));
  EXPECT_THAT(refusal(config + " " + step), HasSubstr("several files of tensor rank 1 and stage 1"));
  rename_path(twice, expert);
  EXPECT_THAT(refusal(config + " " + step), HasSubstr("is a rank of expert parallel"));
  std::filesystem::remove(expert);
  converted(fmt::format("--to native {} {} {}/out", config, step, at));
}

TEST(NxdRefusals, NameTensorsThatNoTableHas) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f meta=0", at));
  const std::string config = nxd_run_file(scratch, 2);
  write_text(scratch / "write.py", R"(
import sys, torch
torch.manual_seed(1)
file = sys.argv[1] + '/tp_rank_00_pp_rank_00.pt'
state = {'model.embed_tokens.weight': torch.randn(130, 96)}
state |= {'bias': {'model.layers.0.self_attn.o_proj.bias': torch.ones(96)},
          'copies': {'model.layers.0.self_attn.qkv_proj.weight_k': torch.ones(64, 96)},
          'rows': {'model.layers.0.mlp.gate_up_proj.weight': torch.ones(230, 96)},
          'twice': {'model.layers.0.self_attn.q_proj.weight': torch.ones(96, 96),
                    'model.layers.0.self_attn.qkv_proj.weight_q': torch.ones(96, 96)},
          'optimizer': {'step': 3}}[sys.argv[2]]
torch.save(state, file)
)");
  make_folders(scratch / "x");
  const auto refusal = [&](const std::string& what) {
    EXPECT_EQ(test::run_python(fmt::format("{0}/write.py {0}/x {1}", at, what)).exit_code, 0);
    return refused(fmt::format("--to native {0} {1}/x {1}/out", config, at));
  };
  EXPECT_THAT(refusal("bias"), HasSubstr("o_proj.bias is no weight of Llama's in NxD's names"));
  EXPECT_THAT(refusal("copies"), HasSubstr("kv_size_multiplier copied the keys"));
  EXPECT_THAT(refusal("rows"), HasSubstr("gate_up_proj.weight has shape [230, 96], expected 224 rows"));
  EXPECT_THAT(refusal("twice"), HasSubstr("has layers.0.attention.wq.weight in two ways"));
  EXPECT_THAT(refusal("optimizer"), HasSubstr("a model of NxD has weights only"));
}

}  // namespace
}  // namespace hearth::convert
