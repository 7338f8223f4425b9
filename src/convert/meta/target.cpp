// Meta's files: params.json and consolidated.00.pth to consolidated.NN.pth, one for each rank of tensor parallel.
#include <fmt/format.h>

#include "base/error.h"
#include "convert/meta/params.h"
#include "convert/names.h"
#include "convert/rank_slices.h"
#include "convert/target.h"
#include "plan/parameters.h"

namespace hearth::convert {
namespace {

constexpr const char* kMetaEmbedding = "tok_embeddings.weight";

void refuse_files(const plan::ModelShape& s, int64_t files) {
  if (files < 1 || s.H % files != 0 || (s.G % files != 0 && files % s.G != 0) || s.F() % files != 0 || s.V % files != 0)
    throw user_error(fmt::format("--tensor-parallel {} does not divide the model", files),
                     fmt::format("it has {} heads, {} keys, width {} and {} tokens", s.H, s.G, s.F(), s.V),
                     "give a divisor of all four; a multiple of the keys is allowed, too");
}

// The code of Llama 1 and 2 and Code Llama shares the columns of the embedding, that of Llama 3 its rows. The former
// reads tokens of SentencePiece only, the latter of tiktoken only.
bool shares_columns(const Model& model) {
  return model.tokenizer != nullptr && model.tokenizer->kind() == "sentencepiece";
}

// With more files than keys, as Llama 3.1 405B's 16, neighbours have the same key.
RankTensor keys_of(const RankSlicer& slicer, const plan::ModelShape& s, const std::string& name, int64_t files,
                   int64_t file) {
  RankTensor tensor{{name, DType::kFloat32, {}}, {}, {}};
  RankSlicer::append_rows(tensor, slicer.find(name), file * s.G / files * s.K, s.K);
  return tensor;
}

std::vector<RankTensor> tensors_of(const Model& model, const plan::ModelShape& s, int64_t file) {
  const int64_t files = model.tensor_parallel;
  const RankSlicer slicer(model.tensors, files, file);
  std::vector<RankTensor> tensors;
  for (const Transfer& transfer : model.tensors) {
    const std::string& name = transfer.to.name;
    const bool is_embedding = name == kMetaEmbedding;
    const std::optional<size_t> split = is_embedding ? (shares_columns(model) ? 1 : 0) : meta_split(name);
    const bool is_key = name.ends_with("attention.wk.weight") || name.ends_with("attention.wv.weight");
    if (is_key && files > s.G)
      tensors.push_back(keys_of(slicer, s, name, files, file));
    else
      tensors.push_back(!split        ? slicer.whole(name, name)
                        : *split == 0 ? slicer.rows(name, name)
                                      : slicer.columns(name, name));
  }
  if (s.tied) tensors.push_back(slicer.rows("output.weight", kMetaEmbedding));
  return tensors;
}

}  // namespace

std::vector<std::string> write_meta(const Path& folder, const Model& model, Progress& progress) {
  const plan::ModelShape s = plan::model_shape(model.description.model, 0);
  const std::string params = format_meta_params(model.description);  // may refuse
  refuse_files(s, model.tensor_parallel);
  std::vector<std::vector<RankTensor>> files;
  int64_t bytes = 0;
  for (int64_t file = 0; file < model.tensor_parallel; ++file)
    bytes += bytes_of(files.emplace_back(tensors_of(model, s, file)));
  progress.all_bytes = bytes;
  for (size_t file = 0; file < files.size(); ++file)
    write_rank_file(folder / fmt::format("consolidated.{:02}.pth", file), model.reader, files[file], progress);
  std::vector<std::string> notes;
  if (s.tied)
    notes.emplace_back("the embedding is also written as the output matrix: that format has tied weights twice");
  if (model.tensor_parallel > 1)
    notes.push_back(fmt::format("the files share the {} of tok_embeddings, as the code of {} reads them",
                                shares_columns(model) ? "columns" : "rows",
                                shares_columns(model) ? "Llama 2" : "Llama 3"));
  const tokenizer::Tokenizer* tokenizer = model.tokenizer;
  if (tokenizer != nullptr && (tokenizer->kind() == "sentencepiece" || tokenizer->kind() == "tiktoken"))
    write_text_file(folder / "tokenizer.model", tokenizer->file_content());
  else if (tokenizer != nullptr)
    notes.push_back(
        fmt::format("no tokenizer is written: Meta's format has no home for the kind {}", tokenizer->kind()));
  check_source(model);
  write_text_file(folder / "params.json", params);
  return notes;
}

}  // namespace hearth::convert
