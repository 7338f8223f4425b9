// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX's training order of a dataset: the documents of all epochs are shuffled and cut into sequences, and the
// sequences are shuffled. Source: EleutherAI/gpt-neox, megatron/data/gpt2_dataset.py and helpers.cpp.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "data/order/window_table.h"
#include "data/shard/dataset.h"

namespace hearth::data {

// NumPy's legacy shuffle, number by number: numpy.random.RandomState(seed).shuffle(). GPT-NeoX's order depends on it.
// One stream of random numbers. Several shuffles continue it, as with one RandomState.
class NumpyShuffle {
 public:
  explicit NumpyShuffle(uint32_t seed) : engine_(seed) {}

  // At most 2^32 values: above that NumPy draws words of 64 bits.
  void operator()(std::span<uint32_t> values);

 private:
  uint32_t draw(uint32_t most);  // 0 .. most, all equally likely

  std::mt19937 engine_;  // seeded as RandomState seeds an integer
};

// GPT-NeoX's three index maps.
struct NeoxMaps {
  int64_t epochs = 0;
  std::vector<uint32_t> documents;  // [epochs * documents] doc_idx: each document once per epoch, shuffled as a whole
  // sample_idx: the start of each sequence, with one row after the last. A start is a place in `documents` and a token
  // of that document. The next sequence begins with the last token of this one.
  std::vector<uint32_t> places, offsets;
  std::vector<uint32_t> shuffle;  // [sequences] shuffle_idx: the sequence at place i of the training

  int64_t sequences() const { return static_cast<int64_t>(shuffle.size()); }
};

// The maps for documents of these lengths, in tokens, with as many epochs as `samples` sequences of seq_len + 1 tokens
// need. Throws user_error if places or sequences do not fit into 32 bits. Needs at least one token, and samples >= 1.
NeoxMaps neox_maps(std::span<const uint32_t> lengths, int64_t seq_len, uint64_t samples, uint32_t seed);

// The same as windows over `split`: one window per sequence.
TableArrays neox_window_table(const Split& split, int64_t seq_len, uint64_t samples, uint32_t seed);

// Number of samples asked of each source if a run of `samples` mixes them with these weights: half a percent more than
// its share.
std::vector<uint64_t> neox_samples(std::span<const double> weights, uint64_t samples);

}  // namespace hearth::data
