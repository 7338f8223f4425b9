// SPDX-License-Identifier: Apache-2.0
#include "data/formats/json_scanner.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::data {
namespace {

constexpr int kMaxDepth = 500;  // of nested lists and objects; Python gives up at about 1000
constexpr size_t kNamedKeys = 12;

// True if one of eight bytes ends a run of plain characters: a quote, a backslash or a control character.
// (The tests for a zero byte and for a byte below n are from "Bit Twiddling Hacks". Each is exact for "is there one".)
bool ends_plain_run(uint64_t eight) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHighs = 0x8080808080808080;
  const auto has_zero = [](uint64_t x) { return (x - kOnes) & ~x & kHighs; };
  const uint64_t control = (eight - kOnes * 0x20) & ~eight & kHighs;
  return (has_zero(eight ^ (kOnes * '"')) | has_zero(eight ^ (kOnes * '\\')) | control) != 0;
}

}  // namespace

JsonScanner::JsonScanner(std::string_view json, const std::vector<std::string>& keys, size_t num_texts,
                         std::vector<std::vector<JsonPart>>& parts)
    : begin_(json.data()),
      p_(json.data()),
      end_(json.data() + json.size()),
      keys_(keys),
      num_texts_(num_texts),
      parts_(parts) {}

// A word, a number or an escape that the end cuts off fails at its own beginning.
bool JsonScanner::failed_at_end() const {
  constexpr ptrdiff_t kLongest = 8;
  return end_ - p_ <= kLongest;
}

void JsonScanner::scan() {
  std::vector<Wanted> wanted;
  for (size_t k = 0; k < keys_.size(); ++k) wanted.push_back({k, 0});
  skip_space();
  if (p_ != end_ && *p_ == '[') throw JsonFailure(RecordProblem::kMalformed, "it is a list instead of a JSON object");
  if (p_ != end_ && *p_ == '"') throw JsonFailure(RecordProblem::kMalformed, "it is a string instead of a JSON object");
  if (p_ == end_ || *p_ != '{') fail("it is not a JSON object");
  value(wanted, 0);
  skip_space();
  if (p_ != end_) fail("something follows the object");
  for (const std::string& problem : wrong_) {
    if (!problem.empty()) throw JsonFailure(RecordProblem::kWrongType, problem);
  }
  for (const std::string& problem : missing_) {
    if (!problem.empty()) throw JsonFailure(RecordProblem::kMissingKey, problem);
  }
}

void JsonScanner::fail(std::string_view what) const {
  throw JsonFailure(RecordProblem::kMalformed, fmt::format("not JSON at column {}: {}", p_ - begin_ + 1, what));
}

void JsonScanner::skip_space() {
  while (p_ != end_ && (*p_ == ' ' || *p_ == '\t' || *p_ == '\n' || *p_ == '\r')) ++p_;
}

char JsonScanner::peek() {
  skip_space();
  if (p_ == end_) fail("it ends early");
  return *p_;
}

bool JsonScanner::take(char c) {
  if (peek() != c) return false;
  ++p_;
  return true;
}

void JsonScanner::value(const std::vector<Wanted>& wanted, int depth, bool in_list) {
  if (depth > kMaxDepth) fail("lists and objects are nested too deeply");
  const char c = peek();
  if (c == '[') {
    list(wanted, depth);
  } else if (c == '{') {
    note_wrong_type(wanted, "an object");
    object(wanted, depth);
  } else if (c == '"') {
    string(wanted);
  } else {
    const std::string_view one = in_list ? "a list of numbers" : "a number";
    const std::string_view kind = c == 'n' ? "null" : c == 't' || c == 'f' ? "a truth value" : one;
    const char* begin = p_;
    if (c == '-' || (c >= '0' && c <= '9'))
      number();
    else
      word();
    if (std::string_view(begin, p_) != "null") keep_number(wanted, std::string(begin, p_));
    note_wrong_type(wanted, kind);
    note_dead_end(wanted, kind);
  }
}

void JsonScanner::list(const std::vector<Wanted>& wanted, int depth) {
  ++p_;
  int64_t num_elements = 0;
  while (!take(']')) {
    if (num_elements > 0 && !take(',')) fail("a comma or ] is expected");
    value(wanted, depth + 1, /*in_list=*/true);
    ++num_elements;
  }
  if (depth == 1 && in_kept_) members_.back().num_elements = num_elements;
}

