// Folders that Hugging Face's `datasets` opens with load_from_disk, laid out as its save_to_disk does.
#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "data/arrow_library.h"
#include "data/export.h"
#include "data/saved_dataset.h"
#include "tokenizer/unicode.h"

namespace hearth::data {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kIdsColumn = "input_ids", kTextColumn = "text";

// A file of the folder. What goes wrong with the disk is kept until the library is left.
class FileSink final : public ByteSink {
 public:
  explicit FileSink(const Path& path) : file_(File::create(path)) {}
  bool write(std::span<const std::byte> bytes) override {
    try {
      file_.write(bytes);
    } catch (...) {
      failure_ = std::current_exception();
    }
    return failure_ == nullptr;
  }
  void check(const std::string& message) const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    if (!message.empty())
      throw user_error(fmt::format("{} cannot be written", file_.path().string()), message,
                       "build with --document-bytes, if a document is too long for it");
  }
  void finish() {
    file_.sync();
    file_.close();
  }

 private:
  File file_;
  std::exception_ptr failure_;
};

ordered_json feature_of(const SavedColumn& column) {
  if (column.type == SavedType::kText) return {{"dtype", "string"}, {"_type", "Value"}};
  // Versions before 4 know lists as Sequence, and later ones read it.
  return {{"feature", {{"dtype", "int32"}, {"_type", "Value"}}}, {"_type", "Sequence"}};
}

ordered_json features_of(const std::vector<SavedColumn>& columns) {
  ordered_json features = ordered_json::object();
  for (const SavedColumn& column : columns) features[column.name] = feature_of(column);
  return features;
}

// As the library counts them: values and 32-bit offsets.
int64_t num_files(const Split& split, const std::vector<SavedColumn>& columns, int64_t file_bytes) {
  int64_t bytes = 0;
  for (const SavedColumn& column : columns)
    bytes += 4 * split.documents() + (column.type == SavedType::kText ? split.text_bytes() : 4 * split.tokens());
  return std::min(bytes / file_bytes + 1, std::max<int64_t>(1, split.documents()));
}

class SavedExport {
 public:
  SavedExport(const Dataset& dataset, const Split& split, std::vector<SavedColumn> columns)
      : split_(split), columns_(std::move(columns)), tokenizer_(dataset.open_tokenizer()) {
    const bool text = std::any_of(columns_.begin(), columns_.end(),
                                  [](const SavedColumn& column) { return column.type == SavedType::kText; });
    if (text && !tokenizer_->has_text())
      throw user_error(fmt::format("{} has no text", dataset.folder().string()), "its documents are ids or arrays",
                       "give --column input_ids");
  }

  // Documents [first, end) into one file.
  void write_file(const Path& path, int64_t first, int64_t end) {
    FileSink sink(path);
    std::string error;
    const std::string metadata = ordered_json{{"info", {{"features", features_of(columns_)}}}}.dump();
    const auto table = arrow_library().new_table(columns_, metadata, sink, error);
    sink.check(error);
    for (int64_t i = first; i < end; ++i) {
      write_row(*table, sink, i);
      sink.check(table->end_row());
    }
    sink.check(table->finish());
    sink.finish();
  }

  ExportResult result() const { return {split_.documents(), split_.tokens(), replaced_documents_}; }

 private:
  void write_row(TableWriter& table, const FileSink& sink, int64_t document) {
    const int64_t begin = split_.document_begin(document);
    ids_.resize(static_cast<size_t>(split_.document_begin(document + 1) - begin));
    split_.read(begin, ids_);
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (columns_[c].type == SavedType::kText)
        sink.check(table.add_text(c, text_of_ids()));
      else
        sink.check(table.add_ids(c, ids_));
    }
  }

  std::string_view text_of_ids() {
    text_.clear();
    const std::vector<uint32_t> ids(ids_.begin(), ids_.end());
    replaced_documents_ += tokenizer::append_valid_utf8(tokenizer_->decode_all(ids), text_) > 0 ? 1 : 0;
    return text_;
  }

  const Split& split_;
  std::vector<SavedColumn> columns_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::vector<int32_t> ids_;
  std::string text_;
  int64_t replaced_documents_ = 0;
};

void write_lists(const Path& folder, const std::vector<std::string>& files, const std::vector<SavedColumn>& columns,
                 const std::string& identity, const std::string& split) {
  nlohmann::json state = {{"_fingerprint", fmt::format("{:016x}", xxh3_64(identity))},
                          {"_format_columns", nullptr},
                          {"_format_kwargs", nlohmann::json::object()},
                          {"_format_type", nullptr},
                          {"_output_all_columns", false},
                          {"_split", split}};
  for (const std::string& file : files) state["_data_files"].push_back({{"filename", file}});
  const ordered_json info = {
      {"citation", ""}, {"description", ""}, {"features", features_of(columns)}, {"homepage", ""}, {"license", ""}};
  write_file_atomic(folder / "dataset_info.json", info.dump(2));
  write_file_atomic(folder / "state.json", state.dump(2));
}

}  // namespace

std::vector<std::string> saved_column_names() { return {std::string(kIdsColumn), std::string(kTextColumn)}; }

ExportResult export_saved(const Dataset& dataset, const Split& split, const std::vector<std::string>& column_names,
                          const Path& folder, int64_t file_bytes) {
  std::vector<SavedColumn> columns;
  for (const std::string& name : column_names)
    columns.push_back({name, name == kTextColumn ? SavedType::kText : SavedType::kInt32List});
  SavedExport out(dataset, split, columns);
  Path temporary = folder;
  temporary += ".tmp";
  remove_tree(temporary);
  make_folders(temporary);
  const int64_t count = num_files(split, columns, file_bytes);
  const int64_t rows = split.documents() / count, longer = split.documents() % count;
  std::vector<std::string> files;
  for (int64_t f = 0, first = 0; f < count; ++f) {
    const int64_t end = first + rows + (f < longer ? 1 : 0);
    files.push_back(fmt::format("data-{:05}-of-{:05}.arrow", f, count));
    out.write_file(temporary / files.back(), first, end);
    first = end;
  }
  std::string identity = split.dataset_identity() + "/" + split.name();
  for (const std::string& name : column_names) identity += "/" + name;
  write_lists(temporary, files, columns, identity, split.name());
  remove_tree(folder);
  rename_path(temporary, folder);
  return out.result();
}

}  // namespace hearth::data
