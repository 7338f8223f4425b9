// SPDX-License-Identifier: Apache-2.0
// Folders of torch.distributed.checkpoint, with torchtitan's names of 2025 or those of torchtitan 0.3.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "config/families.h"
#include "convert/names.h"
#include "convert/open.h"
#include "convert/rank_layout.h"
#include "convert/source.h"
#include "plan/parameters.h"
#include "plan/tensor_names.h"

namespace hearth::convert {
namespace {

// The dialect of the weights' names: Hearth's (kDcp), torchtitan 0.3's, or Hugging Face's, as accelerate and others
// save sharded models.
Kind dialect_of(const checkpoint::Reader& reader) {
  Kind dialect = Kind::kDcp;
  for (const mesh::TensorInfo& tensor : reader.tensors()) {
    const std::string plain = unwrapped(parts_of(tensor.name).weight);
    // Both others have lm_head.weight.
    if (plain.find(".self_attn.") != std::string::npos && from_wrapped_hugging_face(plain)) return Kind::kHuggingFace;
    const auto ours = from_torchtitan(plain);
    if (ours && *ours != plain) dialect = Kind::kTorchtitan;
  }
  return dialect;
}

std::optional<std::string> our_name(const std::string& weight, Kind dialect, std::string_view family) {
  if (dialect == Kind::kHuggingFace) return from_wrapped_hugging_face(weight, family);
  const std::string plain = unwrapped(weight);
  if (dialect == Kind::kTorchtitan) {
    if (auto ours = from_torchtitan(plain)) return ours;
  }
  // Names of 2025 come with or without "model.", and readers know both.
  return plain;
}

// Gives the tensors Hearth's names.
void rename_to_ours(checkpoint::Reader& reader, Kind dialect, std::string_view family,
                    std::vector<std::string>& notes) {
  std::map<std::string, std::string> names;
  Renaming renaming(reader.folder().string());
  for (const mesh::TensorInfo& tensor : reader.tensors()) {
    const NameParts parts = parts_of(tensor.name);
    if (parts.before.empty() && is_training_state(tensor.name)) continue;
    const auto weight = our_name(parts.weight, dialect, family);
    if (!weight) continue;
    const std::string plain =
        dialect == Kind::kHuggingFace ? to_hugging_face(*weight, family).value_or(*weight) : unwrapped(parts.weight);
    renaming.add(tensor.name, parts.of(std::string(without_model(*weight))), parts.of(plain));
    if (std::string name = parts.of(*weight); name != tensor.name) names[tensor.name] = name;
  }
  reader.rename(names);
  for (std::string& note : renaming.notes()) notes.push_back(std::move(note));
}

// The optimizer of 0.3 has one matrix of queries, keys and values. Gives their moments to the three matrices.
void split_moments(checkpoint::Reader& reader, const plan::ModelShape& s) {
  std::set<std::string> joined;
  for (const mesh::TensorInfo& tensor : std::vector(reader.tensors())) {
    const NameParts parts = parts_of(tensor.name);
    const std::optional<RankRow> row = rank_table("torchtitan").find(parts.weight);
    if (parts.before.empty() || !row) continue;
    const std::vector<int64_t> sizes = sizes_of(*row, s);
    const int64_t rows = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    if (!tensor.shape.empty() && tensor.shape[0] != rows)
      throw user_error(fmt::format("{}: {} has {} rows, and the queries, keys and values of [model] have {}",
                                   reader.folder().string(), tensor.name, tensor.shape[0], rows),
                       "it is another model's", "give the keys of this model: n_heads, n_kv_heads, head_dim");
    joined.insert(tensor.name);
    std::vector<std::vector<checkpoint::RowRun>> of_sources(sizes.size());
    for (int64_t from = 0; const RankRun& run : RankLayout(s.H, s.G, 1).runs(*row, sizes, 0)) {
      of_sources[run.source].push_back({tensor.name, from, run.count});
      from += run.count;
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      mesh::TensorInfo info = tensor;
      info.name = parts.of(row->sources[i].name);
      if (tensor.shape.empty())
        of_sources[i] = {{tensor.name, 0, 1}};
      else
        info.shape[0] = sizes[i];
      if (reader.find(info.name) == nullptr) reader.derive(std::move(info), of_sources[i]);
    }
  }
  reader.hide(joined);
}

int64_t stored_count(checkpoint::Reader& reader, const char* name, int64_t otherwise) {
  const std::optional<double> number = reader.number(name);
  return number ? counted(*number, fmt::format("{}: {}", reader.folder().string(), name)) : otherwise;
}

TrainingState stored_training(checkpoint::Reader& reader) {
  TrainingState training;
  std::string first;  // a weight with moments
  for (const mesh::TensorInfo& tensor : reader.tensors()) {
    const NameParts parts = parts_of(tensor.name);
    if (parts.after == ".step") training.updates = std::max(training.updates, updates_of(reader, {}, parts.weight));
    if (parts.after == ".exp_avg" && first.empty()) first = parts.weight;
  }
  training.step = stored_count(reader, "train_state.step", training.updates);
  training.tokens_seen = stored_count(reader, "train_state.ntokens_seen", 0);
  for (const std::string& name : {first, to_torchtitan(first).value_or(first)}) {
    if (!training.next_lr) training.next_lr = reader.number("optimizer.param_groups." + name + ".lr");
  }
  return training;
}

}  // namespace

Source open_dcp(const Path& folder, const Description* described) {
  Source source{Kind::kDcp, checkpoint::Reader::open(folder), std::nullopt, {}};
  checkpoint::Reader& reader = source.reader;
  const Kind dialect = dialect_of(reader);
  const bool is_hugging_face = dialect == Kind::kHuggingFace;
  if (is_hugging_face && described == nullptr)
    throw user_error(fmt::format("{} has Hugging Face's names, and does not describe its model", folder.string()),
                     "the rows of queries and keys have another order than under torchtitan's names",
                     "give --config RUN.toml: a run file whose [model] is this model's");
  const std::string_view family =
      described == nullptr ? kLlama : std::string_view(config::nearest_family(described->model).name);
  rename_to_ours(reader, dialect, family, source.notes);
  if (dialect == Kind::kTorchtitan) source.kind = Kind::kTorchtitan;
  if (is_hugging_face) {
    source.names = Kind::kHuggingFace;
    source.description = *described;
    source.description->model.rope_pairs = config::find_family(family).hugging_face.rope_pairs;
    source.notes.emplace_back("the names are Hugging Face's, and so is the order of the rows of queries and keys");
  }
  if (described != nullptr) {
    // The folder does not say it, and both orders have the same shapes.
    if (!is_hugging_face && described->model.rope_pairs == config::RopePairs::kHalves)
      source.notes.emplace_back(
          "queries and keys are taken in the order of model.rope_pairs = \"halves\"; torchtitan's Llama has "
          "\"interleaved\"");
    split_moments(reader, plan::model_shape(described->model, 0));
    // Programs of both years store tied weights twice.
    if (described->model.enable_weight_tying && output_is_embedding(reader)) reader.hide({kOutput});
  }
  if (has_moments(reader)) source.training = stored_training(reader);
  return source;
}

}  // namespace hearth::convert