void JsonScanner::object(const std::vector<Wanted>& wanted, int depth) {
  const char* object_begin = p_++;
  std::vector<size_t> had(wanted.size());  // parts before this object: a repeated key drops later ones
  std::vector<bool> found(wanted.size()), literal(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) had[i] = parts_[wanted[i].key].size();
  std::vector<Wanted> below;
  if (!take('}')) {
    for (;;) {
      if (peek() != '"') fail("a key in quotes is expected");
      member_name(wanted, depth);
      if (!take(':')) fail("a colon is expected");
      below.clear();
      for (size_t i = 0; i < wanted.size(); ++i) {
        const size_t rest = match(wanted[i]);
        const bool whole = rest == keys_[wanted[i].key].size();
        if (rest == std::string::npos || (literal[i] && !whole)) continue;
        found[i] = true;
        literal[i] = whole;
        parts_[wanted[i].key].resize(had[i]);
        clear_notes(wanted[i].key);
        below.push_back({wanted[i].key, rest});
      }
      value(below, depth + 1);
      if (take('}')) break;
      if (!take(',')) fail("a comma or } is expected");
    }
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!found[i] && wanted[i].offset < keys_[wanted[i].key].size()) note_missing(wanted[i], object_begin);
  }
}

// Puts the name into name_ if a wanted key may match it, or if the member is kept.
void JsonScanner::member_name(const std::vector<Wanted>& wanted, int depth) {
  const bool keep = keeps_members_ && depth == 0 && members_.size() < kMostMembers;
  name_.clear();
  scan_string(wanted.empty() && !keep ? nullptr : &name_);
  if (keep) members_.push_back({name_});
  if (depth == 0) in_kept_ = keep;
}

// Offset after name_ in the wanted key; npos: another name.
size_t JsonScanner::match(const Wanted& wanted) const {
  const std::string& key = keys_[wanted.key];
  const std::string_view rest = std::string_view(key).substr(wanted.offset);
  if (rest.empty()) return std::string::npos;
  if (rest == name_) return key.size();
  if (rest.size() > name_.size() && rest.starts_with(name_) && rest[name_.size()] == '.')
    return wanted.offset + name_.size() + 1;
  return std::string::npos;
}

void JsonScanner::keep_number(const std::vector<Wanted>& wanted, const std::string& number) {
  for (const Wanted& w : wanted)
    if (w.offset == keys_[w.key].size() && w.key >= num_texts_) parts_[w.key].push_back({number});
}

void JsonScanner::string(const std::vector<Wanted>& wanted) {
  const auto here = [&](const Wanted& w) { return w.offset == keys_[w.key].size() && w.key < num_texts_; };
  const auto first = std::ranges::find_if(wanted, here);
  note_dead_end(wanted, "a string");
  note_wrong_type(wanted, "a string");
  if (first == wanted.end()) {
    scan_string(nullptr);
    return;
  }
  JsonPart part;
  lone_surrogate_ = false;
  scan_string(&part.text);
  part.repaired = lone_surrogate_;
  for (auto w = first + 1; w != wanted.end(); ++w) {
    if (here(*w)) parts_[w->key].push_back(part);
  }
  parts_[first->key].push_back(std::move(part));
}

// Scans a string, with both of its quotes. `out` may be null.
void JsonScanner::scan_string(std::string* out) {
  ++p_;
  for (;;) {
    const char* run = p_;
    uint64_t eight = 0;
    while (end_ - p_ >= 8 && (std::memcpy(&eight, p_, 8), !ends_plain_run(eight))) p_ += 8;
    while (p_ != end_ && *p_ != '"' && *p_ != '\\' && static_cast<unsigned char>(*p_) >= 0x20) ++p_;
    if (out != nullptr) out->append(run, p_);
    if (p_ == end_) fail("a string has no end");
    if (*p_ == '"') break;
    if (*p_ != '\\') fail("a control character in a string");
    escape(out);
  }
  ++p_;
}

