// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "convert/meta/params.h"
#include "convert/names.h"
#include "convert/open.h"
#include "convert/rank_parts.h"
#include "convert/source.h"
#include "formats/torch_file.h"

namespace hearth::convert {
namespace {

using checkpoint::OutsideTensor;

// One file of a model.
struct Shard {
  std::string name;
  std::vector<formats::TorchTensor> tensors;
  const formats::TorchTensor* find(const std::string& tensor) const {
    for (const formats::TorchTensor& candidate : tensors) {
      if (candidate.name == tensor) return &candidate;
    }
    return nullptr;
  }
};

std::vector<Shard> open_shards(const Path& folder) {
  std::vector<Shard> shards;
  for (const std::string& name : list_folder(folder)) {
    if (!is_meta_file(name)) continue;
    const std::string expected = fmt::format("consolidated.{:02}.pth", shards.size());
    if (name != expected)
      throw user_error(fmt::format("{} is missing", (folder / expected).string()),
                       fmt::format("{} is there, and the files are counted from 00", name), "download it again");
    const std::string origin = (folder / name).string();
    const File file = File::open_read(folder / name);
    formats::TorchFile found = formats::read_torch_file(file, origin);
    if (!found.others.empty())
      throw user_error(fmt::format("{}: {} is {}", origin, found.others[0].name, found.others[0].what),
                       "Meta's files have weights only", "leave it out of the file");
    std::erase_if(found.tensors, [](const formats::TorchTensor& tensor) { return is_computed(tensor.name); });
    shards.push_back({name, std::move(found.tensors)});
  }
  return shards;
}

// The first matrix of the first block that is cut in this way, or null.
const mesh::TensorInfo* find_cut(const checkpoint::Reader& reader, const RankCut& cut) {
  for (const mesh::TensorInfo& tensor : reader.tensors()) {
    if (tensor.name.starts_with("layers.0.") && tensor.shape.size() == 2 && cut_of(tensor.name) == cut) return &tensor;
  }
  return nullptr;
}

// Files at the end of the count are missed only by what the joined weights lack.
void require_all_files(const Path& folder, const checkpoint::Reader& reader, int64_t files, int64_t dim) {
  const mesh::TensorInfo* queries = find_cut(reader, {0, HeadKind::kQueries});
  if (queries == nullptr || queries->shape[0] == 0 || queries->shape[0] >= dim || dim % queries->shape[0] != 0) return;
  throw user_error(fmt::format("{} has {} of {} files", folder.string(), files, files * dim / queries->shape[0]),
                   fmt::format("consolidated.{:02}.pth is missing", files), "download the missing files");
}

// The tensor of this name, from its parts in all files.
OutsideTensor join(const Path& folder, const std::vector<Shard>& shards, const config::Model& model,
                   const std::string& name) {
  const int64_t ranks = std::ssize(shards);
  RankParts parts;
  for (const Shard& shard : shards) {
    const formats::TorchTensor* part = shard.find(name);
    if (part == nullptr)
      throw damaged(fmt::format("{} lacks {}", (folder / shard.name).string(), name),
                    fmt::format("{} has it", shards[0].name), "download the files again");
    parts[std::ssize(parts)] = {shard.name, part->layout};
  }
  check_parts(parts, ranks, folder, name);
  const std::vector<int64_t>& shape = parts.at(0).layout.sizes;
  RankRow row = row_of(name);
  // Llama 1 and 2 share the columns of the embedding, Llama 3 its rows.
  if (name == kEmbedding && shape.size() == 2 && shape[1] != model.dim) row.dimension = 1;
  if (ranks > 1 && shape.size() != (row.dimension ? 2 : 1))
    throw user_error(fmt::format("{}: {} cannot be joined from {} files", folder.string(), name, ranks),
                     "it is no weight of Meta's models, so the dimension that the files share is not known");
  JoinedRow found = joined(row, RankLayout(model.n_heads, model.n_kv_heads, ranks), parts);
  for (const JoinedRow::Copy& copy : found.copies) {
    if (!same_elements(folder, copy.part, copy.of_other))
      throw damaged(
          fmt::format("{} and {} have different {}", (folder / copy.part.file).string(), copy.of_other.file, name),
          "both have a copy of one part", "download the files again");
  }
  return std::move(found.tensors.front());
}

}  // namespace

Source open_meta(const Path& folder) {
  const Path params = folder / "params.json";
  if (!path_exists(params))
    throw user_error(fmt::format("{} is missing", params.string()), "it has the model's shape", "download it");
  std::vector<std::string> notes;
  Description description = parse_meta_params(read_file(params), params.string(), notes);
  const std::vector<Shard> shards = open_shards(folder);
  std::vector<OutsideTensor> tensors;
  for (const formats::TorchTensor& tensor : shards[0].tensors)
    tensors.push_back(join(folder, shards, description.model, tensor.name));
  checkpoint::Reader reader = checkpoint::Reader::over(folder, std::move(tensors));
  require_all_files(folder, reader, std::ssize(shards), description.model.dim);
  const mesh::TensorInfo *gate = find_cut(reader, {0, HeadKind::kNone}), *embedding = reader.find(kEmbedding);
  if (gate == nullptr || embedding == nullptr || embedding->shape.size() != 2)
    throw user_error(fmt::format("{} is not a model of Meta's", folder.string()),
                     "it lacks the feed-forward of its first layer or tok_embeddings.weight");
  description.model.hidden_dim = gate->shape[0];
  if (description.model.vocab_size < 0) description.model.vocab_size = embedding->shape[0];
  return {Kind::kMeta, std::move(reader), std::move(description), std::move(notes)};
}

}  // namespace hearth::convert
