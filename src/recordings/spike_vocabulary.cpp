// SPDX-License-Identifier: Apache-2.0
#include "recordings/spike_vocabulary.h"

#include <charconv>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"

namespace hearth::recordings {

SpikeVocabulary::SpikeVocabulary(int64_t vocab_size) : vocab_size_(vocab_size) {
  HEARTH_CHECK(vocab_size >= 2 && vocab_size <= kLargestVocabSize);
  std::iota(counts_.begin(), counts_.end(), uint8_t{0});
}

std::span<const uint8_t> SpikeVocabulary::patch_of(uint32_t id) const {
  if (id + 1 >= static_cast<uint64_t>(vocab_size_)) return {};
  return std::span(counts_).subspan(id, 1);
}

std::string SpikeVocabulary::name() const { return fmt::format("spikes:{}", vocab_size_); }

// Stored in manifests: never change.
std::string SpikeVocabulary::content_hash() const { return xxh3_128_hex("hearth tokenizer " + name()); }

std::optional<int64_t> parse_spikes_name(std::string_view name) {
  constexpr std::string_view kPrefix = "spikes:";
  if (name == "spikes") return SpikeVocabulary::kVocabSize;
  if (!name.starts_with(kPrefix)) return {};
  const std::string_view digits = name.substr(kPrefix.size());
  int64_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size() && digits[0] != '0';
  return whole && size >= 2 && size <= SpikeVocabulary::kLargestVocabSize ? std::optional(size) : std::nullopt;
}

}  // namespace hearth::recordings
