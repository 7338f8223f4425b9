// A deterministic weighted schedule over sources: which source gives sample g, and which of its samples that is.
//
// A table of 65,536 slots repeats for ever. Shares are rounded to slots by largest remainder; each source's slots are
// spread by earliest deadline. So after any number of samples a source's count is within one sample of its rounded
// share, and a look-up is one load. With one source there is no table.
//
// Weights may change at a given sample: a segment has a table of its own, and goes on counting where the one before
// ended, so that no sample of a source is repeated or left out.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace hearth::data {

// Weights that hold from sample `first_sample` on. Stored in checkpoints.
struct MixtureSegment {
  uint64_t first_sample = 0;
  std::vector<double> weights;  // shares on any scale, one a source; 0: the source gives nothing
  bool operator==(const MixtureSegment&) const = default;
};

class Mixture {
 public:
  static constexpr int64_t kSlots = 65536;
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  // One segment from sample 0 on. Weights are 0 or positive, one of them positive, and at most kSlots of them; throws
  // user_error otherwise, and for a positive weight that would round to no slot at all.
  explicit Mixture(std::span<const double> weights);
  // The first segment begins at 0, each other after the one before; all have the same number of weights.
  explicit Mixture(const std::vector<MixtureSegment>& segments);

  struct Pick {
    int64_t source;
    uint64_t index;  // how many samples of this source came before
  };
  Pick pick(uint64_t g) const {
    const Segment& segment = segment_of(g);
    const uint64_t k = g - segment.first_sample;
    if (segment.table.empty()) return {segment.only_source, segment.before[segment.only_index()] + k};
    const uint32_t slot = segment.table[k % kSlots];
    const uint32_t source = slot >> 16;
    return {source, segment.before[source] + k / kSlots * segment.slots[source] + (slot & 0xFFFF)};
  }

  // How many of the samples before g are of `source`.
  uint64_t count(int64_t source, uint64_t g) const;
  // The first g by which `count` samples of `source` have been given; kNever where that never comes.
  uint64_t samples_until(int64_t source, uint64_t count) const;

  // Slots of each source for these weights; sums to kSlots. Weights with equal slots are the same mixture.
  static std::vector<uint64_t> slots_of(std::span<const double> weights);

 private:
  struct Segment {
    uint64_t first_sample = 0;
    int64_t only_source = -1;      // that has a weight; then there is no table
    std::vector<uint64_t> before;  // samples of each source before this segment
    std::vector<uint64_t> slots;   // of each source; sums to kSlots
    std::vector<uint32_t> table;   // [kSlots] source << 16 | how many slots of the same source come before

    size_t only_index() const { return static_cast<size_t>(only_source); }
    uint64_t count(size_t source, uint64_t samples) const;  // of the segment's first samples
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
