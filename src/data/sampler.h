// Which window of which source is sample g: a pure function, with no index and no state.
//
//   source, k  = mixture(g)                  a periodic table of 65,536 slots: weights are shares of tokens
//   epoch, p   = k div n, k mod n            n: windows of the source
//   window     = permutation(seed, source, epoch)(p)
//
// Every token is used once an epoch. The last window of an epoch may be short: it is kept, and the loader pads it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/mixture.h"

namespace hearth::data {

// Windows start every `stride` tokens and are `length` long.
struct Window {
  int64_t length = 0, stride = 0;
  static Window causal(int64_t seq_len) {
    return {seq_len + 1, seq_len};
  }  // every token but the first is predicted once
  static Window masked(int64_t seq_len) { return {seq_len, seq_len}; }
  // Windows needed to cover `tokens`; the last may be short.
  int64_t count(int64_t tokens) const;
};

struct SamplerSource {
  std::string identity;  // of the dataset: part of the permutation's key, so that sources never shuffle alike
  int64_t tokens = 0;
  double weight = 1;  // share of the tokens, any positive scale
};

struct Sample {
  int64_t source = 0;
  uint64_t epoch = 0;       // of the source
  int64_t window = 0;       // index in the source
  int64_t first_token = 0;  // in the source's split
  int64_t num_tokens = 0;   // window.length, less at the source's end
};

class Sampler {
 public:
  // shuffle = false: windows in their order, epoch after epoch. Throws user_error if a source is shorter than one
  // window and shuffle is true (there is nothing to train on), or has no token at all.
  Sampler(std::vector<SamplerSource> sources, Window window, uint64_t seed, bool shuffle = true);

  Sample sample(uint64_t g) const;  // at most 20 ns

  int64_t windows(int64_t source) const { return windows_[static_cast<size_t>(source)]; }
  // Samples until the source has been seen once. One source: its windows.
  uint64_t samples_per_epoch(int64_t source = 0) const;
  const Window& window() const { return window_; }

 private:
  std::vector<SamplerSource> sources_;
  std::vector<int64_t> windows_;
  std::vector<uint64_t> keys_;
  Window window_;
  bool shuffle_;
  Mixture mixture_;
};

}  // namespace hearth::data
