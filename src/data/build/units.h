// How a corpus is shared out: a unit is read by one thread from its first record to its last.
//
// The cuts depend on the files' sizes and order alone, so that every build of the same files, every part of it and
// every number of threads sees the same units.
#pragma once

#include <cstdint>
#include <vector>

#include "data/source/source.h"

namespace hearth::data {

struct UnitPiece {
  size_t source = 0;  // index
  SourceRange range;
};

// Several small files, one large one, or a range of one.
struct Unit {
  std::vector<UnitPiece> pieces;
  int64_t size_bytes = 0;  // as it lies on disk
};

// A unit is closed when it reaches unit_bytes; a larger file is cut into ranges of unit_bytes where its format allows.
// `of_one_file`: no unit holds pieces of two.
std::vector<Unit> plan_units(const std::vector<SourceFile>& sources, int64_t unit_bytes, bool of_one_file = false);

// Part `index` of `count` (counted from 0): the units [first, second), a run of about 1/count of the bytes. The parts
// cover all units, each once; some may be empty.
std::pair<size_t, size_t> units_of_part(const std::vector<Unit>& units, int64_t index, int64_t count);

}  // namespace hearth::data
