// SPDX-License-Identifier: Apache-2.0
// An interface to the SentencePiece library. A shared object of our own implements it and is loaded with the first
// .model file. So hearth starts without the library, and lacks only this kind of tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::tokenizer {

// One loaded .model. Thread-safe after construction. A shared object from another build is refused
// (base/shared_object.h).
class SentencePieceModel {
 public:
  enum class PieceKind { kNormal, kUnknown, kControl, kByte, kUnused };

  virtual ~SentencePieceModel() = default;
  virtual int64_t size() const = 0;
  virtual std::string piece(uint32_t id) const = 0;  // in the file's spelling: U+2581 for a space, "<0x0A>" for a byte
  virtual PieceKind kind(uint32_t id) const = 0;
  virtual std::optional<uint32_t> bos() const = 0;
  virtual std::optional<uint32_t> eos() const = 0;
  // `text` is valid UTF-8 of at most 1 GiB. Both return an error message; empty for success.
  virtual std::string encode(std::string_view text, std::vector<uint32_t>& ids) const = 0;
  virtual std::string decode(std::span<const uint32_t> ids, std::string& text) const = 0;
};

// The only symbol of the shared object: HEARTH_SENTENCEPIECE_ENTRY. Returns null and a message in `error` if the
// content is not a model.
using OpenSentencePiece = SentencePieceModel* (*)(std::string_view content, std::string& error);
inline constexpr const char* kSentencePieceObject = "libhearth_sentencepiece.so";

// Loads the shared object in the first call. Throws user_error if the shared object or the library is missing, or if
// `content` is not a model. `origin` names the file.
std::unique_ptr<SentencePieceModel> open_sentencepiece_model(std::string_view content, const std::string& origin);

}  // namespace hearth::tokenizer
