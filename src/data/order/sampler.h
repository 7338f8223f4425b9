// Which window of which source is sample g: a pure function, with no index and no state.
//
//   source, k  = mixture(g)                  data/order/mixture.h: weights are shares of tokens
//   epoch, p   = k div n, k mod n            n: windows of the source
//   window     = permutation(seed, source, epoch)(p)
//
// Every token is used once an epoch. The last window of an epoch may be short: it is kept, and the loader pads it.
//
// data.packing and data.order by other names than the default look windows and positions up in tables
// (data/order/window_table.h), and data.weight_rule in one of choices (data/order/neox_mixture.h). Whatever the order:
// sample g is the same on any number of ranks.
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

// Which rule sample g follows where nothing but the defaults is asked for. A checkpoint holds it: a run must not go on
// in another order. 1: a permutation with cycle walking over a power of two.
inline constexpr int64_t kSampleOrderVersion = 2;

// Windows start every `stride` tokens and are `length` long.
struct Window {
  int64_t length = 0, stride = 0;
  bool short_end = true;  // what is left at the end of the tokens is a window, too; false: it is left out
  bool shifted = true;    // labels are the next tokens, so the last token of a window is only a label
  // Every token but the first is predicted once.
  static Window causal(int64_t seq_len) { return {seq_len + 1, seq_len}; }
  // Every token stands in one window, where it may be hidden and predicted at its own place.
  static Window masked(int64_t seq_len) { return {seq_len, seq_len, true, /*shifted=*/false}; }
  // data.stride: "exact" is causal(); "neox" the same without a short end (GPT-NeoX's helpers.cpp); "torchtitan" cuts
  // the text into pieces of seq_len + 1 tokens (its hf_datasets.py), so that the first of each is never predicted.
  static Window named(config::Stride stride, int64_t seq_len);
  // Windows that `tokens` make.
  int64_t count(int64_t tokens) const;
};

struct SamplerSource {
  std::string identity;  // of the dataset: part of the permutation's key, so that sources never shuffle alike
  int64_t tokens = 0;
  double weight = 1;                           // share of the tokens, on any scale, from the first sample on
  std::shared_ptr<const WindowTable> table{};  // its windows; null: those of Window
};

struct Sample {
  int64_t source = 0;
  uint64_t epoch = 0;       // of the source; with a table, its pass
  int64_t window = 0;       // index in the source
  int64_t first_token = 0;  // in the source's split; with a table, Sampler::parts tells
  int64_t num_tokens = 0;   // window.length, less at the source's end; with a table 0
};

class Sampler {
 public:
  // shuffle = false: windows in their order, epoch after epoch. `later`: segments of other weights, each beginning
  // after sample 0 and after the one before. Throws user_error if a source is shorter than one window and shuffle is
  // true (there is nothing to train on), or has no token at all; and where weights cannot be (data/order/mixture.h).
  // `neox_mixture`: picks the sources instead of weights and segments.
  Sampler(std::vector<SamplerSource> sources, Window window, uint64_t seed, bool shuffle = true,
          std::vector<MixtureSegment> later = {}, std::shared_ptr<const NeoxMixture> neox_mixture = nullptr);

  // A few nanoseconds; a little more in an epoch past the kReadyEpochs-th.
  Sample sample(uint64_t g) const;

  // Window number `window` of a source, whenever it comes.
  Sample window(int64_t source, int64_t window) const;

  // What its row is made of, in order.
  void parts(const Sample& sample, std::vector<Part>& parts) const;

  uint64_t count(int64_t source, uint64_t g) const;  // how many of the samples before g are of `source`
  // The first g by which `count` samples of `source` have been given; Mixture::kNever where that never comes.
  uint64_t samples_until(int64_t source, uint64_t count) const;
  // The windows of a source in a pass; with a table of GPT-NeoX's order a pass is several epochs.
  int64_t windows(int64_t source) const { return windows_[static_cast<size_t>(source)]; }
  double windows_per_epoch(int64_t source) const;
  bool has_table(int64_t source) const { return sources_[static_cast<size_t>(source)].table != nullptr; }
  // Samples until the source has been seen once; Mixture::kNever where that does not come. One source: its windows.
  uint64_t samples_per_epoch(int64_t source = 0) const;
  const Window& window() const { return window_; }

 private:
  // The permutations of the first epochs are made once: their keys take as long as a look-up.
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

// What decides, beside the seed, which sample comes when: data.order, data.packing, data.stride and how sources are
// mixed. TrainingData::order makes it.
struct SampleOrder {
  std::vector<MixtureSegment> segments{};                    // weights from sample 0 on; empty: there is one source
  config::Stride stride = config::Stride::kExact;            // Window::named
  bool masked = false;                                       // windows are Window::masked, stride is "exact"
  std::vector<std::shared_ptr<const WindowTable>> tables{};  // of each source; empty: none has one
  std::shared_ptr<const NeoxMixture> neox_mixture{};         // instead of the segments

  Window window(int64_t seq_len) const { return masked ? Window::masked(seq_len) : Window::named(stride, seq_len); }
};

// What samples are taken from: the same split of one or several datasets, which must outlive it.
using Sources = std::vector<const Split*>;

}  // namespace hearth::data
