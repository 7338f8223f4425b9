// SPDX-License-Identifier: Apache-2.0
// An array as tokens. Each token's position is computed, so arrays stay arrays on disk and are encoded when they are
// read.
//
//   n_fixed   every array gets this number of neurons: one with fewer repeats them from the first on, from one with
//             more a run of neighbours is taken, chosen anew in each pass over the data
//   patches   counts past the last neuron or bin are 0
//   columns   BOS, then the ids of the column's patches (vocabulary.h)
//
// An array of n neurons and t bins, in patches of p by q, has ceil(t / q) * (1 + ceil(m / p)) tokens, m = n_fixed or n.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "recordings/spike_array.h"
#include "recordings/vocabulary.h"

namespace hearth::recordings {

inline constexpr int64_t kMostNeurons = int64_t{1} << 20;  // of n_fixed

class ArrayStream {
 public:
  // Borrows the vocabulary. n_fixed 0: every array keeps its neurons.
  ArrayStream(const ArrayVocabulary& vocabulary, int64_t n_fixed) : vocabulary_(vocabulary), n_fixed_(n_fixed) {}

  const ArrayVocabulary& vocabulary() const { return vocabulary_; }
  int64_t n_fixed() const { return n_fixed_; }

  int64_t neurons(ArrayShape shape) const { return n_fixed_ > 0 ? n_fixed_ : shape.neurons; }
  int64_t column_tokens(ArrayShape shape) const;  // BOS included
  int64_t tokens(ArrayShape shape) const;
  // Number of possible first neurons; 1: there is no choice.
  int64_t crops(ArrayShape shape) const;

  // The bins [first, second) of tokens [first, first + count), count > 0.
  std::pair<int64_t, int64_t> bins_of(ArrayShape shape, int64_t first, int64_t count) const;

  // Tokens [first, first + out.size()) of the array. `counts` is [bins, neurons]; only the bins of bins_of are read.
  // `crop` is the first neuron, 0 <= crop < crops(shape). Throws damaged() for a count without an id.
  void read(ArrayShape shape, const uint8_t* counts, int64_t crop, int64_t first, std::span<int32_t> out) const;

 private:
  const ArrayVocabulary& vocabulary_;
  int64_t n_fixed_;
};

// The patch at (row, column) of an array. Neuron i is neuron crop + i of the array, and wraps around after its last.
// Cells past `neurons` and past the last bin are 0. `patch`: [shape.neurons, shape.bins], row-major.
void gather_patch(ArrayShape array, const uint8_t* counts, int64_t neurons, int64_t crop, PatchShape shape, int64_t row,
                  int64_t column, std::span<uint8_t> patch);

}  // namespace hearth::recordings
