// SPDX-License-Identifier: Apache-2.0
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>

#include <algorithm>

#include "columnar/rows.h"

namespace hearth::columnar {
namespace {

using arrow::Result;
using arrow::Status;
namespace ipc = arrow::ipc;

// The file format is a stream between this magic (with two zeros) and a footer with the places of the batches.
constexpr std::string_view kFileMagic = "ARROW1";
constexpr int64_t kStreamBegin = 8;
// A continuation mark, and a message length of 0.
constexpr std::string_view kEndMark("\xff\xff\xff\xff\0\0\0\0", 8);

// The messages of a stream without the record batches outside of a range. The rows of batches before it are added to
// `row_number`.
class RangeMessages final : public ipc::MessageReader {
 public:
  enum class End { kNotYet, kRange, kMark, kCut };

  RangeMessages(std::shared_ptr<arrow::Buffer> file, int64_t begin, data::SourceRange range,
                const ipc::IpcReadOptions& options, int64_t& row_number)
      : file_(file),
        stream_(std::move(file)),
        range_(range),
        options_(options),
        begin_(begin),
        row_number_(row_number) {}

  Result<std::unique_ptr<ipc::Message>> ReadNextMessage() override {
    if (!started_) ARROW_RETURN_NOT_OK(stream_.Seek(begin_));
    started_ = true;
    for (;;) {
      ARROW_ASSIGN_OR_RAISE(const int64_t at, stream_.Tell());
      ARROW_ASSIGN_OR_RAISE(auto message, ipc::ReadMessage(&stream_, options_.memory_pool));
      ARROW_ASSIGN_OR_RAISE(end_at_, stream_.Tell());
      if (message == nullptr) {
        end_ = end_at_ - at == static_cast<int64_t>(kEndMark.size()) && text(at, kEndMark.size()) == kEndMark
                   ? End::kMark
                   : End::kCut;
        return nullptr;
      }
      if (message->type() != ipc::MessageType::RECORD_BATCH) return message;
      if (at >= range_.end) {
        end_ = End::kRange;
        return nullptr;
      }
      ++num_batches_;
      if (at >= range_.begin) {
        bytes_read_ += end_at_ - at;
        return message;
      }
      ARROW_ASSIGN_OR_RAISE(const int64_t rows, rows_of(*message));
      row_number_ += rows;
    }
  }

  End end() const { return end_; }
  int64_t end_at() const { return end_at_; }        // offset in the file behind the last message
  int num_batches() const { return num_batches_; }  // batches read or counted so far
  int64_t bytes_read() const { return bytes_read_; }

 private:
  std::string_view text(int64_t at, size_t size) const {
    return static_cast<std::string_view>(*file_).substr(static_cast<size_t>(at), size);
  }

  // The rows of a batch; a batch without columns has a length, too.
  Result<int64_t> rows_of(const ipc::Message& message) const {
    const ipc::DictionaryMemo none;
    ipc::IpcReadOptions options = options_;
    options.included_fields.clear();
    ARROW_ASSIGN_OR_RAISE(const auto batch, ipc::ReadRecordBatch(message, arrow::schema({}), &none, options));
    if (batch->num_rows() < 0) return Status::Invalid("a record batch has a negative number of rows");
    return batch->num_rows();
  }

  std::shared_ptr<arrow::Buffer> file_;
  arrow::io::BufferReader stream_;
  data::SourceRange range_;
  ipc::IpcReadOptions options_;
  int64_t begin_;
  int64_t& row_number_;
  bool started_ = false;
  End end_ = End::kNotYet;
  int64_t end_at_ = 0, bytes_read_ = 0;
  int num_batches_ = 0;
};

class IpcRows final : public RowsInBatches {
 public:
  explicit IpcRows(const data::ColumnRequest& request)
      : RowsInBatches(request),
        file_(std::make_shared<arrow::Buffer>(reinterpret_cast<const uint8_t*>(request.file.data()),
                                              static_cast<int64_t>(request.file.size()))) {}

  Status open(data::ColumnFailure& failure) override {
    ipc::IpcReadOptions options;
    options.memory_pool = &memory_;
    options.use_threads = false;
    options.ensure_alignment = ipc::Alignment::kDataTypeSpecificAlignment;
    const int64_t begin = is_file_format() ? kStreamBegin : 0;
    const auto messages = [&](data::SourceRange range) {
      return std::make_unique<RangeMessages>(file_, begin, range, options, row_number_);
    };
    ARROW_ASSIGN_OR_RAISE(const auto whole, ipc::RecordBatchStreamReader::Open(messages({}), options));
    WantedColumns wanted;
    if (!find(*whole->schema(), wanted, failure)) return Status::OK();
    for (const WantedColumn& column : wanted.columns) options.included_fields.push_back(column.column);
    auto& fields = options.included_fields;
    std::ranges::sort(fields);
    fields.erase(std::unique(fields.begin(), fields.end()), fields.end());
    auto in_range = messages(request_.range);
    messages_ = in_range.get();
    ARROW_ASSIGN_OR_RAISE(batches_, ipc::RecordBatchStreamReader::Open(std::move(in_range), options));
    if (!find(*batches_->schema(), wanted, failure)) return Status::Invalid("the file's two schemas differ");
    return Status::OK();
  }

  int64_t bytes_read() const override { return messages_->bytes_read(); }

 private:
  bool is_file_format() const { return static_cast<std::string_view>(*file_).starts_with(kFileMagic); }

  Status advance() override {
    while (next_in_batch_ == rows_.num_rows()) {
      rows_.clear();
      next_in_batch_ = 0;
      std::shared_ptr<arrow::RecordBatch> batch;
      ARROW_RETURN_NOT_OK(batches_->ReadNext(&batch));
      if (batch == nullptr) {
        done_ = true;
        return check_end();
      }
      ARROW_RETURN_NOT_OK(rows_.set_batch(*batch));
    }
    return Status::OK();
  }

  // A stream may be cut between two batches: only its end mark shows that it is whole.
  Status check_end() {
    if (messages_->end() == RangeMessages::End::kRange) return Status::OK();
    if (messages_->end() != RangeMessages::End::kMark)
      return Status::Invalid("it ends without an end mark: it is cut short");
    if (!is_file_format()) {
      return messages_->end_at() == file_->size() ? Status::OK() : Status::Invalid("something follows the end mark");
    }
    arrow::io::BufferReader stream(file_);
    ipc::IpcReadOptions options;
    options.memory_pool = &memory_;
    ARROW_ASSIGN_OR_RAISE(const auto footer, ipc::RecordBatchFileReader::Open(&stream, options));
    if (footer->num_record_batches() == messages_->num_batches()) return Status::OK();
    return Status::Invalid("its footer lists ", footer->num_record_batches(), " record batches, and there are ",
                           messages_->num_batches());
  }

  std::shared_ptr<arrow::Buffer> file_;
  std::shared_ptr<ipc::RecordBatchStreamReader> batches_;
  const RangeMessages* messages_ = nullptr;  // batches_ owns it
};

}  // namespace

std::unique_ptr<data::ColumnRows> open_ipc_rows(const data::ColumnRequest& request, data::ColumnFailure& failure) {
  return opened(std::make_unique<IpcRows>(request), "the Arrow file", failure);
}

}  // namespace hearth::columnar
