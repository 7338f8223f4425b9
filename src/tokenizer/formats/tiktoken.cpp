// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/tiktoken.h"

#include <charconv>

#include "base/error.h"
#include "base/text.h"
#include "tokenizer/formats/base64.h"
#include "tokenizer/pretokenizer/meta_cuts.h"

namespace hearth::tokenizer {
namespace {

constexpr size_t kMostLineBytes = 1 << 16;  // a longer line cannot be a token's

// "BASE64 RANK"
bool parse_line(std::string_view line, std::string& bytes, size_t& rank) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || !decode_base64(line.substr(0, space), bytes)) return false;
  const std::string_view number = line.substr(space + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
  return error == std::errc() && end == number.data() + number.size() && !number.empty();
}

// Llama-3's special tokens in order of id (llama_models/llama3/tokenizer.py).
std::vector<SpecialToken> llama3_special_tokens() {
  std::vector<std::string> names = split(
      "<|begin_of_text|> <|end_of_text|> <|reserved_special_token_0|> <|reserved_special_token_1|> "
      "<|finetune_right_pad_id|> <|step_id|> <|start_header_id|> <|end_header_id|> <|eom_id|> <|eot_id|> "
      "<|python_tag|> "
      "<|image|>",
      ' ');
  for (int i = 2; names.size() < TiktokenTokenizer::kSpecialTokens; ++i)
    names.push_back(fmt::format("<|reserved_special_token_{}|>", i));
  std::vector<SpecialToken> special;
  for (uint32_t i = 0; i < names.size(); ++i)
    special.push_back({names[i], static_cast<uint32_t>(TiktokenTokenizer::kLlama3Tokens) + i});
  return special;
}

std::vector<std::string> llama3_tokens(std::string_view content, const std::string& origin) {
  auto tokens = parse_tiktoken_file(content, origin);
  if (tokens.size() != TiktokenTokenizer::kLlama3Tokens)
    throw user_error(
        fmt::format("{} is a tiktoken file of {} tokens", origin, tokens.size()),
        "such a file has no pattern for cutting text; Hearth knows only that of Llama-3, with 128000 tokens",
        "give the tokenizer.json of the same model");
  return tokens;
}

}  // namespace

bool looks_like_tiktoken_file(std::string_view content) {
  const std::string_view start = content.substr(0, kMostLineBytes);
  std::string bytes;
  size_t rank;
  return parse_line(start.substr(0, start.find('\n')), bytes, rank);
}

std::vector<std::string> parse_tiktoken_file(std::string_view content, const std::string& origin) {
  std::vector<std::string> tokens;
  size_t line_number = 0, count = 0;
  for (size_t at = 0; at < content.size();) {
    const size_t end = std::min(content.find('\n', at), content.size());
    const std::string_view line = content.substr(at, end - at);
    at = end + 1;
    ++line_number;
    if (line.empty() || line == "\r") continue;
    std::string bytes;
    size_t rank = 0;
    const auto wrong = [&](std::string_view why) {
      return damaged(fmt::format("{}:{}: not a token and its rank", origin, line_number), std::string(why),
                     "fetch the tokenizer's file again");
    };
    if (!parse_line(line, bytes, rank)) throw wrong("a line is a token in base64, a space, and a number");
    if (rank > content.size()) throw wrong(fmt::format("rank {} is larger than the file", rank));
    if (rank >= tokens.size()) tokens.resize(rank + 1);
    if (!tokens[rank].empty()) throw wrong(fmt::format("rank {} appears twice", rank));
    tokens[rank] = std::move(bytes);
    ++count;
  }
  if (count != tokens.size())
    throw damaged(fmt::format("{} has {} tokens and ranks up to {}", origin, count, tokens.size() - 1),
                  "every rank from 0 on must appear once", "fetch the tokenizer's file again");
  return tokens;
}

TiktokenTokenizer::TiktokenTokenizer(std::string content, const std::string& origin, bool meta_cuts)
    : FileTokenizer(std::move(content)),
      meta_cuts_(meta_cuts),
      bpe_(Bpe::from_ranks(llama3_tokens(content_, origin))),
      cuts_({{std::string(kLlama3Pattern)}}),
      special_(llama3_special_tokens()),
      special_texts_(special_) {
  set_document_tokens(file_tokens());
}

class TiktokenEncoder final : public Encoder {
 public:
  TiktokenEncoder(const TiktokenTokenizer& tokenizer, SpecialText special, size_t cache_entries)
      : tokenizer_(tokenizer), special_(special), bpe_(tokenizer.bpe_, cache_entries), cutter_(tokenizer.cuts_) {}

  void encode(std::string_view text, std::vector<uint32_t>& ids) override {
    if (!tokenizer_.meta_cuts_) {
      encode_part(text, ids);
      return;
    }
    MetaCuts cuts(text);
    for (size_t begin = 0, end; begin < text.size(); begin = end) {
      end = cuts.next(begin);
      encode_part(text.substr(begin, end - begin), ids);
    }
  }

 private:
  void encode_part(std::string_view text, std::vector<uint32_t>& ids) {
    tokenizer_.special_texts_.split(text, special_, parts_, counts_.special_text_seen);
    for (const TextPart& part : parts_) {
      if (part.id)
        ids.push_back(*part.id);
      else
        encode_plain(text.substr(part.begin, part.end - part.begin), ids);
    }
  }
  void encode_plain(std::string_view text, std::vector<uint32_t>& ids) {
    cutter_.start(text);
    while (cutter_.next(pieces_)) bpe_.encode_pieces(pieces_, ids);
  }

  const TiktokenTokenizer& tokenizer_;
  SpecialText special_;
  BpeEncoder bpe_;
  Pretokenizer::Cutter cutter_;
  std::vector<std::string_view> pieces_;
  std::vector<TextPart> parts_;
};

std::unique_ptr<Encoder> TiktokenTokenizer::encoder(SpecialText special) const {
  return std::make_unique<TiktokenEncoder>(*this, special, BpeEncoder::kDefaultCacheEntries);
}

std::unique_ptr<Encoder> TiktokenTokenizer::encoder_without_cache() const {
  return std::make_unique<TiktokenEncoder>(*this, SpecialText::kPlain, 0);
}

// The cuts of cuts_ are after a newline or between a letter and a space, so they split no special token.
size_t TiktokenTokenizer::safe_cut(std::string_view text, size_t limit) const {
  if (!meta_cuts_) return cuts_.safe_cut(text, limit);
  const size_t end = last_meta_part_end(text, limit);
  return end == 0 ? text.size() : end;
}

void TiktokenTokenizer::decode(uint32_t id, std::string& text) const {
  check_id(id, "the tokenizer has");
  text += bpe_.token(id);
}

std::string TiktokenTokenizer::content_hash() const {
  return hash_with_document_tokens(meta_cuts_ ? content_ : content_ + "\nwithout Meta's cuts", document_tokens_);
}

}  // namespace hearth::tokenizer
