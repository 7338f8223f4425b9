// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/huggingface.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {
namespace {

constexpr size_t kSurroundings = 16;  // bytes before and after a cut
constexpr int kCutTries = 1000;

// What a token adds to a text. The first token of a text has no space before it, and keeps its prefix.
std::string decode_word(const std::string& token, const WordDecoder& decoder, bool is_first) {
  constexpr std::pair<const char*, const char*> kCleaned[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  const bool continues = !decoder.prefix.empty() && token.starts_with(decoder.prefix);
  std::string text = is_first ? token : continues ? token.substr(decoder.prefix.size()) : " " + token;
  if (!decoder.cleans) return text;
  std::string changed;
  for (const auto& [from, to] : kCleaned)
    if (replace_all(text, from, to, changed)) text.swap(changed);
  return text;
}

bool has_invalid_before(std::string_view text, size_t limit) {
  for (size_t at = 0; at < std::min(text.size(), limit);) {
    const Decoded d = decode_utf8(text, at);
    if (d.c == kInvalidByte) return true;
    at += d.length;
  }
  return false;
}

}  // namespace

// ---- encoding

class HuggingFaceEncoder final : public Encoder {
 public:
  HuggingFaceEncoder(const HuggingFaceTokenizer& tokenizer, SpecialText special, bool cached)
      : t_(tokenizer), special_(special), stages_(tokenizer.cuts_.size()), normalizer_(*tokenizer.normalizer_) {
    for (size_t i = 0; i < stages_.size(); ++i)
      stages_[i].cutter = std::make_unique<Pretokenizer::Cutter>(tokenizer.cuts_[i]);
    if (tokenizer.unigram_)
      unigram_ = std::make_unique<UnigramEncoder>(*tokenizer.unigram_, cached);
    else if (tokenizer.words_)
      words_ = std::make_unique<WordPieceEncoder>(*tokenizer.words_, cached);
    else if (tokenizer.characters_)
      characters_ = std::make_unique<CharacterEncoder>(*tokenizer.characters_, cached);
    else
      bytes_ = std::make_unique<BpeEncoder>(*tokenizer.bpe_, cached ? BpeEncoder::kDefaultCacheEntries : 0);
  }

  void encode(std::string_view text, std::vector<uint32_t>& ids) override {
    if (!bytes_ || t_.file_.replaces_invalid) {
      valid_.clear();
      counts_.invalid_bytes_replaced += append_valid_utf8(text, valid_);
      text = valid_;
    }
    t_.raw_tokens_.split(text, special_, raw_parts_, counts_.special_text_seen);
    for (const TextPart& part : raw_parts_) {
      if (part.id)
        ids.push_back(*part.id);
      else
        encode_part(text.substr(part.begin, part.end - part.begin), part.begin == 0, ids);
    }
  }

 private:
  struct Stage {
    std::unique_ptr<Pretokenizer::Cutter> cutter;
    std::string changed;  // the current piece, if the stage changes it
    std::vector<std::string_view> batch;
  };

  void encode_part(std::string_view text, bool is_first, std::vector<uint32_t>& ids) {
    const std::string_view normalized = normalizer_.run(text);
    is_first = is_first && normalizer_.keeps_start();
    t_.normalized_tokens_.split(normalized, special_, parts_, counts_.special_text_seen);
    for (const TextPart& part : parts_) {
      if (part.id)
        ids.push_back(*part.id);
      else
        encode_stage(0, normalized.substr(part.begin, part.end - part.begin), is_first && part.begin == 0, ids);
    }
  }

  std::string_view change(const PretokenizerStage& stage, std::string_view piece, bool is_first,
                          std::string& changed) const {
    using Prefix = PretokenizerStage::Prefix;
    const bool wants_prefix =
        stage.prefix_where == Prefix::kAlways || (stage.prefix_where == Prefix::kFirst && is_first);
    if (!wants_prefix && stage.space_as.empty()) return piece;
    changed.clear();
    if (stage.space_as.empty()) {
      changed = piece;
    } else {
      for (const char byte : piece) {
        if (byte == ' ')
          changed += stage.space_as;
        else
          changed += byte;
      }
    }
    if (wants_prefix && !changed.starts_with(stage.prefix)) changed.insert(0, stage.prefix);
    return changed;
  }

