// A deterministic weighted schedule over sources: which source gives sample g, and which of its samples that is.
//
// A table of 65,536 slots repeats for ever. Shares are rounded to slots by largest remainder; each source's slots are
// spread by earliest deadline. So after any number of samples a source's count is within one sample of its rounded
// share, and a look-up is two loads. With one source there is no table.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hearth::data {

class Mixture {
 public:
  static constexpr int64_t kSlots = 65536;

  // Weights are positive and at most kSlots of them; throws user_error otherwise, and for a weight that would round to
  // no slot at all.
  explicit Mixture(std::span<const double> weights);

  struct Pick {
    int64_t source;
    uint64_t index;  // how many samples of this source came before
  };
  Pick pick(uint64_t g) const;

  // The first g by which `count` samples of `source` have been given.
  uint64_t samples_until(int64_t source, uint64_t count) const;

  int64_t slots(int64_t source) const { return slots_[static_cast<size_t>(source)]; }

 private:
  std::vector<int64_t> slots_;         // of each source; sums to kSlots
  std::vector<uint16_t> slot_source_;  // [kSlots]
  std::vector<uint32_t> slot_rank_;    // [kSlots] how many slots of the same source come before
};

}  // namespace hearth::data
