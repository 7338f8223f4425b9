#include "commands/data/first_document.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/quantity.h"
#include "base/text.h"
#include "commands/data/array_view.h"

namespace hearth::commands {
namespace {

constexpr int64_t kFirstTokens = 32, kFirstBins = 60, kFirstNeurons = 8;

// "BOS <s> (1) before each document", "no BOS".
std::string place_of(const char* name, bool used, int64_t id, const tokenizer::Tokenizer& tokenizer,
                     const char* where) {
  if (!used) return fmt::format("no {}", name);
  for (const tokenizer::SpecialToken& token : tokenizer.special_tokens())
    if (token.id == id) return fmt::format("{} {} ({}) {}", name, token.text, id, where);
  return fmt::format("{} ({}) {}", name, id, where);
}

std::string decode(const std::vector<int32_t>& ids, const tokenizer::Tokenizer& tokenizer) {
  const std::vector<tokenizer::SpecialToken> special = tokenizer.special_tokens();
  std::string text;
  for (const int32_t id : ids) {
    const auto found = std::find_if(special.begin(), special.end(),
                                    [&](const auto& token) { return token.id == static_cast<uint32_t>(id); });
    if (found != special.end())
      text += found->text;
    else
      tokenizer.decode(static_cast<uint32_t>(id), text);
  }
  return text;
}

void print_first_array(const data::Split& split) {
  fmt::print("BOS ({}) before each {}; no EOS\n", *split.arrays()->tokenizer().bos(),
             split.arrays()->tokenizer().patch_shape().bins == 1 ? "time bin" : "column of patches");
  fmt::print("first array:\n");
  print_array_labels(split, 0);
  const int64_t shown = kFirstBins * split.arrays()->column_tokens(split.array(0).shape);
  print_array(split, 0, 0, std::min(split.document_begin(1), shown), {}, kFirstNeurons);
}

}  // namespace

void print_first_document(const data::Dataset& dataset) {
  const data::Manifest& m = dataset.manifest();
  const auto tokenizer = dataset.open_tokenizer();
  if (dataset.has_split("train") && dataset.split("train").arrays() != nullptr)
    return print_first_array(dataset.split("train"));
  fmt::print("tokenizer {}, {} ids; {}; {}\n", tokenizer->name(), tokenizer->vocab_size(),
             place_of("BOS", m.rules.bos, m.bos, *tokenizer, "before each document"),
             place_of("EOS", m.rules.eos, m.eos, *tokenizer, "after each document"));
  if (m.special_text_seen > 0)
    fmt::print("the text spells special tokens {}; they stay text\n", counted(m.special_text_seen, "time"));
  if (m.invalid_bytes_replaced > 0)
    fmt::print("{} not in UTF-8 became U+FFFD: this tokenizer has no tokens for such bytes\n",
               counted(m.invalid_bytes_replaced, "byte"));
  if (!dataset.has_split("train")) return;
  const data::Split& split = dataset.split("train");
  const int64_t length = split.document_begin(1);
  std::vector<int32_t> ids(static_cast<size_t>(std::min(length, kFirstTokens)));
  split.read(0, ids);
  const char* more = length > kFirstTokens ? " ..." : "";
  std::vector<float> weights(ids.size());
  split.read_weights(0, weights);
  std::string numbers;
  for (size_t i = 0; i < ids.size(); ++i)
    numbers += weights[i] == 0 ? fmt::format(" ({})", ids[i]) : fmt::format(" {}", ids[i]);
  if (split.weights()) fmt::print("in brackets: tokens that do not count in the loss\n");
  fmt::print("first document:{}{}\n  | {}{}\n", numbers, more, printable(decode(ids, *tokenizer)), more);
}

}  // namespace hearth::commands
