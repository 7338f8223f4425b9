// SPDX-License-Identifier: Apache-2.0
// A deterministic weighted schedule over sources: the source of sample g, and that sample's index in the source.
//
// A table of 65,536 slots repeats forever. Shares are rounded to slots by largest remainder; each source's slots are
// spread by earliest deadline. So after any number of samples a source's count is within one sample of its rounded
// share. A look-up is one load. A single source needs no table.
//
// Weights may change at a given sample. Each segment has its own table and continues the counts of the one before, so
// no sample of a source is repeated or left out.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace hearth::data {

// Weights from sample `first_sample` on. Stored in checkpoints.
struct MixtureSegment {
  uint64_t first_sample = 0;
  std::vector<double> weights;  // a share for each source, on any scale; 0: the source gives no samples
  bool operator==(const MixtureSegment&) const = default;
};

class Mixture {
 public:
  static constexpr int64_t kSlots = 65536;
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  // One segment from sample 0 on. Throws user_error unless there are 1 to kSlots weights, all 0 or positive and one
  // positive. Also throws for a positive weight that would round to no slot.
  explicit Mixture(std::span<const double> weights);
  // The first segment begins at sample 0, and each later one after the one before it. All have the same number of
  // weights.
  explicit Mixture(const std::vector<MixtureSegment>& segments);

  struct Pick {
    int64_t source;
    uint64_t index;  // number of samples of this source before
  };
  Pick pick(uint64_t g) const {
    const Segment& segment = segment_of(g);
    const uint64_t k = g - segment.first_sample;
    if (segment.table.empty()) return {segment.only_source, segment.before[segment.only_index()] + k};
    const uint32_t slot = segment.table[k % kSlots];
    const uint32_t source = slot >> 16;
    return {source, segment.before[source] + k / kSlots * segment.slots[source] + (slot & 0xFFFF)};
  }

  // Number of samples of `source` before g.
  uint64_t count(int64_t source, uint64_t g) const;
  // The first g with count(source, g) >= `count`; kNever if there is no such g.
  uint64_t samples_until(int64_t source, uint64_t count) const;

  // Slots of each source for these weights; sums to kSlots. Weights with equal slots are the same mixture.
  static std::vector<uint64_t> slots_of(std::span<const double> weights);

 private:
  struct Segment {
    uint64_t first_sample = 0;
    int64_t only_source = -1;      // the only source with a weight, which needs no table; -1: several sources have one
    std::vector<uint64_t> before;  // samples of each source before this segment
    std::vector<uint64_t> slots;   // of each source; sums to kSlots
    std::vector<uint32_t> table;   // [kSlots] source << 16 | number of slots of the same source before

    size_t only_index() const { return static_cast<size_t>(only_source); }
    uint64_t count(size_t source, uint64_t samples) const;  // in the segment's first `samples` samples
    uint64_t samples_until(size_t source, uint64_t count) const;
  };
  const Segment& segment_of(uint64_t g) const {
    size_t i = segments_.size() - 1;
    while (segments_[i].first_sample > g) --i;
    return segments_[i];
  }
  static std::vector<uint32_t> make_table(const std::vector<uint64_t>& slots);

  std::vector<Segment> segments_;
};

}  // namespace hearth::data
