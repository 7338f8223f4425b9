// The order in which GPT-NeoX trains on a dataset: documents of all epochs shuffled, cut into sequences, the sequences
// shuffled. Source: EleutherAI/gpt-neox, megatron/data/gpt2_dataset.py and helpers.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/order/window_table.h"
#include "data/shard/dataset.h"

namespace hearth::data {

// GPT-NeoX's three index maps.
struct NeoxMaps {
  int64_t epochs = 0;
  std::vector<uint32_t> documents;  // [epochs * documents] doc_idx: each document once an epoch, shuffled as a whole
  // Where each sequence begins, its sample_idx, with one row behind the last: a place in `documents` and a token of
  // that document. The next sequence begins with the last token of this one.
  std::vector<uint32_t> places, offsets;
  std::vector<uint32_t> shuffle;  // [sequences] shuffle_idx: the sequence that comes i-th

  int64_t sequences() const { return static_cast<int64_t>(shuffle.size()); }
};

// For documents of these lengths, in tokens: as many epochs as `samples` sequences of seq_len + 1 tokens need. Throws
// user_error where places or sequences do not fit into 32 bits. There is a token, and samples >= 1.
NeoxMaps neox_maps(std::span<const uint32_t> lengths, int64_t seq_len, uint64_t samples, uint32_t seed);

// The same as windows over `split`: each a sequence of the maps.
Table neox_window_table(const Split& split, int64_t seq_len, uint64_t samples, uint32_t seed);

// How many samples each source is asked for where a run of `samples` mixes them with these weights: half a percent
// more than its share.
std::vector<uint64_t> neox_samples(std::span<const double> weights, uint64_t samples);

}  // namespace hearth::data
