// SPDX-License-Identifier: Apache-2.0
// A run's training data: the datasets of data.path or [[data.source]], opened and compared with each other, and the
// order of their samples. The order is the mixture of weights and segments, and the tables of keys that need one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error_list.h"
#include "config/config.h"
#include "data/order/data_state.h"
#include "data/order/mixture.h"
#include "data/order/sampler.h"
#include "data/shard/dataset.h"

namespace hearth::data {

struct TrainingSource {
  std::string path;  // of the run file, resolved against the run file's folder
  Dataset dataset;
  size_t number;  // of its [[data.source]]
  double epochs_max;
};

// The datasets of data.path or [[data.source]] that can be trained on. `errors` takes the problems of the others: a
// missing dataset, no training split, no token that counts, a dataset given twice, another tokenizer than the first's.
std::vector<TrainingSource> open_sources(const config::RunConfig& config, ErrorList& errors);

class TrainingData {
 public:
  using Source = TrainingSource;

  // Opens the sources. Throws their problems.
  explicit TrainingData(const config::RunConfig& config);
  // `sources`: all of them. Makes or reads the tables. Throws user_error for invalid weights.
  TrainingData(const config::RunConfig& config, std::vector<Source> sources);

  const std::vector<Source>& sources() const { return sources_; }
  Sources splits() const;
  // The n_fixed that all sources have; 0: arrays keep their own number of neurons, or the sources differ.
  int64_t n_fixed() const;
  // Tokenizer and vocabulary are the same in all sources.
  const DatasetManifest& manifest() const { return sources_.front().dataset.manifest(); }
  // The identity of the data: that dataset's identity if there is one, otherwise a hash over all identities in order.
  std::string identity() const;
  const SampleOrder& order() const { return order_; }
  const std::vector<MixtureSegment>& segments() const { return order_.segments; }
  // Messages about the tables, one line each.
  const std::vector<std::string>& notes() const { return notes_; }

  // Continues from `before`. Past samples stay as they were; the run file's weights hold from before.next_sample on.
  // Sources take the order of `before`, new ones follow. Tables keep their size. Throws user_error for another version
  // of the order, a missing source, and, with data.weight_rule = "neox", any change of the mixture. Call it once.
  void continue_from(const DataState& before);
  // The state after `next_sample` samples, from which a later run continues. The caller sets the seed.
  DataState state(uint64_t next_sample) const;

  // Bytes of the training shards that are in a store. A run takes its samples from all of them in turn.
  int64_t bytes_in_store() const;

  // Windows of all sources in an epoch, as training.epochs counts them.
  int64_t windows() const;

  // How often `samples` samples use each source, in epochs, and the source's share of them.
  struct Use {
    double epochs, share;
  };
  std::vector<Use> use(const Sampler& sampler, uint64_t samples) const;
  // Throws user_error if `samples` samples use a source more often than its epochs_max allows. `batch` is the number of
  // sequences per step, for the advice.
  void check_epochs(const Sampler& sampler, uint64_t samples, int64_t batch) const;

 private:
  void make_neox_mixture();
  void make_neox_tables();

  std::vector<Source> sources_;
  SampleOrder order_;
  bool neox_order_;
  int64_t seq_len_;
  uint32_t neox_seed_;
  bool exact_samples_;          // one data.path: its table is made for the run's samples, as for GPT-NeoX's data_path
  uint64_t samples_ = 0;        // of the whole run, from the run file
  uint64_t order_samples_ = 0;  // for which GPT-NeoX's tables are made: those of the run's first run file
  std::vector<std::string> notes_;
};

}  // namespace hearth::data
