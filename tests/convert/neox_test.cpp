// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX's checkpoints in both dialects, of any number of ranks.
#include "foreign.h"

namespace hearth::convert {
namespace {

using testing::HasSubstr;

struct NeoxCase {
  const char *model, *dialect, *ranks;
};

std::string run_file(const test::ScratchFolder& scratch, int dim, int keys, int layers = 3, bool tied = false) {
  write_text(scratch / "run.toml", fmt::format("[model]\ndim = {}\nn_layers = {}\nn_heads = 6\nn_kv_heads = {}\n"
                                               "hidden_dim = 112\nrope_theta = 500000\nenable_weight_tying = {}\n",
                                               dim, layers, keys, tied));
  return "--config " + (scratch / "run.toml").string();
}

struct Neox : testing::TestWithParam<NeoxCase> {};

TEST_P(Neox, BecomesTheModelThatItWasMadeFrom) {
  HEARTH_NEEDS_ORACLE();
  const auto [model, dialect, ranks] = GetParam();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f meta=0 {}", at, model));
  foreign(fmt::format("neox {}/f {} {}", at, dialect, ranks));
  const int dim = std::string(model).find("D=144") != std::string::npos ? 144 : 96;
  const bool shared = std::string(model).find("G=6") == std::string::npos;
  const std::string layout = shared && std::string(dialect) == "split" ? "--qkv-layout split" : "";
  const std::string words = fmt::format("{} --to hf {}/f/neox", run_file(scratch, dim, shared ? 2 : 6), at);
  if (!layout.empty()) {
    EXPECT_THAT(refused(fmt::format("{} {}/x", words, at)), HasSubstr("queries, keys and values is not known"));
  }
  converted(fmt::format("{} {} {}/hf", words, layout, at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/hf", at)), "equal");
  EXPECT_EQ(foreign(fmt::format("logits {0}/f {0}/hf", at)), "0.0");
}

INSTANTIATE_TEST_SUITE_P(Dialects, Neox,
                         testing::Values(NeoxCase{"D=144", "slots", "1 0"}, NeoxCase{"V=131 G=6", "slots", "1 1"},
                                         NeoxCase{"D=144", "slots", "2 0"}, NeoxCase{"G=6", "split", "2 0"},
                                         NeoxCase{"G=2", "split", "2 2"}, NeoxCase{"V=131", "split", "1 0"}),
                         [](const auto& info) { return fmt::format("Case{}", info.index); });

struct NeoxWritten : testing::TestWithParam<NeoxCase> {};

TEST_P(NeoxWritten, HasTheFilesThatPyTorchMakesAndComesBack) {
  HEARTH_NEEDS_ORACLE();
  const auto [model, dialect, ranks] = GetParam();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), layout = dialect;
  foreign(fmt::format("make {}/f meta=0 {}", at, model));
  foreign(fmt::format("neox {}/f {} {} 1", at, dialect, ranks));
  converted(fmt::format("--to native --rope-pairs interleaved {0}/f/hf {0}/native", at));
  const std::string words = fmt::format("--to neox --to-qkv-layout {} --tensor-parallel {}", layout, ranks);
  converted(fmt::format("{1} {0}/native {0}/neox", at, words));
  EXPECT_EQ(foreign(fmt::format("neox-same {0}/f/neox/global_step2 {0}/neox/global_step0 500000", at)), "equal");
  const int dim = std::string(model).find("D=144") != std::string::npos ? 144 : 96;
  const bool all_keys = std::string(model).find("G=6") != std::string::npos;
  const bool tied = std::string(model).find("tied=1") != std::string::npos;
  const std::string back =
      run_file(scratch, dim, all_keys ? 6 : 2, 3, tied) + (layout == "split" ? " --qkv-layout split" : "");
  converted(fmt::format("--to hf {1} {0}/neox {0}/hf", at, back));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/hf", at)), "equal");
}

INSTANTIATE_TEST_SUITE_P(Dialects, NeoxWritten,
                         testing::Values(NeoxCase{"D=144 dtype=bfloat16", "slots", "2"},
                                         NeoxCase{"V=132 G=6", "slots", "2"}, NeoxCase{"G=6", "split", "2"},
                                         NeoxCase{"D=144 dtype=bfloat16", "split", "2"},
                                         NeoxCase{"V=131", "split", "1"}, NeoxCase{"D=144", "slots", "1"},
                                         NeoxCase{"D=144 tied=1", "slots", "1"}, NeoxCase{"tied=1", "split", "2"}),
                         [](const auto& info) { return fmt::format("Case{}", info.index); });

TEST(NeoxRefusals, NameWhatGptNeoxHasNoHomeFor) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), slots = "--to neox --to-qkv-layout slots ",
                    split = "--to neox --to-qkv-layout split ";
  foreign(fmt::format("make {}/f meta=0 L=1", at));
  const std::string places = fmt::format("{0}/f/hf {0}/out", at);
  EXPECT_THAT(refused(slots + "--tensor-parallel 4 " + places), HasSubstr("--tensor-parallel 4 does not divide"));
  EXPECT_THAT(refused(slots + "--tensor-parallel 0 " + places), HasSubstr("--tensor-parallel 0 does not divide"));
  EXPECT_THAT(refused("--to hf --tensor-parallel 2 " + places), HasSubstr("does not go with --to hf"));
  foreign(fmt::format("make {}/five meta=0 L=1 D=60 H=6 G=2 V=132", at));  // K = 10: a key of 20 in 6 slots
  EXPECT_THAT(refused(fmt::format("{1} {0}/five/hf {0}/out", at, slots)), HasSubstr("cannot share 2 keys in slots"));
  foreign(fmt::format("make {}/scaled meta=0 L=1 scaled=1", at));
  EXPECT_THAT(refused(fmt::format("{1} {0}/scaled/hf {0}/out", at, slots)),
              HasSubstr("model.rope_scaling_factor = 8 has no home in GPT-NeoX's format"));
  foreign(fmt::format("make {}/olmo meta=0 L=1 type=olmo", at));
  EXPECT_THAT(refused(fmt::format("{1} {0}/olmo/hf {0}/out", at, slots)),
              HasSubstr("model.norm_type = \"np_layernorm\" has no home in GPT-NeoX's format"));
  write_text(scratch / "masked.toml",
             "[model]\ndim = 96\nn_layers = 1\nn_heads = 6\nn_kv_heads = 2\nhidden_dim = 112\n"
             "[objective]\nkind = \"masked_lm\"\n");
  converted(fmt::format("--to dcp {0}/f/hf {0}/dcp", at));
  EXPECT_THAT(refused(fmt::format("{1} --config {0}/masked.toml {0}/dcp {0}/out", at, slots)),
              HasSubstr("objective.kind = \"masked_lm\" has no home in GPT-NeoX's format"));
  const auto staged = [&](int stages, const std::string& more) {
    return refused(fmt::format("{} --pipeline-parallel {} {}", more, stages, places));
  };
  EXPECT_THAT(staged(2, split), HasSubstr("--pipeline-parallel 2 does not divide 1 layers"));
  EXPECT_THAT(staged(0, split), HasSubstr("--pipeline-parallel 0 does not divide 1 layers"));
  EXPECT_THAT(staged(2, "--to hf"), HasSubstr("--pipeline-parallel does not go with --to hf"));
}

// The older DeepSpeed of Llemma's branch fills stages from the front, and would leave the fourth of these empty.
TEST(NeoxRefusals, NameStagesThatWouldHaveNothing) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f meta=0 L=7 D=144", at));
  const auto words = [&](const char* layout) {
    return fmt::format("--to neox --to-qkv-layout {1} --pipeline-parallel 4 {0}/f/hf {0}/{1}", at, layout);
  };
  EXPECT_THAT(refused(words("slots")), HasSubstr("GPT-NeoX would give its stages 2, 3, 2, 0 of them"));
  converted(words("split"));
  EXPECT_THAT(read_file(scratch / "split/model.yml"), HasSubstr("\"pipe_parallel_size\": 4"));
  EXPECT_TRUE(path_exists(scratch / "split/global_step0/mp_rank_03_model_states.pt"));
}

