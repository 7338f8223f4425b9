// AWS Neuron's NxD files: Hugging Face's names, one file for each rank of tensor parallel and each stage of the
// pipeline. Source: neuronx_distributed, scripts/checkpoint_converter.py and trainer/checkpoint.py.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "config/choices.h"
#include "convert/names.h"
#include "convert/rank_slices.h"
#include "convert/target.h"
#include "formats/torch_file.h"
#include "plan/parameters.h"

namespace hearth::convert {
namespace {

constexpr const char* kNxdStep = "step_0";

void refuse_nxd_ranks(const plan::ModelShape& s, int64_t ranks, const NxdLayout& layout) {
  if (ranks < 1 || s.H % ranks != 0 || (s.G % ranks != 0 && ranks % s.G != 0) || s.F % ranks != 0 || s.V % ranks != 0)
    throw user_error(fmt::format("--tensor-parallel {} does not divide the model", ranks),
                     fmt::format("it has {} heads, {} keys, width {} and {} tokens", s.H, s.G, s.F, s.V),
                     "give a divisor of all four; a multiple of the keys is allowed, too");
  if (ranks > s.G && layout.qkv == NxdQkv::kSeparate)
    throw user_error(fmt::format("--tensor-parallel {} is more than the model's {} keys", ranks, s.G),
                     "only NxD's module qkv_proj has copies of keys (kv_size_multiplier)", "add --nxd-qkv module");
  if (layout.stages < 1 || s.L % layout.stages != 0)
    throw user_error(fmt::format("--pipeline-parallel {} does not divide {} layers", layout.stages, s.L), {},
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
      for (int64_t stage = 0; stage < layout_.stages; ++stage) {
        const std::string name = nxd_file_name(layout_, rank, stage);
        bytes += bytes_of(files[name] = tensors_of(rank, stage));
      }
    }
    progress_.all_bytes = bytes;
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
  std::vector<RankTensor> tensors_of(int64_t rank, int64_t stage) const {
    const RankSlicer slicer(model_.tensors, ranks_, rank);
    std::vector<RankTensor> tensors;
    if (stage == 0) tensors.push_back(slicer.rows("model.embed_tokens.weight", "tok_embeddings.weight"));
    const int64_t layers = s_.L / layout_.stages;
    for (int64_t i = stage * layers; i < (stage + 1) * layers; ++i) add_layer(slicer, rank, i, tensors);
    if (stage == layout_.stages - 1) {
      tensors.push_back(slicer.whole("model.norm.weight", "norm.weight"));
      tensors.push_back(slicer.rows("lm_head.weight", s_.tied ? "tok_embeddings.weight" : "output.weight"));
    }
    return tensors;
  }

  void add_layer(const RankSlicer& slicer, int64_t rank, int64_t i, std::vector<RankTensor>& tensors) const {
    const std::string ours = fmt::format("layers.{}.", i), theirs = fmt::format("model.layers.{}.", i);
    add_attention(slicer, rank, ours + "attention.", theirs + "self_attn.", tensors);
    tensors.push_back(slicer.rows(theirs + "mlp.gate_up_proj.weight", ours + "feed_forward.w1.weight",
                                  ours + "feed_forward.w3.weight"));
    tensors.push_back(slicer.columns(theirs + "mlp.down_proj.weight", ours + "feed_forward.w2.weight"));
    tensors.push_back(slicer.whole(theirs + "input_layernorm.weight", ours + "attention_norm.weight"));
    tensors.push_back(slicer.whole(theirs + "post_attention_layernorm.weight", ours + "ffn_norm.weight"));
  }

  void add_attention(const RankSlicer& slicer, int64_t rank, const std::string& ours, const std::string& theirs,
                     std::vector<RankTensor>& tensors) const {
    const Transfer &q = slicer.find(ours + "wq.weight"), &o = slicer.find(ours + "wo.weight");
    const int64_t first_q = nxd_first_query(s_.H, s_.G, ranks_, rank) * s_.K, of_q = s_.H / ranks_ * s_.K;
    const int64_t keys = std::max<int64_t>(1, s_.G / ranks_), first_k = ranks_ > s_.G ? rank % s_.G : rank * keys;
    std::vector<RankTensor> parts(3);
    RankSlicer::append_rows(parts[0], q, first_q, of_q);
    RankSlicer::append_rows(parts[1], slicer.find(ours + "wk.weight"), first_k * s_.K, keys * s_.K);
    RankSlicer::append_rows(parts[2], slicer.find(ours + "wv.weight"), first_k * s_.K, keys * s_.K);
    if (layout_.qkv == NxdQkv::kFused) {
      for (const size_t part : {size_t{1}, size_t{2}}) {
        parts[0].info.shape[0] += parts[part].info.shape[0];
        parts[0].slices.push_back(parts[part].slices[0]);
      }
      parts.resize(1);
      // With a key for each query, another module does it.
      parts[0].info.name = theirs + (s_.H == s_.G ? "qkv_proj.weight" : "qkv_proj.weight_qkv");
    } else {
      for (size_t part = 0; part < 3; ++part) {
        const char letter = "qkv"[part];
        parts[part].info.name = theirs + (layout_.qkv == NxdQkv::kModule ? fmt::format("qkv_proj.weight_{}", letter)
                                                                         : fmt::format("{}_proj.weight", letter));
      }
    }
    for (RankTensor& part : parts) tensors.push_back(std::move(part));
    const int64_t rows = o.to.shape[0];
    tensors.push_back({{theirs + "o_proj.weight", o.to.dtype, {rows, of_q}}, {{&o, {{0, first_q}, {rows, of_q}}}}, {}});
  }

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
    if (layout_.names == NxdNames::kV3) write_shapes(path.string() + ".info.pt", tensors);
  }

