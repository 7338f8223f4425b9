// SPDX-License-Identifier: Apache-2.0
// The kinds whose tensors torch.distributed.checkpoint reads: folders of DCP with and without hearth.json.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/copy_tree.h"
#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/save.h"
#include "config/load.h"
#include "convert/names.h"
#include "convert/target.h"
#include "data/order/data_state.h"
#include "plan/tensor_names.h"
#include "tokenizer/formats/chat_template.h"

namespace hearth::convert {
namespace {

// Writes how many updates the moments of each weight have seen, as torch's AdamW counts them. Muon's have no count.
// Returns the largest.
int64_t add_counts(checkpoint::RankFile& file, const TargetModel& model) {
  int64_t most = 0;
  for (const Transfer& tensor : model.tensors) {
    if (!model.reader.find(plan::exp_avg_name(tensor.from))) continue;
    const int64_t updates = updates_of(model.reader, *model.training, tensor.from);
    const auto bytes = std::bit_cast<std::array<std::byte, 4>>(static_cast<float>(updates));
    file.add({{plan::adam_step_name(tensor.from), DType::kFloat32, {}}, {}, bytes});
    most = std::max(most, updates);
  }
  return most;
}

void add_tensors(checkpoint::RankFile& file, const TargetModel& model, ConvertProgress& progress) {
  for (const Transfer& tensor : model.tensors) {
    transfer(model.reader, tensor, progress, [&](const mesh::Box& box, std::span<const std::byte> bytes) {
      file.add({tensor.to, box, bytes});
    });
  }
}

// The tensors for programs whose files have tied weights twice.
std::vector<Transfer> with_output(const TargetModel& model, ConvertProgress& progress,
                                  std::vector<std::string>& notes) {
  std::vector<Transfer> tensors = model.tensors;
  if (!model.description.model.enable_weight_tying) return tensors;
  for (const Transfer& tensor : model.tensors) {
    if (tensor.to.name != kEmbedding) continue;
    tensors.push_back(tensor);
    tensors.back().to.name = kOutput;
    progress.all_bytes += bytes_of(tensor.to);
  }
  notes.emplace_back("the embedding is also written as the output matrix: that format has tied weights twice");
  return tensors;
}

// A weight's name, or that of a moment: "optimizer.state.WEIGHT.exp_avg".
std::string torchtitan_name(const std::string& name) {
  const NameParts parts = parts_of(name);
  return parts.of(to_torchtitan(parts.weight).value_or(parts.weight));
}

void finish_folder(const Path& folder, checkpoint::RankFile& file, const TargetModel& model,
                   std::vector<std::string>& notes) {
  const std::string items = file.finish();
  check_source(model);
  checkpoint::write_metadata(folder, std::vector{items});
  note_missing_tokenizer(model, "PyTorch", notes);
}

}  // namespace

void check_source(const TargetModel& model) { model.reader.check_members(/*read_rest=*/true); }

void write_text_file(const Path& path, std::string_view text) {
  File file = File::create(path);
  file.write(text);
  file.sync();
  file.close();
  if (is_object(path)) require_content(path, xxh3_128_hex(text));
}

// torchtitan's Llama 3 and Qwen 3 have these, and norms that its forks have under the same names.
const std::initializer_list<std::string_view> kTorchtitanKeys = {"model.norm_type", "model.qkv_bias", "model.qk_norm",
                                                                 "model.sliding_window"};

std::vector<std::string> write_dcp(const Path& folder, const TargetModel& model, ConvertProgress& progress) {
  checkpoint::RankFile file(folder, 0);
  add_tensors(file, model, progress);
  if (model.training != nullptr) {
    // Torchtitan's names. A folder of PyTorch may have them as tensors already.
    for (const auto& [name, count] : {std::pair<const char*, int64_t>{"train_state.step", model.training->step},
                                      {"train_state.ntokens_seen", model.training->tokens_seen},
                                      {"lr_scheduler.last_epoch", model.training->step}}) {
      if (model.reader.find(name) == nullptr) file.add(name, count);
    }
  }
  std::vector<std::string> notes;
  const std::vector<std::string> beyond = beyond_llama(model.description.model, kTorchtitanKeys);
  if (!beyond.empty())
    notes.push_back(
        fmt::format("torchtitan cannot load this folder: its Llama has no {}; Hearth reads it with --config",
                    fmt::join(beyond, ", ")));
  finish_folder(folder, file, model, notes);
  return notes;
}

std::vector<std::string> write_torchtitan(const Path& folder, const TargetModel& given, ConvertProgress& progress) {
  TargetModel model = given;
  require_llama(model.description.model, "torchtitan", kTorchtitanKeys);
  if (model.description.model.norm_type == config::NormType::kRmsNorm1p)
    throw no_home("model.norm_type = \"rmsnorm_1p\"", "torchtitan", "its norms multiply by the weight itself",
                  "keep the model native");
  std::vector<std::string> notes;
  if (model.training != nullptr) join_moments(model);
  const std::vector<Transfer> own = model.tensors;
  model.tensors = with_output(model, progress, notes);
  for (Transfer& tensor : model.tensors) tensor.to.name = torchtitan_name(tensor.to.name);
  checkpoint::RankFile file(folder, 0);
  add_tensors(file, model, progress);
  model.tensors = own;
  if (model.training != nullptr) {
    for (std::string& note : add_torchtitan_state(file, model)) notes.push_back(std::move(note));
  }
  finish_folder(folder, file, model, notes);
  return notes;
}

std::vector<std::string> write_native(const Path& folder, const Path& final_folder, const TargetModel& model,
                                      const checkpoint::Manifest* before, ConvertProgress& progress,
                                      const std::function<void()>& before_rename) {
  const Description& d = model.description;
  config::RunConfig config;
  checkpoint::Manifest manifest;
  if (before != nullptr) {
    manifest = *before;
    config = config::from_toml_text(before->config_toml, checkpoint::kManifestFile, ".");
  } else {
    if (model.training != nullptr && model.run != nullptr) config = *model.run;  // how the training goes on
    config.training.seq_len = d.max_positions;
    config.objective.kind = d.objective;
    if (config.objective.masked()) config.objective.mask_id = d.mask.value_or(-1);
    const auto id = [](const std::optional<uint32_t>& token) { return token ? int64_t{*token} : -1; };
    // Tokens without text do not know which of them begin and end a document.
    const bool has_text = model.tokenizer->kind() != "ids";
    manifest.bos = has_text ? id(model.tokenizer->bos()) : d.bos.value_or(-1);
    manifest.eos = has_text ? id(model.tokenizer->eos()) : d.eos.empty() ? -1 : d.eos.front();
    manifest.states[data::kDataState] = data::format_data_state({});
    manifest.document_bos = model.tokenizer->adds_bos();
    manifest.parent = model.origin;
  }
  config.model = d.model;
  config.training.dtype = model.dtype;
  manifest.config_toml = config::to_toml(config);
  manifest.tokenizer = model.tokenizer->name();
  manifest.tokenizer_hash = model.tokenizer->content_hash();
  manifest.tokenizer_file = model.tokenizer->file_content();
  manifest.states.erase(tokenizer::kChatTemplateState);
  if (!model.chat_template.empty()) manifest.states[tokenizer::kChatTemplateState] = model.chat_template;
  manifest.libtorch_version.clear();
  manifest.ranks = 1;
  checkpoint::stamp(manifest);
  if (model.is_published) {
    manifest.host.clear();
    manifest.parent = Path(manifest.parent).filename().string();
  }
  checkpoint::RankFile file(folder, 0);
  add_tensors(file, model, progress);
  if (model.training != nullptr) {
    const int64_t updates = add_counts(file, model);
    manifest.step = model.training->step;
    manifest.tokens_seen = model.training->tokens_seen;
    if (before == nullptr) manifest.optimizer_start = manifest.step - updates;
  }
  const std::string items = file.finish();
  std::vector<std::string> notes;
  if (before == nullptr && d.eos.size() > 1)
    notes.push_back(
        fmt::format("the model has {} EOS tokens; the checkpoint keeps one: {}", d.eos.size(), manifest.eos));
  checkpoint::commit(folder, final_folder, std::vector{items}, std::move(manifest), before_rename);
  if (model.training != nullptr && before == nullptr)
    notes.emplace_back(
        "data begin with their first sample: another program's position in its data has no meaning here");
  return notes;
}

}  // namespace hearth::convert
