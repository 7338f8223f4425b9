// SPDX-License-Identifier: Apache-2.0
#include "data/batch/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/quantity.h"

namespace hearth::data {
namespace {

void check_options(const LoaderOptions& o) {
  HEARTH_CHECK(o.ranks >= 1 && o.rank >= 0 && o.rank < o.ranks && o.prefetch_threads >= 0 && o.prefetch_steps >= 1);
  if (o.seq_len < 1 || o.local_batch_size < 1 || o.global_batch_size < 1)
    throw user_error(fmt::format("training.seq_len {}, local_batch_size {}, global_batch_size {}", o.seq_len,
                                 o.local_batch_size, o.global_batch_size),
                     "each must be at least 1");
  if (o.global_batch_size % (o.ranks * o.local_batch_size) != 0)
    throw user_error(fmt::format("training.global_batch_size {} does not divide", o.global_batch_size),
                     fmt::format("it must be a multiple of ranks {} times training.local_batch_size {}", o.ranks,
                                 o.local_batch_size),
                     "change one of them");
}

// A row of a batch, and the buffers for reading it.
struct Row {
  std::vector<int32_t> tokens, labels;   // as many as there are inputs
  std::vector<int32_t> document_starts;  // after the first position, ascending
  std::vector<float> weights;            // of each label; empty: all 1
  std::vector<int32_t> counted;          // as in Batch, and their weights
  std::vector<float> counted_weights;
  std::vector<RowPart> parts;
  std::vector<int32_t> read;
  std::vector<float> read_weights;
};

// Appends the weights of a part's labels. The labels are the tokens after its first; with masking they are its tokens.
void append_weights(const Split& split, const RowPart& part, bool masked, Row& row) {
  row.read_weights.resize(row.read.size());
  split.read_weights(part.first_token, row.read_weights);
  const size_t at = row.weights.size();
  const bool labels_before = !masked && at > 0 && part.joins;  // its first token is the label of the position before it
  if (labels_before && row.labels[at - 1] == kIgnore) row.weights[at - 1] = row.read_weights.front();
  row.weights.resize(at + static_cast<size_t>(part.num_inputs), 0);
  const auto first = row.read_weights.begin() + (masked ? 0 : 1);
  const auto count = std::min<std::ptrdiff_t>(part.num_inputs, row.read_weights.end() - first);
  std::copy_n(first, count, row.weights.begin() + static_cast<std::ptrdiff_t>(at));
}

// Appends a part to the row: inputs, next tokens as labels, document starts.
void append_part(const Split& split, const RowPart& part, const Draw& draw, bool masked, Row& row) {
  const size_t at = row.tokens.size();
  row.read.resize(static_cast<size_t>(part.num_tokens()));
  split.read(part.first_token, row.read, draw);
  if (split.weights()) append_weights(split, part, masked, row);
  if (at > 0 && part.joins && row.labels[at - 1] == kIgnore) row.labels[at - 1] = row.read.front();
  if (part.num_inputs == 0) return;
  const size_t known = row.document_starts.size();
  split.document_starts(part.first_token, part.num_inputs, row.document_starts);
  for (size_t i = known; i < row.document_starts.size(); ++i) row.document_starts[i] += static_cast<int32_t>(at);
  // A part starts like a document, even in the middle of one.
  const auto begin = static_cast<int32_t>(at);
  if (row.document_starts.size() == known || row.document_starts[known] != begin)
    row.document_starts.insert(row.document_starts.begin() + static_cast<std::ptrdiff_t>(known), begin);
  row.tokens.insert(row.tokens.end(), row.read.begin(), row.read.begin() + part.num_inputs);
  row.labels.insert(row.labels.end(), row.read.begin() + 1, row.read.end());
  row.labels.resize(row.tokens.size(), kIgnore);
}

void read_row(const Split& split, const Sampler& sampler, const Sample& sample, const LoaderOptions& options,
              Row& row) {
  row.tokens.clear();
  row.labels.clear();
  row.weights.clear();
  row.document_starts.clear();
  sampler.parts(sample, row.parts);
  for (const RowPart& part : row.parts)
    append_part(split, part, {options.seed, sample.epoch}, options.order.masked, row);
}

// Multiplies the labels' weights by those of the predicted tokens: the next one, or with masking the one that may be
// hidden.
void weigh_tokens(const std::vector<float>& token_weights, bool masked, Row& row) {
  if (token_weights.empty()) return;
  if (row.weights.empty()) row.weights.assign(row.labels.size(), 1);
  const std::vector<int32_t>& predicted = masked ? row.tokens : row.labels;
  for (size_t i = 0; i < predicted.size(); ++i)
    if (predicted[i] != kIgnore) row.weights[i] *= token_weights[static_cast<size_t>(predicted[i])];
}

// Hides tokens of row `g` by diffusion.
void diffuse(const Diffusion& diffusion, uint64_t seed, uint64_t g, Row& row) {
  const size_t length = kept_length(diffusion, seed, g, row.tokens.size());
  row.tokens.resize(length);
  row.labels.resize(length);
  row.counted.resize(length);
  row.weights.resize(length, 1);  // the data may have no weights
  while (!row.document_starts.empty() && static_cast<size_t>(row.document_starts.back()) >= length)
    row.document_starts.pop_back();
  row.counted_weights = row.weights;
  diffuse_row(diffusion, seed, g, {row.document_starts, row.tokens, row.labels, row.weights, row.counted});
}

// Copies a row and its labels' weights to row `index` of the batch.
void fill_row(const Row& row, int64_t index, Batch& batch) {
  const int64_t begin = index * batch.S;
  if (!batch.counted.empty()) {
    std::ranges::copy(row.counted, batch.counted.begin() + begin);
    std::ranges::copy(row.counted_weights, batch.counted_weights.begin() + begin);
  }
  std::ranges::copy(row.tokens, batch.tokens.begin() + begin);
  std::ranges::copy(row.labels, batch.labels.begin() + begin);
  for (size_t i = 0; !batch.weights.empty() && i < row.labels.size(); ++i) {
    if (row.labels[i] == kIgnore) continue;
    batch.weights[static_cast<size_t>(begin) + i] = row.weights.empty() ? 1 : row.weights[i];
  }
  for (const int32_t start : row.document_starts) {
    if (start > 0) batch.document_starts.push_back(static_cast<int32_t>(begin) + start);
  }
  const auto length = static_cast<int32_t>(row.tokens.size());
  batch.row_tokens.push_back(length);
}

}  // namespace

// Workers take step numbers in order and put finished steps into a ring; next() takes them out in order. A step's
// content depends only on its number, not on the workers' number or timing.
class Loader::Prefetch {
 public:
  Prefetch(const Sources& sources, const LoaderOptions& options)
      : sources_(sources),
        options_((check_options(options), options)),
        sampler_(sampler_of(sources, options)),
        ring_(static_cast<size_t>(options.prefetch_steps)) {
    HEARTH_CHECK(options.shuffle || sources.size() == 1);
    HEARTH_CHECK(options.labels.hides() == options.order.masked);
    weighs_ =
        options.labels.diffusion || !options.token_weights.empty() ||
        std::ranges::any_of(sources, [](const Split* split) { return split->weights() && !split->weights()->is_mask; });
    if (options.labels.diffusion) rows_each_ = options.labels.diffusion->rows();
    auto windows = static_cast<uint64_t>(sampler_.windows(0));
    if (options.max_windows > 0) windows = std::min(windows, static_cast<uint64_t>(options.max_windows));
    windows *= rows_each_;
    num_samples_ = options_.shuffle ? std::numeric_limits<uint64_t>::max() : windows;
    const int64_t left =
        num_samples_ <= options_.first_sample ? 0 : static_cast<int64_t>(windows - options_.first_sample);
    num_steps_ = options_.shuffle ? std::numeric_limits<int64_t>::max() : div_ceil(left, options_.global_batch_size);
    for (int64_t i = 0; i < options_.prefetch_threads; ++i) workers_.emplace_back([this] { work(); });
  }

