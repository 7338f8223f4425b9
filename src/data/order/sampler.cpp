// SPDX-License-Identifier: Apache-2.0
#include "data/order/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/quantity.h"
#include "base/random.h"

namespace hearth::data {
namespace {

std::vector<MixtureSegment> segments_of(const std::vector<SamplerSource>& sources, std::vector<MixtureSegment> later) {
  MixtureSegment first;
  for (const SamplerSource& source : sources) first.weights.push_back(source.weight);
  later.insert(later.begin(), std::move(first));
  return later;
}

}  // namespace

Window Window::named(config::Stride stride, int64_t seq_len) {
  switch (stride) {
    case config::Stride::kExact:
      return causal(seq_len);
    case config::Stride::kNeox:
      return {seq_len + 1, seq_len, false};
    case config::Stride::kTorchtitan:
      break;
  }
  return {seq_len + 1, seq_len + 1, false};
}

int64_t Window::count(int64_t tokens) const {
  if (!short_end) return tokens < length ? 0 : (tokens - length) / stride + 1;
  // The first window holds `length` new tokens and each later one `stride`.
  const int64_t overlap = length - stride;
  return tokens <= overlap ? 0 : div_ceil(tokens - overlap, stride);
}

Sampler::Sampler(std::vector<SamplerSource> sources, Window window, uint64_t seed, bool shuffle,
                 std::vector<MixtureSegment> later, std::shared_ptr<const NeoxMixture> neox_mixture)
    : sources_(std::move(sources)),
      window_(window),
      shuffle_(shuffle),
      mixture_(segments_of(sources_, std::move(later))),
      neox_mixture_(std::move(neox_mixture)) {
  HEARTH_CHECK(window.stride > 0 && window.length >= window.stride);
  for (const SamplerSource& source : sources_) {
    const int64_t windows = source.table != nullptr ? source.table->windows() : window.count(source.tokens);
    if (source.table == nullptr && (windows == 0 || (shuffle && source.tokens < window.length)))
      throw user_error(fmt::format("{} is too short: {} tokens, one window needs {}",
                                   sources_.size() == 1 ? "the data" : "dataset " + source.identity, source.tokens,
                                   shuffle ? window.length : window.length - window.stride + 1),
                       "training.seq_len is longer than the whole text",
                       "give more text, or a smaller training.seq_len");
    windows_.push_back(windows);
    const RandomKey key = random_key(seed, "shuffle:" + source.identity);
    keys_.push_back(uint64_t{key.word[1]} << 32 | key.word[0]);
  }
  if (!shuffle) return;
  for (size_t source = 0; source < sources_.size(); ++source) {
    for (uint64_t epoch = 0; epoch < kReadyEpochs; ++epoch) ready_.push_back(permutation(source, epoch));
  }
}

Permutation Sampler::permutation(size_t source, uint64_t epoch) const {
  // Adds a multiple of an odd constant for each epoch: Permutation mixes it into unrelated round keys.
  return Permutation(static_cast<uint64_t>(windows_[source]), keys_[source] + epoch * 0xD1B54A32D192ED03);
}

Sample Sampler::sample(uint64_t g) const {
  const auto [source, index] = neox_mixture_ == nullptr ? mixture_.pick(g) : neox_mixture_->pick(g);
  const auto i = static_cast<size_t>(source);
  const auto n = static_cast<uint64_t>(windows_[i]);
  Sample sample;
  sample.source = source;
  sample.epoch = index < n ? 0 : index / n;  // avoids a division, which takes as long as half a network
  uint64_t position = index - sample.epoch * n;
  if (const WindowTable* table = sources_[i].table.get(); table != nullptr && !table->order().empty()) {
    position = table->order()[position];
  } else if (shuffle_) {
    position = sample.epoch < kReadyEpochs ? ready_[i * kReadyEpochs + sample.epoch](position)
                                           : permutation(i, sample.epoch)(position);
  }
  const uint64_t epoch = sample.epoch;
  sample = window(source, static_cast<int64_t>(position));
  sample.epoch = epoch;
  return sample;
}

Sample Sampler::window(int64_t source, int64_t number) const {
  Sample sample;
  sample.source = source;
  sample.window = number;
  if (sources_[static_cast<size_t>(source)].table != nullptr) return sample;
  sample.first_token = number * window_.stride;
  sample.num_tokens = std::min(window_.length, sources_[static_cast<size_t>(source)].tokens - sample.first_token);
  return sample;
}

void Sampler::parts(const Sample& sample, std::vector<RowPart>& parts) const {
  const SamplerSource& source = sources_[static_cast<size_t>(sample.source)];
  if (source.table != nullptr) return source.table->parts(sample.window, parts);
  const int64_t labels_only = window_.shifted ? 1 : 0;
  parts.assign(1, {sample.first_token, sample.num_tokens - labels_only, /*label_after=*/window_.shifted});
}

uint64_t Sampler::count(int64_t source, uint64_t g) const {
  return neox_mixture_ == nullptr ? mixture_.count(source, g) : neox_mixture_->count(source, g);
}

uint64_t Sampler::samples_until(int64_t source, uint64_t count) const {
  return neox_mixture_ == nullptr ? mixture_.samples_until(source, count) : neox_mixture_->samples_until(source, count);
}

double Sampler::windows_per_epoch(int64_t source) const {
  const WindowTable* table = sources_[static_cast<size_t>(source)].table.get();
  return static_cast<double>(windows(source)) / static_cast<double>(table == nullptr ? 1 : table->epochs());
}

uint64_t Sampler::samples_per_epoch(int64_t source) const {
  return samples_until(source, static_cast<uint64_t>(std::ceil(windows_per_epoch(source))));
}

}  // namespace hearth::data
