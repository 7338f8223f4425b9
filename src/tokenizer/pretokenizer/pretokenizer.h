// SPDX-License-Identifier: Apache-2.0
// Text to pieces: byte-pair encoding encodes each piece separately. A rule is a sequence of steps. Each step cuts the
// pieces of the step before it, as in Hugging Face's Sequence of Split, Digits and ByteLevel.
//
// Patterns of published tokenizers have a hand-written cutter (cutters.h), about twenty times as fast as a regular
// expression. Any other pattern runs in PCRE2. Both give the same pieces, and tests compare them.
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

// The patterns of published tokenizers, in the spelling of their files. Another spelling of the same language is
// recognised only if it is in cutters.cpp.

// GPT-2, GPT-NeoX, and ByteLevel(use_regex = true).
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Llama-3, and cl100k in Hugging Face's spelling.
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
// Qwen2 and later: digits one by one.
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
// GPT-4o, Llama-4.
inline constexpr std::string_view kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// DeepSeek-V3: three steps in this order, of numbers, of Han and Kana, and of words.
inline constexpr std::string_view kDeepSeekPatterns[] = {
    R"(\p{N}{1,3})", "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
// One number character: Digits, kIsolated or kContiguous.
inline constexpr std::string_view kDigitsPattern = R"(\p{N})";

// How a step treats its matches (Hugging Face's SplitDelimiterBehavior).
enum class Behavior {
  kIsolated,            // each match is a piece
  kRemoved,             // a match is dropped
  kMergedWithPrevious,  // a match ends the piece before it
  kMergedWithNext,      // a match begins the piece after it
  kContiguous,          // adjacent matches are one piece
};

struct SplitStep {
  std::string pattern;      // a regular expression in Oniguruma's syntax; or, if is_literal, plain text
  bool is_literal = false;  // Hugging Face's {"String": ...}
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;  // exchanges matches and gaps
};

// kFastest uses a hand-written cutter if there is one. kRegex is for comparing the two.
enum class Matching { kFastest, kRegex };

// Immutable, shared by threads. Each invalid UTF-8 byte counts as one unassigned character, and stays in its piece.
class Pretokenizer {
 public:
  struct Step;
  class Cutter;

  // Without steps the whole text is one piece. Throws user_error for a pattern that cannot be compiled, or whose
  // meaning differs between regular-expression engines. The error names the pattern.
  explicit Pretokenizer(const std::vector<SplitStep>& steps, Matching matching = Matching::kFastest);
  ~Pretokenizer();
  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;

  // All pieces of a text. For tests and short texts.
  std::vector<std::string_view> pieces(std::string_view text) const;
  // Like Tokenizer::safe_cut: the pieces of both parts are the pieces of the whole.
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

  // `text` must outlive the use of the last piece.
  void start(std::string_view text);
  // Replaces `batch` by the next pieces: some hundreds at most, none of them empty. False at the end, with an empty
  // batch.
  bool next(std::vector<std::string_view>& batch);

 private:
  struct Level;
  std::vector<std::unique_ptr<Level>> levels_;
  std::string_view text_;
  bool whole_ = false;
};

}  // namespace hearth::tokenizer
