// The SentencePiece library behind a shared object of our own, which is loaded when the first .model file is opened:
// hearth starts without it, and a host without the library can still do everything else.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::tokenizer {

// One loaded .model. Thread-safe once made. The shared object implements it; one of another build
// is refused (base/shared_object.h).
class SentencePieceModel {
 public:
  enum class PieceKind { kNormal, kUnknown, kControl, kByte, kUnused };

  virtual ~SentencePieceModel() = default;
  virtual int64_t size() const = 0;
  virtual std::string piece(uint32_t id) const = 0;  // as the file spells it: U+2581 for a space, "<0x0A>" for a byte
  virtual PieceKind kind(uint32_t id) const = 0;
  virtual std::optional<uint32_t> bos() const = 0;
  virtual std::optional<uint32_t> eos() const = 0;
  // `text` is valid UTF-8 of at most 1 GiB. Both return an error message, or nothing when all is well.
  virtual std::string encode(std::string_view text, std::vector<uint32_t>& ids) const = 0;
  virtual std::string decode(std::span<const uint32_t> ids, std::string& text) const = 0;
};

// The entry of the shared object, its only symbol: HEARTH_SENTENCEPIECE_ENTRY. Null and a message in `error` where the
// content is no model.
using OpenSentencePiece = SentencePieceModel* (*)(std::string_view content, std::string& error);
inline constexpr const char* kSentencePieceObject = "libhearth_sentencepiece.so";

// Loads the shared object if this is the first call. Throws user_error where it, or the library, is not on this host,
// or `content` is no model. `origin` names the file.
std::unique_ptr<SentencePieceModel> open_sentencepiece_model(std::string_view content, const std::string& origin);

}  // namespace hearth::tokenizer
