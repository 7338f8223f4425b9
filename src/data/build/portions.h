// SPDX-License-Identifier: Apache-2.0
// Divides a corpus into portions. One thread reads a portion from its first record to its last.
//
// The cuts depend only on the files' sizes and order. So every build of the same files has the same portions, for all
// parts and any number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "data/source/source.h"

namespace hearth::data {

struct PortionPiece {
  size_t source = 0;  // index
  SourceRange range;
};

// Several small files, one large one, or a range of one.
struct Portion {
  std::vector<PortionPiece> pieces;
  int64_t size_bytes = 0;  // on disk
};

// A portion is closed when it reaches portion_bytes. A larger file is cut into ranges of portion_bytes if its format
// allows that. `of_one_file`: no portion has pieces of two files.
std::vector<Portion> plan_portions(const std::vector<SourceFile>& sources, int64_t portion_bytes,
                                   bool of_one_file = false);

// The portions [first, second) of part `index` (counted from 0) of `count`: a run of about 1/count of the bytes. The
// parts cover all portions, each once; some may be empty.
std::pair<size_t, size_t> portions_of_part(const std::vector<Portion>& portions, int64_t index, int64_t count);

}  // namespace hearth::data
