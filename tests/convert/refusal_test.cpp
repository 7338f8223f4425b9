// SPDX-License-Identifier: Apache-2.0
// What `hearth convert` refuses, each with its reason.
#include "foreign.h"

#include <sys/stat.h>

namespace hearth::convert {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// One small model for all tests of this file, which copy what they change.
const std::string& good() {
  static const test::ScratchFolder scratch;
  static const std::string at = (foreign("make " + scratch.path().string() + "/f L=2"), scratch.path().string() + "/f");
  return at;
}

// A copy of good()'s folder `kind`, and the refusal of its conversion.
class Copy {
 public:
  explicit Copy(const std::string& kind) {
    std::filesystem::copy(good() + "/" + kind, folder(), std::filesystem::copy_options::recursive);
  }
  Path folder() const { return scratch_ / "in"; }
  std::string refusal(const std::string& words = "--to native", int exit_code = 2) const {
    return refused(fmt::format("{} {} {}/out", words, folder().string(), scratch_.path().string()), exit_code);
  }

 private:
  test::ScratchFolder scratch_;
};

TEST(Refusal, FieldsOfConfigThatChangeTheComputation) {
  HEARTH_NEEDS_ORACLE();
  const auto with = [&](std::string_view from, std::string_view to) {
    const Copy copy("hf");
    edit(copy.folder() / "config.json", from, to);
    return copy.refusal();
  };
  const auto added = [&](const std::string& field) { return with("{", "{" + field + ","); };
  EXPECT_THAT(added("\"soft_cap\": 30"), HasSubstr("field \"soft_cap\" is not known"));
  EXPECT_THAT(with("\"attention_bias\": false", "\"attention_bias\": true"), HasSubstr("attention_bias = true"));
  EXPECT_THAT(with("\"silu\"", "\"gelu\""), HasSubstr("hidden_act = \"gelu\""));
  EXPECT_THAT(added("\"quantization_config\": {}"),
              AllOf(HasSubstr("quantization_config = {}"), HasSubstr("transformers' dequantize()")));
  EXPECT_THAT(added("\"is_causal\": 0"), HasSubstr("is_causal is neither true nor false"));
  EXPECT_THAT(added("\"activation\": \"gelu\""), HasSubstr("activation = \"gelu\""));
  EXPECT_THAT(added("\"mask_token_id\": 130"), HasSubstr("mask_token_id = 130 is not a token"));
  EXPECT_THAT(added("\"sliding_window\": 8"), HasSubstr("sliding_window = 8"));
  EXPECT_THAT(with("\"model_type\": \"llama\"", "\"model_type\": \"mistral\", \"sliding_window\": 0"),
              HasSubstr("sliding_window = 0"));
  EXPECT_THAT(with("\"model_type\": \"llama\"", "\"model_type\": \"bloom\""), HasSubstr("model_type \"bloom\""));
  EXPECT_THAT(with("\"model_type\": \"llama\",", ""), HasSubstr("has no model_type"));
  EXPECT_THAT(with("\"head_dim\": 16", "\"head_dim\": 32"),
              HasSubstr("model.layers.0.self_attn.q_proj.weight: float32 [96, 96], expected [192"));
  EXPECT_THAT(with("\"head_dim\": 16", "\"head_dim\": 15"), HasSubstr("heads of width 15"));
  EXPECT_THAT(with("\"hidden_size\": 96", "\"hidden_size\": -96"), HasSubstr("hidden_size = -96 is not a size"));
  EXPECT_THAT(with("\"hidden_size\": 96", "\"hidden_size\": 0"), HasSubstr("a size of the model is 0"));
  EXPECT_THAT(with("\"hidden_size\": 96,", ""), HasSubstr("has no hidden_size"));
  EXPECT_THAT(with("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4"), HasSubstr("is not a multiple of"));
  EXPECT_THAT(with("\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 0"), HasSubstr("is not a positive number"));
  EXPECT_THAT(with("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": 0"),
              HasSubstr("tie_word_embeddings is neither true nor false"));
  EXPECT_THAT(with("\"eos_token_id\": 2", "\"eos_token_id\": [2, 130]"),
              HasSubstr("eos_token_id = 130 is not a token"));
  EXPECT_THAT(with("\"rope_type\": \"default\"", "\"rope_type\": \"dynamic\""),
              AllOf(HasSubstr("rope_type \"dynamic\""), HasSubstr("default, linear, llama3, yarn, longrope")));
  EXPECT_THAT(with("\"rope_type\": \"default\"", "\"rope_type\": \"llama3\""),
              HasSubstr("rope_parameters has no factor"));
  EXPECT_THAT(with("\"rope_type\": \"default\"", "\"rope_type\": 1"), HasSubstr("has a field of another type"));
  EXPECT_THAT(with("\"rope_type\": \"default\"", "\"mscale\": 1"), HasSubstr("rope_parameters.mscale is not known"));
  const auto scaled = [&](const std::string& high, const std::string& original) {
    return added(
        "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
        "\"high_freq_factor\": " +
        high + ", \"original_max_position_embeddings\": " + original + "}");
  };
  EXPECT_THAT(scaled("4", "8192"), HasSubstr("high_freq_factor is not above rope_scaling.low_freq_factor"));
  EXPECT_THAT(scaled("5", "1e300"), HasSubstr("original_max_position_embeddings = 1e+300 is not a size"));
  EXPECT_THAT(added("\"layer_types\": [\"full_attention\", \"sliding_attention\"]"),
              HasSubstr("layer_types has a layer without full_attention"));
  EXPECT_THAT(added("\"use_mrope\": true"), HasSubstr("use_mrope = true"));
  EXPECT_THAT(added("\"is_llama_config\": false"), HasSubstr("is_llama_config = false"));
  EXPECT_THAT(with("\"rope_type\": \"default\"", "\"partial_rotary_factor\": 0.5"),
              HasSubstr("partial_rotary_factor = 0.5"));
  EXPECT_THAT(added("\"rope_scaling\": []"), HasSubstr("rope_scaling is not an object"));
  EXPECT_THAT(added("\"rope_theta\": 10000.0"), HasSubstr("in one place and"));
  EXPECT_THAT(added("\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
                    "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 8192}"),
              HasSubstr("rope_parameters and rope_scaling differ"));
  const Copy copy("hf");
  write_text(copy.folder() / "config.json", "{]");
  EXPECT_THAT(copy.refusal("--to native", 3), AllOf(HasSubstr("config.json is not JSON that can be read"),
                                                    HasSubstr("why: parse error at line 1, column 2")));
  write_text(copy.folder() / "config.json", "[]");
  EXPECT_THAT(copy.refusal("--to native", 3), HasSubstr("is not a JSON object"));
}

// They have no effect in transformers, whose classes do not know them.
TEST(Refusal, IsNotForFieldsThatPublishedModelsHaveBesidesThoseOfTheirClass) {
  HEARTH_NEEDS_ORACLE();
  const Copy copy("hf");
  edit(copy.folder() / "config.json", "{",
       R"({"is_llama_config": true, "rope_interleaved": false,
           "transformers.js_config": {"kv_cache_dtype": {"fp16": "float16"}},
           "activation": "swiglu", "_attn_implementation": "eager", "use_return_dict": true,
           "auto_map": {"AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}, "max_sequence_length": 2048, "use_mrope": false, "neftune_noise_alpha": 0.0, "_flash_attn_2_enabled": true,)");
  const test::ScratchFolder scratch;
  EXPECT_THAT(converted(fmt::format("--to native {} {}/out", copy.folder().string(), scratch.path().string())),
              HasSubstr("auto_map names code of this folder, which is not run: the model is computed as model_type "
                        "\"llama\""));
}

// transformers' classes take the number of query heads for a null, and their default for a field that is missing.
TEST(Refusal, KnowsANullFromAFieldThatIsMissing) {
  HEARTH_NEEDS_ORACLE();
  const Copy copy("hf");
  const Path config = copy.folder() / "config.json";
  edit(config, "\"model_type\": \"llama\"", "\"model_type\": \"mistral\", \"sliding_window\": null");
  edit(config, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": null");
  EXPECT_THAT(copy.refusal(), HasSubstr("self_attn.k_proj.weight: float32 [32, 96], expected [96, 96]"));
  edit(config, "\"num_key_value_heads\": null,", "");
  EXPECT_THAT(copy.refusal(), AllOf(HasSubstr("is not a multiple of num_key_value_heads = 8"),
                                    HasSubstr("has no num_key_value_heads, and mistral's default is 8")));
}

TEST(Refusal, WeightsThatAreNotTheModels) {
  HEARTH_NEEDS_ORACLE();
  const Copy wide("hf");
  edit(wide.folder() / "config.json", "\"intermediate_size\": 112", "\"intermediate_size\": 113");
  EXPECT_THAT(wide.refusal(), HasSubstr("mlp.gate_proj.weight: float32 [112, 96], expected [113, 96]"));
  const Copy deep("hf");
  edit(deep.folder() / "config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
  EXPECT_THAT(deep.refusal(), HasSubstr("model.layers.1.self_attn.k_proj.weight: the model has no such weight"));
  const Copy shallow("hf");
  edit(shallow.folder() / "config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
  EXPECT_THAT(shallow.refusal(), HasSubstr("model.layers.2.input_layernorm.weight: missing"));
  const Copy endless("hf");
  edit(endless.folder() / "config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2147483648");
  EXPECT_THAT(endless.refusal(), HasSubstr("model.n_layers would be 2147483648"));
  const Copy whole_numbers("hf");
  for (const std::string& name : list_folder(whole_numbers.folder()))
    if (name.ends_with(".safetensors")) edit(whole_numbers.folder() / name, "\"F32\"", "\"I32\"");
  EXPECT_THAT(whole_numbers.refusal(), HasSubstr("weight: int32 [96], expected floating-point numbers [96]"));
  const Copy tied("hf");
  edit(tied.folder() / "config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
  EXPECT_THAT(tied.refusal(), HasSubstr("lm_head.weight differs from the embedding"));
}

TEST(Refusal, FilesThatAreMissingOrLie) {
  HEARTH_NEEDS_ORACLE();
  const Copy missing("hf");
  std::string first;
  for (const std::string& name : list_folder(missing.folder())) {
    if (first.empty() && name.ends_with(".safetensors")) first = name;
  }
  std::filesystem::rename(missing.folder() / first, missing.folder() / "model-1-of-9.safetensors");
  EXPECT_THAT(missing.refusal(),
              AllOf(HasSubstr(first + " is missing"),
                    HasSubstr("model.safetensors.index.json names it, and not model-1-of-9.safetensors\n"),
                    HasSubstr("or get the index of the files that are there")));
  remove_file(missing.folder() / "model-1-of-9.safetensors");
  EXPECT_THAT(missing.refusal(), HasSubstr("model.safetensors.index.json names it\n  fix: download it again"));
  const Copy lying("hf");
  edit(lying.folder() / "model.safetensors.index.json", "\"lm_head.weight\"", "\"lm_tail.weight\"");
  EXPECT_THAT(lying.refusal("--to native", 3), HasSubstr("is wrong about lm_head.weight"));
  const Copy more("hf");
  edit(more.folder() / "model.safetensors.index.json", "\"weight_map\": {",
       "\"weight_map\": {\"x\": \"" + first + "\",");
  EXPECT_THAT(more.refusal("--to native", 3), HasSubstr("lacks this tensor"));
  const Copy climbing("hf");
  edit(climbing.folder() / "model.safetensors.index.json", first, "../" + first);
  EXPECT_THAT(climbing.refusal("--to native", 3), HasSubstr("not the name of a file in the same folder"));
  const Copy narrow("hf");
  write_text(narrow.folder() / "script.py", R"(
import sys, torch
from safetensors.torch import load_file, save_file
path = sys.argv[1]
weights = load_file(path)
name = next(iter(weights))
save_file({k: v.to(torch.float8_e4m3fn) if k == name else v for k, v in weights.items()}, path)
)");
  ASSERT_EQ(test::run_python(fmt::format("{0}/script.py {0}/{1}", narrow.folder().string(), first)).exit_code, 0);
  EXPECT_THAT(narrow.refusal(), HasSubstr("is a tensor of F8_E4M3"));
  const Copy no_config("hf");
  remove_file(no_config.folder() / "config.json");
  EXPECT_THAT(no_config.refusal(), HasSubstr("config.json is missing"));
  const Copy no_weights("hf");
  for (const std::string& name : list_folder(no_weights.folder())) {
    if (name != "config.json") remove_file(no_weights.folder() / name);
  }
  EXPECT_THAT(no_weights.refusal(), HasSubstr("has no weights"));
  constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  write_text(no_weights.folder() / "model.safetensors", kPointer);
  EXPECT_THAT(no_weights.refusal(), HasSubstr("model.safetensors is a pointer of Git LFS"));
  remove_file(no_weights.folder() / "model.safetensors");
  write_text(no_weights.folder() / "pytorch_model.bin", "before PyTorch 1.6");
  EXPECT_THAT(no_weights.refusal("--to native", 3), HasSubstr("PyTorch before 1.6 wrote it"));
  const Copy meta("meta-1");
  write_text(meta.folder() / "consolidated.00.pth", kPointer);
  EXPECT_THAT(meta.refusal(), HasSubstr("consolidated.00.pth is a pointer of Git LFS"));
}

TEST(Refusal, MetasFiles) {
  HEARTH_NEEDS_ORACLE();
  const Copy missing("meta-2");
  remove_file(missing.folder() / "consolidated.00.pth");
  EXPECT_THAT(missing.refusal(), HasSubstr("consolidated.00.pth is missing"));
  const Copy unnamed("meta-2");
  remove_file(unnamed.folder() / "params.json");
  EXPECT_THAT(unnamed.refusal(), HasSubstr("params.json is missing"));
  const Copy half("meta-2");
  remove_file(half.folder() / "consolidated.01.pth");
  EXPECT_THAT(half.refusal(), HasSubstr("has 1 of 2 files\n  why: consolidated.01.pth is missing"));
  const Copy cut("meta-2");
  std::filesystem::resize_file(cut.folder() / "consolidated.01.pth", 5000);
  EXPECT_THAT(cut.refusal("--to native", 3), HasSubstr("consolidated.01.pth: not a torch.save file"));
  const Copy other("meta-2");
  std::filesystem::copy_file(good() + "/meta-1/consolidated.00.pth", other.folder() / "consolidated.01.pth",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(other.refusal("--to native", 3), HasSubstr("in consolidated.00.pth it is float32"));
  const auto with = [&](std::string_view from, std::string_view to) {
    const Copy copy("meta-1");
    edit(copy.folder() / "params.json", from, to);
    return copy.refusal();
  };
  EXPECT_THAT(with("{", "{\"moe\": 8,"), HasSubstr("field \"moe\" is not known"));
  EXPECT_THAT(with("\"n_heads\": 6", "\"n_heads\": 5"), HasSubstr("do not fit together"));
  EXPECT_THAT(with("\"dim\": 96", "\"dim\": \"96\""), HasSubstr("dim = \"96\" is not a size"));
  EXPECT_THAT(with("\"dim\": 96,", ""), HasSubstr("has no dim"));
  EXPECT_THAT(with("\"norm_eps\": 1e-05", "\"norm_eps\": 0"), HasSubstr("norm_eps = 0 is not a positive number"));
  EXPECT_THAT(with("{", "{\"use_scaled_rope\": 1,"), HasSubstr("use_scaled_rope is neither true nor false"));
}

TEST(Refusal, MetasWeights) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  write_text(scratch / "script.py", R"(
import json, shutil, sys, torch
good, at = sys.argv[1:]
def variant(name, change, files=2):
    shutil.copytree(f'{good}/meta-{files}', f'{at}/{name}')
    path = f'{at}/{name}/consolidated.{files - 1:02d}.pth'
    state = torch.load(path)
    change(state)
    torch.save(state, path)
variant('norms', lambda s: s.update({'norm.weight': s['norm.weight'] + 1}))
variant('lacks', lambda s: s.pop('norm.weight'))
variant('note', lambda s: s.update({'note': 'hello'}))
variant('unknown', lambda s: s.update({'extra.weight': torch.ones(2, 2)}))
shutil.copytree(f'{at}/unknown', f'{at}/unjoined')
first = torch.load(f'{at}/unjoined/consolidated.00.pth')
torch.save({'extra.weight': torch.ones(2, 2), **first}, f'{at}/unjoined/consolidated.00.pth')
variant('nan', lambda s: s['layers.1.attention.wo.weight'].view(-1)[:5].fill_(float('nan')), 1)
variant('large', lambda s: s['layers.1.attention.wo.weight'].view(-1)[:5].fill_(1e6), 1)
variant('empty', lambda s: s.clear(), 1)
)");
  ASSERT_EQ(test::run_python(fmt::format("{0}/script.py {1} {0}", scratch.path().string(), good())).exit_code, 0);
  const auto refusal = [&](const std::string& name, const std::string& words = "--to native", int exit_code = 2) {
    return refused(fmt::format("{0} {1}/{2} {1}/out", words, scratch.path().string(), name), exit_code);
  };
  EXPECT_THAT(refusal("norms", "--to hf", 3), HasSubstr("have different norm.weight"));
  EXPECT_THAT(refusal("lacks", "--to hf", 3), HasSubstr("consolidated.01.pth lacks norm.weight"));
  EXPECT_THAT(refusal("note"), HasSubstr("note is not a tensor"));
  EXPECT_THAT(refusal("unjoined"), HasSubstr("extra.weight cannot be joined from 2 files"));
  EXPECT_THAT(refusal("nan"), HasSubstr("layers.1.attention.wo.weight has an element that is NaN or infinite"));
  EXPECT_THAT(refusal("large", "--dtype float16 --to hf"), HasSubstr("has an element that float16 cannot represent"));
  EXPECT_THAT(refusal("empty"), HasSubstr("is not a model of Meta's"));
  // A failed conversion leaves nothing. What a killed one left is no part of the next.
  for (const char* name : {"out", "out.convert.tmp", "out.convert.lock"}) EXPECT_FALSE(path_exists(scratch / name));
  make_folders(scratch / "out.convert.tmp");
  write_text(scratch / "out.convert.tmp/model-00001-of-00016.safetensors", "a part");
  converted(fmt::format("--to hf {}/meta-1 {}/out", good(), scratch.path().string()));
  EXPECT_FALSE(path_exists(scratch / "out.convert.tmp"));
  EXPECT_FALSE(path_exists(scratch / "out/model-00001-of-00016.safetensors"));
}

// Otherwise each would remove the other's files, and one would give the name OUT to a part of a model.
TEST(Refusal, ASecondConversionToTheSameName) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string words = fmt::format("--to hf {}/hf {}/out", good(), scratch.path().string());
  {
    const auto other = FileLock::try_lock(scratch / "out.convert.lock");
    EXPECT_THAT(refused(words), HasSubstr("another conversion writes " + (scratch / "out").string()));
  }
  converted(words);
  EXPECT_FALSE(path_exists(scratch / "out.convert.lock"));
}

TEST(Refusal, ModelsWithoutAHomeInTheTarget) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  converted(fmt::format("--to native {}/meta-1 {}/native", good(), at));
  converted(fmt::format("--to dcp {0}/native {0}/dcp", at));
  const auto refusal = [&](const std::string& to, const std::string& keys) {
    write_text(scratch / "run.toml",
               "[model]\ndim = 96\nn_layers = 2\nn_heads = 6\nn_kv_heads = 2\nhidden_dim = 112\n" + keys);
    return refused(fmt::format("--to {0} {1}/dcp {1}/out --config {1}/run.toml", to, at));
  };
  for (const char* norm : {"layernorm", "rmsnorm_neox"}) {
    const std::string key = fmt::format("norm_type = \"{}\"\n", norm);
    EXPECT_THAT(refusal("hf", key), HasSubstr(norm + std::string("\" has no home in Hugging Face's formats")));
    EXPECT_THAT(refusal("meta", key), HasSubstr(norm + std::string("\" has no home in Meta's format")));
  }
  EXPECT_THAT(refusal("meta", "rope_scaling_factor = 4\n"), HasSubstr("rope_scaling_factor = 4 has no home in Meta's"));
  EXPECT_THAT(refusal("hf", "[objective]\nkind = \"spike_lm\"\n"), HasSubstr("a model of spikes has no home"));
  const std::string diffusion = "[objective]\nkind = \"masked_diffusion\"\n";
  EXPECT_THAT(refusal("hf", diffusion + "shift_logits = true\n"), HasSubstr("shift_logits has no home in LLaDA's"));
  EXPECT_THAT(refusal("hf", "rope_scaling_factor = 4\n" + diffusion),
              HasSubstr("rope_scaling_factor has no home in LLaDA's"));
  EXPECT_THAT(refusal("hf", "norm_type = \"layernorm\"\n" + diffusion),
              HasSubstr("norm_type = \"layernorm\" has no home in LLaDA's"));
  EXPECT_THAT(refusal("meta", diffusion), HasSubstr("masked_diffusion\" has no home in Meta's"));
  EXPECT_THAT(refusal("meta", "[objective]\nkind = \"masked_lm\"\n"), HasSubstr("masked_lm\" has no home in Meta's"));
  EXPECT_THAT(refused(fmt::format("--to native --dtype float16 {0}/native {0}/out", at)),
              HasSubstr("--dtype float16 has no home in a native checkpoint"));
}

TEST(Refusal, TiedWeightsThatDiffer) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  converted(fmt::format("--to native {}/meta-1 {}/native", good(), at));
  converted(fmt::format("--to dcp {0}/native {0}/dcp", at));
  write_text(scratch / "run.toml",
             "[model]\ndim = 96\nn_layers = 2\nn_heads = 6\nn_kv_heads = 2\nhidden_dim = 112\n"
             "enable_weight_tying = true\n");
  EXPECT_THAT(refused(fmt::format("--to hf {0}/dcp {0}/out --config {0}/run.toml", at)),
              HasSubstr("output.weight differs from the embedding"));
  write_text(scratch / "bad.toml", "[model]\ndims = 96\n");
  EXPECT_THAT(refused(fmt::format("--to hf {0}/dcp {0}/out --config {0}/bad.toml", at)), HasSubstr("dims"));
}

TEST(Refusal, FoldersAndOptions) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), hf = good() + "/hf";
  EXPECT_THAT(refused(fmt::format("--to native {} {}", hf, at)), HasSubstr(at + " exists"));
  EXPECT_THAT(refused(fmt::format("--to hf {} {}/out --rope-pairs halves", hf, at)),
              HasSubstr("--rope-pairs does not go with --to hf"));
  EXPECT_THAT(refused(fmt::format("--to hf {} {}/out --max-file-size much", hf, at)), HasSubstr("is not a size"));
  EXPECT_THAT(refused(fmt::format("--to meta {} {}/out --max-file-size 1GB", hf, at)),
              HasSubstr("--max-file-size does not go with --to meta"));
  EXPECT_THAT(refused(fmt::format("--to meta {} ''", hf)), HasSubstr("OUT is empty"));
  EXPECT_THAT(refused(fmt::format("--to hf --from meta {} {}/out", hf, at)),
              HasSubstr("is not of the kind meta\n  why: its files are of the kind hf"));
  EXPECT_THAT(refused(fmt::format("--to hf {0} {0}/out", at)),
              HasSubstr("config.json (hf), consolidated.00.pth (meta)"));
  EXPECT_THAT(refused(fmt::format("--to hf --from meta {0} {0}/out", at)),
              HasSubstr("no weights of this kind are there; it is empty"));
  EXPECT_THAT(refused(fmt::format("--to hf {0}/nowhere {0}/out", at)), HasSubstr("there is no folder"));
  EXPECT_THAT(refused(fmt::format("--to hf {}/config.json {}/out", hf, at)), HasSubstr("is a file"));
  std::filesystem::copy(hf, scratch / "both", std::filesystem::copy_options::recursive);
  std::filesystem::copy(good() + "/meta-1", scratch / "both", std::filesystem::copy_options::recursive);
  EXPECT_THAT(refused(fmt::format("--to native {0}/both {0}/out", at)),
              HasSubstr("the files of two kinds: hf and meta"));
  converted(fmt::format("--to native --from meta {0}/both {0}/out", at));
}

// A pipe in place of a file used to be waited for.
TEST(Refusal, APipeInPlaceOfAnInputFile) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  converted(fmt::format("--to native {}/hf {}/native", good(), at));
  converted(fmt::format("--to dcp {}/native {}/dcp", at, at));
  write_text(scratch / "run.toml", "[model]\ndim = 96\nn_layers = 2\n");
  const auto check = [&](const std::string& folder, const std::string& name, const std::string& options = {}) {
    const Path copy = scratch / "copy";
    remove_tree(copy);
    std::filesystem::copy(folder, copy, std::filesystem::copy_options::recursive);
    remove_file(copy / name);
    ASSERT_EQ(::mkfifo((copy / name).c_str(), 0600), 0);
    const std::string hearth = "timeout 60 " + test::hearth_binary();
    const std::string wanted = fmt::format("{} is a pipe, not a file", (copy / name).string());
    const auto result =
        test::run_command(fmt::format("{} convert --to meta {} {} {}/out", hearth, options, copy.string(), at));
    EXPECT_EQ(result.exit_code, 2) << name << "\n" << result.output;
    EXPECT_THAT(result.output, HasSubstr(wanted));
    const auto verified = test::run_command(fmt::format("{} verify {}", hearth, copy.string()));
    EXPECT_TRUE(verified.exit_code == 2 || verified.exit_code == 3) << name << "\n" << verified.output;
    EXPECT_THAT(verified.output, HasSubstr(wanted));
  };
  check(good() + "/hf", "config.json");
  check(good() + "/hf", "model.safetensors.index.json");
  check(good() + "/hf", "model-00001-of-00016.safetensors");
  check(good() + "/meta-2", "params.json");
  check(good() + "/meta-2", "consolidated.01.pth");
  check(at + "/native", "hearth.json");
  check(at + "/native", ".metadata");
  check(at + "/native", "__R_0.distcp");
  check(at + "/dcp", "__R_0.distcp", fmt::format("--config {}/run.toml", at));
}

}  // namespace
}  // namespace hearth::convert
