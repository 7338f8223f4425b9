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

constexpr int64_t kBatchRows = 1000;        // what `datasets` writes
constexpr int64_t kBatchBytes = 256 << 20;  // fewer rows where they are long: memory, and 32-bit offsets

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

// Appends to one column.
struct Builder {
  std::unique_ptr<arrow::StringBuilder> text;
  std::shared_ptr<arrow::Int32Builder> values;
  std::unique_ptr<arrow::ListBuilder> ids;
  arrow::ArrayBuilder& any() const {
    return text != nullptr ? static_cast<arrow::ArrayBuilder&>(*text) : static_cast<arrow::ArrayBuilder&>(*ids);
  }
};

class Writer final : public data::TableWriter {
 public:
  explicit Writer(data::ByteSink& sink) : stream_(sink) {}

  Status open(const std::vector<data::SavedColumn>& columns, std::string_view metadata) {
    arrow::FieldVector fields;
    for (const data::SavedColumn& column : columns) {
      Builder& builder = builders_.emplace_back();
      if (column.type == data::SavedType::kText) {
        builder.text = std::make_unique<arrow::StringBuilder>();
      } else {
        builder.values = std::make_shared<arrow::Int32Builder>();
        builder.ids = std::make_unique<arrow::ListBuilder>(arrow::default_memory_pool(), builder.values);
      }
      fields.push_back(arrow::field(column.name, builder.any().type()));
    }
    schema_ = arrow::schema(std::move(fields), arrow::key_value_metadata({{"huggingface", std::string(metadata)}}));
    auto options = arrow::ipc::IpcWriteOptions::Defaults();
    options.use_threads = false;
    ARROW_ASSIGN_OR_RAISE(writer_, arrow::ipc::MakeStreamWriter(&stream_, schema_, options));
    return Status::OK();
  }

  std::string add_text(size_t column, std::string_view text) override {
    return said([&] {
      batch_bytes_ += static_cast<int64_t>(text.size());
      return builders_.at(column).text->Append(text);
    });
  }
  std::string add_ids(size_t column, std::span<const int32_t> ids) override {
    return said([&]() -> Status {
      const Builder& builder = builders_.at(column);
      batch_bytes_ += static_cast<int64_t>(ids.size_bytes());
      ARROW_RETURN_NOT_OK(builder.ids->Append());
      return builder.values->AppendValues(ids.data(), static_cast<int64_t>(ids.size()));
    });
  }
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

  Status flush() {
    arrow::ArrayVector arrays;
    for (const Builder& builder : builders_) ARROW_RETURN_NOT_OK(builder.any().Finish(&arrays.emplace_back()));
    const auto batch = arrow::RecordBatch::Make(schema_, std::exchange(batch_rows_, 0), std::move(arrays));
    batch_bytes_ = 0;
    return writer_->WriteRecordBatch(*batch);
  }

  SinkStream stream_;
  std::vector<Builder> builders_;
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
