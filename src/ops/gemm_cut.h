// How one product is cut (see gemm.h). Shared by the threads' side and the kernels of each instruction set.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/gemm.h"

namespace hearth::ops {

struct GemmTile {
  int64_t rows, columns;  // of C: what one call of the micro-kernel computes
};

struct GemmRows {
  int64_t begin, end;
};

// The operand with fewer rows is packed once for all threads, in stages that fit the shared buffer; each thread takes
// rows of the other ("own") operand, and packs those.
struct GemmStage {
  const Gemm* product;
  bool shares_a;
  int64_t depth;                     // of a block of K; the last may have less
  int64_t shared_begin, shared_end;  // rows of the shared operand
  int64_t k_begin, k_end;            // whole blocks
  int64_t shared_panel_rows;         // rows of a packed panel: the tile's rows (of A) or columns (of B)
  float* shared;

  const GemmOperand& shared_operand() const { return shares_a ? product->a : product->b; }
  const GemmOperand& own_operand() const { return shares_a ? product->b : product->a; }
  int64_t shared_panels() const { return (shared_end - shared_begin + shared_panel_rows - 1) / shared_panel_rows; }
  // Blocks lie one behind the other, in each of them its panels.
  float* panel(int64_t k, int64_t panel) const {
    const int64_t this_depth = std::min(depth, k_end - k);
    return shared + ((k - k_begin) * shared_panels() + panel * this_depth) * shared_panel_rows;
  }
};

}  // namespace hearth::ops
