// SPDX-License-Identifier: Apache-2.0
// Which files of a folder are its weights, and names that wrappers changed. transformers and PyTorch write the folders;
// transformers says what it loads from them.
#include "foreign.h"

#include <nlohmann/json.hpp>

#include "checkpoint/load.h"
#include "config/load.h"
#include "convert/hugging_face/config.h"
#include "support/errors.h"
#include "tokenizer/small_file.h"

namespace hearth::convert {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Runs a command of tests/convert/weight_files.py.
void made(const std::string& words) {
  const test::CommandResult result = test::run_python("tests/convert/weight_files.py " + words);
  ASSERT_EQ(result.exit_code, 0) << words << "\n" << result.output;
}

std::string through_native(const std::string& at, const std::string& name) {
  const std::string note = converted(fmt::format("--to native {0}/{1} {0}/{1}.native", at, name));
  converted(fmt::format("--to hf {0}/{1}.native {0}/{1}.back", at, name));
  return note;
}

config::RunConfig keys_of_native(const std::string& folder) {
  return config::from_toml_text(checkpoint::Reader::open(folder).manifest().config_toml, folder, ".");
}

TEST(WeightFiles, TheOrderIsThatOfTransformersWhateverElseIsThere) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  made("stale " + at);
  const std::map<std::string, std::string> notes = {
      {"new_whole", "those of model.safetensors, as in transformers; left out: model-00001-of-"},
      {"part_missing", "those of model.safetensors, as in transformers; left out: model-00002-of-"},
      {"index_damaged", "those of model.safetensors, as in transformers; left out: model.safetensors.index.json"},
      {"parts_and_bin", "those of model.safetensors.index.json, as in transformers; left out: pytorch_model.bin"},
      {"whole_and_bins", "those of model.safetensors, as in transformers; left out: pytorch_model-00001-of-"},
      {"bin_and_bins", "those of pytorch_model.bin, as in transformers; left out: pytorch_model-00001-of-"},
      {"bins", ""},
      {"old_parts", "those of model.safetensors.index.json, as in transformers; left out: model-00001-of-"}};
  for (const auto& [name, note] : notes) {
    const std::string output = through_native(at, name);
    EXPECT_EQ(foreign(fmt::format("same {0}/{1}.truth {0}/{1}.back", at, name)), "equal") << name;
    if (note.empty()) {
      EXPECT_THAT(output, Not(HasSubstr("left out"))) << name;
    } else {
      EXPECT_THAT(output, HasSubstr("note: the weights are " + note)) << name;
    }
    const test::CommandResult verified = test::run_hearth(fmt::format("verify {}/{}", at, name));
    EXPECT_EQ(verified.exit_code, 0) << name << verified.output;
    EXPECT_THAT(verified.output, HasSubstr(note.empty() ? "checked: " : ": the weights are those of ")) << name;
  }
}

TEST(WeightFiles, AnAdapterBesideTheWeightsOrAloneIsRefused) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f L=1 meta=0", at));
  const std::string hf = at + "/f/hf";
  write_text(hf + "/adapter_config.json", "{\"peft_type\": \"LORA\", \"base_model_name_or_path\": \"x\"}");
  const auto beside = AllOf(HasSubstr("has an adapter of PEFT beside the weights: adapter_config.json"),
                            HasSubstr("merge_and_unload"), HasSubstr("move it to another folder"));
  EXPECT_THAT(refused(fmt::format("--to native {} {}/out", hf, at)), beside);
  EXPECT_THAT(test::run_hearth("inspect --model " + hf).output, beside);
  EXPECT_THAT(test::run_hearth("verify " + hf).output, HasSubstr("has an adapter of PEFT beside the weights"));
  make_folders(at + "/alone");
  write_text(at + "/alone/adapter_config.json", "{}");
  write_text(at + "/alone/adapter_model.safetensors", "");
  EXPECT_THAT(refused(fmt::format("--to native {0}/alone {0}/out", at)),
              HasSubstr("has an adapter of PEFT, and no model"));
}

