#include "data/training_data.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"

namespace hearth::data {
namespace {

void check_same_tokenizer(const TrainingData::Source& first, const TrainingData::Source& other) {
  const Manifest &a = first.dataset.manifest(), &b = other.dataset.manifest();
  if (a.tokenizer_hash == b.tokenizer_hash) return;
  throw user_error(fmt::format("{} was built with another tokenizer than {}", other.path, first.path),
                   fmt::format("the one's is {} ({}), the other's {} ({}), so the same id would mean two things",
                               b.rules.tokenizer, b.tokenizer_hash, a.rules.tokenizer, a.tokenizer_hash),
                   fmt::format("build it again: hearth data build --tokenizer {} ...", a.rules.tokenizer));
}

void check_not_twice(const TrainingData::Source& first, const TrainingData::Source& other) {
  if (first.dataset.manifest().identity != other.dataset.manifest().identity) return;
  throw user_error(fmt::format("{} and {} are the same dataset", first.path, other.path),
                   "each source is read without repetition, so a dataset can be a source only once",
                   "keep one of them, with the sum of their weights");
}

// Weights as shares of tokens: a document of a source brings its average number of tokens along.
std::vector<double> in_tokens(std::vector<double> weights, const std::vector<TrainingData::Source>& sources,
                              const std::string& unit) {
  if (unit == "tokens") return weights;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Split& split = sources[i].dataset.split("train");
    weights[i] *= static_cast<double>(split.tokens()) / static_cast<double>(split.documents());
  }
  return weights;
}

// `next` behind `all`. One that gives no sample, as the following begins at the same, falls out; and one with the same
// shares as the segment before it goes on with that one's table.
std::vector<MixtureSegment> joined(std::vector<MixtureSegment> all, std::vector<MixtureSegment> next) {
  for (MixtureSegment& segment : next) {
    if (!all.empty() && all.back().first_sample == segment.first_sample) all.pop_back();
    if (!all.empty() && Mixture::slots_of(all.back().weights) == Mixture::slots_of(segment.weights)) continue;
    all.push_back(std::move(segment));
  }
  return all;
}

}  // namespace

TrainingData::TrainingData(const config::RunConfig& config) {
  MixtureSegment first;
  for (const config::DataSource& given : config.sources()) {
    const Path path = config.resolve(given.path).lexically_normal();
    Source source{path.string(), Dataset::open(path), sources_.size(), given.epochs_max};
    source.dataset.split("train");
    for (const Source& other : sources_) check_not_twice(other, source);
    if (!sources_.empty()) check_same_tokenizer(sources_.front(), source);
    first.weights.push_back(given.weight);
    sources_.push_back(std::move(source));
  }
  HEARTH_CHECK(!sources_.empty());
  segments_.push_back(std::move(first));
  for (const config::DataSegment& given : config.data.segment)
    segments_.push_back({static_cast<uint64_t>(div_ceil(given.from_tokens, config.training.seq_len)), given.weights});
  for (size_t i = 1; i < segments_.size(); ++i) {
    if (segments_[i].first_sample <= segments_[i - 1].first_sample)
      throw user_error(
          fmt::format("data.segment.{}.from_tokens = {} is within a sequence of the segment before it", i - 1,
                      config.data.segment[i - 1].from_tokens),
          fmt::format("weights change between sequences, which are {} tokens long", config.training.seq_len),
          "put the segments further apart, or remove one");
  }
  for (MixtureSegment& segment : segments_) {
    segment.weights = in_tokens(std::move(segment.weights), sources_, config.data.weight_unit);
    Mixture::slots_of(segment.weights);  // throws here, where nothing is running yet
  }
  segments_ = joined({}, std::move(segments_));
}

Sources TrainingData::splits() const {
  Sources splits;
  for (const Source& source : sources_) splits.push_back(&source.dataset.split("train"));
  return splits;
}

std::string TrainingData::identity() const {
  if (sources_.size() == 1) return manifest().identity;
  std::string all;
  for (const Source& source : sources_) all += source.dataset.manifest().identity + "\n";
  return xxh3_128_hex(all);
}

void TrainingData::continue_from(const DataState& before) {
  // The order decides ties between sources, so that of the checkpoint stays.
  std::vector<size_t> order;
  for (const std::string& identity : before.sources) {
    const auto found = std::find_if(sources_.begin(), sources_.end(), [&](const Source& source) {
      return source.dataset.manifest().identity == identity;
    });
    if (found == sources_.end())
      throw user_error(
          fmt::format("the checkpoint was trained on a dataset ({}) that is not among the sources", identity),
          "its documents, their order or its rules changed, or its [[data.source]] was removed, so it is "
          "not known any more what has been used",
          "give it again; a source that is no longer wanted gets weight = 0");
    order.push_back(static_cast<size_t>(found - sources_.begin()));
  }
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
  }
  const auto arrange = [&order]<typename T>(std::vector<T> values) {
    std::vector<T> arranged;
    for (const size_t i : order) arranged.push_back(std::move(values[i]));
    return arranged;
  };
  sources_ = arrange(std::move(sources_));

  std::vector<MixtureSegment> history = before.segments;
  for (MixtureSegment& segment : history) segment.weights.resize(sources_.size(), 0);
  for (MixtureSegment& planned : segments_) {
    planned.weights = arrange(std::move(planned.weights));
    planned.first_sample = std::max(planned.first_sample, before.next_sample);
  }
  segments_ = joined(std::move(history), std::move(segments_));
}

DataState TrainingData::state(uint64_t next_sample) const {
  DataState state;
  state.next_sample = next_sample;
  for (const Source& source : sources_) state.sources.push_back(source.dataset.manifest().identity);
  for (const MixtureSegment& segment : segments_) {
    if (segment.first_sample == 0 || segment.first_sample < next_sample) state.segments.push_back(segment);
  }
  return state;
}

int64_t TrainingData::windows(const Window& window) const {
  int64_t sum = 0;
  for (const Split* split : splits()) sum += window.count(split->tokens());
  return sum;
}

std::vector<TrainingData::Use> TrainingData::use(const Sampler& sampler, uint64_t samples) const {
  std::vector<Use> result;
  for (size_t i = 0; i < sources_.size(); ++i) {
    const auto source = static_cast<int64_t>(i);
    const auto count = static_cast<double>(sampler.mixture().count(source, samples));
    result.push_back({count / static_cast<double>(sampler.windows(source)), count / static_cast<double>(samples)});
  }
  return result;
}

void TrainingData::check_epochs(const Sampler& sampler, uint64_t samples, int64_t batch) const {
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].epochs_max == 0) continue;
    const auto source = static_cast<int64_t>(i);
    const auto windows = static_cast<double>(sampler.windows(source));
    const auto allowed = static_cast<uint64_t>(std::floor(sources_[i].epochs_max * windows * (1 + 1e-12)));
    const uint64_t count = sampler.mixture().count(source, samples);
    if (count <= allowed) continue;
    // One sample more than allowed comes with this one.
    const uint64_t possible = sampler.mixture().samples_until(source, allowed + 1) - 1;
    throw user_error(fmt::format("the run would see {} {:.2f} times; data.source.{}.epochs_max is {}", sources_[i].path,
                                 static_cast<double>(count) / windows, sources_[i].number, sources_[i].epochs_max),
                     fmt::format("{} of the run's {} sequences come from it, and it holds {}", count, samples,
                                 sampler.windows(source)),
                     fmt::format("train {} steps at most, give it a smaller weight, or a larger epochs_max",
                                 possible / static_cast<uint64_t>(batch)));
  }
}

}  // namespace hearth::data
