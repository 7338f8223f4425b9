// SPDX-License-Identifier: Apache-2.0
// The "model" node of a Unigram tokenizer: {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ...]}.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tokenizer/formats/huggingface_model.h"

namespace hearth::tokenizer {
namespace {

using Json = nlohmann::json;

constexpr int kLargestPower = 308;

// 10^power as the nearest double, 0 <= power <= 308.
double power_of_ten(int power) {
  static const auto powers = [] {
    std::array<double, kLargestPower + 1> made{};
    for (int i = 0; i <= kLargestPower; ++i) made[static_cast<size_t>(i)] = std::stod(fmt::format("1e{}", i));
    return made;
  }();
  return powers[static_cast<size_t>(power)];
}

// The double that `tokenizers` makes of a number in JSON. It is not always the nearest one: digits up to 2^64 are
// rounded to a double, which is then multiplied or divided by a power of ten. Scores of published files have 17 digits,
// and one of eight differs. Source: serde_json without its feature float_roundtrip.
double number_of_serde(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  uint64_t digits = 0;
  int64_t exponent = 0;
  size_t at = 0;
  const auto is_digit = [&] { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  bool is_full = false, has_point = false;
  for (; is_digit() || (!has_point && at < text.size() && text[at] == '.'); ++at) {
    if (text[at] == '.') {
      has_point = true;
      continue;
    }
    const auto digit = static_cast<uint64_t>(text[at] - '0');
    constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
    if (digits > kMost / 10 || (digits == kMost / 10 && digit > kMost % 10)) is_full = true;
    if (is_full) {
      if (!has_point) ++exponent;
      continue;
    }
    digits = digits * 10 + digit;
    if (has_point) --exponent;
  }
  if (at < text.size()) {  // e or E
    ++at;
    const bool down = at < text.size() && text[at] == '-';
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    int64_t power = 0;
    for (; is_digit(); ++at) power = std::min<int64_t>(power * 10 + (text[at] - '0'), 1 << 30);
    exponent += down ? -power : power;
  }
  auto number = static_cast<double>(digits);
  for (; exponent < -kLargestPower && number != 0; exponent += kLargestPower) number /= power_of_ten(kLargestPower);
  if (number != 0 && exponent > kLargestPower) return std::numeric_limits<double>::infinity();
  if (number != 0)
    number = exponent < 0 ? number / power_of_ten(static_cast<int>(-exponent))
                          : number * power_of_ten(static_cast<int>(exponent));
  return negative ? -number : number;
}

// Collects the numbers of "model.vocab" as their text says, because a parsed document has only the nearest doubles.
class ScoreReader final : public Json::json_sax_t {
 public:
  std::vector<double> scores;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t number) override { return add(static_cast<double>(number)); }
  bool number_unsigned(number_unsigned_t number) override { return add(static_cast<double>(number)); }
  bool number_float(number_float_t, const string_t& text) override { return add(number_of_serde(text)); }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ == 1) in_model_ = name == "model";
    if (depth_ == 2) in_vocabulary_ = in_model_ && name == "vocab";
    if (depth_ == 2 && in_vocabulary_) scores.clear();  // the last of equal keys counts
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool add(double number) {
    if (in_model_ && in_vocabulary_ && depth_ > 2) scores.push_back(number);
    return true;
  }
  bool enter() {
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  int depth_ = 0;
  bool in_model_ = false, in_vocabulary_ = false;
};

void read_byte_tokens(const VocabularyIndex& index, HuggingFaceFile& file) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto found = index.find(fmt::format("<0x{:02X}>", byte));
    file.byte_tokens.push_back(found == index.end() ? kNoToken : found->second);
  }
}

}  // namespace

VocabularyIndex read_unigram(const Node& node, std::string_view json, HuggingFaceFile& file) {
  node.allow_keys({"type", "unk_id", "vocab", "byte_fallback"});
  if (file.byte_level)
    throw node.wrong("is a Unigram model, but pre_tokenizer has ByteLevel", "Hearth reads ByteLevel with BPE only");
  file.unigram = true;
  const Node vocabulary = node.at("vocab");
  if (!vocabulary.json().is_array() || vocabulary.json().empty())
    throw vocabulary.wrong("is not a list of tokens with scores");
  VocabularyIndex index;
  const Json& list = vocabulary.json();
  for (size_t i = 0; i < list.size(); ++i) {
    const auto item = [&] { return node.items("vocab")[i]; };
    if (!list[i].is_array() || list[i].size() != 2 || !list[i][0].is_string() || !list[i][1].is_number())
      throw item().wrong("is not a token with a score: [\"a\", -1.5]");
    const auto& token = list[i][0].get_ref<const std::string&>();
    if (!index.emplace(token, static_cast<uint32_t>(i)).second) throw item().wrong("repeats an earlier token");
    file.tokens.push_back(token);
  }
  ScoreReader reader;
  Json::sax_parse(json, &reader);
  HEARTH_CHECK(reader.scores.size() == list.size());
  for (size_t i = 0; i < list.size(); ++i)
    if (!std::isfinite(reader.scores[i])) throw node.items("vocab")[i].wrong("has a score that is too large");
  file.scores = std::move(reader.scores);
  if (!node.has("unk_id"))
    throw node.at("unk_id").wrong("is not set", "text outside the vocabulary would be an error",
                                  "use a file that has an unknown token");
  file.unknown = node.id("unk_id");
  if (file.unknown >= list.size())
    throw node.at("unk_id").wrong(fmt::format("is {}, but vocab has {} tokens", file.unknown, list.size()));
  if (node.flag_or("byte_fallback", false)) read_byte_tokens(index, file);
  return index;
}

}  // namespace hearth::tokenizer
