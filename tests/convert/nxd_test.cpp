// SPDX-License-Identifier: Apache-2.0
// AWS Neuron's NxD checkpoints: every version of the names, each way of saving, joined and single matrices.
#include "foreign.h"

namespace hearth::convert {
namespace {

using testing::HasSubstr;

struct NxdCase {
  const char *model, *files;
};

std::string nxd_run_file(const test::ScratchFolder& scratch, int keys, bool tied = false, int width = 112) {
  write_text(scratch / "run.toml",
             fmt::format("[model]\ndim = 96\nn_layers = 3\nn_heads = 6\nn_kv_heads = {}\nhidden_dim = {}\n"
                         "rope_theta = 500000\nenable_weight_tying = {}\n",
                         keys, width, tied));
  return "--config " + (scratch / "run.toml").string();
}

int width_of(const std::string& words) { return words.find("F=120") == std::string::npos ? 112 : 120; }

struct Nxd : testing::TestWithParam<NxdCase> {};

TEST_P(Nxd, BecomesTheModelThatItWasMadeFrom) {
  HEARTH_NEEDS_ORACLE();
  const auto [model, files] = GetParam();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), words = model;
  foreign(fmt::format("make {}/f meta=0 {}", at, model));
  foreign(fmt::format("nxd {}/f {}", at, files));
  const bool all_keys = words.find("G=6") != std::string::npos, tied = words.find("tied=1") != std::string::npos;
  const std::string config = nxd_run_file(scratch, all_keys ? 6 : 2, tied, width_of(words));
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
                    NxdCase{"tied=1", "2 1 v2 plain separate"}, NxdCase{"V=132 F=120", "6 1 v2 plain module"},
                    NxdCase{"V=132 F=120 dtype=bfloat16", "6 3 v3 xser fused"}),
    [](const auto& info) { return fmt::format("Case{}", info.index); });

struct NxdWrittenCase {
  const char *model, *files, *options;
};
struct NxdWritten : testing::TestWithParam<NxdWrittenCase> {};

