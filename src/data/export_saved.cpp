#include <algorithm>

#include "base/error.h"
#include "data/export.h"
#include "data/saved_folder.h"
#include "tokenizer/unicode.h"

namespace hearth::data {
namespace {

constexpr std::string_view kIdsColumn = "input_ids", kTextColumn = "text";

// Fills rows with documents.
class DocumentRows {
 public:
  DocumentRows(const Dataset& dataset, const Split& split, const std::vector<SavedColumn>& columns)
      : split_(split), columns_(columns), tokenizer_(dataset.open_tokenizer()) {
    const bool text = std::any_of(columns_.begin(), columns_.end(),
                                  [](const SavedColumn& column) { return column.type == SavedType::kText; });
    if (text && !tokenizer_->has_text())
      throw user_error(fmt::format("{} has no text", dataset.folder().string()), "its documents are ids or arrays",
                       "give --column input_ids");
  }

  void fill(int64_t document, SavedRow& out) {
    const int64_t begin = split_.document_begin(document);
    ids_.resize(static_cast<size_t>(split_.document_begin(document + 1) - begin));
    split_.read(begin, ids_);
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (columns_[c].type == SavedType::kText)
        out.add_text(c, text_of_ids());
      else
        out.add_ids(c, ids_);
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
  std::string text_;
  int64_t replaced_documents_ = 0;
};

}  // namespace

std::vector<std::string> saved_column_names() { return {std::string(kIdsColumn), std::string(kTextColumn)}; }

ExportResult export_saved(const Dataset& dataset, const Split& split, const std::vector<std::string>& column_names,
                          const Path& folder, int64_t file_bytes) {
  SavedTable table;
  table.rows = split.documents();
  table.made_from = split.dataset_identity() + "/" + split.name();
  table.split = split.name();
  for (const std::string& name : column_names) {
    const bool text = name == kTextColumn;
    table.columns.push_back({name, text ? SavedType::kText : SavedType::kInt32List});
    table.bytes += 4 * split.documents() + (text ? split.text_bytes() : 4 * split.tokens());
    table.made_from += "/" + name;
  }
  DocumentRows documents(dataset, split, table.columns);
  write_saved_folder(folder, table, file_bytes, [&](int64_t row, SavedRow& out) { documents.fill(row, out); });
  return {split.documents(), split.tokens(), documents.replaced_documents()};
}

}  // namespace hearth::data
