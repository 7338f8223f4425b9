// AWS Neuron's NxD files: Hugging Face's names, one file for each rank of tensor parallel and each stage of the
// pipeline. Source: neuronx_distributed, scripts/checkpoint_converter.py and trainer/checkpoint.py.
#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "convert/rank_slices.h"
#include "convert/target.h"
#include "formats/torch_file.h"
#include "plan/parameters.h"

namespace hearth::convert {
namespace {

void refuse_nxd_ranks(const plan::ModelShape& s, const Model& model) {
  const int64_t ranks = model.tensor_parallel, stages = model.pipeline_parallel;
  if (ranks < 1 || s.H % ranks != 0 || (s.G % ranks != 0 && ranks % s.G != 0) || s.F() % ranks != 0 || s.V % ranks != 0)
    throw user_error(fmt::format("--tensor-parallel {} does not divide the model", ranks),
                     fmt::format("it has {} heads, {} keys, width {} and {} tokens", s.H, s.G, s.F(), s.V),
                     "give a divisor of all four; a multiple of the keys is allowed, too");
  if (ranks > s.G && model.nxd.qkv == NxdQkv::kSeparate)
    throw user_error(fmt::format("--tensor-parallel {} is more than the model's {} keys", ranks, s.G),
                     "only NxD's module qkv_proj has copies of keys (kv_size_multiplier)", "add --nxd-qkv module");
  if (stages < 1 || s.L() % stages != 0)
    throw user_error(fmt::format("--pipeline-parallel {} does not divide {} layers", stages, s.L()), {},
                     "give a divisor");
}

class NxdWriter {
 public:
  NxdWriter(const Path& folder, const Model& model, Progress& progress)
      : folder_(folder),
        model_(model),
        progress_(progress),
        layout_(model.nxd),
        s_(plan::model_shape(model.description.model, 0)),
        ranks_(model.tensor_parallel) {}

  void run() {
    std::map<std::string, std::vector<RankTensor>> files;
    int64_t bytes = 0;
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      for (int64_t stage = 0; stage < model_.pipeline_parallel; ++stage) {
        const std::string name = nxd_file_name(layout_, rank, stage);
        bytes += bytes_of(
            files[name] = nxd_tensors(model_.tensors, s_, layout_, {ranks_, model_.pipeline_parallel}, {rank, stage}));
      }
    }
    progress_.all_bytes = bytes + (model_.training == nullptr ? 0 : nxd_optimizer_bytes(model_));
    const std::string key = layout_.names == NxdNames::kPretrained ? "model" : "";
    for (const auto& [name, tensors] : files) {
      const Path path = folder_ / name;
      make_folders(path.parent_path());
      if (layout_.xser)
        write_xser(path, tensors, key);
      else
        write_rank_file(path, model_.reader, tensors, progress_, key);
      sync_folder(path.parent_path());
    }
  }

 private:
  // The dict names tensors, which are in a folder beside it.
  void write_xser(const Path& path, const std::vector<RankTensor>& tensors, const std::string& key) {
    formats::write_torch_references(path, infos_of(tensors), key);
    const Path folder = path.string() + ".tensors";
    make_folders(folder);
    for (size_t id = 0; id < tensors.size(); ++id) {
      formats::TorchFileWriter writer(folder / fmt::format("tensor_{}.pt", id), tensors[id].info);
      write_tensor(model_.reader, tensors[id], progress_,
                   [&](std::span<const std::byte> bytes) { writer.write(bytes); });
      writer.finish();
    }
    sync_folder(folder);
    if (layout_.names == NxdNames::kV3) write_nxd_shapes(path.string() + ".info.pt", infos_of(tensors));
  }

  const Path folder_;
  const Model& model_;
  Progress& progress_;
  const NxdLayout layout_;
  const plan::ModelShape s_;
  const int64_t ranks_;
};

}  // namespace

std::vector<std::string> write_nxd(const Path& folder, const Model& model, Progress& progress) {
  const plan::ModelShape s = plan::model_shape(model.description.model, 0);
  require_plain_llama(model.description, "NxD");
  refuse_nxd_ranks(s, model);
  std::vector<std::string> notes;
  if (model.training != nullptr) notes = check_nxd_state(model);
  if (model.nxd.names == NxdNames::kPretrained) {
    NxdWriter(folder, model, progress).run();
    check_source(model);
  } else {
    // `done` says that the step was saved to its end.
    const std::string name = fmt::format("step_{}", model.training == nullptr ? 0 : model.training->step);
    const Path step = folder / name;
    make_folders(step / "model");
    if (model.nxd.names == NxdNames::kV3) write_text_file(step / "checkpoint", "1");
    NxdWriter(step / "model", model, progress).run();
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
  if (model.tokenizer != nullptr && model.tokenizer->kind() != "ids")
    notes.emplace_back("no tokenizer is written: NxD's folders have no home for it");
  return notes;
}

}  // namespace hearth::convert