void JsonScanner::escape(std::string* out) {
  if (end_ - p_ < 2) fail("a string has no end");
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  const size_t i = kLetters.find(p_[1]);
  if (i != std::string_view::npos) {
    if (out != nullptr) out->push_back(kMeanings[i]);
    p_ += 2;
    return;
  }
  uint32_t c = code_unit();
  if (c >= 0xD800 && c < 0xDC00 && end_ - p_ >= 2 && p_[0] == '\\' && p_[1] == 'u') {
    const char* second = p_;
    const uint32_t low = code_unit();
    if (low >= 0xDC00 && low < 0xE000)
      c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    else
      p_ = second;
  }
  if (c >= 0xD800 && c < 0xE000) {
    lone_surrogate_ = true;
    c = 0xFFFD;
  }
  if (out != nullptr) tokenizer::append_utf8(c, *out);
}

uint32_t JsonScanner::code_unit() {
  if (p_[1] != 'u' || end_ - p_ < 6) fail("an unknown escape in a string");
  uint32_t value = 0;
  for (int i = 2; i < 6; ++i) {
    const char c = p_[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) fail("an unknown escape in a string");
    value = value << 4 | static_cast<uint32_t>(digit);
  }
  p_ += 6;
  return value;
}

bool JsonScanner::digits() {
  const char* first = p_;
  while (p_ != end_ && *p_ >= '0' && *p_ <= '9') ++p_;
  return p_ != first;
}

void JsonScanner::number() {
  if (std::string_view(p_, end_).starts_with("-Infinity")) {
    p_ += 9;
    return;
  }
  if (*p_ == '-') ++p_;
  const bool zero = p_ != end_ && *p_ == '0';
  if (zero) ++p_;
  if (!zero && !digits()) fail("a number has no digits");
  if (p_ != end_ && *p_ == '.' && (++p_, !digits())) fail("a number has no digits after its point");
  if (p_ != end_ && (*p_ == 'e' || *p_ == 'E')) {
    ++p_;
    if (p_ != end_ && (*p_ == '+' || *p_ == '-')) ++p_;
    if (!digits()) fail("a number has no digits in its exponent");
  }
}

void JsonScanner::word() {
  for (const std::string_view known : {"true", "false", "null", "NaN", "Infinity"}) {
    if (!std::string_view(p_, end_).starts_with(known)) continue;
    p_ += known.size();
    return;
  }
  fail("a value is expected");
}

void JsonScanner::note(std::vector<std::string>& notes, size_t key, std::string what) const {
  notes.resize(keys_.size());
  notes[key] = std::move(what);
}

void JsonScanner::clear_notes(size_t key) {
  if (!wrong_.empty()) wrong_[key].clear();
  if (!missing_.empty()) missing_[key].clear();
}

// Notes the keys that need another type than `kind`.
void JsonScanner::note_wrong_type(const std::vector<Wanted>& wanted, std::string_view kind) {
  for (const Wanted& w : wanted) {
    const bool is_text = w.key < num_texts_;
    const bool fits = is_text ? kind == "a string" : kind != "a string" && kind != "null" && kind != "an object";
    if (w.offset == keys_[w.key].size() && !fits)
      note(wrong_, w.key,
           fmt::format("\"{}\" is {} instead of a {}", keys_[w.key], kind, is_text ? "string" : "number"));
  }
}

// Notes the keys that go on below a value without members.
void JsonScanner::note_dead_end(const std::vector<Wanted>& wanted, std::string_view kind) {
  for (const Wanted& w : wanted) {
    if (w.offset < keys_[w.key].size())
      note(missing_, w.key,
           fmt::format("it has no key \"{}\": \"{}\" is {}", keys_[w.key],
                       std::string_view(keys_[w.key]).substr(0, w.offset == 0 ? 0 : w.offset - 1), kind));
  }
}

// Says what the object has instead.
void JsonScanner::note_missing(const Wanted& wanted, const char* object_begin) {
  const std::string& key = keys_[wanted.key];
  const std::string_view above = std::string_view(key).substr(0, wanted.offset == 0 ? 0 : wanted.offset - 1);
  std::vector<std::string> names = keys_of_json({object_begin, p_});
  for (std::string& name : names) name = fmt::format("\"{}\"", printable(name));
  const std::string whose = above.empty() ? "its keys are" : fmt::format("the keys of \"{}\" are", above);
  note(missing_, wanted.key,
       names.empty() ? fmt::format("it has no key \"{}\": the object is empty", key)
                     : fmt::format("it has no key \"{}\": {} {}", key, whose, join_first(names, kNamedKeys)));
}

}  // namespace hearth::data
