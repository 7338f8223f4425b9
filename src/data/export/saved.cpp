// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "data/export/export.h"
#include "data/formats/saved_folder.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::data {
namespace {

struct ColumnOfDocument {
  std::string_view name;
  SavedType type;
  int64_t token_bytes;  // of each token; 0: the column is text
};
constexpr ColumnOfDocument kColumns[] = {{"input_ids", SavedType::kInt32List, 4},
                                         {"text", SavedType::kText, 0},
                                         {"labels", SavedType::kInt64List, 8},
                                         {"weights", SavedType::kFloatList, 4}};

const ColumnOfDocument& column_named(std::string_view name) {
  return *std::ranges::find(kColumns, name, &ColumnOfDocument::name);
}

// Fills rows with documents.
class DocumentRows {
 public:
  DocumentRows(const Dataset& dataset, const Split& split, const std::vector<SavedColumn>& columns)
      : split_(split), columns_(columns), tokenizer_(dataset.open_tokenizer()) {
    const bool text =
        std::ranges::any_of(columns_, [](const SavedColumn& column) { return column.type == SavedType::kText; });
    if (text && !tokenizer_->has_text())
      throw user_error(fmt::format("{} has no text", dataset.folder().string()), "its documents are ids or arrays",
                       "give --column input_ids");
  }

  void fill(int64_t document, SavedRow& out) {
    const int64_t begin = split_.document_begin(document);
    ids_.resize(static_cast<size_t>(split_.document_begin(document + 1) - begin));
    split_.read(begin, ids_);
    weights_.resize(ids_.size());
    split_.read_weights(begin, weights_);
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (columns_[c].type == SavedType::kText)
        out.add_text(c, text_of_ids());
      else if (columns_[c].type == SavedType::kFloatList)
        out.add_weights(c, weights_);
      else
        out.add_ids(c, columns_[c].type == SavedType::kInt32List ? ids_ : masked_labels(ids_, weights_));
    }
  }

  int64_t replaced_documents() const { return replaced_documents_; }

 private:
  std::string_view text_of_ids() {
    text_.clear();
    const std::vector<uint32_t> ids(ids_.begin(), ids_.end());
    replaced_documents_ += tokenizer::append_valid_utf8(tokenizer_->decode_all(ids), text_) > 0 ? 1 : 0;
    return text_;
  }

  const Split& split_;
  const std::vector<SavedColumn>& columns_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::vector<int32_t> ids_;
  std::vector<float> weights_;
  std::string text_;
  int64_t replaced_documents_ = 0;
};

}  // namespace

std::vector<std::string> saved_column_names() {
  std::vector<std::string> names;
  for (const ColumnOfDocument& column : kColumns) names.emplace_back(column.name);
  return names;
}

std::vector<std::string> default_saved_columns(const Split& split) {
  if (!split.weights()) return {"input_ids"};
  return {"input_ids", split.weights()->is_mask ? "labels" : "weights"};
}

ExportResult export_saved(const Dataset& dataset, const Split& split, const std::vector<std::string>& column_names,
                          const Path& folder, int64_t file_bytes) {
  SavedTable table;
  table.rows = split.documents();
  table.made_from = split.dataset_identity() + "/" + split.name();
  table.split = split.name();
  for (const std::string& name : column_names) {
    const ColumnOfDocument& column = column_named(name);
    if (column.type == SavedType::kInt64List && split.weights() && !split.weights()->is_mask)
      throw real_weights(dataset, split, "--column labels", "give --column weights");
    table.columns.push_back({name, column.type});
    table.bytes += 4 * split.documents() +
                   (column.type == SavedType::kText ? split.text_bytes() : column.token_bytes * split.tokens());
    table.made_from += "/" + name;
  }
  DocumentRows documents(dataset, split, table.columns);
  write_saved_folder(folder, table, file_bytes, [&](int64_t row, SavedRow& out) { documents.fill(row, out); });
  return {split.documents(), split.tokens(), documents.replaced_documents()};
}

}  // namespace hearth::data
