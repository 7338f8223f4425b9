// SPDX-License-Identifier: Apache-2.0
// The window and source of sample g: a pure function, with no index and no state.
//
//   source, k  = mixture(g)                  data/order/mixture.h: weights are shares of tokens
//   epoch, p   = k div n, k mod n            n: windows of the source
//   window     = permutation(seed, source, epoch)(p)
//
// Every token is used once per epoch. The last window of an epoch may be short: the loader pads it.
//
// Values of data.packing and data.order other than the default look windows and positions up in tables
// (data/order/window_table.h). data.weight_rule may look sources up in a table of choices (data/order/neox_mixture.h).
// In every order, sample g is the same on any number of ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/choices.h"
#include "data/order/mixture.h"
#include "data/order/neox_mixture.h"
#include "data/order/permutation.h"
#include "data/order/window_table.h"

namespace hearth::data {

class Split;

// Version of the default rule for sample g. A checkpoint holds it: a run must not continue in another order. Version 1
// was a permutation with cycle walking over a power of two.
inline constexpr int64_t kSampleOrderVersion = 2;

// Windows start every `stride` tokens and are `length` long.
struct Window {
  int64_t length = 0, stride = 0;
  bool short_end = true;  // the tokens left at the end are a window, too; false: they are left out
  bool shifted = true;    // labels are the next tokens, so the last token of a window is only a label
  // Every token but the first is predicted once.
  static Window causal(int64_t seq_len) { return {seq_len + 1, seq_len}; }
  // Every token is in one window, where it may be hidden and predicted at its own position.
  static Window masked(int64_t seq_len) { return {seq_len, seq_len, true, /*shifted=*/false}; }
  // data.stride: "exact" is causal(). "neox" is the same without a short end (GPT-NeoX's helpers.cpp). "torchtitan"
  // cuts the text into pieces of seq_len + 1 tokens (its hf_datasets.py); the first token of each is never predicted.
  static Window named(config::Stride stride, int64_t seq_len);
  // Number of windows in `tokens` tokens.
  int64_t count(int64_t tokens) const;
};

struct SamplerSource {
  std::string identity;  // of the dataset: part of the permutation's key, so that each source has its own shuffle
  int64_t tokens = 0;
  double weight = 1;                           // share of the tokens, on any scale, from the first sample on
  std::shared_ptr<const WindowTable> table{};  // its windows; null: computed from Window
};

struct Sample {
  int64_t source = 0;
  uint64_t epoch = 0;       // of the source; with a table, its pass
  int64_t window = 0;       // index in the source
  int64_t first_token = 0;  // in the source's split; with a table see Sampler::parts
  int64_t num_tokens = 0;   // window.length, or less at the source's end; with a table 0
};

class Sampler {
 public:
  // shuffle = false: windows in order, epoch after epoch. `later`: segments of other weights, each after sample 0 and
  // after the one before. `neox_mixture` picks the sources instead of weights and segments. Throws user_error for
  // invalid weights (data/order/mixture.h), a source without a window, and, if shuffle is true, a source shorter than a
  // full window.
  Sampler(std::vector<SamplerSource> sources, Window window, uint64_t seed, bool shuffle = true,
          std::vector<MixtureSegment> later = {}, std::shared_ptr<const NeoxMixture> neox_mixture = nullptr);

  // Takes a few nanoseconds, and slightly more after the first kReadyEpochs epochs.
  Sample sample(uint64_t g) const;

  // Window number `window` of a source, for any order.
  Sample window(int64_t source, int64_t window) const;

  // The parts of the sample's row, in order.
  void parts(const Sample& sample, std::vector<RowPart>& parts) const;

  uint64_t count(int64_t source, uint64_t g) const;  // number of samples of `source` before g
  // The first g with count(source, g) >= `count`; Mixture::kNever if there is no such g.
  uint64_t samples_until(int64_t source, uint64_t count) const;
  // Windows of a source in a pass; with a table of GPT-NeoX's order a pass is several epochs.
  int64_t windows(int64_t source) const { return windows_[static_cast<size_t>(source)]; }
  double windows_per_epoch(int64_t source) const;
  bool has_table(int64_t source) const { return sources_[static_cast<size_t>(source)].table != nullptr; }
  // Samples until the source has been seen once; Mixture::kNever if it never is. With one source: its windows.
  uint64_t samples_per_epoch(int64_t source = 0) const;
  const Window& window() const { return window_; }

 private:
  // The permutations of the first epochs are made once: making their keys takes as long as a look-up.
  static constexpr uint64_t kReadyEpochs = 16;
  Permutation permutation(size_t source, uint64_t epoch) const;

  std::vector<SamplerSource> sources_;
  std::vector<int64_t> windows_;
  std::vector<uint64_t> keys_;
  std::vector<Permutation> ready_;  // [sources, kReadyEpochs]; empty without shuffling
  Window window_;
  bool shuffle_;
  Mixture mixture_;
  std::shared_ptr<const NeoxMixture> neox_mixture_;
};

// Everything except the seed that decides the order of samples: data.order, data.packing, data.stride and the mixture
// of the sources. TrainingData makes it.
struct SampleOrder {
  std::vector<MixtureSegment> segments{};                    // weights from sample 0 on; empty: there is one source
  config::Stride stride = config::Stride::kExact;            // Window::named
  bool masked = false;                                       // windows are Window::masked, stride is "exact"
  bool sequential = false;                                   // each source's windows in order, epoch after epoch
  std::vector<std::shared_ptr<const WindowTable>> tables{};  // of each source; empty: no source has a table
  std::shared_ptr<const NeoxMixture> neox_mixture{};         // instead of the segments

  Window window(int64_t seq_len) const { return masked ? Window::masked(seq_len) : Window::named(stride, seq_len); }
};

// The splits that samples are taken from: the same split of one or several datasets, which must outlive it.
using Sources = std::vector<const Split*>;

}  // namespace hearth::data
