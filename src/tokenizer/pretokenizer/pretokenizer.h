// Text to pieces: what byte-pair encoding works on, one piece at a time. A rule is a sequence of steps, each of which
// cuts the pieces of the step before it, as Hugging Face's Sequence of Split, Digits and ByteLevel does.
//
// Patterns that published tokenizers use have a cutter written by hand (cutters.h), which is some twenty times as fast
// as a regular expression; any other pattern runs in PCRE2. Both give the same pieces, and tests compare them.
//
//   const Pretokenizer rules({{std::string(kLlama3Pattern)}});
//   Pretokenizer::Cutter cutter(rules);                          one for each thread
//   cutter.start(text);
//   for (std::vector<std::string_view> batch; cutter.next(batch);) ...
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::tokenizer {

// The patterns of published tokenizers, as their files spell them. Another spelling of the same language is recognised
// only if it stands in patterns.cpp.
extern const std::string_view kGpt2Pattern;          // GPT-2, GPT-NeoX; what ByteLevel(use_regex = true) applies
extern const std::string_view kLlama3Pattern;        // Llama-3, and cl100k as Hugging Face spells it
extern const std::string_view kQwen2Pattern;         // Qwen2 and later: digits one by one
extern const std::string_view kO200kPattern;         // GPT-4o, Llama-4
extern const std::string_view kDeepSeekPatterns[3];  // DeepSeek-V3: three steps, one after the other
extern const std::string_view kDigitsPattern;        // one number character: Digits, with kIsolated or kContiguous

// What becomes of the matches of a step (Hugging Face's SplitDelimiterBehavior).
enum class Behavior {
  kIsolated,            // each match is a piece
  kRemoved,             // a match is dropped
  kMergedWithPrevious,  // a match ends the piece before it
  kMergedWithNext,      // a match begins the piece after it
  kContiguous,          // matches that touch are one piece
};

struct SplitStep {
  std::string pattern;      // a regular expression as Oniguruma reads it; or, if is_literal, plain text
  bool is_literal = false;  // Hugging Face's {"String": ...}
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;  // matches and what lies between them change places
};

// kFastest takes a hand-written cutter where there is one. kRegex is for comparing the two.
enum class Matching { kFastest, kRegex };

// Immutable, shared by threads. Invalid UTF-8: each byte that belongs to no well-formed sequence counts as one
// unassigned character, and stays in its piece.
class Pretokenizer {
 public:
  struct Step;
  class Cutter;

  // No steps: the whole text is one piece. Throws user_error naming a pattern that cannot be compiled, or uses what
  // engines read differently.
  explicit Pretokenizer(const std::vector<SplitStep>& steps, Matching matching = Matching::kFastest);
  ~Pretokenizer();
  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;

  // All pieces of a text. For tests and short texts.
  std::vector<std::string_view> pieces(std::string_view text) const;
  // Like Tokenizer::safe_cut: cutting there leaves the pieces of both parts the pieces of the whole.
  size_t safe_cut(std::string_view text, size_t limit) const;

 private:
  std::vector<std::unique_ptr<const Step>> steps_;
};

// Cuts for one thread. Borrows the rules.
class Pretokenizer::Cutter {
 public:
  explicit Cutter(const Pretokenizer& rules);
  ~Cutter();
  Cutter(const Cutter&) = delete;
  Cutter& operator=(const Cutter&) = delete;

  // `text` must stay until the last piece was used.
  void start(std::string_view text);
  // Replaces `batch` by the next pieces, some hundreds at most, none empty. False at the end, with an empty batch.
  bool next(std::vector<std::string_view>& batch);

 private:
  struct Level;
  std::vector<std::unique_ptr<Level>> levels_;
  std::string_view text_;
  bool whole_ = false;
};

}  // namespace hearth::tokenizer
