// SPDX-License-Identifier: Apache-2.0
#include "convert/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "config/derived.h"
#include "config/load.h"
#include "convert/names.h"
#include "convert/open.h"

namespace hearth::convert {
namespace {

constexpr int64_t kCompareBytes = int64_t{8} << 20;

Source open_native(const Path& folder) {
  Source source{Kind::kNative, checkpoint::Reader::open(folder), std::nullopt, {}};
  const checkpoint::Manifest& manifest = source.reader.manifest();
  const config::RunConfig config =
      config::from_toml_text(manifest.config_toml, (folder / checkpoint::kManifestFile).string(), ".");
  Description& d = source.description.emplace(description_of(config));
  if (manifest.bos >= 0) d.bos = manifest.bos;
  if (manifest.eos >= 0) d.eos = {manifest.eos};
  if (has_moments(source.reader)) source.training = training_of(manifest);
  complete_vocabulary(source);
  return source;
}

}  // namespace

void complete_vocabulary(Source& source) {
  if (source.description->model.vocab_size != 0) return;
  if (const mesh::TensorInfo* embedding = source.reader.find(kEmbedding))
    source.description->model.vocab_size = embedding->shape.front();
}

Source open_source(const FoundWeights& found, const Description* described, std::optional<QkvLayout> layout) {
  switch (found.kind) {
    case Kind::kNative:
      return open_native(found.folder);
    case Kind::kDcp:
    case Kind::kTorchtitan:
      return open_dcp(found.folder, described);
    case Kind::kHuggingFace:
      return open_hugging_face(found.folder);
    case Kind::kMeta:
      return open_meta(found.folder);
    case Kind::kNeox:
      return open_neox(found.folder, described, layout);
    case Kind::kNxd:
      return open_nxd(found.folder, described);
  }
  HEARTH_CHECK(false, "kind {}", static_cast<int>(found.kind));
}

void give_pairs(Source& source, config::RopePairs pairs) {
  if (!source.description || source.description->model.rope_pairs == pairs) return;
  if (source.description->model.has_latents())
    throw user_error(fmt::format("{}: pairs of latent attention have one order", source.reader.folder().string()),
                     "Hearth rotates neighbours there, as DeepSeek's files have them",
                     "leave out --rope-pairs and model.rope_pairs");
  std::set<std::string> names;
  for (const mesh::TensorInfo& tensor : source.reader.tensors()) {
    if (has_pairs(tensor.name) && !tensor.shape.empty()) names.insert(tensor.name);
  }
  const config::Model& model = source.description->model;
  source.reader.reorder_pairs(
      std::move(names), config::head_width(model), config::rotary_width(model),
      pairs == config::RopePairs::kHalves ? checkpoint::PairOrder::kHalves : checkpoint::PairOrder::kInterleaved);
  source.description->model.rope_pairs = pairs;
}

Source open_for_run(const Path& folder, const config::Model& model) {
  Description described;
  described.model = model;
  Source source = open_source(find_weights(folder), &described);
  if (source.kind != Kind::kNative) give_pairs(source, model.rope_pairs);
  return source;
}

Source open_for_inspection(const Path& folder) {
  const bool is_ours = path_exists(folder / checkpoint::kManifestFile);
  if (is_ours || path_exists(folder / checkpoint::kMetadataFile))
    return {is_ours ? Kind::kNative : Kind::kDcp, checkpoint::Reader::open(folder), std::nullopt, {}};
  return open_source(find_weights(folder));
}

bool is_without_tokenizer(const checkpoint::Manifest& manifest) {
  return manifest.dataset_hash.empty() && manifest.tokenizer.starts_with("ids:");
}

bool has_data_state(const checkpoint::Reader& reader) {
  return reader.has_manifest() && !reader.manifest().dataset_hash.empty();
}

bool output_is_embedding(checkpoint::Reader& reader) {
  const mesh::TensorInfo *left = reader.find(kOutput), *right = reader.find(kEmbedding);
  if (left == nullptr || right == nullptr || left->shape != right->shape || left->dtype != right->dtype) return false;
  mesh::Box box{std::vector<int64_t>(left->shape.size()), left->shape};
  const int64_t row_bytes = box.numel() / box.sizes[0] * dtype_size(left->dtype);
  const int64_t rows = std::max<int64_t>(1, kCompareBytes / std::max<int64_t>(row_bytes, 1)), end = box.sizes[0];
  std::vector<std::byte> one, other;
  for (int64_t row = 0; row < end; row += rows) {
    box.offsets[0] = row;
    box.sizes[0] = std::min(rows, end - row);
    one.resize(static_cast<size_t>(box.sizes[0] * row_bytes));
    other.resize(one.size());
    reader.read(kOutput, box, one);
    reader.read(kEmbedding, box, other);
    if (std::memcmp(one.data(), other.data(), one.size()) != 0) return false;
  }
  return true;
}

}  // namespace hearth::convert
