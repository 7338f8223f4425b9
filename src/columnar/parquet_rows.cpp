// SPDX-License-Identifier: Apache-2.0
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>

#include "columnar/rows.h"

namespace hearth::columnar {
namespace {

using arrow::Status;

constexpr int64_t kBatchBytes = 4 << 20;  // of decoded text or ids, approximate
constexpr int64_t kMostBatchRows = 1024;

class ParquetRows final : public RowsInBatches {
 public:
  using RowsInBatches::RowsInBatches;

  Status open(data::ColumnFailure& failure) override {
    parquet::ReaderProperties file_properties(&memory_);
    file_properties.set_page_checksum_verification(true);
    // Each element or character of the metadata takes at least a byte of the file.
    const auto most = static_cast<int32_t>(std::min<size_t>(request_.file.size(), 100'000'000));
    file_properties.set_thrift_string_size_limit(most);
    file_properties.set_thrift_container_size_limit(std::min(most, 1'000'000));
    parquet::ArrowReaderProperties properties;
    properties.set_use_threads(false);
    properties.set_pre_buffer(false);  // a row group is read page by page, not held as a whole
    auto file = std::make_shared<arrow::io::BufferReader>(std::make_shared<arrow::Buffer>(
        reinterpret_cast<const uint8_t*>(request_.file.data()), static_cast<int64_t>(request_.file.size())));
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(std::move(file), file_properties));
    builder.memory_pool(&memory_)->properties(properties);
    ARROW_RETURN_NOT_OK(builder.Build(&file_));
    std::shared_ptr<arrow::Schema> schema;
    ARROW_RETURN_NOT_OK(file_->GetSchema(&schema));
    WantedColumns wanted;
    if (!find(*schema, wanted, failure)) return Status::OK();
    find_leaves(wanted);
    if (has_encrypted_leaf()) {
      failure = {false, "is an encrypted Parquet file", "its wanted columns are encrypted, and Hearth takes no keys",
                 "decrypt it first: read it with its keys, and write the table without encryption"};
      return Status::OK();
    }
    return find_groups();
  }

  int64_t bytes_read() const override {
    const auto size = static_cast<int64_t>(request_.file.size());
    const auto bytes = static_cast<double>(std::min(request_.range.end, size) - std::min(request_.range.begin, size));
    if (rows_total_ == 0) return 0;
    const auto rows = static_cast<double>(row_number_ - groups_.front().first_row);
    return static_cast<int64_t>(bytes * rows / static_cast<double>(rows_total_));
  }

 private:
  struct RowGroup {
    int index = 0;  // in the file
    int64_t first_row = 0, num_rows = 0;
  };

  // The file's leaf columns below each wanted column.
  void find_leaves(const WantedColumns& wanted) {
    const auto& fields = file_->manifest().schema_fields;
    for (const WantedColumn& column : wanted.columns) {
      const parquet::arrow::SchemaField* field = &fields.at(static_cast<size_t>(column.column));
      for (const int member : column.members) {
        while (field->field->type()->id() != arrow::Type::STRUCT) field = &field->children.at(0);
        field = &field->children.at(static_cast<size_t>(member));
      }
      add_leaves(*field);
    }
    std::ranges::sort(leaves_);
    leaves_.erase(std::unique(leaves_.begin(), leaves_.end()), leaves_.end());
  }
  void add_leaves(const parquet::arrow::SchemaField& field) {
    if (field.is_leaf()) leaves_.push_back(field.column_index);
    for (const auto& child : field.children) add_leaves(child);
  }

  // A file with an encrypted footer is refused before it is opened. In others each column may be encrypted.
  bool has_encrypted_leaf() const {
    const auto metadata = file_->parquet_reader()->metadata();
    if (!metadata->is_encryption_algorithm_set() || metadata->num_row_groups() == 0) return false;
    try {
      const auto group = metadata->RowGroup(0);
      return std::ranges::any_of(leaves_,
                                 [&](int leaf) { return group->ColumnChunk(leaf)->crypto_metadata() != nullptr; });
    } catch (const parquet::ParquetException&) {  // the metadata of a column may be encrypted, too
      return true;
    }
  }

