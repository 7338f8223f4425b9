#include "data/text_source.h"

namespace hearth::data {
namespace {

// Smaller files are read: a process may not map as many files as a corpus has.
constexpr int64_t kMappedBytes = 1 << 20;

class TextReader final : public SourceReader {
 public:
  TextReader(const Path& path, int64_t document_bytes) : document_bytes_(static_cast<size_t>(document_bytes)) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (!error && static_cast<int64_t>(size) < kMappedBytes) {
      content_ = read_file(path);
      text_ = content_;
      return;
    }
    mapped_ = std::make_shared<const MappedFile>(path);
    text_ = {reinterpret_cast<const char*>(mapped_->bytes().data()), mapped_->bytes().size()};
  }

  bool next(Record& record) override {
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
  size_t document_bytes_;
  std::string content_;
  std::shared_ptr<const MappedFile> mapped_;
  std::string_view text_;
  size_t begin_ = 0;  // of the next document
};

}  // namespace

std::unique_ptr<SourceReader> open_text_source(const Path& path, const ReadRules& rules) {
  return std::make_unique<TextReader>(path, rules.document_bytes);
}

}  // namespace hearth::data
