#include "data/sampler.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "base/units.h"
#include "data/permutation.h"

namespace hearth::data {
namespace {

std::vector<double> weights_of(const std::vector<SamplerSource>& sources) {
  std::vector<double> weights;
  for (const SamplerSource& source : sources) weights.push_back(source.weight);
  return weights;
}

}  // namespace

int64_t Window::count(int64_t tokens) const {
  // The first window holds `length` new tokens and each later one `stride`.
  const int64_t overlap = length - stride;
  return tokens <= overlap ? 0 : div_ceil(tokens - overlap, stride);
}

Sampler::Sampler(std::vector<SamplerSource> sources, Window window, uint64_t seed, bool shuffle)
    : sources_(std::move(sources)), window_(window), shuffle_(shuffle), mixture_(weights_of(sources_)) {
  HEARTH_CHECK(window.stride > 0 && window.length >= window.stride);
  for (const SamplerSource& source : sources_) {
    const int64_t windows = window.count(source.tokens);
    if (windows == 0 || (shuffle && source.tokens < window.length))
      throw user_error(fmt::format("the data is too short: {} tokens, one window needs {}", source.tokens,
                                   shuffle ? window.length : window.length - window.stride + 1),
                       "training.seq_len is longer than the whole text",
                       "give more text, or a smaller training.seq_len");
    windows_.push_back(windows);
    const RandomKey key = random_key(seed, "shuffle:" + source.identity);
    keys_.push_back(uint64_t{key.word[1]} << 32 | key.word[0]);
  }
}

Sample Sampler::sample(uint64_t g) const {
  const auto [source, index] = mixture_.pick(g);
  const auto i = static_cast<size_t>(source);
  const auto n = static_cast<uint64_t>(windows_[i]);
  Sample sample;
  sample.source = source;
  sample.epoch = index / n;
  const uint64_t position = index % n;
  // A multiple of an odd constant per epoch: Permutation mixes it into unrelated round keys.
  const uint64_t epoch_key = keys_[i] + sample.epoch * 0xD1B54A32D192ED03;
  sample.window = static_cast<int64_t>(shuffle_ ? Permutation(n, epoch_key)(position) : position);
  sample.first_token = sample.window * window_.stride;
  sample.num_tokens = std::min(window_.length, sources_[i].tokens - sample.first_token);
  return sample;
}

uint64_t Sampler::samples_per_epoch(int64_t source) const {
  return mixture_.samples_until(source, static_cast<uint64_t>(windows(source)));
}

}  // namespace hearth::data
