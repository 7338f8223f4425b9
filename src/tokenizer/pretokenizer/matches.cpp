// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/pretokenizer/matches.h"

#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {
namespace {

constexpr char32_t kSubstitute = 0xFFFF;
constexpr size_t kSubstituteBytes = 3;

}  // namespace

Matches::Matches(const Regex* regex, std::string_view literal) : literal_(literal) {
  if (regex != nullptr) matcher_.emplace(*regex);
}

void Matches::start(std::string_view text) {
  text_ = subject_ = text;
  substituted_.clear();
  substitutes_.clear();
  substitutes_passed_ = from_ = gap_begin_ = 0;
  last_match_end_.reset();
  waiting_.reset();
  is_done_ = text.empty();
  if (!matcher_) return;
  size_t copied = 0;
  for (size_t at = 0; at < text.size();) {
    const Decoded d = decode_utf8(text, at);
    if (d.c == kInvalidByte) {
      substituted_.append(text, copied, at - copied);
      substitutes_.push_back(substituted_.size());
      append_utf8(kSubstitute, substituted_);
      copied = at + 1;
    }
    at += d.length;
  }
  if (substitutes_.empty()) return;
  substituted_.append(text, copied);
  subject_ = substituted_;
}

// `place` must not decrease from call to call.
size_t Matches::place_in_text(size_t place) {
  while (substitutes_passed_ < substitutes_.size() && substitutes_[substitutes_passed_] < place) ++substitutes_passed_;
  return place - substitutes_passed_ * (kSubstituteBytes - 1);
}

bool Matches::find(Regex::Match& match) {
  if (!matcher_) {
    const size_t found = literal_.empty() ? std::string_view::npos : subject_.find(literal_, from_);
    match = {found, found + literal_.size()};
    from_ = match.end;
    return found != std::string_view::npos;
  }
  while (from_ <= subject_.size() && matcher_->find(subject_, from_, match)) {
    if (match.begin != match.end || last_match_end_ != match.end) {
      from_ = match.end;
      last_match_end_ = match.end;
      return true;
    }
    // An empty match at the end of the last match does not count.
    from_ = match.end + (match.end < subject_.size() ? decode_utf8(subject_, match.end).length : 1);
  }
  return false;
}

bool Matches::next(Stretch& stretch) {
  if (waiting_) {
    stretch = *waiting_;
    waiting_.reset();
    return true;
  }
  if (is_done_) return false;
  Regex::Match match;
  if (!find(match)) {
    is_done_ = true;
    if (gap_begin_ == text_.size()) return false;
    stretch = {gap_begin_, text_.size(), false};
    return true;
  }
  const size_t begin = place_in_text(match.begin);
  const Stretch found{begin, place_in_text(match.end), true};
  if (begin == gap_begin_) {
    stretch = found;
  } else {
    stretch = {gap_begin_, begin, false};
    waiting_ = found;
  }
  gap_begin_ = found.end;
  return true;
}

}  // namespace hearth::tokenizer
