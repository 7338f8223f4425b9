// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/quantity.h"
#include "config/families.h"
#include "convert/hugging_face/config.h"
#include "convert/hugging_face/llada.h"
#include "convert/hugging_face/neobert.h"
#include "convert/hugging_face/stacked.h"
#include "convert/names.h"
#include "convert/target.h"
#include "formats/safetensors.h"
#include "tokenizer/formats/chat_template.h"
#include "tokenizer/formats/tiktoken.h"

namespace hearth::convert {
namespace {

using CardJson = nlohmann::ordered_json;

// A tensor of a file, and the weights whose rows it has: one after the other, or an equal part of each for every group;
// or the weights of all experts.
struct FileTensor {
  mesh::TensorInfo info;
  std::vector<Transfer> parts;
  int64_t num_groups = 1;
  int64_t stacked = 0;  // weights whose columns alternate (stacked.h); 0: rows
};

// One tensor has one type: float32 where the weights differ.
void add_part(FileTensor& tensor, const Transfer& part) {
  if (tensor.stacked == 0)
    tensor.info.shape[0] += part.to.shape[0];
  else if (std::ssize(tensor.parts) % tensor.stacked == 0)
    ++tensor.info.shape[0];
  tensor.parts.push_back(part);
  if (part.to.dtype == tensor.info.dtype) return;
  tensor.info.dtype = DType::kFloat32;
  for (Transfer& each : tensor.parts) each.to.dtype = DType::kFloat32;
}

std::vector<FileTensor> file_tensors(const TargetModel& model) {
  const std::string_view family = config::nearest_family(model.description.model).name;
  const bool is_llada = model.description.objective == config::ObjectiveKind::kMaskedDiffusion;
  std::vector<FileTensor> tensors;
  for (const Transfer& tensor : model.tensors) {
    const std::optional<std::string> name =
        is_llada ? to_llada(tensor.to.name) : to_hugging_face(tensor.to.name, family);
    HEARTH_CHECK(name.has_value(), "{} has no name there", tensor.to.name);
    const std::vector<std::string> joined = joined_in_hugging_face(tensor.to.name, family);
    const StackedPlace stacked = stacked_place(tensor.to.name, family);
    const bool is_same = !tensors.empty() && tensors.back().info.name == *name;
    if (tensor.to.name != joined.front() || (stacked.count > 0 && is_same)) {  // the model has them in this order
      const bool fits =
          is_same && (stacked.count == 0 || std::ssize(tensors.back().parts) % stacked.count == stacked.place);
      HEARTH_CHECK(fits, "{} comes too early", tensor.to.name);
      add_part(tensors.back(), tensor);
      continue;
    }
    if (stacked.count > 0) {
      HEARTH_CHECK(stacked.place == 0, "{} comes too early", tensor.to.name);
      const std::vector<int64_t> shape = stacked_shape(tensor.to.shape, stacked.count);
      tensors.push_back({.info = {*name, tensor.to.dtype, shape}, .parts = {tensor}, .stacked = stacked.count});
      continue;
    }
    FileTensor& file = tensors.emplace_back(FileTensor{{*name, tensor.to.dtype, tensor.to.shape}, {tensor}});
    if (alternate_by_head(tensor.to.name, family)) file.num_groups = model.description.model.n_heads;
    if (is_row_in_hugging_face(tensor.to.name, family)) file.info.shape.insert(file.info.shape.begin(), 1);
  }
  return tensors;
}

// The tensors of each file: as many as fit, and at least one.
std::vector<std::vector<FileTensor>> cut_into_files(const TargetModel& model) {
  std::vector<std::vector<FileTensor>> files;
  int64_t bytes = 0;
  for (FileTensor& tensor : file_tensors(model)) {
    const int64_t more = bytes_of(tensor.info);
    if (files.empty() || bytes + more > model.max_file_bytes) {
      files.emplace_back();
      bytes = 0;
    }
    bytes += more;
    files.back().push_back(std::move(tensor));
  }
  return files;
}

mesh::Box rows_of_group(const Transfer& part, int64_t group, int64_t num_groups) {
  mesh::Box box{std::vector<int64_t>(part.to.shape.size()), part.to.shape};
  if (num_groups == 1) return box;
  box.sizes[0] /= num_groups;
  box.offsets[0] = group * box.sizes[0];
  return box;
}

void write_weights(const Path& folder, const TargetModel& model, ConvertProgress& progress) {
  const std::vector<std::vector<FileTensor>> files = cut_into_files(model);
  std::map<std::string, std::string> index;
  int64_t total = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name =
        files.size() == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
    std::vector<mesh::TensorInfo> infos;
    for (const FileTensor& tensor : files[i]) {
      infos.push_back(tensor.info);
      index[tensor.info.name] = name;
      total += bytes_of(tensor.info);
    }
    formats::SafetensorsWriter writer(folder / name, infos);
    const auto write = [&](std::span<const std::byte> bytes) { writer.write(bytes); };
    for (const FileTensor& tensor : files[i]) {
      if (tensor.stacked > 0) {
        write_stacked(model.reader, tensor.parts, tensor.stacked, progress, write);
        continue;
      }
      for (int64_t group = 0; group < tensor.num_groups; ++group) {
        for (const Transfer& part : tensor.parts)
          transfer(model.reader, part, rows_of_group(part, group, tensor.num_groups), progress,
                   [&](const mesh::Box&, std::span<const std::byte> bytes) { write(bytes); });
      }
    }
    writer.finish();
  }
  if (files.size() > 1)
    write_text_file(folder / "model.safetensors.index.json", formats::format_safetensors_index(index, total));
}

// The text of a special token; null without one.
CardJson token_text(const tokenizer::Tokenizer& tokenizer, const std::optional<int64_t>& id) {
  for (const tokenizer::SpecialToken& special : tokenizer.special_tokens()) {
    if (id && special.id == *id) return special.text;
  }
  return {};
}

bool is_encoder(const TargetModel& model) {
  return config::nearest_family(model.description.model).hugging_face.is_encoder;
}

// Programs that fill masks ask for the mask, and those that embed texts for the tokens around a text and for padding.
void add_encoder_tokens(CardJson& config, const TargetModel& model) {
  const tokenizer::Tokenizer& tokenizer = *model.tokenizer;
  if (model.description.mask) config["mask_token"] = token_text(tokenizer, model.description.mask);
  if (!is_encoder(model)) return;
  config["cls_token"] = config["bos_token"];
  config["sep_token"] = config["eos_token"];
  for (const tokenizer::SpecialToken& special : tokenizer.special_tokens())
    if (special.text == "[PAD]") config["pad_token"] = special.text;
}

std::vector<std::string> write_tokenizer(const Path& folder, const TargetModel& model) {
  if (model.tokenizer == nullptr || model.tokenizer->kind() == "ids") return {};
  const tokenizer::Tokenizer& tokenizer = *model.tokenizer;
  CardJson config = {{"model_max_length", model.description.max_positions},
                     {"clean_up_tokenization_spaces", false},
                     {"bos_token", token_text(tokenizer, tokenizer.bos())},
                     {"eos_token", token_text(tokenizer, tokenizer.eos())}};
  add_encoder_tokens(config, model);
  std::vector<std::string> notes;
  if (tokenizer.kind() == "huggingface") {
    config["tokenizer_class"] = "PreTrainedTokenizerFast";
    write_text_file(folder / "tokenizer.json", tokenizer.file_content());
  } else if (const auto* tiktoken = dynamic_cast<const tokenizer::TiktokenTokenizer*>(&tokenizer)) {
    config["tokenizer_class"] = "PreTrainedTokenizerFast";
    write_text_file(folder / "tokenizer.json", tiktoken->as_huggingface_file());
    notes.emplace_back(
        "tokenizer.json is made from Llama-3's tokenizer.model; ids differ in texts with 25000 characters in a row "
        "that are all white space or all not, and around every 400000th character, because Meta's code cuts there");
  } else if (tokenizer.kind() == "sentencepiece") {
    config["tokenizer_class"] = "LlamaTokenizer";
    config["legacy"] = false;
    config["add_bos_token"] = tokenizer.adds_bos();
    write_text_file(folder / "tokenizer.model", tokenizer.file_content());
    notes.emplace_back(
        "tokenizer.model is copied; transformers opens it as LlamaTokenizer, which reads BPE models only and needs the "
        "packages sentencepiece and protobuf");
  } else {
    return {
        fmt::format("no tokenizer is written: Hugging Face's formats have no home for the kind {}", tokenizer.kind())};
  }
  if (model.reader.has_manifest() && model.reader.manifest().document_bos != tokenizer.adds_bos())
    notes.push_back(
        fmt::format("the training's documents began {} BOS, and the tokenizer's own rule differs; give "
                    "lm_eval --model_args add_bos_token={}",
                    tokenizer.adds_bos() ? "without" : "with", tokenizer.adds_bos() ? "False" : "True"));
  if (!model.chat_template.empty())
    config["chat_template"] = CardJson::parse(tokenizer::chat_template_field(model.chat_template, model.origin));
  write_text_file(folder / "tokenizer_config.json", config.dump(2) + "\n");
  return notes;
}

std::string card(const TargetModel& model) {
  const config::Model& m = model.description.model;
  int64_t parameters = 0;
  for (const Transfer& tensor : model.tensors) parameters += mesh::Box{{}, tensor.to.shape}.numel();
  const bool masked = model.description.objective == config::ObjectiveKind::kMaskedLm;
  std::string text = fmt::format("---\nlibrary_name: transformers\npipeline_tag: {}\n---\n\n",
                                 masked ? "fill-mask" : "text-generation");
  text += fmt::format("# {}\n\nConverted by Hearth {} from `{}`.\n\n| | |\n|---|---|\n",
                      Path(model.origin).filename().string(), HEARTH_VERSION, Path(model.origin).filename().string());
  text += fmt::format("| parameters | {} ({}) |\n", parameters, format_count(static_cast<double>(parameters)));
  text += fmt::format("| type of weights | {} |\n", dtype_name(model.dtype));
  text += fmt::format("| layers, width, heads | {}, {}, {} queries and {} keys |\n", m.n_layers, m.dim, m.n_heads,
                      m.n_kv_heads);
  text +=
      fmt::format("| vocabulary | {} |\n| longest sequence | {} |\n", m.vocab_size, model.description.max_positions);
  if (masked && !is_encoder(model)) {
    text +=
        "\nThe model was trained on hidden tokens: a position sees all others. `config.json` says `is_causal: false`.\n"
        "transformers 5 obeys it. transformers 4 ignores it and computes other logits.\n";
  }
  if (config::nearest_family(m).hugging_face.model_type == kNeoBertType)
    text += "\nThe files belong to NeoBERT's code: load them with `trust_remote_code=True`.\n";
  if (model.description.objective == config::ObjectiveKind::kMaskedDiffusion) {
    text +=
        "\nThe model writes texts by masked diffusion: a position sees all others. The files are those of LLaDA's "
        "code;\n"
        "transformers 4 runs it from GSAI-ML/LLaDA-8B-Base with `trust_remote_code=True`.\n";
  }
  if (m.attention_scope == config::AttentionScope::kDocument)
    text += "\nIn its training a position saw its own document only. Give the model one document at a time.\n";
  return text;
}

}  // namespace

std::vector<std::string> write_hugging_face(const Path& folder, const TargetModel& model, ConvertProgress& progress) {
  const std::string config = format_hugging_face_config(model.description, model.dtype);  // may refuse
  write_text_file(folder / "generation_config.json", format_generation_config(model.description));
  std::vector<std::string> notes = write_tokenizer(folder, model);
  write_text_file(folder / "README.md", card(model));
  write_weights(folder, model, progress);
  check_source(model);
  write_text_file(folder / "config.json", config);
  return notes;
}

}  // namespace hearth::convert
