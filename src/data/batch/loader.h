// SPDX-License-Identifier: Apache-2.0
// A rank's training batches, prepared ahead by worker threads.
//
// Step s uses samples [s * B, (s + 1) * B) of the global order, B = global_batch_size, cut into micro-batches of
// local_batch_size. The ranks take them in turn: rank r of R has micro-batches r, R + r, 2 R + r, ... The loader's
// whole state is (seed, segments, next_sample()). The same state gives the same batches over all ranks, for any number
// of ranks, threads and prefetched steps.
//
// Local. One Loader is used from one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/batch/batch.h"
#include "data/batch/label_rule.h"
#include "data/order/sampler.h"
#include "data/shard/dataset.h"

namespace hearth::data {

struct LoaderOptions {
  uint64_t seed = 0;
  int64_t seq_len = 0;            // positions of a sequence
  int64_t global_batch_size = 0;  // sequences per step, a multiple of ranks * local_batch_size
  int64_t local_batch_size = 0;
  int64_t rank = 0, ranks = 1;
  uint64_t first_sample = 0;
  SampleOrder order{};  // of training batches; without shuffling, sequences are in the order of their text
  // What happens to a sample with a damaged block. false: next() throws. true: another window of its source replaces
  // it, always the same one: the first whole window that is 1, 2, 4, 8, ... windows further. The run survives, but sees
  // some text twice. StepBatch::substitutes names it.
  bool substitute_damage = false;
  // Weights of the loss, by predicted token; empty: all 1. They are multiplied by the data's own weights
  // (Split::read_weights).
  std::vector<float> token_weights{};
  // If it hides tokens, order.masked is true. If it draws several rows of each sample (Diffusion::draws), rows take the
  // place of samples here: they are counted, and they make up a batch.
  LabelRule labels{};
  int64_t prefetch_threads = 1;  // 0: next() prepares the step itself
  int64_t prefetch_steps = 4;    // steps kept ready, at least 1
  // true: shuffled, without end, epoch after epoch (training).
  // false: the windows in order, once (validation). Rows that do not count fill up the last step. Every token after the
  // split's first is a label exactly once over all ranks.
  bool shuffle = true;
  int64_t max_windows = 0;  // shuffle = false: only the first ones; 0: all
};

// The sampler of a loader with these options. Reads no data.
Sampler sampler_of(const Sources& sources, const LoaderOptions& options);
inline Sampler sampler_of(const Split& split, const LoaderOptions& options) {
  return sampler_of(Sources{&split}, options);
}

class Loader {
 public:
  // Throws user_error for a source that is shorter than one window (shuffle only) and for batch sizes that do not
  // divide.
  Loader(const Sources& sources, const LoaderOptions& options);
  Loader(const Split& split, const LoaderOptions& options) : Loader(Sources{&split}, options) {}
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next step. Short rows (the split's end) and empty rows (beyond it, shuffle = false only) are filled with token
  // 0 and label kIgnore. num_samples is the number of samples over all ranks that are not empty; first_sample always
  // grows by global_batch_size. Throws a worker's error (a damaged block).
  StepBatch next();

  // g of the next step's first sample, which a checkpoint stores.
  uint64_t next_sample() const;
  // shuffle = false: calls of next() that remain. shuffle = true: the largest int64_t.
  int64_t steps_left() const;
  uint64_t samples_per_epoch() const;  // of the first source
  double waited_s() const;             // seconds that next() has waited for workers

 private:
  class Prefetch;
  std::unique_ptr<Prefetch> prefetch_;
};

}  // namespace hearth::data
