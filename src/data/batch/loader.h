// The batches a rank trains on, prepared ahead by worker threads.
//
// Step s uses samples [s * B, (s + 1) * B) of the global order, B = global_batch_size; rank r of R takes the r-th part
// of it, cut into micro-batches of local_batch_size. The loader's whole state is (seed, segments, next_sample()): the
// same three give the same batches for any number of ranks taken together, threads or prefetched steps.
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
  SampleOrder order{};  // of training batches; without shuffling, sequences stand in the order of their text
  // A sample that touches a damaged block: false: next() throws; true: another of its source takes its place, always
  // the same (1, 2, 4, 8, ... windows further, the first that is whole), and StepBatch::substitutes tells.
  bool substitute_damage = false;
  // Weights of the loss, by the token that is predicted; empty: all 1. Multiplied with what the data say
  // (Split::read_weights).
  std::vector<float> token_weights{};
  LabelRule labels{};            // with masking, order.masked is true
  int64_t prefetch_threads = 1;  // 0: next() prepares the step itself
  int64_t prefetch_steps = 4;    // steps kept ready, at least 1
  // true: shuffled, without end, epoch after epoch (training).
  // false: the windows in order, once (validation). The last step is filled up with rows that do not count, so every
  // token after the split's first is a label exactly once over all ranks.
  bool shuffle = true;
};

// Which windows a loader with these options reads: its order, without reading anything.
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

  // The next step. Rows that are short (the end of the split) or empty (beyond it, shuffle = false only) are filled
  // with token 0 and label kIgnore. num_samples is the number of samples over all ranks that are not empty;
  // first_sample moves on by global_batch_size whatever it is. What went wrong in a worker (a damaged block) is thrown
  // here.
  StepBatch next();

  // g of the first sample of the step that next() will return: what a checkpoint stores.
  uint64_t next_sample() const;
  // shuffle = false: calls of next() that remain. shuffle = true: the largest int64_t.
  int64_t steps_left() const;
  uint64_t samples_per_epoch() const;  // of the first source
  double waited_s() const;             // seconds next() has waited for workers since the loader was made

 private:
  class Prefetch;
  std::unique_ptr<Prefetch> prefetch_;
};

}  // namespace hearth::data
