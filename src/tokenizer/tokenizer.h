// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back. All kinds share one interface. The kind is found from the file's content, or from a name
// such as "bytes".
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

namespace hearth::recordings {
class ArrayVocabulary;
}

namespace hearth::tokenizer {

struct SpecialToken {
  std::string text;
  uint32_t id;
};

// The tokens before and after each document; unset: no such token.
struct DocumentTokens {
  std::optional<uint32_t> bos, eos;
  bool operator==(const DocumentTokens&) const = default;
};

// How to treat the text of a special token ("<|end_of_text|>") inside a document. kPlain is the default: a web page
// with this text must not end a document. kParse is Hugging Face's behaviour.
enum class SpecialText { kPlain, kParse };

// Totals over all texts that an encoder has encoded.
struct EncodeCounts {
  int64_t special_text_seen = 0;  // special tokens spelled out in a text, whether kept as text or parsed
  // Invalid bytes replaced by U+FFFD; 0 for byte-level kinds with a token for each of the 256 bytes, which keep them.
  int64_t invalid_bytes_replaced = 0;
};

// Encodes for one thread. Borrows the tokenizer, which must outlive it.
class Encoder {
 public:
  virtual ~Encoder() = default;

  // Appends the ids of `text` to `ids`. Adds no BOS and no EOS.
  virtual void encode(std::string_view text, std::vector<uint32_t>& ids) = 0;
  const EncodeCounts& counts() const { return counts_; }

 protected:
  EncodeCounts counts_;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::unique_ptr<Encoder> encoder(SpecialText special = SpecialText::kPlain) const = 0;
  // An encoder without the cache of pieces that some kinds have. It is slower: for benchmarks.
  virtual std::unique_ptr<Encoder> encoder_without_cache() const { return encoder(); }
  // For occasional short texts: makes an encoder for this call.
  void encode(std::string_view text, std::vector<uint32_t>& ids) const;

  // A place 0 < p <= limit at which `text` may be cut: encoding both parts gives the ids of the whole. Returns
  // text.size() if the tokenizer knows no such place. 0 < limit <= text.size(). `text` is a whole document, or its
  // remainder after earlier cuts.
  virtual size_t safe_cut(std::string_view text, size_t limit) const = 0;
  // Appends the bytes of one token. Special tokens append nothing. Throws user_error for an id outside the vocabulary.
  virtual void decode(uint32_t id, std::string& text) const = 0;
  // The text of a sequence: the tokens' bytes in sequence, unless the kind has a rule for its first token.
  virtual std::string decode_all(std::span<const uint32_t> ids) const;

  // One more than the largest id, so that ids index a table.
  virtual int64_t vocab_size() const = 0;
  virtual std::optional<uint32_t> bos() const = 0;
  virtual std::optional<uint32_t> eos() const = 0;
  // Whether the tokenizer's own template puts BOS before a text. Then builds also put BOS before documents, by default.
  virtual bool adds_bos() const { return false; }
  virtual std::vector<SpecialToken> special_tokens() const { return {}; }
  // Whether tokens represent text, so decoding restores it. False if the tokens' text is unknown, or if they represent
  // parts of arrays.
  virtual bool has_text() const { return true; }
  // The vocabulary of a tokenizer for arrays (recordings/vocabulary.h); null for text.
  virtual const recordings::ArrayVocabulary* arrays() const { return nullptr; }
  // "bytes", "huggingface", "tiktoken", "sentencepiece", "ids", "spikes", "patches".
  virtual std::string kind() const = 0;
  // The name in a manifest: "bytes", "spikes:256", or the file name of the copy in the manifest's folder.
  virtual std::string name() const = 0;
  // The content of the tokenizer's file, which becomes that copy; empty for kinds without a file.
  virtual std::string_view file_content() const { return {}; }
  // A hash over everything that determines ids (32 hexadecimal digits).
  virtual std::string content_hash() const = 0;

 protected:
  // Throws user_error if `id` is outside the vocabulary. `who_has` begins the reason: "the tokenizer has".
  void check_id(uint32_t id, std::string_view who_has) const;
};

struct OpenOptions {
  std::string bos_token, eos_token;               // special tokens by name; empty: searched for (document_tokens.h)
  std::optional<DocumentTokens> document_tokens;  // given by a manifest; if set, nothing is searched for
  // By default Llama-3's tokenizer.model is cut as in Meta's code for long texts (meta_cuts.h). True disables these
  // cuts, which gives the ids of the same model's tokenizer.json. True is an error for any other tokenizer.
  bool without_meta_cuts = false;
};

// `name` is "bytes", "ids:N" (N tokens whose text is unknown: ids.h), "spikes" or "spikes:N" (array_tokenizer.h), a
// file, or a folder with a tokenizer.json, tokenizer.model or tokenizer.patches. The kind is found from the file's
// content. Throws user_error for any other name, and for a file that its kind's reader refuses.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name, const OpenOptions& options = {});

// Opens the copy that a dataset or a checkpoint has in `folder`. The manifest gives Tokenizer::name(), content_hash()
// and the document tokens. Throws damaged() if the copy is missing or a different tokenizer.
std::unique_ptr<Tokenizer> open_kept_tokenizer(const Path& folder, const std::string& name, const std::string& hash,
                                               const DocumentTokens& document_tokens);
// Writes that copy through the file `temporary` in the same folder; does nothing for kinds without a file. Several
// programs may write the same copy at once if each has its own temporary file.
void keep_tokenizer(const Path& folder, const std::string& name, std::string_view file_content,
                    const std::string& temporary);
// Whether a manifest may contain this name of a copy. A name that leads out of the folder is refused.
bool is_kept_name(std::string_view name);

}  // namespace hearth::tokenizer
