// SPDX-License-Identifier: Apache-2.0
// Ids of 2-D arrays of counts, neurons x time bins: spike_vocabulary.h and patch_file.h.
//
// An array is cut into patches of some neurons by some bins. Patches are read column by column, each column from the
// first neuron to the last. BOS = vocab_size - 1 precedes every column:
//
//   BOS p(0,0) p(1,0) ... BOS p(0,1) p(1,1) ...
//
// A vocabulary maps patches to ids and ids to patches; array_stream.h makes the stream. There is no EOS and no token
// between arrays. To everybody else a vocabulary is a tokenizer without text: tokenizer/formats/array_tokenizer.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hearth::recordings {

struct PatchShape {
  int64_t neurons = 1, bins = 1;
  int64_t cells() const { return neurons * bins; }
  bool operator==(const PatchShape&) const = default;
};

// Immutable, shared by threads.
class ArrayVocabulary {
 public:
  virtual ~ArrayVocabulary() = default;

  virtual PatchShape patch_shape() const = 0;
  // A patch with a larger count has no id.
  virtual int largest_count() const { return 255; }
  // The id of a patch [neurons, bins], row-major. No count may be above largest_count().
  virtual uint32_t id_of(std::span<const uint8_t> patch) const = 0;
  // The patch of an id; empty for BOS and for ids without a patch.
  virtual std::span<const uint8_t> patch_of(uint32_t id) const = 0;

  virtual int64_t vocab_size() const = 0;
  uint32_t bos() const { return static_cast<uint32_t>(vocab_size() - 1); }
  // What the methods of the same names say in tokenizer/tokenizer.h.
  virtual std::string kind() const = 0;  // "spikes" or "patches"
  virtual std::string name() const = 0;
  virtual std::string_view file_content() const { return {}; }
  virtual std::string content_hash() const = 0;
};

// An id below vocab_size() for display: " 3", or " 0,0,1" for a patch; a line's end for BOS, which begins a column.
std::string text_of_id(const ArrayVocabulary& vocabulary, uint32_t id);

// Whether a tokenizer's name in a manifest means a vocabulary of arrays.
bool is_name_of_arrays(std::string_view name);
// The name of the copy of a patch file in a dataset or a checkpoint.
inline constexpr std::string_view kPatchesName = "tokenizer.patches";

}  // namespace hearth::recordings
