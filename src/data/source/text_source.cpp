// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "data/formats/byte_stream.h"
#include "data/formats/stream_buffer.h"
#include "data/source/foreign_kind.h"
#include "data/source/readers.h"

namespace hearth::data {
namespace {

// Smaller files are read instead: a corpus may have more files than a process may map.
constexpr int64_t kMappedBytes = 1 << 20;

class TextReader final : public SourceReader {
 public:
  TextReader(const SourceFile& file, const ReadRules& rules)
      : document_bytes_(static_cast<size_t>(rules.document_bytes)) {
    if (file.compression != Compression::kNone) {
      inflate(file, rules.max_record_bytes);
      if (problem_.problem != RecordProblem::kNone) content_.clear();
      text_ = content_;
    } else if (file.size_bytes < kMappedBytes) {
      content_ = read_file(file.real_path);
      text_ = content_;
    } else {
      mapped_ = std::make_shared<const MappedFile>(file.real_path);
      text_ = {reinterpret_cast<const char*>(mapped_->bytes().data()), mapped_->bytes().size()};
    }
    if (text_.starts_with(kByteOrderMark)) begin_ = kByteOrderMark.size();
  }

  bool next(Record& record) override {
    if (problem_.problem != RecordProblem::kNone) {
      record = std::exchange(problem_, {});
      return true;
    }
    if (begin_ == text_.size()) return false;
    size_t end = text_.size();
    if (document_bytes_ > 0 && text_.size() - begin_ > document_bytes_) {
      const size_t line_end = text_.find('\n', begin_ + document_bytes_ - 1);
      if (line_end != std::string_view::npos) end = line_end + 1;
    }
    record = {};
    record.position = static_cast<int64_t>(begin_);
    record.text = text_.substr(begin_, end - begin_);
    record.owner = mapped_;
    begin_ = end;
    return true;
  }

  int64_t bytes_read() const override { return static_cast<int64_t>(begin_); }

 private:
  void inflate(const SourceFile& file, int64_t max_bytes) {
    problem_.location = "the text";
    try {
      const auto stream = open_stream(file.real_path, file.compression);
      std::string chunk(kMappedBytes, '\0');
      for (size_t n; (n = stream->read(chunk)) > 0;) {
        content_.append(chunk, 0, n);
        if (std::ssize(content_) > max_bytes) return problem_.fail_as_too_long(max_bytes);
      }
      if (file.any_bytes) return;
      const auto kind = foreign_rest(std::ssize(content_), [&](int64_t position) {
        return std::string_view(content_).substr(static_cast<size_t>(position), kKindBytes);
      });
      if (kind)
        problem_.fail(RecordProblem::kUnreadable, fmt::format("it is {}: {}", kind->name, kind->why),
                      kind->fix + "; leave it out with --on-error skip, or read its bytes as they are with --as-text");
    } catch (const Error& e) {
      if (e.code() != ExitCode::kDamaged) throw;
      problem_.fail_as_unreadable(e);
    }
  }

  size_t document_bytes_;
  Record problem_;  // instead of the text
  std::string content_;
  std::shared_ptr<const MappedFile> mapped_;
  std::string_view text_;
  size_t begin_ = 0;  // of the next document
};

}  // namespace

std::unique_ptr<SourceReader> open_text_source(const SourceFile& file, const ReadRules& rules, SourceRange /*whole*/) {
  return std::make_unique<TextReader>(file, rules);
}

}  // namespace hearth::data
