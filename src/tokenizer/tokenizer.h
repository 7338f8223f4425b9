// Bytes to token ids and back. One interface; a tokenizer is recognised from its file or, for "bytes", by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::tokenizer {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text` to `ids`. Adds no special token, and special tokens spelled out in `text` stay plain text.
  virtual void encode(std::string_view text, std::vector<uint32_t>& ids) const = 0;
  // A place 0 < p <= limit at which `text` may be cut: encoding both parts gives the ids of the whole. text.size() where
  // the tokenizer knows none. limit <= text.size().
  virtual size_t safe_cut(std::string_view text, size_t limit) const = 0;
  // Appends the bytes of one token. Special tokens append nothing. Throws user_error for an id outside the vocabulary.
  virtual void decode(uint32_t id, std::string& text) const = 0;

  virtual int64_t vocab_size() const = 0;
  virtual std::optional<uint32_t> bos() const = 0;
  virtual std::optional<uint32_t> eos() const = 0;
  // How it is named in a manifest ("bytes"), and a hash over everything that decides ids (32 hexadecimal digits).
  virtual std::string name() const = 0;
  virtual std::string content_hash() const = 0;
};

// `name` is "bytes" for now. Throws user_error listing what there is.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name);

}  // namespace hearth::tokenizer
