// SPDX-License-Identifier: Apache-2.0
#include "columnar/table_writer.h"

#include <arrow/builder.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/util/key_value_metadata.h>

#include "columnar/rows.h"

namespace hearth::columnar {
namespace {

using arrow::Status;

constexpr int64_t kBatchRows = 1000;        // as in `datasets`
constexpr int64_t kBatchBytes = 256 << 20;  // fewer rows if they are long: limits memory and 32-bit offsets

class SinkStream final : public arrow::io::OutputStream {
 public:
  explicit SinkStream(data::ByteSink& sink) : sink_(sink) {}

  using OutputStream::Write;
  Status Write(const void* bytes, int64_t size) override {
    if (!sink_.write({static_cast<const std::byte*>(bytes), static_cast<size_t>(size)}))
      return Status::IOError("writing failed");
    position_ += size;
    return Status::OK();
  }
  Status Close() override {
    closed_ = true;
    return Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }

 private:
  data::ByteSink& sink_;
  int64_t position_ = 0;
  bool closed_ = false;
};

// Appends values to one column.
class Builder {
 public:
  virtual ~Builder() = default;
  virtual arrow::ArrayBuilder& any() = 0;
  virtual Status add(std::string_view) { return Status::TypeError("the column holds lists"); }
  virtual Status add(std::span<const int32_t>) { return Status::TypeError("the column holds no ids"); }
  virtual Status add(std::span<const float>) { return Status::TypeError("the column holds no weights"); }
};

class TextBuilder final : public Builder {
 public:
  arrow::ArrayBuilder& any() override { return texts_; }
  Status add(std::string_view text) override { return texts_.Append(text); }

 private:
  arrow::StringBuilder texts_;
};

// Lists of integers, or of weights.
template <typename ValueBuilder>
class ListBuilder final : public Builder {
 public:
  using Value = typename ValueBuilder::value_type;

  arrow::ArrayBuilder& any() override { return lists_; }
  Status add(std::span<const int32_t> ids) override {
    if constexpr (std::is_same_v<Value, float>) return Builder::add(ids);
    if constexpr (std::is_same_v<Value, int32_t>) return append(ids);
    converted_.assign(ids.begin(), ids.end());
    return append(std::span<const Value>(converted_));
  }
  Status add(std::span<const float> weights) override {
    if constexpr (std::is_same_v<Value, float>) return append(weights);
    return Builder::add(weights);
  }

 private:
  Status append(std::span<const Value> values) {
    ARROW_RETURN_NOT_OK(lists_.Append());
    return values_->AppendValues(values.data(), static_cast<int64_t>(values.size()));
  }

  std::shared_ptr<ValueBuilder> values_ = std::make_shared<ValueBuilder>();
  arrow::ListBuilder lists_{arrow::default_memory_pool(), values_};
  std::vector<Value> converted_;
};

std::unique_ptr<Builder> builder_of(data::SavedType type) {
  switch (type) {
    case data::SavedType::kInt8List:
      return std::make_unique<ListBuilder<arrow::Int8Builder>>();
    case data::SavedType::kInt32List:
      return std::make_unique<ListBuilder<arrow::Int32Builder>>();
    case data::SavedType::kInt64List:
      return std::make_unique<ListBuilder<arrow::Int64Builder>>();
    case data::SavedType::kFloatList:
      return std::make_unique<ListBuilder<arrow::FloatBuilder>>();
    case data::SavedType::kText:
      break;
  }
  return std::make_unique<TextBuilder>();
}

int64_t value_bytes(data::SavedType type) {
  using data::SavedType;
  return type == SavedType::kInt64List ? 8 : type == SavedType::kInt32List || type == SavedType::kFloatList ? 4 : 1;
}

class Writer final : public data::TableWriter {
 public:
  explicit Writer(data::ByteSink& sink) : stream_(sink) {}

  Status open(const std::vector<data::SavedColumn>& columns, std::string_view metadata) {
    arrow::FieldVector fields;
    for (const data::SavedColumn& column : columns) {
      builders_.push_back(builder_of(column.type));
      value_bytes_.push_back(value_bytes(column.type));
      fields.push_back(arrow::field(column.name, builders_.back()->any().type()));
    }
    schema_ = arrow::schema(std::move(fields), arrow::key_value_metadata({{"huggingface", std::string(metadata)}}));
    auto options = arrow::ipc::IpcWriteOptions::Defaults();
    options.use_threads = false;
    ARROW_ASSIGN_OR_RAISE(writer_, arrow::ipc::MakeStreamWriter(&stream_, schema_, options));
    return Status::OK();
  }

  std::string add_text(size_t column, std::string_view text) override { return add(column, text); }
  std::string add_ids(size_t column, std::span<const int32_t> ids) override { return add(column, ids); }
  std::string add_weights(size_t column, std::span<const float> weights) override { return add(column, weights); }
  std::string end_row() override {
    return said([&] { return ++batch_rows_ == kBatchRows || batch_bytes_ >= kBatchBytes ? flush() : Status::OK(); });
  }
  std::string finish() override {
    return said([&]() -> Status {
      if (batch_rows_ > 0) ARROW_RETURN_NOT_OK(flush());
      return writer_->Close();
    });
  }

 private:
  template <typename Body>
  static std::string said(Body body) {
    const Status status = guarded(body);
    return status.ok() ? std::string() : message_of(status);
  }

  template <typename Value>
  std::string add(size_t column, Value value) {
    return said([&] {
      batch_bytes_ += static_cast<int64_t>(value.size()) * value_bytes_.at(column);
      return builders_.at(column)->add(value);
    });
  }

  Status flush() {
    arrow::ArrayVector arrays;
    for (const auto& builder : builders_) ARROW_RETURN_NOT_OK(builder->any().Finish(&arrays.emplace_back()));
    const auto batch = arrow::RecordBatch::Make(schema_, std::exchange(batch_rows_, 0), std::move(arrays));
    batch_bytes_ = 0;
    return writer_->WriteRecordBatch(*batch);
  }

  SinkStream stream_;
  std::vector<std::unique_ptr<Builder>> builders_;
  std::vector<int64_t> value_bytes_;
  std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
  int64_t batch_rows_ = 0, batch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<data::TableWriter> new_table_writer(const std::vector<data::SavedColumn>& columns,
                                                    std::string_view metadata, data::ByteSink& sink,
                                                    std::string& error) {
  auto writer = std::make_unique<Writer>(sink);
  const Status status = guarded([&] { return writer->open(columns, metadata); });
  if (status.ok()) return writer;
  error = message_of(status);
  return nullptr;
}

}  // namespace hearth::columnar