TEST_P(NxdWritten, HasTheFilesThatPyTorchMakesAndComesBack) {
  HEARTH_NEEDS_ORACLE();
  const auto [model, files, options] = GetParam();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), words = model;
  foreign(fmt::format("make {}/f meta=0 {}", at, model));
  foreign(fmt::format("nxd {}/f {}", at, files));
  converted(fmt::format("--to native --rope-pairs interleaved {0}/f/hf {0}/native", at));
  converted(fmt::format("--to nxd {1} {0}/native {0}/nxd", at, options));
  const bool pretrained = std::string(files).find("pretrained") != std::string::npos;
  EXPECT_EQ(foreign(fmt::format("nxd-same {0}/f/nxd{1} {0}/nxd{2}", at, pretrained ? "" : "/step_2/model",
                                pretrained ? "" : "/step_0/model")),
            "equal");
  const std::string config =
      nxd_run_file(scratch, words.find("G=6") != std::string::npos ? 6 : 2, false, width_of(words));
  converted(fmt::format("{1} --to native --rope-pairs interleaved {0}/nxd {0}/again", at, config));
  converted(fmt::format("--to hf {0}/again {0}/hf", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/hf", at)), "equal");
}

INSTANTIATE_TEST_SUITE_P(
    Files, NxdWritten,
    testing::Values(NxdWrittenCase{"dtype=bfloat16", "1 1 v3 plain separate", ""},
                    NxdWrittenCase{"", "2 3 v2 plain module",
                                   "--tensor-parallel 2 --pipeline-parallel 3 --nxd-names v2 --nxd-qkv module"},
                    NxdWrittenCase{"V=132 dtype=bfloat16", "2 1 v3 xser fused",
                                   "--tensor-parallel 2 --nxd-qkv fused --xser"},
                    NxdWrittenCase{"G=6", "2 3 v1 xser stride",
                                   "--tensor-parallel 2 --pipeline-parallel 3 --nxd-names v1 --nxd-qkv fused --xser"},
                    NxdWrittenCase{"V=132 F=120", "6 1 v3 plain module", "--tensor-parallel 6 --nxd-qkv module"},
                    NxdWrittenCase{"V=132 F=120", "6 1 v3 plain fused", "--tensor-parallel 6 --nxd-qkv fused"},
                    NxdWrittenCase{"", "2 1 v1 pretrained separate", "--tensor-parallel 2 --nxd-names pretrained"},
                    NxdWrittenCase{"", "2 1 v1 pretrained-xser module",
                                   "--tensor-parallel 2 --nxd-names pretrained --nxd-qkv module --xser"}),
    [](const auto& info) { return fmt::format("Case{}", info.index); });

TEST(NxdRefusals, NameWhatNxdHasNoHomeFor) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), places = fmt::format("{0}/f/hf {0}/out", at);
  foreign(fmt::format("make {}/f meta=0 V=132 F=120", at));
  EXPECT_THAT(refused("--to nxd --tensor-parallel 5 " + places), HasSubstr("--tensor-parallel 5 does not divide"));
  EXPECT_THAT(refused("--to nxd --tensor-parallel 0 " + places), HasSubstr("--tensor-parallel 0 does not divide"));
  EXPECT_THAT(refused("--to nxd --tensor-parallel 6 " + places),
              HasSubstr("--tensor-parallel 6 is more than the model's 2 keys"));
  EXPECT_THAT(refused("--to nxd --pipeline-parallel 2 " + places),
              HasSubstr("--pipeline-parallel 2 does not divide 3 layers"));
  EXPECT_THAT(refused("--to hf --xser " + places), HasSubstr("--xser do not go with --to hf"));
  foreign(fmt::format("make {}/olmo meta=0 L=1 type=olmo", at));
  EXPECT_THAT(refused(fmt::format("--to nxd {0}/olmo/hf {0}/out", at)),
              HasSubstr("model.norm_type = \"np_layernorm\" has no home in NxD's format"));
  foreign(fmt::format("make {}/qwen meta=0 L=1 type=qwen2", at));
  EXPECT_THAT(refused(fmt::format("--to nxd {0}/qwen/hf {0}/out", at)),
              HasSubstr("model.qkv_bias has no home in NxD's format"));
  write_text(scratch / "masked.toml",
             "[model]\ndim = 96\nn_layers = 3\nn_heads = 6\nn_kv_heads = 2\nhidden_dim = 120\n"
             "[objective]\nkind = \"masked_lm\"\n");
  converted(fmt::format("--to dcp {0}/f/hf {0}/dcp", at));
  EXPECT_THAT(refused(fmt::format("--to nxd --config {0}/masked.toml {0}/dcp {0}/out", at)),
              HasSubstr("objective.kind = \"masked_lm\" has no home in NxD's format"));
  // Tied weights are stored twice, copies of keys in several ranks.
  foreign(fmt::format("make {}/tied meta=0 V=132 F=120 tied=1", at));
  const std::string said =
      converted(fmt::format("--to nxd --tensor-parallel 6 --nxd-qkv module {0}/tied/hf {0}/nxd", at));
  EXPECT_THAT(said, HasSubstr("note: the embedding is also written as lm_head"));
  EXPECT_THAT(said, HasSubstr("note: the keys are written 3 times: train with kv_size_multiplier = 3"));
  const std::string config = nxd_run_file(scratch, 2, true, 120);
  converted(fmt::format("--to hf {1} {0}/nxd {0}/hf", at, config));
  EXPECT_EQ(foreign(fmt::format("logits {0}/tied {0}/hf", at)), "0.0");
  // A copy that differs.
  write_text(scratch / "write.py", R"(
import sys, torch
file = sys.argv[1] + '/dp_rank_00_ep_rank_00_tp_rank_05_pp_rank_00.pt'
state = torch.load(file)
state['model.layers.1.self_attn.qkv_proj.weight_k'][3, 4] += 1
torch.save(state, file)
)");
  EXPECT_EQ(test::run_python(fmt::format("{0}/write.py {0}/nxd/step_0/model", at)).exit_code, 0);
  EXPECT_THAT(refused(fmt::format("--to hf {1} {0}/nxd {0}/out", at, config), 3),
              HasSubstr("layers.1.self_attn.qkv_proj.weight_k differs between ranks 1 and 5"));
}

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
  EXPECT_THAT(refusal(nxd_run_file(scratch, 6) + " " + step), HasSubstr("have the weights of the model"));
  EXPECT_THAT(refusal(nxd_run_file(scratch, 1) + " " + step),
              HasSubstr("has the files of 2 ranks for 1 key, and model.layers.0.self_attn.k_proj.weight"));
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
