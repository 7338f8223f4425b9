// tokenizer.json as data: what Hugging Face's `tokenizers` reads, as far as Hearth does. Every node that can change an
// id is understood or refused by name; nothing is skipped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/pretokenizer/pretokenizer.h"

namespace hearth::tokenizer {

struct AddedToken {
  std::string text;
  uint32_t id = 0;
  bool special = false;
  bool normalized = false;                       // looked for in the normalized text, else in the text as it is
  bool single_word = false;                      // not inside a word
  bool strip_left = false, strip_right = false;  // takes the white space around it with it
};

// What changes the text before it is cut.
struct NormalizerStep {
  enum class Kind { kNfc, kPrepend, kReplace } kind = Kind::kNfc;
  std::string from, to;  // kReplace; kPrepend: `to`
};

// What cuts the text: a change of each incoming piece, then cuts.
struct PretokenizerStage {
  enum class Prefix { kNever, kAlways, kFirst };  // kFirst: only where the text begins
  std::string prefix;                             // put before a piece that does not begin with it
  Prefix prefix_where = Prefix::kNever;
  std::string space_as;  // what a space becomes (Metaspace); empty: it stays
  std::vector<SplitStep> cuts;
};

struct HuggingFaceFile {
  // Byte-level: tokens are bytes. Else tokens are characters, and a character without a token becomes its bytes'
  // tokens.
  bool byte_level = true;
  bool ignore_merges = false;
  std::vector<std::string> tokens;  // the bytes of each id; "" for holes and ids that no text gives
  std::vector<std::pair<uint32_t, std::string>> unreachable;  // those ids' texts, where they are no added tokens
  std::vector<Merge> merges;
  std::vector<uint32_t> byte_tokens;     // [256], only if not byte_level
  std::vector<AddedToken> added_tokens;  // in the order in which they are looked for: special ones first
  std::vector<NormalizerStep> normalizer;
  std::vector<PretokenizerStage> pretokenizer;
  std::vector<NormalizerStep> decoder;    // kReplace only: a token's text to what it stands for
  std::string decoder_strip;              // taken from the start of a decoded text, if it begins so
  std::optional<uint32_t> before, after;  // what the template puts around a text
};

// Throws user_error naming the node, as in "model.dropout" or "pre_tokenizer.pretokenizers[1]", that is wrong or that
// Hearth does not read. `origin` names the file.
HuggingFaceFile parse_huggingface_file(std::string_view json, const std::string& origin);

}  // namespace hearth::tokenizer
