// SPDX-License-Identifier: Apache-2.0
#include "data/order/training_data.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "base/quantity.h"
#include "config/derived.h"
#include "data/formats/table_file.h"
#include "data/order/best_fit.h"
#include "data/order/neox_order.h"
#include "data/shard/same_tokenizer.h"

namespace hearth::data {
namespace {

void check_not_twice(const TrainingData::Source& first, const TrainingData::Source& other) {
  if (first.dataset.manifest().identity != other.dataset.manifest().identity) return;
  throw user_error(fmt::format("{} and {} are the same dataset", first.path, other.path),
                   "each source is read without repetition, so a dataset can be a source only once",
                   "keep one of them, with the sum of their weights");
}

// Weights as shares of tokens. A share of documents is multiplied by the source's mean number of tokens per document.
std::vector<double> in_tokens(std::vector<double> weights, const std::vector<TrainingData::Source>& sources,
                              config::WeightUnit unit) {
  if (unit == config::WeightUnit::kTokens) return weights;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Split& split = sources[i].dataset.split("train");
    weights[i] *= static_cast<double>(split.tokens()) / static_cast<double>(split.documents());
  }
  return weights;
}

// Appends `next` to `all`. A segment is dropped if the following one begins at the same sample. A segment with the
// shares of the one before continues that one's table.
std::vector<MixtureSegment> joined(std::vector<MixtureSegment> all, std::vector<MixtureSegment> next) {
  for (MixtureSegment& segment : next) {
    if (!all.empty() && all.back().first_sample == segment.first_sample) all.pop_back();
    if (!all.empty() && Mixture::slots_of(all.back().weights) == Mixture::slots_of(segment.weights)) continue;
    all.push_back(std::move(segment));
  }
  return all;
}

// With GPT-NeoX's rule each choice depends on all earlier ones, so weights and their order must not change.
void check_same_weights(const std::vector<MixtureSegment>& before, const std::vector<MixtureSegment>& now,
                        bool same_sources) {
  if (same_sources && before.size() == 1 && before.front().weights == now.front().weights) return;
  throw user_error("the sources or their weights are not those that the checkpoint was trained with",
                   "with data.weight_rule = \"neox\" they must not change during a run",
                   "set them back, or begin a new run from these weights: checkpoint.initial_load_path in a new "
                   "job.dump_folder");
}

// The run file's plan: `first` from the first sample on, then data.segment.
std::vector<MixtureSegment> planned_segments(MixtureSegment first, const config::RunConfig& config,
                                             const std::vector<TrainingData::Source>& sources) {
  std::vector<MixtureSegment> segments{std::move(first)};
  for (const config::DataSegment& given : config.data.segment)
    segments.push_back({static_cast<uint64_t>(div_ceil(given.from_tokens, config.training.seq_len)), given.weights});
  for (size_t i = 1; i < segments.size(); ++i) {
    if (segments[i].first_sample <= segments[i - 1].first_sample)
      throw user_error(
          fmt::format("data.segment.{}.from_tokens = {} is within a sequence of the segment before it", i - 1,
                      config.data.segment[i - 1].from_tokens),
          fmt::format("weights change between sequences, which are {} tokens long", config.training.seq_len),
          "put the segments further apart, or remove one")
          .about(fmt::format("data.segment.{}.from_tokens", i - 1));
  }
  for (MixtureSegment& segment : segments) {
    segment.weights = in_tokens(std::move(segment.weights), sources, config.data.weight_unit);
    Mixture::slots_of(segment.weights);  // throws here, before anything runs
  }
  return joined({}, std::move(segments));
}

// The version of the tables' content. Each version has its own file.
constexpr int kTablesVersion = 1;

struct TrainingTable {
  std::shared_ptr<const WindowTable> windows;
  std::string note;  // how the table was made, for people
};

// The table that a source of a training needs, from its dataset's folder: DATASET/tables/. A missing or damaged table
// is made by `build`. A table that cannot be saved is only held in memory.
TrainingTable make_table(const Dataset& dataset, const char* name, const std::string& parameters, int64_t seq_len,
                         const std::function<TableArrays(const Split&)>& build) {
  const Split& split = dataset.split("train");
  if (split.tokens() >= WindowTable::kMaxTokens)
    throw user_error(
        fmt::format("dataset {} is too large for a table of sequences", dataset.folder().string()),
        fmt::format("it has {} tokens, at most {} are possible", split.tokens(), WindowTable::kMaxTokens - 1),
        "leave data.order and data.packing out");
  const std::string key = fmt::format("{} {}\n{}/{}\n{}\n{}", name, kTablesVersion, split.dataset_identity(),
                                      split.name(), seq_len, parameters);
  TrainingTable result;
  TableNote note;
  const auto start = std::chrono::steady_clock::now();
  const Path folder = dataset.folder() / "tables";
  keep_table(
      folder, name, key, note, [&] { return build(split); },
      [&](TableArrays table) {
        result.windows = std::make_shared<const WindowTable>(std::move(table), split.tokens(), seq_len);
      });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!note.damage.empty()) result.note += fmt::format("; made again: {}", note.damage);
  if (note.built) result.note += fmt::format("; the table took {}", format_duration(seconds.count()));
  if (!note.unkept.empty()) result.note += fmt::format(" and could not be saved: {}", note.unkept);
  return result;
}

