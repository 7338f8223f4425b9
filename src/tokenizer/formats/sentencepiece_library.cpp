// SPDX-License-Identifier: Apache-2.0
// libhearth_sentencepiece.so: the only code that uses the SentencePiece library (Debian: libsentencepiece-dev).
#include <sentencepiece_processor.h>

#include "tokenizer/formats/sentencepiece_model.h"

namespace hearth::tokenizer {
namespace {

class Model final : public SentencePieceModel {
 public:
  std::string load(std::string_view content) { return message_of(processor_.LoadFromSerializedProto(content)); }

  int64_t size() const override { return processor_.GetPieceSize(); }
  std::string piece(uint32_t id) const override { return processor_.IdToPiece(static_cast<int>(id)); }
  PieceKind kind(uint32_t id) const override {
    const int i = static_cast<int>(id);
    if (processor_.IsUnknown(i)) return PieceKind::kUnknown;
    if (processor_.IsControl(i)) return PieceKind::kControl;
    if (processor_.IsByte(i)) return PieceKind::kByte;
    return processor_.IsUnused(i) ? PieceKind::kUnused : PieceKind::kNormal;
  }
  std::optional<uint32_t> bos() const override { return id_or_none(processor_.bos_id()); }
  std::optional<uint32_t> eos() const override { return id_or_none(processor_.eos_id()); }

  std::string encode(std::string_view text, std::vector<uint32_t>& ids) const override {
    std::vector<int> encoded;
    const auto status = processor_.Encode(text, &encoded);
    ids.insert(ids.end(), encoded.begin(), encoded.end());
    return message_of(status);
  }
  std::string decode(std::span<const uint32_t> ids, std::string& text) const override {
    return message_of(processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text));
  }

 private:
  static std::string message_of(const sentencepiece::util::Status& status) {
    if (status.ok()) return {};
    const std::string message = status.error_message();
    return message.empty() ? "the SentencePiece library does not say why" : message;
  }
  static std::optional<uint32_t> id_or_none(int id) {
    return id < 0 ? std::nullopt : std::optional<uint32_t>(static_cast<uint32_t>(id));
  }

  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace
}  // namespace hearth::tokenizer

extern "C" __attribute__((visibility("default"))) hearth::tokenizer::SentencePieceModel* HEARTH_SENTENCEPIECE_ENTRY(
    std::string_view content, std::string& error) {
  auto model = std::make_unique<hearth::tokenizer::Model>();
  error = model->load(content);
  return error.empty() ? model.release() : nullptr;
}