  ~Prefetch() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  StepBatch next() {
    HEARTH_CHECK(taken_ < num_steps_, "next() after the last step");
    const auto start = std::chrono::steady_clock::now();
    StepBatch step;
    std::exception_ptr failure;
    if (workers_.empty()) {
      step = prepare(taken_);
      ++taken_;
    } else {
      std::unique_lock lock(mutex_);
      Slot& slot = ring_[static_cast<size_t>(taken_ % options_.prefetch_steps)];
      ready_.wait(lock, [&] { return slot.full; });
      failure = slot.failure;
      if (failure == nullptr) {  // a failed step stays: every further next() throws it again
        step = std::move(slot.step);
        slot = Slot{};
        ++taken_;
      }
    }
    waited_ += std::chrono::steady_clock::now() - start;
    if (failure != nullptr) std::rethrow_exception(failure);
    room_.notify_one();
    return step;
  }

  uint64_t next_sample() const {
    return options_.first_sample + static_cast<uint64_t>(taken_ * options_.global_batch_size);
  }
  int64_t steps_left() const { return options_.shuffle ? num_steps_ : num_steps_ - taken_; }
  uint64_t samples_per_epoch() const { return sampler_.samples_per_epoch(); }
  double waited_s() const { return waited_.count(); }

 private:
  struct Slot {
    bool full = false;
    StepBatch step;
    std::exception_ptr failure;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock,
                 [&] { return stopping_ || (claimed_ < num_steps_ && claimed_ < taken_ + options_.prefetch_steps); });
      if (stopping_) return;
      const int64_t number = claimed_++;
      lock.unlock();
      Slot done{true, {}, nullptr};
      try {
        done.step = prepare(number);
      } catch (...) {
        done.failure = std::current_exception();
      }
      lock.lock();
      ring_[static_cast<size_t>(number % options_.prefetch_steps)] = std::move(done);
      ready_.notify_one();
    }
  }

  StepBatch prepare(int64_t number) const {
    const LoaderOptions& o = options_;
    StepBatch step;
    step.first_sample = o.first_sample + static_cast<uint64_t>(number * o.global_batch_size);
    step.num_samples = std::min(static_cast<uint64_t>(o.global_batch_size), num_samples_ - step.first_sample);
    for (int64_t first = o.rank; first * o.local_batch_size < o.global_batch_size; first += o.ranks) {
      const auto offset = static_cast<uint64_t>(first * o.local_batch_size);
      step.micro_batches.push_back(prepare_batch(step.first_sample + offset, step.substitutes));
    }
    return step;
  }

  Batch prepare_batch(uint64_t first_sample, std::vector<std::string>& substitutes) const {
    Batch batch;
    batch.B = options_.local_batch_size;
    batch.S = options_.seq_len;
    batch.first_sample = first_sample;
    batch.tokens.assign(static_cast<size_t>(batch.B * batch.S), 0);
    batch.labels.assign(static_cast<size_t>(batch.B * batch.S), kIgnore);
    if (weighs_) batch.weights.assign(batch.labels.size(), 0);
    if (options_.labels.diffusion) {
      batch.counted.assign(batch.labels.size(), kIgnore);
      batch.counted_weights.assign(batch.labels.size(), 0);
    }
    Row read;
    for (int64_t row = 0; row < batch.B; ++row) {
      batch.document_starts.push_back(static_cast<int32_t>(row * batch.S));
      const uint64_t g = first_sample + static_cast<uint64_t>(row);
      if (g >= num_samples_) {
        batch.row_tokens.push_back(0);
        continue;
      }
      const Sample sample = sampler_.sample(g / rows_each_);
      try {
        read_row(*sources_[static_cast<size_t>(sample.source)], sampler_, sample, options_, read);
      } catch (const Error& damage) {
        if (!options_.substitute_damage || damage.code() != ExitCode::kDamaged) throw;
        substitutes.push_back(fmt::format("sample {}: {}", g, read_substitute(sample, damage, read)));
      }
      weigh_tokens(options_.token_weights, options_.order.masked, read);
      if (options_.labels.diffusion)
        diffuse(*options_.labels.diffusion, options_.seed, g, read);
      else
        options_.labels.apply(options_.seed, g, read.tokens, read.labels, read.weights);
      fill_row(read, row, batch);
    }
    return batch;
  }

  // Reads a window in place of a damaged one, and returns a message. The distance doubles, so a few tries leave a whole
  // damaged shard behind.
  std::string read_substitute(const Sample& sample, const Error& damage, Row& row) const {
    const int64_t windows = sampler_.windows(sample.source);
    for (int64_t distance = 1; distance < windows; distance *= 2) {
      Sample other = sampler_.window(sample.source, (sample.window + distance) % windows);
      other.epoch = sample.epoch;
      try {
        read_row(*sources_[static_cast<size_t>(sample.source)], sampler_, other, options_, row);
      } catch (const Error& again) {
        if (again.code() != ExitCode::kDamaged) throw;
        continue;
      }
      return fmt::format("window {} replaces {}: {} ({})", other.window, sample.window, damage.message(), damage.why());
    }
    throw damage;
  }

  const Sources sources_;
  const LoaderOptions options_;
  const Sampler sampler_;
  bool weighs_ = false;       // true: weights other than 0 and 1 are possible
  uint64_t rows_each_ = 1;    // of a sample
  uint64_t num_samples_ = 0;  // rows after these are empty
  int64_t num_steps_ = 0;

  std::mutex mutex_;  // guards the members below
  std::condition_variable ready_, room_;
  std::vector<Slot> ring_;  // step n in slot n % prefetch_steps
  int64_t claimed_ = 0, taken_ = 0;
  bool stopping_ = false;
  std::chrono::duration<double> waited_{0};
  std::vector<std::thread> workers_;
};

