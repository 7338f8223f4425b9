// SPDX-License-Identifier: Apache-2.0
// Tokenizers of 2-D arrays of counts, neurons x time bins, instead of text: spikes.h and patches.h.
//
// An array is cut into patches of some neurons by some bins. Patches are read column by column, each column from the
// first neuron to the last. BOS = vocab_size - 1 precedes every column:
//
//   BOS p(0,0) p(1,0) ... BOS p(0,1) p(1,1) ...
//
// A tokenizer maps patches to ids and ids to patches; data/shard/array_stream.h makes the stream.
// There is no EOS and no token between arrays.
#pragma once

#include <cstdint>
#include <span>

#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {

struct PatchShape {
  int64_t neurons = 1, bins = 1;
  int64_t cells() const { return neurons * bins; }
  bool operator==(const PatchShape&) const = default;
};

class ArrayTokenizer : public Tokenizer {
 public:
  virtual PatchShape patch_shape() const = 0;
  // A patch with a larger count has no id.
  virtual int largest_count() const { return 255; }
  // The id of a patch [neurons, bins], row-major. No count may be above largest_count().
  virtual uint32_t id_of(std::span<const uint8_t> patch) const = 0;
  // The patch of an id; empty for BOS and for ids without a patch.
  virtual std::span<const uint8_t> patch_of(uint32_t id) const = 0;

  const ArrayTokenizer* arrays() const final { return this; }
  bool has_text() const final { return false; }
  std::unique_ptr<Encoder> encoder(SpecialText special) const final;  // throws user_error for text
  size_t safe_cut(std::string_view, size_t limit) const final { return limit; }
  // For display: a line for each column, " 0 3 1" or " 0,0,1 2,0,0".
  void decode(uint32_t id, std::string& text) const final;
  std::optional<uint32_t> bos() const final { return static_cast<uint32_t>(vocab_size() - 1); }
  std::optional<uint32_t> eos() const final { return {}; }
};

}  // namespace hearth::tokenizer
