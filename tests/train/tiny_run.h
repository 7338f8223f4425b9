// SPDX-License-Identifier: Apache-2.0
// A dataset and a run so small that a test can train it many times: some thousand parameters, steps of a millisecond.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "config/config.h"
#include "data/build/build.h"
#include "metrics/jsonl.h"
#include "recordings/synthetic.h"
#include "run/state.h"
#include "support/environment.h"
#include "support/errors.h"
#include "train/trainer.h"

namespace hearth::train {

using test::error_of;

// English-like text, the same for the same seed: sentences of words from one list of syllables.
inline std::string tiny_text(uint64_t seed, int64_t words) {
  static const char* kSyllables[] = {"ka", "lo", "mi", "ren", "tus", "ba", "den", "or", "is", "ve"};
  const RandomKey key = random_key(seed, "tiny text");
  std::string text;
  for (uint64_t i = 0; i < static_cast<uint64_t>(words); ++i) {
    for (uint64_t s = 0; s <= random_u64(key, 4 * i) % 3; ++s) text += kSyllables[random_u64(key, 4 * i + 1 + s) % 10];
    text += i % 9 == 8 ? ".\n" : " ";
  }
  return text;
}

// FOLDER/data, built from FOLDER/text: eight documents, about two of them held out (by hash).
inline void build_tiny_data(const Path& folder, int64_t words_per_document = 400) {
  make_folders(folder / "text");
  for (uint64_t i = 0; i < 8; ++i)
    write_file_atomic(folder / "text" / fmt::format("{}.txt", i), tiny_text(i, words_per_document));
  data::BuildOptions options;
  options.out = folder / "data";
  options.paths = {folder / "text"};
  options.rules.validation = 0.3;
  data::BuildProgress progress;
  data::build_dataset(options, progress);
}

// FOLDER/NAME of recordings, from FOLDER/NAME-rec: six arrays of counts, each of `neurons` neurons.
inline void build_tiny_spikes(const Path& folder, const std::string& name, int64_t neurons, uint64_t seed = 1,
                              const std::string& tokenizer = "spikes", double validation = 0.3) {
  recordings::write_synthetic_spikes(folder / (name + "-rec"), seed, 6);
  data::BuildOptions options;
  options.out = folder / name;
  options.paths = {folder / (name + "-rec")};
  options.rules.tokenizer = tokenizer;
  options.rules.n_fixed = neurons;
  options.rules.validation = validation;
  data::BuildProgress progress;
  data::build_dataset(options, progress);
}

// The set-up of most tests: that dataset in its own folder.
struct TinyData : ::testing::Test {
  TinyData() { build_tiny_data(scratch); }
  test::ScratchFolder scratch;
};

// A run in FOLDER/run on that dataset.
inline config::RunConfig tiny_config(const Path& folder) {
  config::RunConfig c;
  c.base_folder = folder;
  c.job.dump_folder = "run";
  c.data.path = "data";
  c.model.dim = 32;
  c.model.n_layers = 2;
  c.model.n_heads = 4;
  c.model.n_kv_heads = 2;
  c.model.hidden_dim = 64;
  c.training.seq_len = 32;
  c.training.local_batch_size = 2;
  c.training.global_batch_size = 8;
  c.training.steps = 12;
  c.training.threads = 1;
  c.optimizer.lr = 1e-2;
  c.lr_scheduler.warmup_steps = 3;
  c.lr_scheduler.decay_type = config::DecayType::kConstant;  // a test may prolong a run and expect the same numbers
  c.checkpoint.interval = 4;
  c.memory.loss_chunk_tokens = 48;  // does not divide the 64 tokens of a micro-batch
  return c;
}

// Trains and returns the records of the metrics file since the beginning.
inline std::vector<metrics::StepRecord> train(const config::RunConfig& config,
                                              const config::TrainOptions& options = {}) {
  EXPECT_EQ(run_training(config, options), ExitCode::kDone);
  return metrics::read_metrics(config.run_folder() / "metrics.jsonl");
}

// Every tensor of a checkpoint, whole.
inline std::map<std::string, std::vector<std::byte>> tensors_of(const Path& folder) {
  std::map<std::string, std::vector<std::byte>> tensors;
  checkpoint::Reader reader = checkpoint::Reader::open(folder);
  for (const mesh::TensorInfo& info : reader.tensors()) {
    const mesh::Box whole{std::vector<int64_t>(info.shape.size(), 0), info.shape};
    std::vector<std::byte> bytes(static_cast<size_t>(whole.numel() * dtype_size(info.dtype)));
    reader.read(info.name, whole, bytes);
    tensors.emplace(info.name, std::move(bytes));
  }
  return tensors;
}

inline Path step_of(const config::RunConfig& config, int64_t step) {
  return checkpoint::step_folder(config.checkpoint_folder(), step);
}

// Compares all values that must not depend on interruptions, step by step; times may.
inline void expect_same_training(const std::vector<metrics::StepRecord>& a, const std::vector<metrics::StepRecord>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].step, b[i].step);
    EXPECT_EQ(a[i].loss, b[i].loss) << "step " << a[i].step;
    EXPECT_EQ(a[i].grad_norm, b[i].grad_norm) << "step " << a[i].step;
    EXPECT_EQ(a[i].lr, b[i].lr) << "step " << a[i].step;
    EXPECT_EQ(a[i].tokens, b[i].tokens) << "step " << a[i].step;
    EXPECT_EQ(a[i].validation_loss, b[i].validation_loss) << "step " << a[i].step;
  }
}