TEST(WeightFiles, WhatAFolderHasInPlaceOfWeightsIsNamed) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f L=1 meta=0 size=1GB", at));
  const std::string hf = at + "/f/hf";
  // DeepSpeed's mark beside the weights that transformers' Trainer saved.
  write_text(hf + "/latest", "global_step2");
  converted(fmt::format("--to native {} {}/native", hf, at));
  std::filesystem::rename(hf + "/model.safetensors", hf + "/consolidated.safetensors");
  remove_file(hf + "/latest");
  EXPECT_THAT(refused(fmt::format("--to native {} {}/out", hf, at)),
              AllOf(HasSubstr("has no weights"), HasSubstr("it has config.json, consolidated.safetensors")));
  make_folders(at + "/gguf");
  write_text(at + "/gguf/model-q4.gguf", "GGUF");
  EXPECT_THAT(refused(fmt::format("--to native {0}/gguf {0}/out", at)),
              AllOf(HasSubstr("no weights that Hearth knows"), HasSubstr("it has model-q4.gguf")));
}

TEST(WeightFiles, AFolderWithTheNameOfWeightsIsPassedOver) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), hf = at + "/f/hf";
  foreign(fmt::format("make {}/f L=1 meta=0", at));
  ASSERT_TRUE(path_exists(hf + "/model.safetensors.index.json"));
  make_folders(hf + "/model.safetensors");
  converted(fmt::format("--to native {} {}/native", hf, at));
}

TEST(WeightFiles, ADictOneLevelTooDeepIsNamed) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f L=1 meta=0 size=1GB", at));
  made(fmt::format("deep {0} {0}/f/hf", at));
  for (const std::string key : {"state_dict", "model"}) {
    EXPECT_THAT(refused(fmt::format("--to native {0}/{1} {0}/out", at, key)),
                AllOf(HasSubstr(" is not a tensor"),
                      HasSubstr(fmt::format("if {} is the dict of the weights, it is one level too deep", key))));
  }
}

TEST(WrappedNames, AreTakenOffWithANote) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f L=2 meta=0 size=1GB", at));
  made(fmt::format("wrapped {0} {0}/f/hf", at));
  for (const char* style : {"ddp", "compiled", "compiled_ddp", "ddp_compiled", "fsdp", "recomputed", "compiled_layers",
                            "lightning", "accelerate", "mixed", "inner"}) {
    const std::string output = through_native(at, style);
    EXPECT_THAT(output, HasSubstr("by a wrapper or by another class: ")) << style;
    EXPECT_EQ(foreign(fmt::format("same {0}/f/hf {0}/{1}.back", at, style)), "equal") << style;
    const test::CommandResult verified = test::run_hearth(fmt::format("verify {}/{}", at, style));
    EXPECT_EQ(verified.exit_code, 0) << style << verified.output;
  }
  EXPECT_THAT(
      test::run_hearth(fmt::format("inspect {}/compiled", at)).output,
      HasSubstr("note: 21 names were written by a wrapper or by another class: _orig_mod.lm_head.weight is read "
                "as lm_head.weight"));
  const auto refusal = [&](const std::string& style) {
    return refused(fmt::format("--to native {0}/{1} {0}/out", at, style));
  };
  // What is there stands beside what is missing, under the file's own names.
  EXPECT_THAT(refusal("student"), AllOf(HasSubstr("student.lm_head.weight: the model has no such weight"),
                                        HasSubstr("model.embed_tokens.weight: missing"), HasSubstr("and 17 more")));
  EXPECT_THAT(refusal("peft"), HasSubstr("base_model.model.lm_head.weight: the model has no such weight"));
  EXPECT_THAT(refusal("twice"), AllOf(HasSubstr("model.norm.weight"), HasSubstr("module.model.norm.weight"),
                                      HasSubstr("which are one weight")));
  EXPECT_THAT(refusal("meta"), HasSubstr("is a name of Meta's and torchtitan's formats"));
}