Sampler sampler_of(const Sources& sources, const LoaderOptions& options) {
  std::vector<MixtureSegment> segments = options.order.segments;
  if (segments.empty()) {
    HEARTH_CHECK(sources.size() == 1, "{} sources without weights", sources.size());
    segments.push_back({0, {1}});
  }
  HEARTH_CHECK(segments.front().first_sample == 0 && segments.front().weights.size() == sources.size());
  const auto& tables = options.order.tables;
  HEARTH_CHECK(tables.empty() || (tables.size() == sources.size() && options.shuffle));
  std::vector<SamplerSource> mixed;
  for (size_t i = 0; i < sources.size(); ++i) {
    const Split& split = *sources[i];
    // The name is part of the key: never change.
    mixed.push_back({split.dataset_identity() + "/" + split.name(), split.tokens(), segments.front().weights[i],
                     tables.empty() ? nullptr : tables[i]});
  }
  segments.erase(segments.begin());
  return Sampler(std::move(mixed), options.order.window(options.seq_len), options.seed,
                 options.shuffle && !options.order.sequential, std::move(segments), options.order.neox_mixture);
}

Loader::Loader(const Sources& sources, const LoaderOptions& options)
    : prefetch_(std::make_unique<Prefetch>(sources, options)) {}
Loader::~Loader() = default;
StepBatch Loader::next() { return prefetch_->next(); }
uint64_t Loader::next_sample() const { return prefetch_->next_sample(); }
int64_t Loader::steps_left() const { return prefetch_->steps_left(); }
uint64_t Loader::samples_per_epoch() const { return prefetch_->samples_per_epoch(); }
double Loader::waited_s() const { return prefetch_->waited_s(); }

}  // namespace hearth::data