// data.order = "neox" (data/order/neox_order.h). Throws user_error if a dataset or a run is too large for the table.
TrainingTable neox_table(const Dataset& dataset, int64_t seq_len, uint64_t samples, uint32_t seed) {
  TrainingTable table =
      make_table(dataset, "neox", fmt::format("{} {}", samples, seed), seq_len,
                 [&](const Split& split) { return neox_window_table(split, seq_len, samples, seed); });
  table.note = fmt::format("{}: {} sequences of {} epochs in GPT-NeoX's order{}", dataset.folder().string(),
                           table.windows->windows(), table.windows->epochs(), table.note);
  return table;
}

// data.packing = "best_fit" (data/order/best_fit.h).
TrainingTable best_fit_table(const Dataset& dataset, int64_t seq_len, int64_t threads) {
  TrainingTable table = make_table(dataset, "best_fit", "", seq_len,
                                   [&](const Split& split) { return best_fit_table(split, seq_len, threads); });
  const double positions = static_cast<double>(table.windows->windows() * seq_len);
  table.note = fmt::format("{}: {} sequences by best fit, {:.3f} % of their positions are padding{}",
                           dataset.folder().string(), table.windows->windows(),
                           100 * static_cast<double>(table.windows->padding()) / positions, table.note);
  return table;
}

}  // namespace

std::vector<TrainingSource> open_sources(const config::RunConfig& config, ErrorList& errors) {
  std::vector<TrainingSource> sources;
  const std::vector<config::DataSource> given = config.sources();
  for (size_t i = 0; i < given.size(); ++i) {
    errors.attempt_about(config.data.source.empty() ? "data.path" : fmt::format("data.source.{}.path", i), [&] {
      const Path path = normal_path(config.resolve(given[i].path));
      TrainingSource source{path.string(), Dataset::open(path), i, given[i].epochs_max};
      if (const auto& weights = source.dataset.split("train").weights(); weights && weights->counted == 0)
        throw user_error(fmt::format("no token of {} counts in the loss", path.string()), "all its weights are 0",
                         "build it with some weights above 0, or with labels that count");
      for (const TrainingSource& other : sources) check_not_twice(other, source);
      if (!sources.empty()) {
        const TrainingSource& first = sources.front();
        require_same_tokenizer(tokenizer_of(source.path, source.dataset.manifest()),
                               tokenizer_of(first.path, first.dataset.manifest()));
      }
      sources.push_back(std::move(source));
    });
  }
  return sources;
}

TrainingData::TrainingData(const config::RunConfig& config)
    : TrainingData(config, [&config] {
        ErrorList errors;
        std::vector<Source> sources = open_sources(config, errors);
        errors.throw_if_any("the data");
        return sources;
      }()) {}