  // NxD since version 0.7 reads the types and shapes of tensors first: {id: {"dtype", "shape", ...}}.
  static void write_shapes(const Path& path, const std::vector<RankTensor>& tensors) {
    formats::PickleWriter pickle;
    pickle.empty_dict();
    pickle.mark();
    for (int64_t id = 0; const RankTensor& tensor : tensors) {
      pickle.integer(id++);
      pickle.empty_dict();
      pickle.mark();
      pickle.string("dtype");
      pickle.global("torch", dtype_name(tensor.info.dtype));
      pickle.string("shape");
      pickle.size(tensor.info.shape);
      pickle.string("expert_model_parallel");
      pickle.boolean(false);
      pickle.set_items();
    }
    pickle.set_items();
    formats::write_torch_pickle(path, pickle);
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
  refuse_nxd_ranks(s, model.tensor_parallel, model.nxd);
  if (model.nxd.names == NxdNames::kPretrained) {
    NxdWriter(folder, model, progress).run();
  } else {
    // `done` says that the step was saved to its end.
    const Path step = folder / kNxdStep;
    make_folders(step / "model");
    if (model.nxd.names == NxdNames::kV3) write_text_file(step / "checkpoint", "1");
    NxdWriter(step / "model", model, progress).run();
    if (model.nxd.names == NxdNames::kV3) write_text_file(step / "done", "1");
    sync_folder(step);
    write_text_file(folder / "newest", kNxdStep);
  }
  std::vector<std::string> notes;
  if (s.tied) notes.emplace_back("the embedding is also written as lm_head: train with tie_word_embeddings = false");
  if (model.tensor_parallel > s.G)
    notes.push_back(fmt::format("the keys are written {0} times: train with kv_size_multiplier = {0}",
                                model.tensor_parallel / s.G));
  if (model.tokenizer != nullptr && model.tokenizer->kind() != "ids")
    notes.emplace_back("no tokenizer is written: NxD's folders have no home for it");
  return notes;
}

}  // namespace hearth::convert