  void encode_stage(size_t index, std::string_view piece, bool is_first, std::vector<uint32_t>& ids) {
    Stage& stage = stages_[index];
    if (!t_.file_.pretokenizer.empty()) piece = change(t_.file_.pretokenizer[index], piece, is_first, stage.changed);
    stage.cutter->start(piece);
    const bool last = index + 1 == stages_.size();
    while (stage.cutter->next(stage.batch)) {
      if (last && bytes_) {
        bytes_->encode_pieces(stage.batch, ids);
        continue;
      }
      for (const std::string_view cut : stage.batch) {
        if (last && unigram_)
          unigram_->encode_piece(cut, ids);
        else if (last && words_)
          words_->encode_piece(cut, ids);
        else if (last)
          characters_->encode_piece(cut, ids);
        else
          encode_stage(index + 1, cut, is_first && cut.data() == piece.data(), ids);
      }
    }
  }

  const HuggingFaceTokenizer& t_;
  SpecialText special_;
  std::vector<Stage> stages_;
  std::unique_ptr<BpeEncoder> bytes_;
  std::unique_ptr<CharacterEncoder> characters_;
  std::unique_ptr<UnigramEncoder> unigram_;
  std::unique_ptr<WordPieceEncoder> words_;
  Normalizer::Runner normalizer_;
  std::vector<TextPart> raw_parts_, parts_;
  std::string valid_;
};

// ---- the tokenizer

bool looks_like_huggingface_file(std::string_view content) {
  const size_t first = content.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && content[first] == '{';
}

HuggingFaceTokenizer::HuggingFaceTokenizer(std::string content, const std::string& origin)
    : FileTokenizer(std::move(content)), file_(parse_huggingface_file(content_, origin)) {
  make_model();
  normalizer_ = std::make_unique<Normalizer>(std::move(file_.normalizer));
  for (const PretokenizerStage& stage : file_.pretokenizer) cuts_.emplace_back(stage.cuts);
  if (cuts_.empty()) cuts_.emplace_back(std::vector<SplitStep>{});
  make_added_tokens();
  make_decoded();
}

void HuggingFaceTokenizer::make_model() {
  if (file_.unigram) {
    unigram_ = std::make_unique<UnigramVocabulary>(std::move(file_.tokens), std::move(file_.scores),
                                                   UnigramOptions{file_.unknown, file_.byte_tokens});
  } else if (file_.word_piece) {
    words_ = std::make_unique<WordPieceVocabulary>(std::move(file_.tokens), *file_.word_piece);
  } else {
    const bool whole_piece_first = file_.byte_level && file_.ignore_merges;
    bpe_ = std::make_unique<Bpe>(Bpe::from_merges(std::move(file_.tokens), file_.merges, whole_piece_first));
    if (!file_.byte_level)
      characters_ = std::make_unique<CharacterVocabulary>(*bpe_, file_.byte_tokens, file_.ignore_merges);
  }
  file_.tokens.clear();
  file_.merges = {};
  file_.scores = {};
}

// Tokens that are matched in normalized text are normalized too, including Llama-2's Prepend.
void HuggingFaceTokenizer::make_added_tokens() {
  std::vector<AddedToken> raw, normalized;
  Normalizer::Runner normalizer(*normalizer_);
  for (AddedToken token : file_.added_tokens) {
    if (!token.normalized) {
      raw.push_back(std::move(token));
      continue;
    }
    token.text = std::string(normalizer.run(token.text));
    if (!token.text.empty()) normalized.push_back(std::move(token));
  }
  raw_tokens_ = AddedTokens(std::move(raw));
  normalized_tokens_ = AddedTokens(std::move(normalized));
}

size_t HuggingFaceTokenizer::model_size() const {
  return unigram_ ? unigram_->size() : words_ ? words_->size() : bpe_->size();
}
std::string_view HuggingFaceTokenizer::model_token(uint32_t id) const {
  return unigram_ ? unigram_->token(id) : words_ ? words_->token(id) : bpe_->token(id);
}

std::string HuggingFaceTokenizer::decode_text(std::string text, bool is_first) const {
  if (file_.word_decoder && !text.empty()) text = decode_word(text, *file_.word_decoder, is_first);
  std::string changed;
  for (const DecoderStep& step : file_.decoder)
    if (replace_all(text, step.from, is_first && step.removes_in_first ? "" : step.to, changed)) text.swap(changed);
  return text;
}

void HuggingFaceTokenizer::make_decoded() {
  size_t size = model_size();
  for (const AddedToken& token : file_.added_tokens) size = std::max<size_t>(size, size_t{token.id} + 1);
  decoded_.resize(size);
  is_special_.resize(size);
  const auto set = [&](uint32_t id, const std::string& text) {
    decoded_[id] = decode_text(text, false);
    first_.erase(id);
    if (std::string first = decode_text(text, true); first != decoded_[id]) first_[id] = std::move(first);
  };
  for (uint32_t id = 0; id < model_size(); ++id) set(id, std::string(model_token(id)));
  for (const auto& [id, text] : file_.unreachable) decoded_[id] = text;
  const bool has_bytes = characters_ || file_.decodes_bytes;
  for (size_t byte = 0; has_bytes && byte < file_.byte_tokens.size(); ++byte)
    if (file_.byte_tokens[byte] != kNoToken)
      decoded_[file_.byte_tokens[byte]] = std::string(1, static_cast<char>(byte));
  Normalizer::Runner normalizer(*normalizer_);
  for (const AddedToken& token : file_.added_tokens) {
    is_special_[token.id] = token.special;
    set(token.id, token.special ? "" : std::string(token.normalized ? normalizer.run(token.text) : token.text));
  }
}

std::unique_ptr<Encoder> HuggingFaceTokenizer::encoder(SpecialText special) const {
  return std::make_unique<HuggingFaceEncoder>(*this, special, /*cached=*/true);
}

std::unique_ptr<Encoder> HuggingFaceTokenizer::encoder_without_cache() const {
  return std::make_unique<HuggingFaceEncoder>(*this, SpecialText::kPlain, /*cached=*/false);
}

// Cuts only if the result depends on no distant text: no prefix, no added token nearby, borders for the normalizer.
size_t HuggingFaceTokenizer::safe_cut(std::string_view text, size_t limit) const {
  HEARTH_CHECK(limit > 0 && limit <= text.size());
  if (limit == text.size() || !file_.byte_level || cuts_.size() > 1 || !normalizer_->has_borders()) return text.size();
  for (const PretokenizerStage& stage : file_.pretokenizer)
    if (stage.prefix_where != PretokenizerStage::Prefix::kNever) return text.size();
  if (file_.replaces_invalid && has_invalid_before(text, limit + kSurroundings)) return text.size();
  const std::string_view near = text.substr(0, limit + raw_tokens_.longest());
  if (raw_tokens_.find(near, 0) < near.size() || has_normalized_token(text, limit)) return text.size();
  size_t cut = cuts_[0].safe_cut(text, limit);
  // The cut is between words of the original text. It is one of the normalized text, too, if its surroundings stay.
  for (int tries = 0; cut < text.size(); ++tries) {
    const size_t begin = cut - std::min(cut, kSurroundings);
    if (normalizer_->keeps(text.substr(begin, cut - begin + kSurroundings))) break;
    cut = tries < kCutTries && cut > 1 ? cuts_[0].safe_cut(text, cut - 1) : text.size();
  }
  return cut;
}

// Whether an added token may begin in the normalized text before `limit`.
bool HuggingFaceTokenizer::has_normalized_token(std::string_view text, size_t limit) const {
  const size_t longest = normalized_tokens_.longest();
  if (longest == 0) return false;
  Normalizer::Runner normalizer(*normalizer_);
  // A normalizer may shorten a text, so the part behind the limit grows until its result is long enough.
  size_t more = longest;
  while (limit + more < text.size() && normalizer.run(text.substr(limit, more)).size() < longest) more *= 2;
  const std::string_view near = normalizer.run(text.substr(0, limit + more));
  return normalized_tokens_.find(near, 0) < near.size();
}

void HuggingFaceTokenizer::decode(uint32_t id, std::string& text) const {
  check_id(id, "the tokenizer has");
  text += decoded_[id];
}

std::string HuggingFaceTokenizer::decode_all(std::span<const uint32_t> ids) const {
  std::string text;
  bool is_first = !first_.empty();
  for (const uint32_t id : ids) {
    const auto found = is_first ? first_.find(id) : first_.end();
    if (found != first_.end())
      text += found->second;
    else
      decode(id, text);
    is_first = is_first && is_special_[id];
  }
  if (!file_.decoder_strip.empty() && text.starts_with(file_.decoder_strip)) text.erase(0, file_.decoder_strip.size());
  return text;
}

std::vector<SpecialToken> HuggingFaceTokenizer::special_tokens() const {
  std::vector<SpecialToken> special;
  for (const AddedToken& token : file_.added_tokens)
    if (token.special) special.push_back({token.text, token.id});
  return special;
}

}  // namespace hearth::tokenizer