  // The row groups of the range. Starts are the footer's claims, made to rise: whatever it claims, each group is in
  // exactly one range.
  Status find_groups() {
    const auto metadata = file_->parquet_reader()->metadata();
    int64_t position = 0, first_row = 0;
    for (int g = 0; g < metadata->num_row_groups(); ++g) {
      const auto group = metadata->RowGroup(g);
      const auto chunk = group->ColumnChunk(leaves_.front());
      const int64_t start = chunk->has_dictionary_page() && chunk->dictionary_page_offset() > 0
                                ? chunk->dictionary_page_offset()
                                : chunk->data_page_offset();
      position = std::clamp(start, position, std::max(position, static_cast<int64_t>(request_.file.size()) - 1));
      if (group->num_rows() < 0) return Status::Invalid("a row group has a negative number of rows");
      if (position >= request_.range.begin && position < request_.range.end) {
        groups_.push_back({g, first_row, group->num_rows()});
        rows_total_ += group->num_rows();
      }
      if (__builtin_add_overflow(first_row, group->num_rows(), &first_row))
        return Status::Invalid("the row groups have too many rows");
    }
    open_group(0);
    return Status::OK();
  }

  void open_group(size_t group) {
    group_ = group;
    batches_.reset();
    batch_rows_ = 0;
    row_in_group_ = 0;
    if (group_ < groups_.size()) row_number_ = groups_[group_].first_row;
  }

  // Reads on until there is a row or the file ends.
  Status advance() override {
    while (group_ < groups_.size() && next_in_batch_ == rows_.num_rows()) {
      Status status = next_batch();
      if (status.IsOutOfMemory() && batch_rows_ > 1) {
        // Many rows may share one long text: smaller batches fit.
        batches_.reset();
        batch_rows_ = std::max<int64_t>(1, batch_rows_ / 16);
        continue;
      }
      ARROW_RETURN_NOT_OK(status);
    }
    done_ = group_ == groups_.size();
    return Status::OK();
  }

  Status next_batch() {
    const RowGroup& group = groups_[group_];
    if (batches_ == nullptr) {
      if (batch_rows_ == 0) batch_rows_ = rows_a_batch(group);
      file_->set_batch_size(batch_rows_);
      ARROW_ASSIGN_OR_RAISE(batches_, file_->GetRecordBatchReader({group.index}, leaves_));
      WantedColumns wanted;
      data::ColumnFailure failure;
      if (!find(*batches_->schema(), wanted, failure))
        return Status::Invalid("the columns of a row group differ from the file's");
      row_in_group_ = 0;
    }
    rows_.clear();
    next_in_batch_ = 0;
    std::shared_ptr<arrow::RecordBatch> batch;
    ARROW_RETURN_NOT_OK(batches_->ReadNext(&batch));
    if (batch == nullptr) {
      if (row_in_group_ != group.num_rows)
        return Status::Invalid("row group ", group.index, " has ", row_in_group_, " rows, and should have ",
                               group.num_rows);
      open_group(group_ + 1);
      return Status::OK();
    }
    ARROW_RETURN_NOT_OK(rows_.set_batch(*batch));
    // After a restart of the group, rows that were already returned are skipped.
    const int64_t given = row_number_ - group.first_row;
    next_in_batch_ = std::clamp<int64_t>(given - row_in_group_, 0, rows_.num_rows());
    row_in_group_ += rows_.num_rows();
    return Status::OK();
  }

  int64_t rows_a_batch(const RowGroup& group) const {
    const auto metadata = file_->parquet_reader()->metadata()->RowGroup(group.index);
    int64_t bytes = 0;
    for (const int leaf : leaves_) {
      // Runs of equal values take almost no bytes, but eight per value when they are decoded (with their levels).
      const auto chunk = metadata->ColumnChunk(leaf);
      const int64_t values = std::clamp<int64_t>(chunk->num_values(), 0, int64_t{1} << 38);
      bytes += std::clamp<int64_t>(chunk->total_uncompressed_size(), 8 * values, int64_t{1} << 42);
    }
    const int64_t a_row = bytes / std::max<int64_t>(1, group.num_rows) + 1;
    return std::clamp<int64_t>(kBatchBytes / a_row, 1, kMostBatchRows);
  }

  std::unique_ptr<parquet::arrow::FileReader> file_;
  std::vector<int> leaves_;
  std::vector<RowGroup> groups_;
  int64_t rows_total_ = 0;

  size_t group_ = 0;
  int64_t batch_rows_ = 0;  // of this group; 0: not chosen yet
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  int64_t row_in_group_ = 0;  // after the batch
};

}  // namespace

std::unique_ptr<data::ColumnRows> open_parquet_rows(const data::ColumnRequest& request, data::ColumnFailure& failure) {
  return opened(std::make_unique<ParquetRows>(request), "the Parquet file", failure);
}

}  // namespace hearth::columnar