TrainingData::TrainingData(const config::RunConfig& config, std::vector<Source> sources)
    : sources_(std::move(sources)),
      neox_order_(config.data.order == config::DataOrder::kNeox),
      seq_len_(config.training.seq_len),
      neox_seed_(static_cast<uint32_t>(config.training.seed)),
      exact_samples_(config.data.source.empty()) {
  MixtureSegment first;
  for (const config::DataSource& given : config.sources()) first.weights.push_back(given.weight);
  HEARTH_CHECK(!sources_.empty() && sources_.size() == first.weights.size());
  order_.segments = planned_segments(std::move(first), config, sources_);
  order_.stride = config.data.stride;
  order_.masked = config.objective.masked();
  order_.sequential = config.data.order == config::DataOrder::kSequential;
  if (config.data.packing == config::Packing::kBestFit) {
    const int64_t threads = config::cpu_threads(config);
    for (const Source& source : sources_) {
      TrainingTable table = best_fit_table(source.dataset, seq_len_, threads);
      order_.tables.push_back(std::move(table.windows));
      notes_.push_back(std::move(table.note));
    }
  }
  samples_ = static_cast<uint64_t>(config::total_steps(config, windows()) * config::global_batch_size(config));
  if (config.data.weight_rule == config::WeightRule::kNeox) make_neox_mixture();
  if (neox_order_) {
    order_samples_ = samples_;
    make_neox_tables();
  }
}

void TrainingData::make_neox_mixture() {
  order_.neox_mixture = std::make_shared<const NeoxMixture>(order_.segments.front().weights, samples_);
}

void TrainingData::make_neox_tables() {
  const auto samples = exact_samples_ ? std::vector<uint64_t>{order_samples_}
                                      : neox_samples(order_.segments.front().weights, order_samples_);
  order_.tables.clear();
  notes_.clear();
  for (size_t i = 0; i < sources_.size(); ++i) {
    TrainingTable table = neox_table(sources_[i].dataset, seq_len_, std::max<uint64_t>(samples[i], 1), neox_seed_);
    order_.tables.push_back(std::move(table.windows));
    notes_.push_back(std::move(table.note));
  }
}

Sources TrainingData::splits() const {
  Sources splits;
  for (const Source& source : sources_) splits.push_back(&source.dataset.split("train"));
  return splits;
}

int64_t TrainingData::n_fixed() const {
  const int64_t first = manifest().rules.n_fixed;
  const auto same = [&](const Source& source) { return source.dataset.manifest().rules.n_fixed == first; };
  return std::ranges::all_of(sources_, same) ? first : 0;
}

std::string TrainingData::identity() const {
  if (sources_.size() == 1) return manifest().identity;
  std::string all;
  for (const Source& source : sources_) all += source.dataset.manifest().identity + "\n";
  return xxh3_128_hex(all);
}

void TrainingData::continue_from(const DataState& before) {
  if (before.order_version != kSampleOrderVersion && !neox_order_)
    throw user_error(
        fmt::format("the checkpoint's run takes its samples in an order of version {}, this program in version {}",
                    before.order_version, kSampleOrderVersion),
        "the remaining samples would not be the unused ones",
        "end the run with the program that began it, or begin a new one from these weights: "
        "checkpoint.initial_load_path in a new job.dump_folder");
  // The order of sources decides ties, so the checkpoint's order is kept.
  std::vector<size_t> order;
  for (const std::string& identity : before.sources) {
    const auto found = std::ranges::find_if(
        sources_, [&](const Source& source) { return source.dataset.manifest().identity == identity; });
    if (found == sources_.end())
      throw user_error(
          fmt::format("the checkpoint was trained on a dataset ({}) that is not among the sources", identity),
          "its documents, their order or its rules changed, or its [[data.source]] was removed, so the used samples "
          "are unknown",
          "give it again; a source that is no longer wanted gets weight = 0");
    order.push_back(static_cast<size_t>(found - sources_.begin()));
  }
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (std::ranges::find(order, i) == order.end()) order.push_back(i);
  }
  const auto arrange = [&order]<typename T>(std::vector<T> values) {
    std::vector<T> arranged;
    for (const size_t i : order) arranged.push_back(std::move(values[i]));
    return arranged;
  };
  sources_ = arrange(std::move(sources_));
  if (!order_.tables.empty()) {
    order_.tables = arrange(std::move(order_.tables));
    notes_ = arrange(std::move(notes_));
  }

  std::vector<MixtureSegment> history = before.segments;
  for (MixtureSegment& segment : history) segment.weights.resize(sources_.size(), 0);
  for (MixtureSegment& planned : order_.segments) {
    planned.weights = arrange(std::move(planned.weights));
    planned.first_sample = std::max(planned.first_sample, before.next_sample);
  }
  if (order_.neox_mixture != nullptr) {
    check_same_weights(history, order_.segments, before.sources.size() == sources_.size());
    order_.segments = std::move(history);
    make_neox_mixture();
  } else {
    order_.segments = joined(std::move(history), std::move(order_.segments));
  }
  if (!neox_order_) return;
  const bool same_tables =
      std::ranges::is_sorted(order) && (before.order_samples == 0 || before.order_samples == samples_);
  if (before.order_samples > 0) order_samples_ = before.order_samples;
  if (!same_tables) make_neox_tables();
}

