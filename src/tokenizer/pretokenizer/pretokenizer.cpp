// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/pretokenizer/pretokenizer.h"

#include <optional>

#include "tokenizer/pretokenizer/cutters.h"
#include "tokenizer/pretokenizer/matches.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {
namespace {

constexpr size_t kBatch = 512;

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Whether a text may be cut at `at` by every pattern with KnownPattern::cuts_words.
bool is_between_words(std::string_view text, size_t at) {
  if (text[at] == ' ') return is_ascii_letter(text[at - 1]) && at + 1 < text.size() && is_ascii_letter(text[at + 1]);
  if (text[at - 1] != '\n' || at < 2) return false;
  const char32_t after = decode_utf8(text, at).c;
  if (after == '/' || is_white_space(after)) return false;
  size_t before = at - 2;
  while (before > 0 && at - before < 5 && (static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) --before;
  return !is_white_space(decode_utf8(text, before).c);
}

}  // namespace

struct Pretokenizer::Step {
  SplitStep rule;
  CutFunction cut = nullptr;  // null: the regex, or the literal of `rule`
  bool cuts_words = false;
  std::optional<Regex> regex{};
};

Pretokenizer::Pretokenizer(const std::vector<SplitStep>& steps, Matching matching) {
  for (const SplitStep& step : steps) {
    auto made = std::make_unique<Step>(Step{step});
    if (!step.is_literal && matching == Matching::kFastest) {
      const KnownPattern* known = find_known_pattern(step.pattern);
      const bool gaps_dropped = step.behavior == Behavior::kRemoved && step.invert;
      if (known != nullptr && (step.behavior == Behavior::kIsolated || (gaps_dropped && known->matches_everything))) {
        made->cut = known->cut;
        made->cuts_words = known->cuts_words;
      } else if (step.pattern == kDigitsPattern && step.behavior == Behavior::kContiguous) {
        made->cut = number_runs_cutter();
      }
    }
    if (made->cut == nullptr && !step.is_literal) made->regex.emplace(step.pattern);
    steps_.push_back(std::move(made));
  }
}

Pretokenizer::~Pretokenizer() = default;
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;

std::vector<std::string_view> Pretokenizer::pieces(std::string_view text) const {
  Cutter cutter(*this);
  cutter.start(text);
  std::vector<std::string_view> all;
  for (std::vector<std::string_view> batch; cutter.next(batch);) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

size_t Pretokenizer::safe_cut(std::string_view text, size_t limit) const {
  if (limit >= text.size()) return text.size();
  bool cuts_words = false;
  for (const auto& step : steps_) {
    if (step->cut == nullptr) return text.size();
    cuts_words |= step->cuts_words;
  }
  if (!cuts_words) return text.size();
  for (size_t at = limit; at > 0; --at) {
    if (is_between_words(text, at)) return at;
  }
  return text.size();
}

// The state of one step. It takes pieces from the previous level, or the whole text, and gives smaller ones.
struct Pretokenizer::Cutter::Level {
  Level(const Step& its_step, Level* its_previous) : step(&its_step), previous(its_previous) {
    if (step->cut == nullptr) matches.emplace(step->regex ? &*step->regex : nullptr, step->rule.pattern);
  }

  // The first level's input is the text, as one piece; the others take pieces from the level before.
  void start(std::string_view text) {
    in.clear();
    if (previous == nullptr) in.push_back(text);
    in_next = at = 0;
    piece = {};
    open.reset();
    if (matches) matches->start({});
  }

  // Replaces `out` by the next pieces; false at the end.
  bool fill(std::vector<std::string_view>& out) {
    if (step->cut == nullptr) {
      out.clear();
      while (out.size() < kBatch) {
        if (!split_more(out) && !take_piece()) break;
      }
      return !out.empty();
    }
    out.resize(kBatch);
    size_t count = 0;
    while (count < kBatch) {
      if (at < piece.size())
        count += step->cut(piece, at, std::span(out).subspan(count));
      else if (!take_piece())
        break;
    }
    out.resize(count);
    return count != 0;
  }

 private:
  bool take_piece() {
    if (in_next == in.size()) {
      in_next = 0;
      in.clear();
      if (previous == nullptr || !previous->fill(in)) return false;
    }
    piece = in[in_next++];
    at = 0;
    if (matches) matches->start(piece);
    return true;
  }

  // Takes one stretch and appends the pieces that it completes. False if the input piece has no more.
  bool split_more(std::vector<std::string_view>& out) {
    Stretch s;
    if (!matches->next(s)) {
      if (open) give(*open, out);
      open.reset();
      return false;
    }
    s.is_match = s.is_match != step->rule.invert;
    const Behavior behavior = step->rule.behavior;
    if (behavior == Behavior::kIsolated || behavior == Behavior::kRemoved) {
      if (behavior == Behavior::kIsolated || !s.is_match) give(s, out);
      return true;
    }
    if (open && joins_open(s)) {
      *open = {open->begin, s.end, s.is_match};
    } else {
      if (open) give(*open, out);
      open = s;
    }
    return true;
  }
  // Whether a stretch belongs to the piece of the stretch before it.
  bool joins_open(const Stretch& s) const {
    const bool is_same = open->is_match == s.is_match;
    if (step->rule.behavior == Behavior::kContiguous) return is_same;
    return !is_same && s.is_match == (step->rule.behavior == Behavior::kMergedWithPrevious);
  }
  void give(const Stretch& s, std::vector<std::string_view>& out) const {
    if (s.begin != s.end) out.push_back(piece.substr(s.begin, s.end - s.begin));
  }

  const Step* step;
  Level* previous;
  std::vector<std::string_view> in;
  size_t in_next = 0;
  std::string_view piece;
  size_t at = 0;
  std::optional<Matches> matches;
  std::optional<Stretch> open;  // may still grow
};

Pretokenizer::Cutter::Cutter(const Pretokenizer& rules) {
  for (const auto& step : rules.steps_)
    levels_.push_back(std::make_unique<Level>(*step, levels_.empty() ? nullptr : levels_.back().get()));
}
Pretokenizer::Cutter::~Cutter() = default;

void Pretokenizer::Cutter::start(std::string_view text) {
  text_ = text;
  whole_ = levels_.empty() && !text.empty();
  for (const auto& level : levels_) level->start(text);
}

bool Pretokenizer::Cutter::next(std::vector<std::string_view>& batch) {
  if (!levels_.empty()) return levels_.back()->fill(batch);
  batch.clear();
  if (whole_) batch.push_back(text_);
  whole_ = false;
  return !batch.empty();
}

}  // namespace hearth::tokenizer
