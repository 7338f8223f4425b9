// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json without training: bytes, one merge ("a" and "b"), and special tokens.
#pragma once

#include <fmt/format.h>

#include <string>

namespace hearth::test {

// Ids: a byte's own value, "ab" 256, then `special` from 257 on. `post_processor` and `normalizer` as JSON.
inline std::string small_tokenizer_file(const std::string& special = "<s>", const std::string& post_processor = "null",
                                        const std::string& normalizer = "null") {
  std::string vocab;
  for (unsigned byte = 0, extra = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    vocab += fmt::format("\"\\u{:04x}\": {}, ", itself ? byte : 256 + extra++, byte);
  }
  return fmt::format(
      R"({{"version": "1.0", "truncation": null, "padding": null,
"added_tokens": [{{"id": 257, "content": "{}", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}}],
"normalizer": {}, "pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}},
"post_processor": {}, "decoder": {{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}},
"model": {{"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": {{{}"ab": 256}}, "merges": [["a", "b"]]}}}}
)",
      special, normalizer, post_processor, vocab);
}

// A Unigram model: <unk> 0, U+2581 1, a 2, b 3, ab 4, abb 5. `normalizer` as JSON.
inline std::string small_unigram_file(const std::string& normalizer = "null", bool byte_fallback = false) {
  return fmt::format(
      R"({{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": {},
"pre_tokenizer": {{"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never", "split": true}},
"post_processor": null, "decoder": {{"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never", "split": true}},
"model": {{"type": "Unigram", "unk_id": 0, "byte_fallback": {}, "vocab": [["<unk>", 0], ["\u2581", -1.25], ["a", -1], ["b", -1.0],
["ab", -1.5], ["abb", -4e0]]}}}})",
      normalizer, byte_fallback);
}

// A WordPiece model: words of a, b and e with an acute accent, "ab", and the full stop. `normalizer` as JSON.
inline std::string small_word_file(const std::string& normalizer = "null") {
  return fmt::format(
      R"({{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": {},
"pre_tokenizer": {{"type": "BertPreTokenizer"}},
"post_processor": {{"type": "BertProcessing", "sep": ["[SEP]", 1], "cls": ["[CLS]", 0]}},
"decoder": {{"type": "WordPiece", "prefix": "##", "cleanup": true}},
"model": {{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 5,
"vocab": {{"[CLS]": 0, "[SEP]": 1, "[UNK]": 2, "a": 3, "##a": 4, "b": 5, "##b": 6, "ab": 7, ".": 8, "\u00e9": 9,
"##\u00e9": 10}}}}}})",
      normalizer);
}

// A template that puts token 257 before a text.
inline std::string template_with(const std::string& special) {
  return fmt::format(
      R"({{"type": "TemplateProcessing", "single": [{{"SpecialToken": {{"id": "{0}", "type_id": 0}}}}, {{"Sequence": {{"id": "A", "type_id": 0}}}}],
"pair": [], "special_tokens": {{"{0}": {{"id": "{0}", "ids": [257], "tokens": ["{0}"]}}}}}})",
      special);
}

}  // namespace hearth::test
