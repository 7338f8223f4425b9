// SPDX-License-Identifier: Apache-2.0
// Weights of other programs through Hearth and back: the same bits, and the same logits as transformers computes.
#include "foreign.h"

#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "checkpoint/verify.h"
#include "config/load.h"

namespace hearth::convert {
namespace {

using testing::HasSubstr;

struct RoundTrip : testing::TestWithParam<const char*> {};

// transformers computes the same sums in the same order for equal weights: no tolerance.
TEST_P(RoundTrip, HuggingFaceAndMetaThroughNativeKeepTheirBitsAndTheirLogits) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f {}", at, GetParam()));
  converted(fmt::format("--to native {0}/f/hf {0}/native", at));
  EXPECT_TRUE(checkpoint::verify_checkpoint(at + "/native").problems.empty());
  converted(fmt::format("--to hf {0}/native {0}/hf --max-file-size 30kB", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/hf", at)), "equal");
  converted(fmt::format("--to meta {0}/native {0}/meta", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/meta-1/consolidated.00.pth {0}/meta/consolidated.00.pth", at)), "equal");
  converted(fmt::format("--to hf {0}/f/meta-2 {0}/from-meta", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/from-meta", at)), "equal");
  converted(fmt::format("--to native {0}/f/meta-2 {0}/native-of-meta", at));
  converted(fmt::format("--to meta {0}/native-of-meta {0}/meta-again", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/meta-1/consolidated.00.pth {0}/meta-again/consolidated.00.pth", at)),
            "equal");
  if (std::string(GetParam()).find("columns") == std::string::npos) {
    converted(fmt::format("--to meta --tensor-parallel 2 {0}/native {0}/meta-2", at));
    EXPECT_EQ(foreign(fmt::format("meta-same {0}/f/meta-2 {0}/meta-2", at)), "equal");
  }
  EXPECT_EQ(foreign(fmt::format("logits {0}/f {0}/hf {0}/from-meta", at)), "0.0");
  converted(fmt::format("--to dcp {0}/native {0}/dcp", at));
  EXPECT_EQ(foreign(fmt::format("dcp {0}/dcp {0}/f/hf", at)), "equal");
  converted(fmt::format("--to torchtitan {0}/native {0}/torchtitan", at));
  EXPECT_EQ(foreign(fmt::format("dcp {0}/torchtitan {0}/f/hf 0.3", at)), "equal");
  // Back: a folder with the names of 0.3 and a run file, which the native checkpoint has.
  write_text(scratch / "run.toml", checkpoint::Reader::open(at + "/native-of-meta").manifest().config_toml);
  converted(fmt::format("--to hf --config {0}/run.toml {0}/torchtitan {0}/hf-again", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/hf-again", at)), "equal");
}

INSTANTIATE_TEST_SUITE_P(Models, RoundTrip,
                         testing::Values("dtype=float32", "dtype=bfloat16 scaled=1 columns=1", "dtype=bfloat16 tied=1",
                                         "D=160 H=2 G=2 theta=10000 columns=1 V=202 L=2"),
                         [](const auto& info) { return fmt::format("Model{}", info.index); });

// Llama 3.1 405B has 8 keys and 16 files.
TEST(RoundTrip, MetaHasCopiesOfKeysWhereItHasMoreFilesThanKeys) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f D=128 H=8 G=2 V=136 files=8 dtype=bfloat16", at));
  converted(fmt::format("--to hf {0}/f/meta-8 {0}/hf", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/hf", at)), "equal");
  foreign(fmt::format("make {}/e D=128 H=8 G=2 V=136 files=8", at));
  EXPECT_THAT(converted(fmt::format("--to meta --tensor-parallel 8 {0}/e/hf {0}/meta", at)),
              HasSubstr("note: the files share the rows of tok_embeddings, as the code of Llama 3 reads them"));
  EXPECT_EQ(foreign(fmt::format("meta-same {0}/e/meta-8 {0}/meta", at)), "equal");
  write_text(scratch / "change.py", R"(
import sys, torch
file = sys.argv[1] + '/consolidated.03.pth'
state = torch.load(file)
state['layers.1.attention.wv.weight'][3, 4] += 1
torch.save(state, file)
)");
  EXPECT_EQ(test::run_python(fmt::format("{0}/change.py {0}/meta", at)).exit_code, 0);
  EXPECT_THAT(refused(fmt::format("--to hf {0}/meta {0}/out", at), 3),
              HasSubstr("consolidated.00.pth and consolidated.03.pth have different layers.1.attention.wv.weight"));
  EXPECT_THAT(refused(fmt::format("--to meta --tensor-parallel 3 {0}/e/hf {0}/out", at)),
              HasSubstr("--tensor-parallel 3 does not divide the model"));
}

TEST(RoundTrip, NativeKeepsTheOrderOfPairsUnlessAskedAndSaysWhichItHas) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f", at));
  converted(fmt::format("--to native {0}/f/hf {0}/halves", at));
  converted(fmt::format("--to native {0}/f/hf {0}/interleaved --rope-pairs interleaved", at));
  converted(fmt::format("--to native {0}/f/meta-1 {0}/meta", at));
  const auto pairs = [&](const std::string& name) {
    return config::from_toml_text(checkpoint::Reader::open(at + "/" + name).manifest().config_toml, name, ".")
        .model.rope_pairs;
  };
  EXPECT_EQ(pairs("halves"), config::RopePairs::kHalves);
  EXPECT_EQ(pairs("interleaved"), config::RopePairs::kInterleaved);
  EXPECT_EQ(pairs("meta"), config::RopePairs::kInterleaved);
  EXPECT_EQ(read_file(at + "/interleaved/__R_0.distcp"), read_file(at + "/meta/__R_0.distcp"));
  EXPECT_NE(read_file(at + "/halves/__R_0.distcp"), read_file(at + "/meta/__R_0.distcp"));
  converted(fmt::format("--to hf {0}/interleaved {0}/hf", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/hf", at)), "equal");
}

TEST(RoundTrip, FamiliesBesidesLlama) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  // Heads that are not 96 / 6.
  const std::set<std::string_view> wide = {"afmoe",     "deepseek_v3", "dots1",       "ernie4_5", "ernie4_5_moe",
                                           "exaone4",   "gemma",       "gemma3_text", "glm4",     "glm4_moe",
                                           "gpt_oss",   "minimax_m2",  "ministral3",  "mistral",  "qwen3",
                                           "qwen3_moe", "seed_oss"};
  for (const char* type :
       {"afmoe",       "arcee",      "deepseek_v3", "dots1",    "ernie4_5", "ernie4_5_moe", "exaone4",    "gemma",
        "gemma3_text", "glm4",       "glm4_moe",    "gpt_oss",  "granite",  "minimax_m2",   "ministral3", "mistral",
        "mixtral",     "modernbert", "neobert",     "olmo",     "olmo2",    "olmo3",        "olmoe",      "phi3",
        "qwen2",       "qwen3",      "qwen3_moe",   "seed_oss", "smollm3"}) {
    foreign(fmt::format("make {0}/{1} type={1} meta=0 V=131 K={2}", at, type, wide.contains(type) ? 24 : 0));
    converted(fmt::format("--to native {0}/{1}/hf {0}/{1}/native", at, type));
    converted(fmt::format("--to hf {0}/{1}/native {0}/{1}/back", at, type));
    EXPECT_EQ(foreign(fmt::format("same {0}/{1}/hf {0}/{1}/back", at, type)), "equal");
    EXPECT_EQ(foreign(fmt::format("logits {0}/{1} {0}/{1}/back", at, type)), "0.0");
  }
  // Moonlight's queries have no latent row. The pairs of latent attention have one order.
  foreign(fmt::format("make {}/moonlight type=deepseek_v3 meta=0 V=131", at));
  converted(fmt::format("--to native {0}/moonlight/hf {0}/moonlight/native", at));
  converted(fmt::format("--to hf {0}/moonlight/native {0}/moonlight/back", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/moonlight/hf {0}/moonlight/back", at)), "equal");
  EXPECT_EQ(foreign(fmt::format("logits {0}/moonlight {0}/moonlight/back", at)), "0.0");
  EXPECT_THAT(refused(fmt::format("--to native {0}/moonlight/hf {0}/halves --rope-pairs halves", at)),
              HasSubstr("pairs of latent attention have one order"));
  // Queries and keys of the other order of pairs, with their biases and norms.
  for (const char* type : {"ernie4_5", "ernie4_5_moe", "glm4", "gpt_oss", "minimax_m2", "neobert", "olmo2", "phi3",
                           "qwen2", "qwen3", "seed_oss"}) {
    const bool are_neighbours =
        std::set<std::string_view>{"ernie4_5", "ernie4_5_moe", "glm4", "neobert"}.contains(type);
    const char* other = are_neighbours ? "halves" : "interleaved";
    converted(fmt::format("--to native {0}/{1}/hf {0}/{1}/pairs --rope-pairs {2}", at, type, other));
    EXPECT_NE(read_file(fmt::format("{}/{}/pairs/__R_0.distcp", at, type)),
              read_file(fmt::format("{}/{}/native/__R_0.distcp", at, type)));
    converted(fmt::format("--to hf {0}/{1}/pairs {0}/{1}/again", at, type));
    EXPECT_EQ(foreign(fmt::format("same {0}/{1}/hf {0}/{1}/again", at, type)), "equal");
  }
  EXPECT_THAT(refused(fmt::format("--to meta {0}/qwen2/native {0}/out", at)), HasSubstr("model.qkv_bias has no home"));
  EXPECT_THAT(refused(fmt::format("--to meta {0}/phi3/native {0}/out", at)),
              HasSubstr("model.partial_rotary_factor = 0.5 has no home"));
  EXPECT_THAT(refused(fmt::format("--to neox --to-qkv-layout split {0}/ministral3/native {0}/out", at)),
              HasSubstr("model.query_position_scale = 0.5 has no home"));
  EXPECT_THAT(refused(fmt::format("--to meta {0}/qwen3/native {0}/out", at)), HasSubstr("model.qk_norm has no home"));
  EXPECT_THAT(refused(fmt::format("--to meta {0}/olmo2/native {0}/out", at)),
              HasSubstr("model.norm_placement = \"outputs\" has no home"));
  for (const char* format : {"meta", "neox --to-qkv-layout split", "torchtitan"})
    for (const char* type : {"modernbert", "neobert", "mixtral", "gpt_oss"})
      EXPECT_THAT(refused(fmt::format("--to {1} {0}/{2}/native {0}/out", at, format, type)), HasSubstr("has no home"));
  EXPECT_THAT(converted(fmt::format("--to dcp {0}/mixtral/native {0}/mixtral/dcp", at)),
              HasSubstr("torchtitan cannot load this folder: its Llama has no model.route_norm"));
  EXPECT_THAT(converted(fmt::format("--to dcp {0}/qwen3/native {0}/qwen3/dcp", at)),
              testing::Not(HasSubstr("torchtitan cannot load")));
  // GPT-NeoX's format has no biases of queries and no norms of heads: weights were dropped without a word.
  for (const auto& [type, key] :
       {std::pair("qwen2", "model.qkv_bias"), std::pair("qwen3", "model.qk_norm"),
        std::pair("olmo2", "model.norm_placement"), std::pair("smollm3", "model.no_rope_layer_interval"),
        std::pair("granite", "model.embedding_multiplier"), std::pair("arcee", "model.activation")})
    EXPECT_THAT(refused(fmt::format("--to neox --to-qkv-layout split {0}/{1}/native {0}/out", at, type)),
                HasSubstr(std::string(key)))
        << type;
  EXPECT_THAT(refused(fmt::format("--to torchtitan {0}/olmo2/native {0}/out", at)),
              HasSubstr("model.norm_placement = \"outputs\" has no home in torchtitan's format"));
  EXPECT_THAT(refused(fmt::format("--to meta {0}/mistral/native {0}/out", at)),
              HasSubstr("model.head_dim has no home"));
  // OLMo's class has one eps.
  converted(fmt::format("--to dcp {0}/olmo/native {0}/dcp", at));
  write_text(scratch / "run.toml",
             "[model]\ndim = 96\nn_layers = 3\nn_heads = 6\nn_kv_heads = 2\nhidden_dim = 112\n"
             "norm_type = \"np_layernorm\"\nnorm_eps = 1e-6\n");
  EXPECT_THAT(refused(fmt::format("--to hf {0}/dcp {0}/out --config {0}/run.toml", at)),
              HasSubstr("model.norm_eps = 1e-06 has no home in Hugging Face's formats"));
}

// A training's moments go along with their matrices where both are folders of PyTorch; elsewhere they are named.
TEST(RoundTrip, MomentsMoveWithTheirMatrices) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f L=1", at));
  converted(fmt::format("--to native {0}/f/hf {0}/weights", at));
  // The same checkpoint with a moment for each matrix, equal to the matrix.
  checkpoint::Reader reader = checkpoint::Reader::open(at + "/weights");
  checkpoint::begin_save(at + "/work");
  checkpoint::RankFile file(at + "/work", 0);
  for (mesh::TensorInfo info : std::vector(reader.tensors())) {
    const mesh::Box box{std::vector<int64_t>(info.shape.size()), info.shape};
    std::vector<std::byte> bytes(static_cast<size_t>(box.numel() * 4));
    reader.read(info.name, box, bytes);
    file.add({info, box, bytes});
    info.name = "optimizer.state." + info.name + ".exp_avg";
    file.add({info, box, bytes});
  }
  checkpoint::commit(at + "/work", at + "/native", std::vector{file.finish()}, reader.manifest());
  converted(fmt::format("--to dcp {0}/native {0}/dcp", at));
  checkpoint::Reader moved = checkpoint::Reader::open(at + "/dcp");
  for (const mesh::TensorInfo& info : reader.tensors()) {
    const mesh::Box box{std::vector<int64_t>(info.shape.size()), info.shape};
    std::vector<std::byte> before(static_cast<size_t>(box.numel() * 4)), weight(before), moment(before);
    reader.read(info.name, box, before);
    moved.read(info.name, box, weight);
    moved.read("optimizer.state." + info.name + ".exp_avg", box, moment);
    EXPECT_TRUE(weight == moment) << info.name;
    EXPECT_EQ(weight == before,
              info.name.find(".wq.") == std::string::npos && info.name.find(".wk.") == std::string::npos)
        << info.name;
  }
  EXPECT_THAT(converted(fmt::format("--to hf {0}/native {0}/hf", at)),
              HasSubstr("tensors of a training's state left behind, such as optimizer.state."));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/hf", at)), "equal");
}

TEST(RoundTrip, TypesAreRoundedAsByPyTorch) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f meta=0 L=1", at));
  write_text(scratch / "cast.py", R"(
import sys, torch
from safetensors.torch import load_file, save_file
at = sys.argv[1]
for name in ('bfloat16', 'float16'):
    import glob, os
    os.makedirs(f'{at}/{name}')
    t = {k: v for f in glob.glob(at + '/f/hf/*.safetensors') for k, v in load_file(f).items()}
    save_file({k: v.to(getattr(torch, name)) for k, v in t.items()}, f'{at}/{name}/all.safetensors')
)");
  ASSERT_EQ(test::run_python(fmt::format("{0}/cast.py {0}", at)).exit_code, 0);
  for (const char* type : {"bfloat16", "float16"}) {
    converted(fmt::format("--to hf {0}/f/hf {0}/ours-{1} --dtype {1}", at, type));
    EXPECT_EQ(foreign(fmt::format("same {0}/{1} {0}/ours-{1}", at, type)), "equal");
  }
  // Back to a wider type is exact. A native checkpoint has no float16.
  EXPECT_THAT(converted(fmt::format("--to native {0}/ours-float16 {0}/native", at)),
              HasSubstr("note: float16 becomes float32"));
  converted(fmt::format("--to hf {0}/native {0}/narrow --dtype float16", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/float16 {0}/narrow", at)), "equal");
}

TEST(RoundTrip, ATokenizerKeepsItsIdsInTransformers) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f V=400 meta=0 L=1", at));
  write_text(scratch / "make.py", R"(
import json, sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
at = sys.argv[1] + '/f/hf/'
t = Tokenizer(models.BPE())
t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
t.train_from_iterator(['the cat sat on the mat '] * 3, trainers.BpeTrainer(
    vocab_size=280, special_tokens=['<|begin|>', '<|end|>'], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
t.save(at + 'tokenizer.json')
json.dump({'bos_token': '<|begin|>', 'eos_token': '<|end|>'}, open(at + 'tokenizer_config.json', 'w'))
)");
  ASSERT_EQ(test::run_python(fmt::format("{0}/make.py {0}", at)).exit_code, 0);
  converted(fmt::format("--to native {0}/f/hf {0}/native", at));
  converted(fmt::format("--to hf {0}/native {0}/hf", at));
  write_text(scratch / "check.py", R"(
import json, sys
from transformers import AutoTokenizer
at = sys.argv[1]
ours, theirs = AutoTokenizer.from_pretrained(at + '/hf'), AutoTokenizer.from_pretrained(at + '/f/hf')
text = 'the cat sat on the mat.\n Un\u00efc <|end|>'
assert ours(text).input_ids == theirs(text).input_ids, (ours(text), theirs(text))
assert (ours.bos_token, ours.eos_token) == ('<|begin|>', '<|end|>')
config = json.load(open(at + '/hf/config.json'))
assert (config['bos_token_id'], config['eos_token_id']) == (0, 1), config
generation = json.load(open(at + '/hf/generation_config.json'))
assert (generation['bos_token_id'], generation['eos_token_id']) == (0, 1), generation
)");
  const test::CommandResult result = test::run_python(fmt::format("{0}/check.py {0}", at));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(read_file(at + "/native/tokenizer.json"), read_file(at + "/f/hf/tokenizer.json"));
  // Kinds without a home are named.
  converted(fmt::format("--to native {0}/f/hf {0}/bytes --tokenizer bytes", at));
  for (const char* to : {"hf", "meta", "dcp"}) {
    EXPECT_THAT(converted(fmt::format("--to {1} {0}/bytes {0}/bytes-{1}", at, to)),
                HasSubstr("note: no tokenizer is written"));
  }
  EXPECT_THAT(refused(fmt::format("--to native {0}/f/hf {0}/x --tokenizer ids:500", at)),
              HasSubstr("model.vocab_size = 400 is smaller than the tokenizer's 500"));
}

// The longest sequence, masked models and documents stand in config.json and on the card.
TEST(RoundTrip, WhatAModelIsForIsWrittenDown) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f L=1", at));
  converted(fmt::format("--to dcp {0}/f/meta-1 {0}/dcp", at));
  write_text(scratch / "run.toml", R"([model]
dim = 96
n_layers = 1
n_heads = 6
n_kv_heads = 2
hidden_dim = 112
attention_scope = "document"
[objective]
kind = "masked_lm"
[training]
seq_len = 48
)");
  converted(fmt::format("--to hf {0}/dcp {0}/hf --config {0}/run.toml --dtype bfloat16", at));
  const std::string card = read_file(at + "/hf/README.md"), config = read_file(at + "/hf/config.json");
  EXPECT_THAT(card, HasSubstr("fill-mask"));
  EXPECT_THAT(card, HasSubstr("transformers 4 ignores it"));
  EXPECT_THAT(card, HasSubstr("saw its own document only"));
  EXPECT_THAT(card, HasSubstr("| longest sequence | 48 |"));
  EXPECT_THAT(config, HasSubstr("\"is_causal\": false"));
  EXPECT_THAT(config, HasSubstr("\"torch_dtype\": \"bfloat16\""));
  EXPECT_THAT(config, HasSubstr("\"max_position_embeddings\": 48"));
  const std::string mistral = fmt::format("{}/f/hf/config.json", at);
  edit(mistral, "\"llama\"", "\"mistral\"");
  edit(mistral, "\"attention_bias\": false,", "");
  edit(mistral, "{", "{\"sliding_window\": 32,");
  EXPECT_THAT(converted(fmt::format("--to native {0}/f/hf {0}/window", at)),
              HasSubstr("note: model.sliding_window = 32 in 1 of 1 layers"));
}

TEST(RoundTrip, SeveralEosTokensBecomeOne) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f L=1", at));
  edit(at + "/f/hf/config.json", "\"eos_token_id\": 2", "\"eos_token_id\": [2, 5]");
  EXPECT_THAT(converted(fmt::format("--to native {0}/f/hf {0}/native", at)),
              HasSubstr("note: the model has 2 EOS tokens; the checkpoint keeps one: 2"));
}

TEST(RoundTrip, InspectShowsOtherProgramsFilesWithTheKeysOfARun) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f L=1 scaled=1", at));
  const std::string hf = test::run_hearth(fmt::format("inspect {}/f/hf", at)).output;
  EXPECT_THAT(hf, HasSubstr("Hugging Face's format"));
  EXPECT_THAT(hf, HasSubstr("layers.0.attention.wq.weight"));
  EXPECT_THAT(hf, HasSubstr("rope_pairs = \"halves\""));
  const std::string model = test::run_hearth(fmt::format("inspect --model {}/f/hf", at)).output;
  EXPECT_EQ(model.find("[model]\n"), 0u) << model;
  EXPECT_THAT(model, HasSubstr("rope_pairs = \"halves\""));
  EXPECT_EQ(model.find("\n["), std::string::npos) << "one section alone";
  const std::string meta = test::run_hearth(fmt::format("inspect {}/f/meta-2 --json", at)).output;
  EXPECT_THAT(meta, HasSubstr("\"kind\": \"meta\""));
  EXPECT_THAT(meta, HasSubstr("hidden_dim = 112"));
  EXPECT_THAT(test::run_hearth(fmt::format("inspect {}/f/meta-2", at)).output,
              HasSubstr("note: use_scaled_rope has no factor"));
}

TEST(RoundTrip, AFolderOfPyTorchNeedsARunFileAndThenConverts) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f", at));
  converted(fmt::format("--to native {0}/f/meta-1 {0}/native", at));
  converted(fmt::format("--to dcp {0}/native {0}/dcp", at));
  EXPECT_THAT(refused(fmt::format("--to hf {0}/dcp {0}/hf", at)), HasSubstr("does not describe its model"));
  write_text(scratch / "run.toml",
             "[model]\ndim = 96\nn_layers = 3\nn_heads = 6\nn_kv_heads = 2\nhidden_dim = 112\nrope_theta = 500000\n");
  converted(fmt::format("--to hf {0}/dcp {0}/hf --config {0}/run.toml", at));
  EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/hf", at)), "equal");
  EXPECT_THAT(refused(fmt::format("--to hf {0}/native {0}/x --config {0}/run.toml", at)),
              HasSubstr("describes its model itself"));
}

}  // namespace
}  // namespace hearth::convert
