// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/pretokenizer/regex.h"

#include <pcre2.h>

#include "base/error.h"

namespace hearth::tokenizer {
namespace {

constexpr size_t kStackStartBytes = 32 << 10, kStackMostBytes = 16 << 20;

std::string message_of(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Regex::Code {
  std::string pattern;
  pcre2_code* code = nullptr;
  bool compiled_to_machine_code = false;
  ~Code() { pcre2_code_free(code); }
};

Regex Regex::untranslated(std::string_view pattern) {
  auto made = std::make_unique<Code>();
  made->pattern = pattern;
  int error = 0;
  size_t at = 0;
  // Anchors match at lines, as in Oniguruma. The caller has already checked that the text is UTF-8.
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  made->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK, &error, &at, context);
  pcre2_compile_context_free(context);
  if (made->code == nullptr)
    throw user_error(fmt::format("not a regular expression: {}", pattern), message_of(error),
                     "look at the pre_tokenizer of the tokenizer's file");
  made->compiled_to_machine_code = pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE) == 0;
  Regex regex;
  regex.code_ = std::move(made);
  return regex;
}

Regex::Regex(std::string_view pattern) : Regex(untranslated(translate_pattern(pattern))) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

struct Regex::Matcher::State {
  const Code* code;
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kStackStartBytes, kStackMostBytes, nullptr);

  explicit State(const Code* its_code) : code(its_code) { pcre2_jit_stack_assign(context, nullptr, stack); }
  ~State() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
};

Regex::Matcher::Matcher(const Regex& regex) : state_(std::make_unique<State>(regex.code_.get())) {}
Regex::Matcher::~Matcher() = default;

bool Regex::Matcher::find(std::string_view text, size_t from, Match& match) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  State& s = *state_;
  int result = s.code->compiled_to_machine_code
                   ? pcre2_jit_match(s.code->code, subject, text.size(), from, 0, s.data, s.context)
                   : pcre2_match(s.code->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, s.data, s.context);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT)  // the interpreter keeps its state on the heap
    result =
        pcre2_match(s.code->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s.data, s.context);
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0)
    throw user_error(fmt::format("a regular expression cannot cut a text: {}", s.code->pattern), message_of(result),
                     "split the document, or change the pattern");
  const size_t* ends = pcre2_get_ovector_pointer(s.data);
  match = {ends[0], ends[1]};
  return true;
}

}  // namespace hearth::tokenizer
