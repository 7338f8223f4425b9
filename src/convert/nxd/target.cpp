// SPDX-License-Identifier: Apache-2.0
// AWS Neuron's NxD files: Hugging Face's names, one file for each rank of tensor parallel and each stage of the
// pipeline. Source: neuronx_distributed, scripts/checkpoint_converter.py and trainer/checkpoint.py.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "convert/rank_slices.h"
#include "convert/target.h"
#include "plan/parameters.h"

namespace hearth::convert {
namespace {

void refuse_nxd_ranks(const plan::ModelShape& s, const TargetModel& model) {
  const int64_t ranks = model.tensor_parallel, stages = model.pipeline_parallel;
  require_ranks(s, ranks, /*has_copies=*/true);
  if (ranks > s.G && model.nxd.qkv == NxdQkv::kSeparate)
    throw user_error(fmt::format("--tensor-parallel {} is more than the model's {} keys", ranks, s.G),
                     "only NxD's module qkv_proj has copies of keys (kv_size_multiplier)", "add --nxd-qkv module");
  if (stages < 1 || s.L() % stages != 0)
    throw user_error(fmt::format("--pipeline-parallel {} does not divide {} layers", stages, s.L()), {},
                     "give a divisor");
}

void write_nxd_model(const Path& folder, const TargetModel& model, ConvertProgress& progress) {
  const plan::ModelShape s = plan::model_shape(model.description.model, 0);
  const int64_t ranks = model.tensor_parallel, stages = model.pipeline_parallel;
  std::map<std::string, std::vector<RankTensor>> files;
  int64_t bytes = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    for (int64_t stage = 0; stage < stages; ++stage)
      bytes += bytes_of(files[nxd_file_name(model.nxd, rank, stage)] =
                            nxd_tensors(model.tensors, s, model.nxd, {ranks, stages}, {rank, stage}));
  }
  progress.all_bytes = bytes + (model.training == nullptr ? 0 : nxd_optimizer_bytes(model));
  for (const auto& [name, tensors] : files) {
    const Path path = folder / name;
    make_folders(path.parent_path());
    const PythonDict dict = rank_dict(model.reader, tensors, progress);
    if (model.nxd.names == NxdNames::kPretrained)
      write_nxd_file(path, PythonDict{{"model", dict}}, model.nxd);
    else
      write_nxd_file(path, dict, model.nxd);
    sync_folder(path.parent_path());
  }
}

}  // namespace

std::vector<RankTensor> nxd_tensors(const std::vector<Transfer>& tensors, const plan::ModelShape& shape,
                                    const NxdLayout& layout, const NxdPlace& counts, const NxdPlace& place) {
  // With a key for each query, another module has the fused matrix.
  const RankTable table = rank_table("nxd").with({layout.qkv == NxdQkv::kSeparate ? "separate"
                                                  : layout.qkv == NxdQkv::kModule ? "module"
                                                  : shape.H == shape.G            ? "stride"
                                                                                  : "fused"});
  const auto [ranks, stages] = counts;
  const RankLayout heads(shape.H, shape.G, ranks, KeyOrder::kInTurn);
  std::vector<RankTensor> found;
  const auto add = [&](const RankRow& row) { found.push_back(cut(tensors, row, heads, place.first)); };
  const int64_t stage = place.second, layers = shape.L() / stages;
  if (stage == 0) std::for_each(table.before.begin(), table.before.end(), add);
  for (int64_t i = stage * layers; i < (stage + 1) * layers; ++i) {
    for (const RankRow& row : table.block) add(row.of_layer(i));
  }
  if (stage == stages - 1) std::for_each(table.behind.begin(), table.behind.end(), add);
  return found;
}

std::vector<std::string> write_nxd(const Path& folder, const TargetModel& model, ConvertProgress& progress) {
  const plan::ModelShape s = plan::model_shape(model.description.model, 0);
  require_plain_llama(model.description, "NxD");
  refuse_nxd_ranks(s, model);
  std::vector<std::string> notes;
  if (model.training != nullptr) notes = check_nxd_state(model);
  if (model.nxd.names == NxdNames::kPretrained) {
    write_nxd_model(folder, model, progress);
    check_source(model);
  } else {
    // `done` says that the step was saved to its end.
    const std::string name = fmt::format("step_{}", model.training == nullptr ? 0 : model.training->step);
    const Path step = folder / name;
    make_folders(step / "model");
    if (model.nxd.names == NxdNames::kV3) write_text_file(step / "checkpoint", "1");
    write_nxd_model(step / "model", model, progress);
    if (model.training != nullptr) write_nxd_optimizer(step, model, progress);
    check_source(model);
    if (model.nxd.names == NxdNames::kV3) write_text_file(step / "done", "1");
    sync_folder(step);
    write_text_file(folder / "newest", name);
  }
  if (s.tied) notes.emplace_back("the embedding is also written as lm_head: train with tie_word_embeddings = false");
  if (model.tensor_parallel > s.G)
    notes.push_back(fmt::format("the keys are written {0} times: train with kv_size_multiplier = {0}",
                                model.tensor_parallel / s.G));
  note_missing_tokenizer(model, "NxD", notes);
  return notes;
}

}  // namespace hearth::convert
