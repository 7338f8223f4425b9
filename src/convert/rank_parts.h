// Joins a tensor from its parts, one in each file of a rank of tensor parallel.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/load.h"

namespace hearth::convert {

// Elements [begin, begin + count) of a tensor in row-major order: DeepSpeed's ZeRO cuts tensors anywhere, NxD's by
// rows.
struct FlatRun {
  std::string file;  // in the folder
  int64_t offset;    // bytes from the start of the file
  int64_t begin, count;
  formats::CrcRange member = {};  // of the file, with these elements
};

struct RankPart {
  std::string file;  // in the folder
  formats::TensorLayout layout;
  // Not empty: the part is these runs, in order, which cover it. `file` then only names it, and the layout has no
  // place.
  std::vector<FlatRun> runs = {};
};
using RankParts = std::map<int64_t, RankPart>;  // by rank

// Throws user_error unless ranks 0 to `ranks` - 1 have a part, damaged() unless the parts have one type and one shape
// of at most two dimensions. `what` names the tensor.
void check_parts(const RankParts& parts, int64_t ranks, const Path& folder, const std::string& what);

// The tensor `name` whose ranks share dimension `split`, or which each has in full.
checkpoint::OutsideTensor joined(const std::string& name, const RankParts& parts, std::optional<size_t> split);

// A matrix without pieces, of `rows` rows and the parts' columns.
checkpoint::OutsideTensor matrix_of(const std::string& name, const RankParts& parts, int64_t rows);
// Rows [from, from + count) of a part become rows from `to` on of the tensor.
void add_rows(checkpoint::OutsideTensor& tensor, const RankPart& part, int64_t from, int64_t count, int64_t to);
// The part becomes the box of the tensor that begins at `offsets`.
void add_part(checkpoint::OutsideTensor& tensor, const RankPart& part, const std::vector<int64_t>& offsets);

// Rows [from, from + count) of a part.
RankPart rows_of(const RankPart& part, int64_t from, int64_t count);

// Whether two parts of one shape and type have the same elements, bit by bit. Reads both.
bool same_elements(const Path& folder, const RankPart& a, const RankPart& b);

// Throws user_error unless each part is a matrix of `rows` rows.
void require_rows(const RankParts& parts, const Path& folder, const std::string& what, int64_t rows);

}  // namespace hearth::convert
