// What a run trains on: the datasets of data.path or [[data.source]], opened and held against each other, and the
// mixture that its weights and segments make.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "data/mixture.h"

namespace hearth::data {

// How a training has been fed so far: what a checkpoint stores beside the seed. A few dozen bytes for each segment.
struct DataState {
  uint64_t next_sample = 0;
  std::vector<std::string> sources;      // identity of each dataset
  std::vector<MixtureSegment> segments;  // those that have begun; weights in the order of `sources`
};

class TrainingData {
 public:
  struct Source {
    std::string path;  // as the run file has it, with the run file's folder before it
    Dataset dataset;
    size_t number;  // of its [[data.source]]
    double epochs_max;
  };

  // Throws user_error where a dataset is not there, has no training split, stands twice, or has another tokenizer than
  // the others; and for weights that cannot be.
  explicit TrainingData(const config::RunConfig& config);

  const std::vector<Source>& sources() const { return sources_; }
  Sources splits() const;
  // Tokenizer and vocabulary are those of all sources.
  const Manifest& manifest() const { return sources_.front().dataset.manifest(); }
  // Of what is read: a single dataset's own, else a hash over those of all, in order.
  std::string identity() const;
  const std::vector<MixtureSegment>& segments() const { return segments_; }

  // Goes on where `before` stands: what was trained stays as it was, the run file's weights hold from
  // before.next_sample on. Sources take the order of `before`, new ones follow. Throws user_error where one of its
  // sources is missing now. Call it once.
  void continue_from(const DataState& before);
  // The state after `next_sample` samples: what a later run continues from.
  DataState state(uint64_t next_sample) const;

  // Windows of all sources together: what training.epochs counts.
  int64_t windows(const Window& window) const;

  // How often each source is seen in `samples` samples, in epochs; and its share of them.
  struct Use {
    double epochs, share;
  };
  std::vector<Use> use(const Sampler& sampler, uint64_t samples) const;
  // Throws user_error where `samples` samples see a source more often than its epochs_max allows. `batch` is the number
  // of sequences a step, for the advice.
  void check_epochs(const Sampler& sampler, uint64_t samples, int64_t batch) const;

 private:
  std::vector<Source> sources_;
  std::vector<MixtureSegment> segments_;
};

}  // namespace hearth::data