TEST(NeoxRefusals, NameWhatIsMissing) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), step = at + "/f/neox/global_step2";
  foreign(fmt::format("make {}/f meta=0 G=6", at));
  foreign(fmt::format("neox {}/f slots 2 1", at));
  const auto refusal = [&](const std::string& words, int exit_code = 2) {
    return refused(fmt::format("--to native {} {} {}/out", words, step, at), exit_code);
  };
  const std::string config = run_file(scratch, 96, 6);
  EXPECT_THAT(refusal(""), HasSubstr("does not describe its model"));
  EXPECT_THAT(test::run_hearth("inspect " + step).output, HasSubstr("does not describe its model"));
  EXPECT_THAT(refused(fmt::format("--to neox {0} {1} {2}/out", config, step, at)),
              HasSubstr("--to neox needs --to-qkv-layout"));
  EXPECT_THAT(refused(fmt::format("--to native --qkv-layout split {0}/f/hf {0}/out", at)),
              HasSubstr("--qkv-layout is for GPT-NeoX's folders"));
  EXPECT_THAT(refusal(run_file(scratch, 96, 1)), HasSubstr("the files of 2 ranks, which do not divide the heads"));
  EXPECT_THAT(refusal(run_file(scratch, 96, 2)), HasSubstr("query_key_value.weight has shape [144, 96], expected 80"));
  EXPECT_THAT(refusal(run_file(scratch, 96, 6, 2)), HasSubstr("lacks norm.scale of layer 5"));
  rename_path(step + "/layer_07-model_00-model_states.pt", at + "/moved");
  rename_path(step + "/layer_07-model_01-model_states.pt", at + "/moved too");
  EXPECT_THAT(refusal(run_file(scratch, 96, 6)), testing::AllOf(HasSubstr("has no final_linear.weight"),
                                                                HasSubstr("set model.enable_weight_tying = true")));
  rename_path(at + "/moved", step + "/layer_07-model_00-model_states.pt");
  rename_path(at + "/moved too", step + "/layer_07-model_01-model_states.pt");
  EXPECT_THAT(refusal(run_file(scratch, 96, 6, 4)), HasSubstr("lacks input_layernorm.scale of layer 5"));
  write_text(scratch / "script.py", R"(
import shutil, sys, torch
step, at = sys.argv[1:]
def variant(name, file, change):
    shutil.copytree(step, f'{at}/{name}')
    state = torch.load(f'{step}/{file}')
    change(state)
    torch.save(state, f'{at}/{name}/{file}')
one = 'layer_02-model_01-model_states.pt'
variant('bias', one, lambda s: s.update({'attention.dense.bias': torch.ones(96)}))
variant('narrow', one, lambda s: s.update({'attention.dense.weight': torch.ones(96, 47)}))
variant('named', 'layer_00-model_00-model_states.pt', lambda s: None)
shutil.move(f'{at}/named/{one}', f'{at}/named/layer_xx-model_states.pt')
)");
  ASSERT_EQ(test::run_python(fmt::format("{0}/script.py {1} {0}", at, step)).exit_code, 0);
  const auto variant = [&](const std::string& name, int exit_code = 2) {
    return refused(fmt::format("--to native {0} {1}/{2} {1}/out", run_file(scratch, 96, 6), at, name), exit_code);
  };
  EXPECT_THAT(variant("bias"), HasSubstr("layer 2 has attention.dense.bias, which Hearth's model lacks"));
  EXPECT_THAT(variant("narrow", 3), HasSubstr("attention.dense.weight has another shape or type"));
  EXPECT_THAT(variant("named"), HasSubstr("belongs to no layer"));
  remove_file(step + "/layer_03-model_01-model_states.pt");
  EXPECT_THAT(refusal(config), HasSubstr("of layer 3"));
  write_text(at + "/f/neox/latest", "../../etc\n");
  EXPECT_THAT(refused(fmt::format("--to native {0} {1}/f/neox {1}/out", config, at)),
              HasSubstr("latest names \"../../etc\", which is no folder there"));
  // Heads that cannot share a key in slots.
  foreign(fmt::format("make {}/g meta=0", at));
  foreign(fmt::format("neox {}/g split 1 1", at));
  EXPECT_THAT(
      refused(fmt::format("--to native --qkv-layout slots {0} {1}/g/neox {1}/out", run_file(scratch, 96, 2), at)),
      HasSubstr("6 heads cannot share 2 keys in slots"));
}

}  // namespace
}  // namespace hearth::convert
