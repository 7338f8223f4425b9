// Divides a corpus into units. One thread reads a unit from its first record to its last.
//
// The cuts depend only on the files' sizes and order. So every build of the same files has the same units, for all
// parts and any number of threads.
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
  int64_t size_bytes = 0;  // on disk
};

// A unit is closed when it reaches unit_bytes. A larger file is cut into ranges of unit_bytes if its format allows
// that. `of_one_file`: no unit has pieces of two files.
std::vector<Unit> plan_units(const std::vector<SourceFile>& sources, int64_t unit_bytes, bool of_one_file = false);

// The units [first, second) of part `index` (counted from 0) of `count`: a run of about 1/count of the bytes. The parts
// cover all units, each once; some may be empty.
std::pair<size_t, size_t> units_of_part(const std::vector<Unit>& units, int64_t index, int64_t count);

}  // namespace hearth::data
