// SPDX-License-Identifier: Apache-2.0
// Joins a tensor from its parts, one in each file of a rank of tensor parallel.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "convert/description.h"
#include "convert/rank_layout.h"

namespace hearth::convert {

// Elements [begin, begin + count) of a tensor in row-major order: DeepSpeed's ZeRO cuts tensors anywhere, NxD's by
// rows.
struct FileRun {
  std::string file;  // in the folder
  int64_t offset;    // bytes from the start of the file
  int64_t begin, count;
  formats::CrcRange member = {};  // of the file, with these elements
};

struct RankPart {
  std::string file;  // in the folder
  formats::TensorLayout layout;
  // Not empty: the part consists of these runs, in order. `file` then serves errors only, and the layout's place is not
  // used.
  std::vector<FileRun> runs = {};
};
using RankParts = std::map<int64_t, RankPart>;  // by rank

// The description, with these files' order of rotary pairs. Throws user_error if it is null; `why` says what needs it.
Description require_described(const Path& folder, const Description* described, const char* why);

// Throws user_error unless ranks 0 to `ranks` - 1 have a part, damaged() unless the parts have one type and one shape.
// `what` names the tensor.
void check_parts(const RankParts& parts, int64_t ranks, const Path& folder, const std::string& what);

// A row's tensors, joined from the parts of all ranks.
struct JoinedRow {
  // A rank's part that another rank has, too.
  struct Copy {
    int64_t rank, other;
    RankPart part, of_other;
  };
  std::vector<checkpoint::OutsideTensor> tensors;
  std::vector<Copy> copies;  // left out of the tensors
};
// `sizes`: the whole tensors' sizes along the row's dimension; empty for a row of one tensor, whose parts say its size.
// If the parts lack that dimension, the first part becomes the tensor, and a later comparison with the model refuses
// its shape.
JoinedRow joined(const RankRow& row, const RankLayout& layout, const RankParts& parts, std::vector<int64_t> sizes = {});
// The model's sizes of the row's tensors if it has several, else empty. Throws user_error unless the parts have as many
// rows. `what` names the file's tensor.
std::vector<int64_t> required_sizes(const RankRow& row, const RankLayout& layout, const RankParts& parts,
                                    const plan::ModelShape& shape, const Path& folder, const std::string& what);

// Whether two parts of one shape and type have the same elements, bit by bit. Reads both.
bool same_elements(const Path& folder, const RankPart& a, const RankPart& b);

}  // namespace hearth::convert
