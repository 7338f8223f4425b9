// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/normalizer/normalizer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tokenizer/pretokenizer/matches.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {
namespace {

using Kind = NormalizerStep::Kind;

constexpr char32_t kRemoved = 0xFFFFFFFE;

// What Nmt makes of a character. Source: SentencePiece's rules "nmt", as `tokenizers` restates them.
char32_t nmt_of(char32_t c) {
  const auto between = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  if (between(1, 8) || c == 0x0B || between(0x0E, 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F) return kRemoved;
  const bool is_space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || between(0x200B, 0x200F) ||
                        c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  return is_space ? U' ' : c;
}

char32_t without_accents(char32_t c) { return is_mark_of_normalizers(c) ? kRemoved : c; }
char32_t without_nonspacing(char32_t c) { return is_nonspacing_of_bert(c) ? kRemoved : c; }

char32_t bert_clean(char32_t c) {
  if (c == U'\t' || c == U'\n' || c == U'\r') return U' ';
  if (c == 0xFFFD || is_other_of_bert(c)) return kRemoved;
  return is_white_space(c) ? U' ' : c;
}

// The ranges of BERT's own code, as `tokenizers` has them: the last but two begins later than the block that it means.
bool is_chinese(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                                       {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},
                                                       {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

void append_spaced_chinese(std::string_view text, std::string& out) {
  for (size_t at = 0; at < text.size();) {
    const Decoded d = decode_utf8(text, at);
    const char* const space = is_chinese(d.c) ? " " : "";
    out.append(space).append(text, at, d.length).append(space);
    at += d.length;
  }
}

// Appends what `change` makes of each character. False if it removes the first one.
template <typename Change>
bool append_changed(std::string_view text, const Change& change, std::string& out) {
  bool keeps_start = true;
  for (size_t at = 0; at < text.size();) {
    const Decoded d = decode_utf8(text, at);
    const char32_t changed = d.c == kInvalidByte ? d.c : change(d.c);
    if (changed == d.c)
      out.append(text, at, d.length);
    else if (changed != kRemoved)
      append_utf8(changed, out);
    else if (at == 0)
      keeps_start = false;
    at += d.length;
  }
  return keeps_start;
}

std::string_view strip(std::string_view text, bool left, bool right) {
  if (left) text.remove_prefix(skip_white_space(text, 0));
  return right ? text.substr(0, skip_white_space_back(text, text.size(), 0)) : text;
}

}  // namespace

bool replace_all(std::string_view text, std::string_view from, std::string_view to, std::string& out) {
  size_t found = text.find(from);
  if (found == std::string_view::npos) return false;
  out.clear();
  size_t done = 0;
  for (; found != std::string_view::npos; found = text.find(from, done)) {
    out.append(text, done, found - done);
    out += to;
    done = found + from.size();
  }
  out.append(text, done);
  return true;
}

Normalizer::Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)), expressions_(steps_.size()) {
  for (size_t i = 0; i < steps_.size(); ++i)
    if (steps_[i].kind == Kind::kReplaceRegex) expressions_[i].emplace(steps_[i].from);
}

// ASCII white space neither composes nor is put in another order, and the other kinds here look at single characters.
bool Normalizer::has_borders() const {
  return std::all_of(steps_.begin(), steps_.end(), [](const NormalizerStep& step) {
    return step.kind == Kind::kForm || step.kind == Kind::kLowercase || step.kind == Kind::kStripAccents ||
           step.kind == Kind::kNmt;
  });
}

bool Normalizer::keeps(std::string_view text) const {
  std::string now(text), next;
  for (const NormalizerStep& step : steps_) {
    next.clear();
    if (step.kind == Kind::kForm) {
      if (!is_surely_normal(step.form, now)) return false;
    } else if (step.kind == Kind::kLowercase) {
      append_lower(now, next);
      now.swap(next);
    } else {
      append_changed(now, step.kind == Kind::kNmt ? nmt_of : without_accents, next);
      if (next != now) return false;
    }
  }
  return true;
}

Normalizer::Runner::Runner(const Normalizer& rules) : rules_(rules), searches_(rules.expressions_.size()) {
  for (size_t i = 0; i < searches_.size(); ++i) {
    if (const std::optional<Regex>& regex = rules.expressions_[i]) searches_[i].emplace(&*regex, "");
  }
}

std::string_view Normalizer::Runner::run(std::string_view text) {
  keeps_start_ = true;
  for (size_t i = 0; i < rules_.steps_.size(); ++i) {
    const NormalizerStep& step = rules_.steps_[i];
    if (step.kind == Kind::kStrip) {
      const std::string_view stripped = strip(text, step.left, step.right);
      if (stripped.data() != text.data()) keeps_start_ = false;
      text = stripped;
    } else if (!text.empty() && apply(i, text)) {  // `text` may lie in current_, so a step writes to next_
      current_.swap(next_);
      text = current_;
    }
  }
  return text;
}

// Writes the step's result to next_. False if the step changes nothing; next_ is undefined then.
bool Normalizer::Runner::apply(size_t index, std::string_view text) {
  const NormalizerStep& step = rules_.steps_[index];
  if (step.kind == Kind::kReplace) {
    // A replacement takes the place of its match's last character.
    const bool starts = text.starts_with(step.from);
    if (!replace_all(text, step.from, step.to, next_)) return false;
    if (starts && (step.to.empty() || decode_utf8(step.from, 0).length < step.from.size())) keeps_start_ = false;
    return true;
  }
  if (step.kind == Kind::kForm && is_surely_normal(step.form, text)) return false;
  if (step.kind == Kind::kPrepend && step.to.empty()) return false;
  next_.clear();
  if (step.kind == Kind::kForm) {
    append_normal(step.form, text, next_);
  } else if (step.kind == Kind::kPrepend) {
    next_.append(step.to).append(text);
  } else if (step.kind == Kind::kLowercase) {
    append_lower(text, next_);
  } else if (step.kind == Kind::kStripAccents) {
    if (!append_changed(text, without_accents, next_)) keeps_start_ = false;
  } else if (step.kind == Kind::kNmt) {
    if (!append_changed(text, nmt_of, next_)) keeps_start_ = false;
  } else if (step.kind == Kind::kBertClean) {
    if (!append_changed(text, bert_clean, next_)) keeps_start_ = false;
  } else if (step.kind == Kind::kBertNonspacing) {
    if (!append_changed(text, without_nonspacing, next_)) keeps_start_ = false;
  } else if (step.kind == Kind::kBertChinese) {
    append_spaced_chinese(text, next_);
  } else if (step.kind == Kind::kCharsmap) {
    step.charsmap->append(text, next_);
  } else {
    replace_matches(index, text);
  }
  return true;
}

void Normalizer::Runner::replace_matches(size_t index, std::string_view text) {
  const std::string& to = rules_.steps_[index].to;
  Matches& matches = *searches_[index];
  matches.start(text);
  for (Stretch stretch{}; matches.next(stretch);) {
    if (!stretch.is_match) {
      next_.append(text, stretch.begin, stretch.end - stretch.begin);
      continue;
    }
    if (stretch.begin == 0 && stretch.end > 0 && (to.empty() || decode_utf8(text, 0).length < stretch.end))
      keeps_start_ = false;
    next_ += to;
  }
}

}  // namespace hearth::tokenizer
