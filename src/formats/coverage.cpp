// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "formats/dcp.h"

namespace hearth::formats {
namespace {

// The part of `item` inside `box`; false if they share no element.
bool intersect(const mesh::Box& item, const mesh::Box& box, mesh::Box& overlap) {
  overlap = box;
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    const int64_t begin = std::max(item.offsets[d], box.offsets[d]);
    const int64_t end = std::min(item.offsets[d] + item.sizes[d], box.offsets[d] + box.sizes[d]);
    if (begin >= end) return false;
    overlap.offsets[d] = begin;
    overlap.sizes[d] = end - begin;
  }
  return true;
}

}  // namespace

// Disjoint parts whose sizes add up to the box's size cover it.
void check_coverage(const StoredTensor& tensor, const mesh::Box& box, const std::string& origin) {
  std::vector<mesh::Box> parts;
  int64_t covered = 0;
  for (const Item& item : tensor.items) {
    mesh::Box overlap, ignored;
    if (!intersect(item.box, box, overlap)) continue;
    for (const mesh::Box& part : parts) {
      if (!intersect(part, overlap, ignored)) continue;
      throw damaged(
          fmt::format("{}: {} is stored twice at {}", origin, tensor.info.name, format_shape(ignored.offsets)));
    }
    covered += overlap.numel();
    parts.push_back(std::move(overlap));
  }
  if (covered != box.numel()) {
    throw damaged(fmt::format("{}: {} is incomplete", origin, tensor.info.name),
                  fmt::format("of {} elements at {}, {} are missing", box.numel(), format_shape(box.offsets),
                              box.numel() - covered));
  }
}

}  // namespace hearth::formats
