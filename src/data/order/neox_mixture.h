// SPDX-License-Identifier: Apache-2.0
// Mixes sources as GPT-NeoX does: each sample comes from the source that is furthest behind its share. Source:
// EleutherAI/gpt-neox, megatron/data/helpers.cpp, build_blending_indices.
//
// A choice depends on all earlier ones. Therefore all choices of the run are made once and stored, one byte per sample.
// Later choices are computed on demand.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/order/mixture.h"

namespace hearth::data {

class NeoxMixture {
 public:
  static constexpr size_t kMaxSources = 254;

  // 1 to kMaxSources positive weights, on any scale.
  NeoxMixture(std::span<const double> weights, uint64_t samples);

  Mixture::Pick pick(uint64_t g) const;
  uint64_t count(int64_t source, uint64_t g) const;  // number of samples of `source` before g
  // The first g with count(source, g) >= `count`.
  uint64_t samples_until(int64_t source, uint64_t count) const;

 private:
  static constexpr uint64_t kBlock = 128;  // samples between two rows of `before_`
  using Counts = std::vector<uint64_t>;

  size_t choose(uint64_t g, const uint64_t* given) const;
  Counts counts_at(uint64_t g) const;

  std::vector<double> weights_;   // sum to 1
  std::vector<uint8_t> sources_;  // of each sample
  // [blocks, sources] samples of each source before each block, and one row after the last.
  std::vector<uint64_t> before_;
  Counts end_;  // samples of each source in all of sources_
};

}  // namespace hearth::data
