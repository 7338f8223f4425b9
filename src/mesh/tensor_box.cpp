// SPDX-License-Identifier: Apache-2.0
// Arithmetic on boxes: tensor_box.h.
#include <algorithm>

#include "base/error.h"
#include "mesh/tensor_box.h"

namespace hearth::mesh {
namespace {

// Appends the boxes of [begin, end), counted within the sub-tensor whose leading indices are `prefix`.
void append_boxes(const std::vector<int64_t>& shape, std::vector<int64_t>& prefix, int64_t begin, int64_t end,
                  std::vector<Box>& boxes) {
  if (begin == end) return;
  const size_t dim = prefix.size();
  int64_t inner = 1;  // elements of one row of this dimension
  for (size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];

  // Rows [first, last) as one box; whole rows only.
  const auto add_rows = [&](int64_t first, int64_t last) {
    if (first >= last) return;
    Box box;
    box.offsets.assign(shape.size(), 0);
    box.sizes = shape;
    for (size_t d = 0; d < dim; ++d) box.offsets[d] = prefix[d], box.sizes[d] = 1;
    if (dim < shape.size()) box.offsets[dim] = first, box.sizes[dim] = last - first;
    boxes.push_back(std::move(box));
  };
  // A part of one row.
  const auto add_part = [&](int64_t row, int64_t part_begin, int64_t part_end) {
    prefix.push_back(row);
    append_boxes(shape, prefix, part_begin, part_end, boxes);
    prefix.pop_back();
  };

  const int64_t first_row = begin / inner, last_row = end / inner;
  const int64_t head = begin % inner, tail = end % inner;
  if (head != 0 && first_row == last_row) return add_part(first_row, head, tail);
  if (head != 0) add_part(first_row, head, inner);
  add_rows(head != 0 ? first_row + 1 : first_row, last_row);
  if (tail != 0) add_part(last_row, 0, tail);
}

}  // namespace

int64_t Box::numel() const {
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  return n;
}

bool overlaps(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    const int64_t begin = std::max(a.offsets[d], b.offsets[d]);
    if (begin >= std::min(a.offsets[d] + a.sizes[d], b.offsets[d] + b.sizes[d])) return false;
  }
  return true;
}

std::vector<Box> boxes_of_flat_range(const std::vector<int64_t>& shape, int64_t begin, int64_t end) {
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  HEARTH_CHECK(0 <= begin && begin <= end && end <= numel, "range [{}, {}) of {} elements", begin, end, numel);
  std::vector<Box> boxes;
  std::vector<int64_t> prefix;
  append_boxes(shape, prefix, begin, end, boxes);
  return boxes;
}

}  // namespace hearth::mesh