// Curves that differ only by the order of float64 sums.
inline void expect_curves_near(const std::vector<metrics::StepRecord>& a, const std::vector<metrics::StepRecord>& b) {
  const auto expect_near = [](const std::optional<double>& x, const std::optional<double>& y, double tolerance) {
    EXPECT_EQ(x.has_value(), y.has_value());
    if (x && y) {
      EXPECT_NEAR(*x, *y, tolerance);
    }
  };
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    SCOPED_TRACE(fmt::format("step {}", a[i].step));
    expect_near(a[i].loss, b[i].loss, 1e-9 * b[i].loss.value_or(0));
    expect_near(a[i].grad_norm, b[i].grad_norm, 1e-8);
    expect_near(a[i].validation_loss, b[i].validation_loss, 1e-9 * b[i].validation_loss.value_or(0));
  }
}

// Trains with other numbers of ranks and micro-batches: each has the curve of the first. `make`: a configuration by the
// name of its folder. The first trains `most_steps`, the others `steps`. Returns the first's records.
template <class Make>
std::vector<metrics::StepRecord> expect_one_curve_however_a_step_is_cut(const Make& make, int64_t most_steps,
                                                                        int64_t steps) {
  std::vector<metrics::StepRecord> one;
  // Ranks, and sequences of a micro-batch: 4, 2, 1 micro-batches on one rank, then 2 and 1 on each of several ranks.
  const std::vector<std::pair<int64_t, int64_t>> cuts = {{1, 2}, {1, 4}, {1, 8}, {2, 2}, {4, 2}};
  for (const auto& [ranks, sequences] : cuts) {
    config::RunConfig c = make(fmt::format("run{}-{}", ranks, sequences));
    c.training.dtype = DType::kFloat64;
    c.training.steps = one.empty() ? most_steps : steps;
    c.training.local_batch_size = sequences;
    c.parallelism.data_parallel_shard_degree = ranks;
    const auto records = train(c);
    EXPECT_EQ(records.size(), static_cast<size_t>(c.training.steps) + 1);
    if (one.empty()) one = records;
    expect_curves_near(records, {one.begin(), one.begin() + static_cast<std::ptrdiff_t>(records.size())});
  }
  return one;
}

// The data state and the guard's state in checkpoint `folder`.
inline data::DataState data_state_at(const Path& folder) {
  return run::data_state_of(checkpoint::Reader::open(folder).manifest(), folder);
}
inline run::Health health_at(const Path& folder) {
  return run::progress_of(checkpoint::Reader::open(folder).manifest(), folder).health;
}

}  // namespace hearth::train
