// SPDX-License-Identifier: Apache-2.0
// The vocabulary of spike counts. It needs no file: id = count, and BOS = vocab_size - 1 precedes every time bin. The
// neural-data repositories that grew from torchtitan have the same rule, except that here a count equal to BOS is an
// error.
#pragma once

#include <array>
#include <optional>

#include "recordings/vocabulary.h"

namespace hearth::recordings {

class SpikeVocabulary final : public ArrayVocabulary {
 public:
  // 256: counts 0 .. 254, BOS 255. With 257 every uint8 is a count.
  static constexpr int64_t kVocabSize = 256, kLargestVocabSize = 257;

  explicit SpikeVocabulary(int64_t vocab_size);

  PatchShape patch_shape() const override { return {1, 1}; }
  int largest_count() const override { return static_cast<int>(vocab_size_ - 2); }
  uint32_t id_of(std::span<const uint8_t> patch) const override { return patch[0]; }
  std::span<const uint8_t> patch_of(uint32_t id) const override;
  int64_t vocab_size() const override { return vocab_size_; }
  std::string kind() const override { return "spikes"; }
  std::string name() const override;  // "spikes:256"
  std::string content_hash() const override;

 private:
  int64_t vocab_size_;
  std::array<uint8_t, 256> counts_;  // one patch for each count
};

// The vocabulary size of "spikes" (256) and "spikes:N", 2 <= N <= 257; nullopt for any other text.
std::optional<int64_t> parse_spikes_name(std::string_view name);

}  // namespace hearth::recordings
