#include "data/records.h"

#include "base/error.h"
#include "data/discover.h"
#include "data/utf8.h"

namespace hearth::data {

UnitRecords::UnitRecords(const std::vector<SourceFile>& sources, const Unit& unit, const BuildRules& rules)
    : sources_(sources), unit_(unit), rules_(rules) {}

int64_t UnitRecords::bytes_read() const { return bytes_before_ + (reader_ == nullptr ? 0 : reader_->bytes_read()); }

bool UnitRecords::next_record() {
  const UnitPiece& piece = unit_.pieces[piece_];
  const SourceFile& source = sources_[piece.source];
  if (reader_ == nullptr) {
    check_unchanged(source);
    reader_ = open_source(source, rules_.read, piece.range);
  }
  if (reader_->next(record_)) return true;
  check_unchanged(source);
  bytes_before_ += reader_->bytes_read();
  reader_.reset();
  return false;
}

void UnitRecords::stop() const {
  const SourceFile& source = sources_[unit_.pieces[piece_].source];
  std::string what = fmt::format("{}: {}: {}", source.path, record_.place, record_.why);
  if (record_.problem == Problem::kUnreadable)
    throw damaged(std::move(what), "", "get the file again, or leave out what cannot be read with --on-error skip");
  throw user_error(std::move(what), "",
                   record_.problem == Problem::kNotUnicode
                       ? "correct the record, or put U+FFFD in place of what is wrong with --on-error replace"
                       : "correct the record, or leave out such records with --on-error skip");
}

bool UnitRecords::judge() {
  if (record_.problem != Problem::kNone) {
    if (rules_.on_error == OnError::kStop) stop();
    if (rules_.on_error == OnError::kSkip || record_.problem != Problem::kNotUnicode) {
      ++counts_.skipped[static_cast<size_t>(record_.problem)];
      return false;
    }
    ++counts_.repaired;
  }
  if (rules_.drop_empty && record_.text.empty() && record_.ids.empty()) {
    ++counts_.empty_dropped;
    return false;
  }
  return true;
}

bool UnitRecords::next(Document& document) {
  for (;;) {
    if (piece_ == unit_.pieces.size()) return false;
    if (!next_record()) {
      ++piece_;
      continue;
    }
    if (judge()) break;
  }
  document.source = unit_.pieces[piece_].source;
  document.position = record_.position;
  document.is_ids = gives_ids(sources_[document.source].format);
  document.data = document.is_ids ? std::string_view(reinterpret_cast<const char*>(record_.ids.data()),
                                                     record_.ids.size() * sizeof(uint32_t))
                                  : record_.text;
  document.hash = xxh3_128(document.data);
  document.owner = record_.owner;
  if (!document.is_ids && !record_.is_utf8) {
    const int64_t invalid = count_invalid_utf8(document.data);
    counts_.invalid_utf8_bytes += invalid;
    counts_.invalid_utf8_documents += invalid > 0 ? 1 : 0;
  }
  return true;
}

}  // namespace hearth::data
