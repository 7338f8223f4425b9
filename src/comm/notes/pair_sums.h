// SPDX-License-Identifier: Apache-2.0
// Sums over members 0, 1, 2, ... in pairs, ((0 + 1) + (2 + 3)) + ..., in which any part may be added first. The result
// has the same bits as sum_in_pairs (comm/buffers.h), in whatever order the members' values arrive.
//
// A block is a complete part of the pairs: the sum over 2^level members from a multiple of 2^level. Two blocks that are
// partners become one, so a part of n members has at most 2 log2(n) blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::comm {

class PairSums {
 public:
  PairSums() = default;  // of no members
  // The sums of one member. All members have the same number of values.
  PairSums(int64_t member, std::vector<double> values);

  // Adds the sums of later members. Throws an Error (kBug) if they have another number of values.
  void append(const PairSums& later);
  // The sums over members 0 to `members` - 1. Throws an Error (kBug) unless exactly these were added.
  std::vector<double> total(int64_t members) const;

  std::string bytes() const;
  static PairSums from_bytes(std::string_view bytes);

 private:
  struct Block {
    uint32_t first, level;  // the members first .. first + 2^level - 1
    std::vector<double> sums;
  };
  void append(Block block);
  std::vector<Block> blocks_;  // ascending
};

}  // namespace hearth::comm
