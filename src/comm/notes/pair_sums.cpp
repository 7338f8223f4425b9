// SPDX-License-Identifier: Apache-2.0
#include "comm/notes/pair_sums.h"

#include <cstring>
#include <utility>

#include "base/error.h"

namespace hearth::comm {

namespace {

void put_number(std::string& to, uint32_t value) { to.append(reinterpret_cast<const char*>(&value), sizeof value); }

uint32_t take_number(std::string_view& bytes) {
  uint32_t value = 0;
  HEARTH_CHECK(bytes.size() >= sizeof value, "sums of {} bytes", bytes.size());
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

void add_to(std::vector<double>& to, const std::vector<double>& values) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += values[i];
}

}  // namespace

PairSums::PairSums(int64_t member, std::vector<double> values) {
  blocks_.push_back({static_cast<uint32_t>(member), 0, std::move(values)});
}

void PairSums::append(Block block) {
  if (!blocks_.empty()) {
    HEARTH_CHECK(block.sums.size() == blocks_.front().sums.size(), "member {} has {} values to sum, member {} has {}",
                 block.first, block.sums.size(), blocks_.front().first, blocks_.front().sums.size());
  }
  while (!blocks_.empty()) {
    Block& before = blocks_.back();
    const uint32_t width = 1U << block.level;
    const bool partners =
        before.level == block.level && before.first + width == block.first && before.first % (2 * width) == 0;
    if (!partners) break;
    add_to(before.sums, block.sums);
    ++before.level;
    block = std::move(before);
    blocks_.pop_back();
  }
  blocks_.push_back(std::move(block));
}

void PairSums::append(const PairSums& later) {
  for (const Block& block : later.blocks_) append(block);
}

std::vector<double> PairSums::total(int64_t members) const {
  uint32_t end = 0;
  for (const Block& block : blocks_) {
    HEARTH_CHECK(block.first == end, "the sums lack member {}", end);
    end += 1U << block.level;
  }
  HEARTH_CHECK(end == members && !blocks_.empty(), "sums of {} members, expected {}", end, members);
  // A part at the end without a partner goes up until it has one.
  std::vector<double> sums = blocks_.back().sums;
  for (size_t i = blocks_.size() - 1; i-- > 0;) {
    std::vector<double> left = blocks_[i].sums;
    add_to(left, sums);
    sums = std::move(left);
  }
  return sums;
}

std::string PairSums::bytes() const {
  std::string bytes;
  for (const Block& block : blocks_) {
    put_number(bytes, block.first);
    put_number(bytes, block.level);
    put_number(bytes, static_cast<uint32_t>(block.sums.size()));
    bytes.append(reinterpret_cast<const char*>(block.sums.data()), block.sums.size() * sizeof(double));
  }
  return bytes;
}

PairSums PairSums::from_bytes(std::string_view bytes) {
  PairSums found;
  while (!bytes.empty()) {
    Block block{};
    block.first = take_number(bytes);
    block.level = take_number(bytes);
    block.sums.resize(take_number(bytes));
    const size_t size = block.sums.size() * sizeof(double);
    HEARTH_CHECK(bytes.size() >= size, "sums of {} bytes", bytes.size());
    if (size > 0) std::memcpy(block.sums.data(), bytes.data(), size);
    bytes.remove_prefix(size);
    found.blocks_.push_back(std::move(block));
  }
  return found;
}

}  // namespace hearth::comm