DataState TrainingData::state(uint64_t next_sample) const {
  DataState state;
  state.next_sample = next_sample;
  for (const Source& source : sources_) state.sources.push_back(source.dataset.manifest().identity);
  for (const MixtureSegment& segment : order_.segments) {
    if (segment.first_sample == 0 || segment.first_sample < next_sample) state.segments.push_back(segment);
  }
  state.order_samples = order_samples_;
  return state;
}

int64_t TrainingData::bytes_in_store() const {
  int64_t bytes = 0;
  for (const Source& source : sources_) {
    if (!is_object(source.path)) continue;
    for (const ShardEntry& shard : source.dataset.manifest().find_split("train")->shards) bytes += shard.size_bytes;
  }
  return bytes;
}

int64_t TrainingData::windows() const {
  const Window window = order_.window(seq_len_);
  int64_t sum = 0;
  for (size_t i = 0; i < sources_.size(); ++i) {
    // A table of GPT-NeoX's order holds several epochs, as many as the run needs.
    sum += order_.tables.empty() || neox_order_ ? window.count(sources_[i].dataset.split("train").tokens())
                                                : order_.tables[i]->windows();
  }
  return sum;
}

std::vector<TrainingData::Use> TrainingData::use(const Sampler& sampler, uint64_t samples) const {
  std::vector<Use> result;
  for (size_t i = 0; i < sources_.size(); ++i) {
    const auto source = static_cast<int64_t>(i);
    const auto count = static_cast<double>(sampler.count(source, samples));
    result.push_back({count / sampler.windows_per_epoch(source), count / static_cast<double>(samples)});
  }
  return result;
}

void TrainingData::check_epochs(const Sampler& sampler, uint64_t samples, int64_t batch) const {
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].epochs_max == 0) continue;
    const auto source = static_cast<int64_t>(i);
    const double windows = sampler.windows_per_epoch(source);
    const auto allowed = static_cast<uint64_t>(std::floor(sources_[i].epochs_max * windows * (1 + 1e-12)));
    const uint64_t count = sampler.count(source, samples);
    if (count <= allowed) continue;
    // The last of these samples is the first one too many.
    const uint64_t possible = sampler.samples_until(source, allowed + 1) - 1;
    throw user_error(
        fmt::format("the run would see {} {:.2f} times; data.source.{}.epochs_max is {}", sources_[i].path,
                    static_cast<double>(count) / windows, sources_[i].number, sources_[i].epochs_max),
        fmt::format("{} of the run's {} sequences come from it, and it has only {:.0f}", count, samples, windows),
        fmt::format("train {} steps at most, give it a smaller weight, or a larger epochs_max",
                    possible / static_cast<uint64_t>(batch)))
        .about(fmt::format("data.source.{}.epochs_max", sources_[i].number));
  }
}

}  // namespace hearth::data