// accelerate saves sharded models of FSDP so.
TEST(WrappedNames, FoldersOfDcpMayHaveHuggingFacesNames) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f L=2 meta=0 size=1GB", at));
  made(fmt::format("dcp {0}/dcp {0}/f/hf", at));
  const std::string model =
      "[model]\ndim = 96\nn_layers = 2\nn_heads = 6\nn_kv_heads = 2\nhidden_dim = 112\n"
      "rope_theta = 500000\n";
  write_text(scratch / "run.toml", model);
  write_text(scratch / "halves.toml", model + "rope_pairs = \"halves\"\n");
  for (const char* style : {"plain", "accelerate", "compiled", "nested"}) {
    for (const char* run : {"run", "halves"}) {
      const std::string back = fmt::format("{}/{}.{}", at, style, run);
      EXPECT_THAT(converted(fmt::format("--to hf --config {0}/{2}.toml {0}/dcp/{1} {3}", at, style, run, back)),
                  HasSubstr("the names are Hugging Face's, and so is the order of the rows"));
      EXPECT_EQ(foreign(fmt::format("same {}/f/hf {}", at, back)), "equal") << back;
    }
  }
  EXPECT_THAT(refused(fmt::format("--to dcp {0}/dcp/plain {0}/out", at)),
              AllOf(HasSubstr("has Hugging Face's names"), HasSubstr("give --config RUN.toml")));
  EXPECT_THAT(refused(fmt::format("--to hf --config {0}/run.toml {0}/dcp/twice {0}/out", at)),
              HasSubstr("lm_head.weight and module.lm_head.weight, which are one weight"));
  write_text(scratch / "deep.toml", model + "\n[training]\nseq_len = 64\n");
  edit(scratch / "deep.toml", "n_layers = 2", "n_layers = 3");
  EXPECT_THAT(refused(fmt::format("--to hf --config {0}/deep.toml {0}/dcp/plain {0}/out", at)),
              HasSubstr("model.layers.2.input_layernorm.weight: missing"));
}

// The window is a key of the model from then on: in native checkpoints, in run files that begin with them, and in
// exports.
TEST(Windows, StayWithTheModel) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  made("windows " + at);
  for (const char* name : {"mistral", "qwen2", "qwen3"}) {
    const std::string hf = fmt::format("{}/{}/hf", at, name);
    EXPECT_THAT(through_native(at, fmt::format("{}/hf", name)),
                HasSubstr("note: model.sliding_window = 32 in 2 of 2 layers"));
    const config::RunConfig run = keys_of_native(hf + ".native");
    EXPECT_EQ(run.model.sliding_window, 32) << name;
    EXPECT_EQ(run.training.seq_len, 64) << name;
    EXPECT_EQ(foreign(fmt::format("same {0} {0}.back", hf)), "equal") << name;
    converted(fmt::format("--to native {0}.back {0}.again", hf));
    EXPECT_EQ(keys_of_native(hf + ".again").model.sliding_window, 32) << name;
    // 60 tokens, beyond the window: a model without it computes something else.
    EXPECT_EQ(foreign(fmt::format("logits {}/{} {}.back", at, name, hf)), "0.0") << name;
    const test::CommandResult inspected = test::run_hearth("inspect --model " + hf);
    EXPECT_THAT(inspected.output, HasSubstr("sliding_window = 32 in 2 of 2 layers"));
    EXPECT_THAT(test::run_hearth("inspect --model " + hf + ".native").output, HasSubstr("sliding_window = 32"));
  }
  EXPECT_THAT(refused(fmt::format("--to meta {0}/mistral/hf {0}/meta", at)),
              HasSubstr("model.sliding_window = 32 has no home"));
  const std::string config = at + "/qwen2/hf/config.json";
  const auto with = [&](const char* from, const char* to) {
    const std::string before = read_file(config), out = at + "/out";
    edit(config, from, to);
    const std::string output = test::run_hearth(fmt::format("convert --to native {}/qwen2/hf {}", at, out)).output;
    remove_tree(out);
    write_text(config, before);
    return output;
  };
  EXPECT_THAT(with("    \"sliding_attention\",\n", "    \"full_attention\",\n"),
              HasSubstr("sliding_window = 32 in 1 of 2 layers"));
  EXPECT_THAT(with("\"max_position_embeddings\": 64", "\"max_position_embeddings\": 32"),
              Not(HasSubstr("sliding_window")));
  EXPECT_THAT(with("    \"sliding_attention\",\n", "    \"chunked_attention\",\n"),
              HasSubstr("layer_types has \"chunked_attention\""));
  EXPECT_THAT(with("    \"sliding_attention\",\n", ""), HasSubstr("layer_types has 1 layer, and the model 2"));
  EXPECT_THAT(with("\"use_sliding_window\": true", "\"use_sliding_window\": false"),
              HasSubstr("use_sliding_window is false, and transformers refuses both together"));
  EXPECT_THAT(with("\"use_sliding_window\": true", "\"use_sliding_window\": 1"),
              HasSubstr("use_sliding_window is neither true nor false"));
}

