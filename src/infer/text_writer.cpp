// SPDX-License-Identifier: Apache-2.0
#include "infer/text_writer.h"

#include <algorithm>
#include <utility>

namespace hearth::infer {
namespace {

// The length of the longest end of `text` that begins a stop string.
size_t beginning_of_a_stop(std::string_view text, const std::vector<std::string>& stops) {
  size_t longest = 0;
  for (const std::string& stop : stops) {
    size_t length = std::min(text.size(), stop.size() - 1);
    while (length > longest && !text.ends_with(std::string_view(stop).substr(0, length))) --length;
    longest = std::max(longest, length);
  }
  return longest;
}

}  // namespace

std::string_view name_of(Ending ending) {
  constexpr std::string_view kNames[] = {"length", "eos", "stop"};
  return kNames[static_cast<size_t>(ending)];
}

TextWriter::TextWriter(const tokenizer::Tokenizer& tokenizer, const WritingRules& rules, uint64_t seed)
    : tokenizer_(tokenizer), rules_(rules), key_(random_key(seed, "generate")) {}

std::optional<int32_t> TextWriter::next(std::span<const double> logits) {
  const double uniform = random_uniform(key_, static_cast<uint64_t>(tokens_));
  const auto id = static_cast<uint32_t>(decode::sample_token(logits, rules_.sampling, uniform));
  if (tokenizer_.eos() == id) {
    end(Ending::kEos);
    return std::nullopt;
  }
  ++tokens_;
  std::string bytes;
  tokenizer_.decode(id, bytes);
  add(characters_.push(bytes));
  if (!ending_ && tokens_ >= rules_.max_tokens) end(Ending::kLength);
  return ending_ ? std::nullopt : std::optional(static_cast<int32_t>(id));
}

std::string TextWriter::take_text() { return std::exchange(shown_, {}); }

void TextWriter::add(std::string_view text) {
  waiting_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : rules_.stop) first = std::min(first, waiting_.find(stop));
  if (first != std::string::npos) {
    shown_ += waiting_.substr(0, first);
    waiting_.clear();
    ending_ = Ending::kStop;
    return;
  }
  const size_t ready = waiting_.size() - beginning_of_a_stop(waiting_, rules_.stop);
  shown_ += waiting_.substr(0, ready);
  waiting_.erase(0, ready);
}

void TextWriter::end(Ending ending) {
  add(characters_.finish());
  if (ending_) return;
  shown_ += std::exchange(waiting_, {});
  ending_ = ending;
}

}  // namespace hearth::infer
