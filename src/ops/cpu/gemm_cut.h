// SPDX-License-Identifier: Apache-2.0
// How one product is cut (see gemm.h). Shared by the threads' side and the kernels of each instruction set.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hearth::ops {

struct GemmTile {
  int64_t rows, columns;  // of C: what one call of the micro-kernel computes
  bool may_pair;          // the instruction set has lanes of two bfloat16, for processors that multiply them
};

struct GemmRows {
  int64_t begin, end;
};

// A panel is some rows of an operand over a block of K, [depth][rows] lanes. A lane is a float, or a pair of bfloat16
// that are neighbours in k. All counts along K are in lanes.
//
// The operand with fewer rows is packed once for all threads, in stages that fit the shared buffer. Each thread takes
// rows of the other ("own") operand, and packs them.
struct GemmStage {
  bool shares_a;
  bool pairs;
  int64_t depth;                              // of a block of K; the last may be shorter
  int64_t shared_panel_rows, own_panel_rows;  // one: rows of the tile (of A), the other: its columns (of B)
  int64_t shared_begin, shared_end;           // rows of the shared operand
  int64_t own_begin, own_end;                 // rows of the other
  int64_t K, k_begin, k_end;                  // K: all lanes; [k_begin, k_end): whole blocks
  float *shared, *sums;

  int64_t shared_panels() const { return (shared_end - shared_begin + shared_panel_rows - 1) / shared_panel_rows; }
  // Blocks follow each other; a block's panels do, too.
  float* panel(int64_t k, int64_t panel) const {
    const int64_t this_depth = std::min(depth, k_end - k);
    return shared + ((k - k_begin) * shared_panels() + panel * this_depth) * shared_panel_rows;
  }
  // The sums of a tile so far, [rows][columns], if C itself cannot hold them.
  float* sums_of(int64_t own_row, int64_t panel) const {
    return sums + ((own_row - own_begin) * shared_panels() + panel * own_panel_rows) * shared_panel_rows;
  }
};

}  // namespace hearth::ops
