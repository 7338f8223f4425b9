// SPDX-License-Identifier: Apache-2.0
// What ops refer to (models/ops.h).
#pragma once

#include <cstdint>
#include <vector>

namespace hearth::models {

// A buffer of a program, [rows, all its columns], or some columns of its rows.
struct Ref {
  int32_t buffer = -1;  // none
  int64_t first = 0, columns = 0;

  bool exists() const { return buffer >= 0; }
  // `count` columns from `begin` on.
  Ref part(int64_t begin, int64_t count) const { return {buffer, first + begin, count}; }
  bool operator==(const Ref&) const = default;
};
using Refs = std::vector<Ref>;

}  // namespace hearth::models
