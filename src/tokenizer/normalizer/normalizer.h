// SPDX-License-Identifier: Apache-2.0
// The changes of a text before it is cut into pieces: "normalizer" in a tokenizer.json. Results equal those of the
// library `tokenizers`, with its Unicode versions (unicode.h).
//
//   const Normalizer rules(steps);       immutable, shared by threads
//   Normalizer::Runner runner(rules);    one for each thread
//   const std::string_view changed = runner.run(text);
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/normalizer/charsmap.h"
#include "tokenizer/pretokenizer/matches.h"
#include "tokenizer/pretokenizer/regex.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {

// One change of the text. Each invalid UTF-8 byte counts as a character that no kind changes.
struct NormalizerStep {
  enum class Kind {
    kForm,  // a normalization form
    kLowercase,
    kStripAccents,
    kNmt,           // removes controls; some kinds of white space become a space
    kStrip,         // removes white space at the start (left) and at the end (right)
    kPrepend,       // puts `to` before a text that is not empty
    kReplace,       // each `from` becomes `to`
    kReplaceRegex,  // each match of the expression `from` becomes `to`
    kCharsmap,
    kBertClean,       // removes controls and U+FFFD; all kinds of white space become a space
    kBertChinese,     // puts a space to both sides of a Chinese character
    kBertNonspacing,  // removes accents
  };
  Kind kind = Kind::kForm;
  NormalForm form = NormalForm::kNfc;
  std::string from{}, to{};
  bool left = false, right = false;
  std::shared_ptr<const Charsmap> charsmap{};
};

// Replaces each `from` in `text` by `to`, left to right. Returns false, with `out` unchanged, if `from` is absent.
bool replace_all(std::string_view text, std::string_view from, std::string_view to, std::string& out);

class Normalizer {
 public:
  class Runner;

  // Throws user_error, as Regex does, for an expression that Hearth does not read.
  explicit Normalizer(std::vector<NormalizerStep> steps);

  // Whether ASCII white space is a border for every step: a text may be cut there, and its parts normalized one by one.
  bool has_borders() const;
  // Whether no step changes `text`, except that it may become lower case. Call only if has_borders().
  bool keeps(std::string_view text) const;

 private:
  std::vector<NormalizerStep> steps_;
  std::vector<std::optional<Regex>> expressions_;  // of each step
};

// For one thread. Borrows the rules.
class Normalizer::Runner {
 public:
  explicit Runner(const Normalizer& rules);

  // The result is valid until the next call, and as long as `text` is.
  std::string_view run(std::string_view text);
  // Whether the last result begins with what the text's first character became. False if a step removed that character.
  bool keeps_start() const { return keeps_start_; }

 private:
  bool apply(size_t index, std::string_view text);
  void replace_matches(size_t index, std::string_view text);

  const Normalizer& rules_;
  std::vector<std::optional<Matches>> searches_;  // of each step
  std::string current_, next_;
  bool keeps_start_ = true;
};

}  // namespace hearth::tokenizer
