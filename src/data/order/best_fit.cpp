// SPDX-License-Identifier: Apache-2.0
#include "data/order/best_fit.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/parallel.h"
#include "base/quantity.h"

namespace hearth::data {
namespace {

// Rows by room, their number of free positions. Among rows of equal room, the last one added is taken first.
class Rooms {
 public:
  explicit Rooms(int64_t most) : rows_(static_cast<size_t>(most) + 1), used_((rows_.size() + 63) / 64) {}

  void put(size_t row, int64_t room) {
    rows_[static_cast<size_t>(room)].push_back(row);
    used_[static_cast<size_t>(room) / 64] |= uint64_t{1} << room % 64;
  }
  // Removes the row with the smallest room of at least `size`. Returns its room, or -1 if there is no such row.
  int64_t take(int64_t size, size_t& row) {
    uint64_t mask = ~uint64_t{0} << size % 64;
    for (size_t word = static_cast<size_t>(size) / 64; word < used_.size(); ++word, mask = ~uint64_t{0}) {
      if ((used_[word] & mask) == 0) continue;
      const size_t room = word * 64 + static_cast<size_t>(std::countr_zero(used_[word] & mask));
      row = rows_[room].back();
      rows_[room].pop_back();
      if (rows_[room].empty()) used_[word] &= ~(uint64_t{1} << room % 64);
      return static_cast<int64_t>(room);
    }
    return -1;
  }

 private:
  std::vector<std::vector<size_t>> rows_;  // by room
  std::vector<uint64_t> used_;             // a bit for each room that some row has
};

// Documents [first, first + count). A document of seq_len tokens or more gives whole windows; its remaining tokens are
// packed.
WindowTableBuilder pack_group(const Split& split, int64_t first, int64_t count, int64_t seq_len) {
  const std::vector<int64_t> begins = split.document_begins(first, count + 1);
  WindowTableBuilder windows;
  std::vector<RowPart> pieces;
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    for (int64_t at = begins[i]; at < begins[i + 1]; at += seq_len) {
      RowPart part;
      part.first_token = at;
      part.num_inputs = std::min(seq_len, begins[i + 1] - at);
      part.label_after = at + part.num_inputs < begins[i + 1];
      part.joins = at == begins[i];
      if (part.num_inputs < seq_len) {
        pieces.push_back(part);
        continue;
      }
      windows.add(part);
      windows.end_window();
    }
  }
  std::ranges::stable_sort(pieces, [](const RowPart& a, const RowPart& b) { return a.num_inputs > b.num_inputs; });
  std::vector<std::vector<RowPart>> rows;
  Rooms rooms(seq_len);
  for (const RowPart& piece : pieces) {
    size_t row = rows.size();
    int64_t room = rooms.take(piece.num_inputs, row);
    if (room < 0) {
      rows.emplace_back();
      room = seq_len;
    }
    rows[row].push_back(piece);
    rooms.put(row, room - piece.num_inputs);
  }
  for (const std::vector<RowPart>& row : rows) {
    for (const RowPart& part : row) windows.add(part);
    windows.end_window();
  }
  return windows;
}

}  // namespace

TableArrays best_fit_table(const Split& split, int64_t seq_len, int64_t threads, int64_t group_size) {
  std::vector<WindowTableBuilder> groups(static_cast<size_t>(div_ceil(split.documents(), group_size)));
  for_each_index(static_cast<int64_t>(groups.size()), threads, [&](int64_t group) {
    const int64_t first = group * group_size;
    groups[static_cast<size_t>(group)] =
        pack_group(split, first, std::min(group_size, split.documents() - first), seq_len);
  });
  WindowTableBuilder all = std::move(groups.front());
  for (size_t group = 1; group < groups.size(); ++group) {
    all.append(groups[group]);
    groups[group] = {};
  }
  return all.finish(1);
}

}  // namespace hearth::data
