// SPDX-License-Identifier: Apache-2.0
#include "data/build/portion_reader.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "data/formats/utf8.h"
#include "data/source/discover.h"
#include "recordings/spike_vocabulary.h"

namespace hearth::data {
namespace {

// The text whose hash is the identity of a document with weights: never change.
std::string weighted_text(const Document& document) {
  std::string text = to_hex(document.hash);
  for (const WeightRuns::Run& run : document.weights.runs())
    text += fmt::format(" {} {:08x}", run.end, std::bit_cast<uint32_t>(run.weight));
  return text;
}

}  // namespace

PortionReader::PortionReader(const std::vector<SourceFile>& sources, const Portion& portion, const BuildRules& rules)
    : sources_(sources), portion_(portion), rules_(rules), largest_count_(255) {
  // Patches have their own ids; a plain count equal to BOS would be taken for BOS.
  if (const auto vocab_size = recordings::parse_spikes_name(rules.tokenizer))
    largest_count_ = static_cast<int>(*vocab_size - 2);
}

int64_t PortionReader::bytes_read() const { return bytes_before_ + (reader_ == nullptr ? 0 : reader_->bytes_read()); }

bool PortionReader::next_record() {
  const PortionPiece& piece = portion_.pieces[piece_];
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

void PortionReader::stop() const {
  const SourceFile& source = sources_[portion_.pieces[piece_].source];
  std::string what = fmt::format("{}: {}: {}", source.path, record_.location, record_.why);
  if (record_.problem == RecordProblem::kUnreadable)
    throw damaged(
        std::move(what), "",
        record_.fix.empty() ? "get the file again, or leave out unreadable records with --on-error skip" : record_.fix);
  if (!record_.fix.empty()) throw user_error(std::move(what), "", record_.fix);
  throw user_error(std::move(what), "",
                   record_.problem == RecordProblem::kNotUnicode
                       ? "correct the record, or replace its invalid parts by U+FFFD with --on-error replace"
                       : "correct the record, or leave out such records with --on-error skip");
}

void PortionReader::check_array() {
  const auto& [shape, counts, labels] = *record_.array;
  if (shape.neurons == 0) return record_.fail(RecordProblem::kWrongType, "it has no neurons");
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i].size() > recordings::kMostLabelBytes)
      return record_.fail(
          RecordProblem::kTooLong,
          fmt::format("its {} is longer than {} bytes", recordings::kLabelNames[i], recordings::kMostLabelBytes));
    if (labels[i].find('\0') != std::string::npos)
      return record_.fail(RecordProblem::kWrongType, fmt::format("its {} has a zero byte", recordings::kLabelNames[i]));
  }
  const auto large = std::ranges::find_if(counts, [this](int count) { return count > largest_count_; });
  if (large == counts.end()) return;
  const auto at = static_cast<int64_t>(large - counts.begin());
  record_.fail(
      RecordProblem::kWrongType,
      fmt::format("neuron {} has the count {} in time bin {}, but {} is BOS{}", at % shape.neurons, *large,
                  at / shape.neurons, largest_count_ + 1,
                  *large == largest_count_ + 1 ? "" : fmt::format(" and {} the largest count", largest_count_)));
}

bool PortionReader::judge() {
  if (record_.array != nullptr && !rules_.source_dataset.empty() &&
      record_.array->labels[recordings::kSourceDataset] != rules_.source_dataset) {
    ++counts_.other_source_dataset;
    return false;
  }
  const bool may_stay = record_.problem == RecordProblem::kNone || record_.problem == RecordProblem::kNotUnicode;
  if (record_.array != nullptr && may_stay) check_array();
  if (record_.problem != RecordProblem::kNone) {
    if (rules_.on_error == OnError::kStop) stop();
    if (rules_.on_error == OnError::kSkip || record_.problem != RecordProblem::kNotUnicode) {
      ++counts_.skipped[static_cast<size_t>(record_.problem)];
      return false;
    }
    ++counts_.repaired;
  }
  const bool no_counts = record_.array == nullptr || record_.array->counts.empty();
  if (rules_.drop_empty && record_.text.empty() && record_.ids.empty() && no_counts) {
    ++counts_.empty_dropped;
    return false;
  }
  return true;
}

bool PortionReader::next(Document& document) {
  for (;;) {
    if (piece_ == portion_.pieces.size()) return false;
    if (!next_record()) {
      ++piece_;
      continue;
    }
    if (judge()) break;
  }
  document.source = portion_.pieces[piece_].source;
  document.position = record_.position;
  document.is_ids = record_.is_ids;
  document.data = document.is_ids ? std::string_view(reinterpret_cast<const char*>(record_.ids.data()),
                                                     record_.ids.size() * sizeof(uint32_t))
                                  : record_.text;
  document.owner = record_.owner;
  document.array = record_.array;
  document.weights = record_.weights.all_one() ? WeightRuns() : std::move(record_.weights);
  if (document.array != nullptr) {
    const auto& counts = document.array->counts;
    document.data = {reinterpret_cast<const char*>(counts.data()), counts.size()};
    document.owner = document.array;
  }
  document.hash = xxh3_128(document.data);
  if (document.array != nullptr) {
    const recordings::ArrayShape shape = document.array->shape;
    document.hash = xxh3_128(fmt::format("{} {} {}", shape.neurons, shape.bins, to_hex(document.hash)));
  }
  document.content = document.hash;
  if (!document.weights.empty()) document.content = xxh3_128(weighted_text(document));
  if (!document.is_ids && document.array == nullptr && !record_.is_utf8) {
    const int64_t invalid = count_invalid_utf8(document.data);
    counts_.invalid_utf8_bytes += invalid;
    counts_.invalid_utf8_documents += invalid > 0 ? 1 : 0;
  }
  return true;
}

}  // namespace hearth::data
