// SPDX-License-Identifier: Apache-2.0
#include "data/order/window_table.h"

#include <algorithm>

#include "base/error.h"

namespace hearth::data {
namespace {

// A part in 64 bits. Stored in tables: another layout needs another kTablesVersion in training_data.cpp.
constexpr int kInputBits = 20;
constexpr uint64_t kInputMask = (uint64_t{1} << kInputBits) - 1;

uint64_t pack(const RowPart& part) {
  HEARTH_CHECK(part.first_token >= 0 && part.first_token < WindowTable::kMaxTokens && part.num_inputs >= 0 &&
               part.num_inputs <= WindowTable::kMaxSeqLen);
  const auto input_bits = static_cast<uint64_t>(part.num_inputs);
  return static_cast<uint64_t>(part.first_token) << (kInputBits + 2) | input_bits << 2 |
         (part.label_after ? uint64_t{2} : 0) | (part.joins ? uint64_t{1} : 0);
}

RowPart unpack(uint64_t bits) {
  return {static_cast<int64_t>(bits >> (kInputBits + 2)), static_cast<int64_t>(bits >> 2 & kInputMask), (bits & 2) != 0,
          (bits & 1) != 0};
}

enum Array : size_t { kEpochs, kFirstPart, kParts, kOrder, kNumArrays };

void require(bool holds) {
  if (!holds) throw damaged("a table of windows has invalid entries");
}

}  // namespace

WindowTable::WindowTable(TableArrays table, int64_t tokens, int64_t seq_len) : table_(std::move(table)) {
  require(table_.size() == kNumArrays && table_[kEpochs].holds<uint64_t>(1) && table_[kOrder].holds<uint32_t>() &&
          table_[kFirstPart].holds<uint64_t>() && table_[kParts].holds<uint64_t>());
  first_part_ = table_[kFirstPart].as<uint64_t>();
  parts_ = table_[kParts].as<uint64_t>();
  order_ = table_[kOrder].as<uint32_t>();
  const uint64_t epochs = table_[kEpochs].as<uint64_t>()[0];
  const size_t all = first_part_.empty() ? 0 : first_part_.size() - 1;
  require(all > 0 && epochs >= 1 && epochs < uint64_t{1} << 32 && (order_.empty() || order_.size() == all));
  epochs_ = static_cast<int64_t>(epochs);
  windows_ = static_cast<int64_t>(all);
  require(first_part_.front() == 0 && first_part_.back() == parts_.size());
  for (size_t w = 0; w < all; ++w) {
    require(first_part_[w] < first_part_[w + 1] && first_part_[w + 1] <= parts_.size());
    int64_t inputs = 0;
    for (uint64_t p = first_part_[w]; p < first_part_[w + 1]; ++p) {
      const RowPart part = unpack(parts_[p]);
      require(part.num_tokens() > 0 && part.first_token + part.num_tokens() <= tokens);
      require(part.num_inputs > 0 || inputs > 0);  // a label needs a position
      inputs += part.num_inputs;
    }
    require(inputs <= seq_len);
    padding_ += seq_len - inputs;
  }
  require(std::ranges::all_of(order_, [all](uint32_t window) { return window < all; }));
}

void WindowTable::parts(int64_t window, std::vector<RowPart>& parts) const {
  const auto w = static_cast<size_t>(window);
  parts.clear();
  for (uint64_t p = first_part_[w]; p < first_part_[w + 1]; ++p) parts.push_back(unpack(parts_[p]));
}

void WindowTableBuilder::add(const RowPart& part) { parts_.push_back(pack(part)); }

void WindowTableBuilder::append(const WindowTableBuilder& next) {
  const uint64_t before = parts_.size();
  parts_.insert(parts_.end(), next.parts_.begin(), next.parts_.end());
  for (size_t w = 1; w < next.first_part_.size(); ++w) first_part_.push_back(before + next.first_part_[w]);
}

TableArrays WindowTableBuilder::finish(int64_t epochs, std::vector<uint32_t> order) {
  TableArrays table;
  table.emplace_back(std::vector<uint64_t>{static_cast<uint64_t>(epochs)});
  table.emplace_back(std::move(first_part_));
  table.emplace_back(std::move(parts_));
  table.emplace_back(std::move(order));
  return table;
}

}  // namespace hearth::data
