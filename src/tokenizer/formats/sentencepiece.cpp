// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/sentencepiece.h"

#include <charconv>

#include "base/error.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";           // U+2581
constexpr std::string_view kUnknownShown = " \xE2\x81\x87 ";  // U+2047, as in the library's decoder
constexpr size_t kMaxTextBytes = size_t{1} << 30;             // the library's sizes are int

// The byte of "<0x0A>". Text never produces a byte piece of another spelling.
std::string byte_of(const std::string& piece) {
  unsigned byte = 0;
  const bool good = piece.size() == 6 && piece.starts_with("<0x") && piece.back() == '>' &&
                    std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16).ptr == piece.data() + 5;
  return good ? std::string(1, static_cast<char>(byte)) : std::string();
}

// The text of a piece; empty for control pieces.
std::string text_of(const SentencePieceModel& model, uint32_t id) {
  using Kind = SentencePieceModel::PieceKind;
  std::string piece = model.piece(id);
  switch (model.kind(id)) {
    case Kind::kControl:
      return {};
    case Kind::kUnknown:
      return std::string(kUnknownShown);
    case Kind::kByte:
      return byte_of(piece);
    default:
      break;
  }
  std::string text;
  for (size_t at = 0; at < piece.size();) {
    const bool space = piece.compare(at, kSpace.size(), kSpace) == 0;
    text += space ? ' ' : piece[at];
    at += space ? kSpace.size() : 1;
  }
  return text;
}

}  // namespace

class SentencePieceEncoder final : public Encoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceTokenizer& tokenizer) : t_(tokenizer) {}

  void encode(std::string_view text, std::vector<uint32_t>& ids) override {
    if (text.size() > kMaxTextBytes)
      throw user_error(fmt::format("a document of {} bytes is too long for SentencePiece", text.size()),
                       fmt::format("the library takes at most {}", kMaxTextBytes),
                       "cut long files into documents with --document-bytes");
    valid_.clear();
    counts_.invalid_bytes_replaced += append_valid_utf8(text, valid_);
    t_.control_pieces_.split(valid_, SpecialText::kPlain, parts_, counts_.special_text_seen);
    const std::string error = t_.model_->encode(valid_, ids);
    if (!error.empty()) throw user_error("SentencePiece cannot encode a document", error);
  }

 private:
  const SentencePieceTokenizer& t_;
  std::string valid_;
  std::vector<TextPart> parts_;
};

// Tests for a protocol buffer whose first field is a piece: tag 0x0A, its length, tag 0x0A, the text's length.
bool looks_like_sentencepiece_file(std::string_view content) {
  if (content.size() < 8 || content[0] != '\x0A') return false;
  const auto piece = static_cast<unsigned char>(content[1]);
  return piece >= 2 && piece < 0x80 && content[2] == '\x0A' && static_cast<unsigned char>(content[3]) < piece;
}

SentencePieceTokenizer::SentencePieceTokenizer(std::string content, const std::string& origin)
    : FileTokenizer(std::move(content)), model_(open_sentencepiece_model(content_, origin)) {
  if (model_->size() < 1) throw user_error(fmt::format("{} has no pieces", origin));
  for (uint32_t id = 0; id < static_cast<uint64_t>(model_->size()); ++id) decoded_.push_back(text_of(*model_, id));
  control_pieces_ = AddedTokens(special_tokens());
}

std::unique_ptr<Encoder> SentencePieceTokenizer::encoder(SpecialText special) const {
  if (special == SpecialText::kParse)
    throw user_error("a SentencePiece model does not parse special tokens in a text",
                     "SentencePiece never makes control pieces from text", "leave out --parse-special");
  return std::make_unique<SentencePieceEncoder>(*this);
}

void SentencePieceTokenizer::decode(uint32_t id, std::string& text) const {
  check_id(id, "the tokenizer has");
  text += decoded_[id];
}

std::string SentencePieceTokenizer::decode_all(std::span<const uint32_t> ids) const {
  for (const uint32_t id : ids) check_id(id, "the tokenizer has");
  std::string text;
  const std::string error = model_->decode(ids, text);
  if (!error.empty()) throw user_error("SentencePiece cannot decode the ids", error);
  return text;
}

std::vector<SpecialToken> SentencePieceTokenizer::special_tokens() const {
  std::vector<SpecialToken> special;
  for (uint32_t id = 0; id < decoded_.size(); ++id)
    if (model_->kind(id) == SentencePieceModel::PieceKind::kControl) special.push_back({model_->piece(id), id});
  return special;
}

}  // namespace hearth::tokenizer