// The text model within a model of text and pictures is a model like any other.
TEST(Towers, TheTextModelIsReadAloneAndTheRestIsNamed) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  made("towers " + at);
  for (const std::string name : {"tied", "untied", "inner", "llava"}) {
    const std::string folder = at + "/" + name;
    const std::string note = converted(fmt::format("--to native {0}/hf {0}/native", folder));
    const char* outer = name == "llava" ? "llava" : "mistral3";
    EXPECT_THAT(note, HasSubstr(fmt::format("note: model_type \"{}\": its text model is read alone", outer)));
    EXPECT_THAT(note, AllOf(HasSubstr("left out, being no part of the text model: multi_modal_projector ("),
                            HasSubstr("vision_tower (")))
        << name;
    EXPECT_EQ(keys_of_native(folder + "/native").model.enable_weight_tying, name == "tied");
    converted(fmt::format("--to hf {0}/native {0}/back", folder));
    EXPECT_THAT(read_file(folder + "/back/config.json"), Not(HasSubstr("vision")));
    EXPECT_LT(std::stod(foreign(fmt::format("logits {0} {0}/back", folder))), 1e-5) << name;
  }
  // A tensor of the text model that nothing reads is an error, as elsewhere.
  edit(at + "/llava/hf/config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
  EXPECT_EQ(test::run_hearth(fmt::format("convert --to native {0}/llava/hf {0}/bad", at)).exit_code, 2);
  std::vector<std::string> notes;
  const auto parse = [&](const std::string& text) { return parse_hugging_face_config(text, "config.json", notes); };
  EXPECT_THAT(test::error_of([&] { parse(R"({"model_type": "gemma3", "text_config": {"model_type": "x"}})"); }).what(),
              HasSubstr("model_type \"x\" is not one that Hearth computes"));
  EXPECT_THAT(test::error_of([&] {
                parse(R"({"model_type": "llava", "quantization_config": {"bits": 4},
"text_config": {"model_type": "llama"}})");
              }).what(),
              HasSubstr("quantization_config = {\"bits\":4}"));
  EXPECT_THAT(test::error_of([&] { parse(R"({"model_type": "llava", "text_config": 3})"); }).what(),
              HasSubstr("text_config is not an object"));
}

// Files have layers that predict tokens after the next. transformers' classes leave them out.
TEST(PredictionLayers, AreLeftOutAndNamed) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  write_text(at + "/add.py", R"(
import sys
import torch
from safetensors.torch import load_file, save_file
path = sys.argv[1] + "/model.safetensors"
weights = load_file(path)
weights |= {f"model.{name}.weight": torch.ones(96) for name in sys.argv[2:]}
save_file(weights, path, metadata={"format": "pt"})
)");
  for (const auto& [type, field, names, left_out] :
       {std::tuple("glm4_moe", "num_nextn_predict_layers\": 1",
                   "layers.3.enorm layers.3.hnorm layers.3.shared_head.norm",
                   "1 layer that predicts tokens beyond the next (3 tensors)"),
        {"deepseek_v3", "num_nextn_predict_layers\": 1", "layers.3.enorm layers.3.eh_proj layers.3.embed_tokens",
         "1 layer that predicts tokens beyond the next (3 tensors)"},
        {"minimax_m2", "num_mtp_modules\": 3", "layers.3.enorm layers.4.hnorm layers.5.enorm",
         "3 layers that predict tokens beyond the next (3 tensors)"},
        {"ernie4_5_moe", "num_nextn_predict_layers\": 1", "mtp_block.0.input_layernorm mtp_emb_norm.0",
         "1 layer that predicts tokens beyond the next (2 tensors)"}}) {
    const std::string of_type = at + "/" + type, hf = of_type + "/hf", config = hf + "/config.json";
    foreign(fmt::format("make {} type={} meta=0 K=24 V=131 size=1GB", of_type, type));
    ASSERT_EQ(test::run_python(fmt::format("{}/add.py {} {}", at, hf, names)).exit_code, 0);
    EXPECT_THAT(converted(fmt::format("--to native {0} {1}/native", hf, of_type)), HasSubstr(left_out));
    converted(fmt::format("--to hf {0}/native {0}/back", of_type));
    EXPECT_EQ(foreign(fmt::format("logits {0} {0}/back", of_type)), "0.0");
    const std::string text = field;
    edit(config, "\"" + text, "\"" + text.substr(0, text.size() - 1) + "0");
    const std::string first = std::string(names).substr(0, std::string(names).find(' '));
    EXPECT_THAT(refused(fmt::format("--to native {0} {1}/none", hf, of_type)),
                HasSubstr(first + ".weight: the model has no such weight"));
  }
}

