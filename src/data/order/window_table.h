// SPDX-License-Identifier: Apache-2.0
// Windows that are looked up instead of computed, for GPT-NeoX's order and best-fit packing.
//
// A window is a row of parts, each a range of one document. A pass holds every window once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/formats/table_file.h"

namespace hearth::data {

// Consecutive tokens of a split in one row of a batch.
struct RowPart {
  int64_t first_token = 0;   // in the split
  int64_t num_inputs = 0;    // positions that it fills; 0: it only gives the label of the position before it
  bool label_after = false;  // the token after its inputs is read, too: the label of its last input
  bool joins = true;         // its first token is the label of the position before it, if that has no label yet

  int64_t num_tokens() const { return num_inputs + (label_after ? 1 : 0); }
  bool operator==(const RowPart&) const = default;
};

class WindowTable {
 public:
  static constexpr int64_t kMaxTokens = int64_t{1} << 42;  // of the split
  static constexpr int64_t kMaxSeqLen = (int64_t{1} << 20) - 1;

  // `table` has the arrays as stored. They are checked against `tokens` and `seq_len`: throws damaged() for indices
  // outside these.
  WindowTable(TableArrays table, int64_t tokens, int64_t seq_len);

  int64_t windows() const { return windows_; }  // in a pass
  int64_t epochs() const { return epochs_; }    // of the tokens, in a pass
  int64_t padding() const { return padding_; }  // positions without a token, in all windows
  // The window at each place of a pass; empty: the sampler shuffles.
  std::span<const uint32_t> order() const { return order_; }
  void parts(int64_t window, std::vector<RowPart>& parts) const;
  const TableArrays& table() const { return table_; }

 private:
  TableArrays table_;
  std::span<const uint64_t> first_part_, parts_;
  std::span<const uint32_t> order_;
  int64_t windows_ = 0, epochs_ = 0, padding_ = 0;
};

// Makes a table window by window.
class WindowTableBuilder {
 public:
  void add(const RowPart& part);
  void end_window() { first_part_.push_back(parts_.size()); }
  // Appends the windows of `next`.
  void append(const WindowTableBuilder& next);
  // The table for WindowTable; see there for `epochs` and `order`.
  TableArrays finish(int64_t epochs, std::vector<uint32_t> order = {});
  int64_t windows() const { return static_cast<int64_t>(first_part_.size()) - 1; }

 private:
  std::vector<uint64_t> first_part_{0}, parts_;
};

}  // namespace hearth::data
