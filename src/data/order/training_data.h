// What a run trains on: the datasets of data.path or [[data.source]], opened and held against each other, and the order
// of their samples: the mixture that weights and segments make, and the tables of those keys that need some.
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
  std::string path;  // as the run file has it, with the run file's folder before it
  Dataset dataset;
  size_t number;  // of its [[data.source]]
  double epochs_max;
};

// The datasets of data.path or [[data.source]] that can be trained on. `errors` takes what is wrong with the others: it
// is not there, has no training split, stands twice, or has another tokenizer than the first.
std::vector<TrainingSource> open_sources(const config::RunConfig& config, ErrorList& errors);

class TrainingData {
 public:
  using Source = TrainingSource;

  // Opens the sources and throws what is wrong with them.
  explicit TrainingData(const config::RunConfig& config);
  // `sources`: all of them. Throws user_error for weights that cannot be. Makes tables, or reads them.
  TrainingData(const config::RunConfig& config, std::vector<Source> sources);

  const std::vector<Source>& sources() const { return sources_; }
  Sources splits() const;
  // Neurons that every source gives its arrays; 0: those that each has, or the sources differ.
  int64_t n_fixed() const;
  // Tokenizer and vocabulary are those of all sources.
  const Manifest& manifest() const { return sources_.front().dataset.manifest(); }
  // The identity of the data: a single dataset's own, else a hash over those of all, in order.
  std::string identity() const;
  const SampleOrder& order() const { return order_; }
  const std::vector<MixtureSegment>& segments() const { return order_.segments; }
  // What there is to say about the tables, a line each.
  const std::vector<std::string>& notes() const { return notes_; }

  // Goes on where `before` stands: what was trained stays as it was, the run file's weights hold from
  // before.next_sample on. Sources take the order of `before`, new ones follow. Tables stay as long as they were.
  // Throws user_error where the order has another version, one of its sources is missing now, and with data.weight_rule
  // = "neox" where anything about the mixture changed. Call it once.
  void continue_from(const DataState& before);
  // The state after `next_sample` samples: what a later run continues from. The caller fills in the seed.
  DataState state(uint64_t next_sample) const;

  // Windows of all sources together in an epoch: what training.epochs counts.
  int64_t windows() const;

  // How often each source is seen in `samples` samples, in epochs; and its share of them.
  struct Use {
    double epochs, share;
  };
  std::vector<Use> use(const Sampler& sampler, uint64_t samples) const;
  // Throws user_error where `samples` samples see a source more often than its epochs_max allows. `batch` is the number
  // of sequences a step, for the advice.
  void check_epochs(const Sampler& sampler, uint64_t samples, int64_t batch) const;

 private:
  void make_neox_mixture();
  void make_neox_tables();

  std::vector<Source> sources_;
  SampleOrder order_;
  bool neox_order_;
  int64_t seq_len_;
  uint32_t neox_seed_;
  bool exact_samples_;          // one data.path: its table is made for the run's samples, as GPT-NeoX's data_path
  uint64_t samples_ = 0;        // of the whole run, as the run file has it
  uint64_t order_samples_ = 0;  // that GPT-NeoX's tables are made for: those of the run file that it began with
  std::vector<std::string> notes_;
};

}  // namespace hearth::data