TEST(Masked, ModelsOfTransformersAreReadWithTheirMask) {
  HEARTH_NEEDS_TRAINER();
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  made("masked " + at);
  for (const char* name : {"llama", "olmo", "qwen2", "qwen3", "mistral"}) {
    const std::string hf = fmt::format("{}/{}/hf", at, name);
    edit(hf + "/config.json", "{", "{\"mask_token_id\": 129,");
    // Both sides of the proof are computed with positions that see both sides.
    const std::string output = converted(fmt::format("--to native --verify {0} {0}.native", hf));
    EXPECT_THAT(output, HasSubstr("note: is_causal = false: a position sees all others")) << name;
    const config::RunConfig run = keys_of_native(hf + ".native");
    EXPECT_EQ(run.objective.kind, config::ObjectiveKind::kMaskedLm) << name;
    EXPECT_EQ(run.objective.mask_id, 129) << name;
    converted(fmt::format("--to hf --verify {0}.native {0}.back", hf));
    EXPECT_EQ(foreign(fmt::format("same {0} {0}.back", hf)), "equal") << name;
    EXPECT_EQ(foreign(fmt::format("logits {}/{} {}.back", at, name, hf)), "0.0") << name;
    EXPECT_THAT(read_file(hf + ".back/config.json"), HasSubstr("\"mask_token_id\": 129")) << name;
  }
}

TEST(Masked, ACausalModelKeepsTheMaskOfItsConfig) {
  const std::string text = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
    "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-05, "vocab_size": 130, "mask_token_id": 129})";
  std::vector<std::string> notes;
  const Description read = parse_hugging_face_config(text, "config.json", notes);
  EXPECT_EQ(read.objective, config::ObjectiveKind::kCausalLm);
  EXPECT_EQ(nlohmann::json::parse(format_hugging_face_config(read, DType::kFloat32)).at("mask_token_id"), 129);
}

// A training needs no mask_id if its tokenizer has a mask. The export names the id, whatever tokenizer it gets.
TEST(Masked, TheMaskOfTheTrainingsTokenizerIsWrittenByItsId) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f V=300 meta=0 L=1", at));
  const std::string hf = at + "/f/hf";
  edit(hf + "/config.json", "{", "{\"is_causal\": false,");
  for (const std::string mask : {"[MASK]", "<mask>", "<|mask|>", "<s>"}) {
    write_text(hf + "/tokenizer.json", test::small_tokenizer_file(mask));
    converted(fmt::format("--to native {} {}/native", hf, at));
    EXPECT_EQ(keys_of_native(at + "/native").objective.mask_id, -1) << mask;
    converted(fmt::format("--to hf {0}/native {0}/out --tokenizer bytes", at));
    const nlohmann::json config = nlohmann::json::parse(read_file(at + "/out/config.json"));
    EXPECT_EQ(config.value("mask_token_id", -1), mask == "<s>" ? -1 : 257) << mask;
    remove_tree(at + "/native");
    remove_tree(at + "/out");
  }
}

}  // namespace
}  // namespace hearth::convert
