// SPDX-License-Identifier: Apache-2.0
// Meta's files: params.json and consolidated.00.pth to consolidated.NN.pth, one for each rank of tensor parallel.
#include <fmt/format.h>

#include "base/error.h"
#include "convert/meta/params.h"
#include "convert/rank_slices.h"
#include "convert/target.h"
#include "plan/parameters.h"

namespace hearth::convert {
namespace {

// The code of Llama 1 and 2 and Code Llama shares the columns of the embedding, that of Llama 3 its rows. The former
// reads tokens of SentencePiece only, the latter of tiktoken only.
bool shares_columns(const TargetModel& model) {
  return model.tokenizer != nullptr && model.tokenizer->kind() == "sentencepiece";
}

std::vector<RankTensor> tensors_of(const TargetModel& model, const plan::ModelShape& s, int64_t file) {
  const RankLayout layout(s.H, s.G, model.tensor_parallel);
  std::vector<RankTensor> tensors;
  for (const Transfer& transfer : model.tensors) {
    RankRow row = row_of(transfer.to.name);
    if (row.name == kEmbedding && shares_columns(model)) row.dimension = 1;
    tensors.push_back(cut(model.tensors, row, layout, file));
  }
  if (s.tied) tensors.push_back(cut(model.tensors, row_of(kOutput), layout, file));
  return tensors;
}

}  // namespace

std::vector<std::string> write_meta(const Path& folder, const TargetModel& model, ConvertProgress& progress) {
  const plan::ModelShape s = plan::model_shape(model.description.model, 0);
  const std::string params = format_meta_params(model.description);  // may refuse
  require_ranks(s, model.tensor_parallel, /*has_copies=*/true);
  std::vector<std::vector<RankTensor>> files;
  int64_t bytes = 0;
  for (int64_t file = 0; file < model.tensor_parallel; ++file)
    bytes += bytes_of(files.emplace_back(tensors_of(model, s, file)));
  progress.all_bytes = bytes;
  for (size_t file = 0; file < files.size(); ++file)
    write_python_file(folder / fmt::format("consolidated.{:02}.pth", file),
                      rank_dict(model.reader, files[file], progress));
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
