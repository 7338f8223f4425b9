// Text to token ids and back. One interface for every kind; the kind is recognised from the file, or "bytes" by name.
//
//   const auto tokenizer = open_tokenizer("tokenizer.json");   one for the process, immutable, shared by all threads
//   const auto encoder = tokenizer->encoder();                 one for each thread: it owns scratch memory and a cache
//   encoder->encode(text, ids);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace hearth::tokenizer {

struct SpecialToken {
  std::string text;
  uint32_t id;
};

// What may stand before and after each document.
struct DocumentTokens {
  std::optional<uint32_t> bos, eos;
  bool operator==(const DocumentTokens&) const = default;
};

// What to do with the text of a special token ("<|end_of_text|>") inside a document. Plain text is the default: a web
// page that spells one must not end a document. kParse is Hugging Face's reading.
enum class SpecialText { kPlain, kParse };

// Over everything that an encoder has encoded.
struct EncodeCounts {
  int64_t special_text_seen = 0;       // special tokens spelled out, whether they stayed text or were parsed
  int64_t invalid_bytes_replaced = 0;  // bytes that are no UTF-8 and became U+FFFD; byte-level kinds keep them: 0
};

// Encodes for one thread. Borrows the tokenizer, which must outlive it.
class Encoder {
 public:
  virtual ~Encoder() = default;

  // Appends the ids of `text` to `ids`. Adds no BOS and no EOS.
  virtual void encode(std::string_view text, std::vector<uint32_t>& ids) = 0;
  virtual const EncodeCounts& counts() const = 0;
};

class ArrayTokenizer;

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::unique_ptr<Encoder> encoder(SpecialText special = SpecialText::kPlain) const = 0;
  // The same without the cache of pieces that some kinds have: for measuring.
  virtual std::unique_ptr<Encoder> encoder_without_cache() const { return encoder(); }
  // For a short text here and there: makes an encoder and drops it.
  void encode(std::string_view text, std::vector<uint32_t>& ids) const;

  // A place 0 < p <= limit at which `text` may be cut: encoding both parts gives the ids of the whole. text.size()
  // where the tokenizer knows none. 0 < limit <= text.size(). `text` is a whole document, or what earlier cuts left of
  // it.
  virtual size_t safe_cut(std::string_view text, size_t limit) const = 0;
  // Appends the bytes of one token. Special tokens append nothing. Throws user_error for an id outside the vocabulary.
  virtual void decode(uint32_t id, std::string& text) const = 0;
  // The text of a sequence: the tokens' bytes one after the other, unless the kind has a rule for its first token.
  virtual std::string decode_all(std::span<const uint32_t> ids) const;

  // One more than the largest id, so that ids index a table.
  virtual int64_t vocab_size() const = 0;
  virtual std::optional<uint32_t> bos() const = 0;
  virtual std::optional<uint32_t> eos() const = 0;
  // Whether the tokenizer's own template puts BOS before a text: the default for documents.
  virtual bool adds_bos() const { return false; }
  virtual std::vector<SpecialToken> special_tokens() const { return {}; }
  // Whether tokens stand for text: decoding then gives it back. False where they are ids that nobody knows the text of,
  // or parts of arrays.
  virtual bool has_text() const { return true; }
  // This tokenizer, where it is one of arrays (arrays.h); null: it is one of text.
  virtual const ArrayTokenizer* arrays() const { return nullptr; }
  // "bytes", "huggingface", "tiktoken", "sentencepiece", "ids", "spikes", "patches".
  virtual std::string kind() const = 0;
  // How a manifest names it: "bytes", "spikes:256", or the file name of the copy that lies beside the manifest.
  virtual std::string name() const = 0;
  // The file it was read from, byte for byte, for that copy; empty for "bytes".
  virtual std::string_view file_content() const { return {}; }
  // A hash over everything that decides ids (32 hexadecimal digits).
  virtual std::string content_hash() const = 0;
};

struct OpenOptions {
  std::string bos_token, eos_token;               // special tokens by name; empty: found out (document_tokens.h)
  std::optional<DocumentTokens> document_tokens;  // as a manifest keeps them: then nothing is looked for
  // Llama-3's tokenizer.model is cut as Meta's code cuts long texts (meta_cuts.h), unless this asks for the ids of the
  // same model's tokenizer.json; true is an error for any other tokenizer.
  bool without_meta_cuts = false;
};

// `name` is "bytes", "ids:N" (N tokens whose text nobody knows: ids.h), "spikes" or "spikes:N" (spikes.h), a file, or a
// folder that holds tokenizer.json, tokenizer.model or tokenizer.patches. The kind is recognised from the file's
// content. Throws user_error where it is none of these, or not readable as what it is.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name, const OpenOptions& options = {});

// The copy that a dataset or a checkpoint keeps in `folder`, by what its manifest says: Tokenizer::name(),
// content_hash() and the document tokens. Throws damaged() where it is missing or another one.
std::unique_ptr<Tokenizer> open_kept_tokenizer(const Path& folder, const std::string& name, const std::string& hash,
                                               const DocumentTokens& document_tokens);
// Writes that copy by way of the file `temporary` beside it; nothing for "bytes". Programs that write the same copy at
// once, each with a temporary file of its own, do no harm.
void keep_tokenizer(const Path& folder, const std::string& name, std::string_view file_content,
                    const std::string& temporary);
// Whether a manifest may name a copy so: a name that leads out of the folder is refused.
bool is_kept_name(std::string_view name);
// Whether a tokenizer that a manifest names so is one of arrays.
bool is_name_of_arrays(std::string_view name);

}  // namespace hearth::tokenizer
