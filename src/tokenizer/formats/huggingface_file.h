// SPDX-License-Identifier: Apache-2.0
// tokenizer.json as data: the part of the format of Hugging Face's `tokenizers` that Hearth supports. Every node that
// can change an id is either read or refused by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/normalizer/normalizer.h"
#include "tokenizer/pretokenizer/pretokenizer.h"
#include "tokenizer/wordpiece/wordpiece.h"

namespace hearth::tokenizer {

struct AddedToken {
  std::string text;
  uint32_t id = 0;
  bool special = false;
  bool normalized = false;                       // matched in the normalized text; else in the original text
  bool single_word = false;                      // not matched inside a word
  bool strip_left = false, strip_right = false;  // the match includes white space around it
};

// One change of a token's text for decoding: each `from` becomes `to`.
struct DecoderStep {
  std::string from, to;
  bool removes_in_first = false;  // the first token of a sequence loses each `from` (Metaspace)
};

// Tokens become words with spaces between them. Only WordPiece has it.
struct WordDecoder {
  std::string prefix;   // of a token that continues a word, and loses it; empty: each token is a word
  bool cleans = false;  // " ." becomes ".", and so on
};

// One stage of cutting: a change of each incoming piece, then cuts.
struct PretokenizerStage {
  enum class Prefix { kNever, kAlways, kFirst };  // kFirst: only at the start of the text
  std::string prefix;                             // put before a piece that does not begin with it already
  Prefix prefix_where = Prefix::kNever;
  std::string space_as;  // the replacement of a space (Metaspace); empty: no replacement
  std::vector<SplitStep> cuts;
};

struct HuggingFaceFile {
  // If true, tokens are bytes. Otherwise tokens are characters. A character without a token becomes the tokens of its
  // bytes; in a Unigram model without these, it becomes the unknown token. WordPiece has words of characters.
  bool byte_level = true;
  bool replaces_invalid = false;  // byte_level: bytes that UTF-8 never has lack a token, so that U+FFFD replaces them
  bool unigram = false;           // else BPE, or WordPiece
  std::optional<WordPieceOptions> word_piece{};
  std::vector<double> scores;  // only of a Unigram model, for each token
  uint32_t unknown = 0;        // only of a Unigram model
  bool ignore_merges = false;
  std::vector<std::string> tokens;  // the bytes of each id; "" for holes and ids that no text produces
  std::vector<std::pair<uint32_t, std::string>> unreachable;  // texts of such ids that are not added tokens
  std::vector<Merge> merges;
  // [256], only if not byte_level; a Unigram model may lack some (kNoToken) or all (empty)
  std::vector<uint32_t> byte_tokens;
  std::vector<AddedToken> added_tokens;  // in the order of matching: special ones first
  std::vector<NormalizerStep> normalizer;
  std::vector<PretokenizerStage> pretokenizer;
  std::vector<DecoderStep> decoder;  // from a token's text to its meaning
  bool decodes_bytes = false;        // byte tokens are decoded to their bytes (ByteFallback)
  std::optional<WordDecoder> word_decoder{};
  std::string decoder_strip;              // removed from the start of a decoded text, if present
  std::optional<uint32_t> before, after;  // the template's tokens before and after a text
};

// Throws user_error for a node that is wrong or unsupported, and names it, as in "model.dropout" or
// "pre_tokenizer.pretokenizers[1]". `origin` names the file.
HuggingFaceFile parse_huggingface_file(std::string_view json, const std::string& origin);

}  // namespace hearth::tokenizer
