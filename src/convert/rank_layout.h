// SPDX-License-Identifier: Apache-2.0
// How other programs' files divide a model over ranks of tensor parallel: the rows of src/models/llama/ranks.toml, and
// the part of each of Hearth's tensors that a rank has. Readers (rank_parts.h) and writers (rank_slices.h) use both.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/names.h"
#include "plan/parameters.h"

namespace hearth::convert {

// A tensor of a rank's file, and Hearth's tensors in it, which are cut along one dimension.
struct RankRow {
  struct Source {
    std::string name;
    HeadKind heads = HeadKind::kNone;
  };
  std::string name;     // in the files; `*`, here and in the sources' names, is the layer's number
  std::string variant;  // the kind of files that have the row; empty: all files of the format
  std::vector<Source> sources;
  std::optional<size_t> dimension;          // empty: each rank has the whole
  HeadKind alternate_by = HeadKind::kNone;  // the sources' rows alternate, with an equal part for each of these heads
  int64_t layer = -1;                       // set by of_layer

  RankRow of_layer(int64_t number) const;
  std::vector<std::string> source_names() const;
};
// The row of files that have a tensor under Hearth's name.
RankRow row_of(const std::string& hearth);

// The rows of a format in the order of its modules: before the blocks, of a block, and behind the blocks.
struct RankTable {
  std::vector<RankRow> before, block, behind;
  // The rows of these variants, and the rows that all variants have.
  RankTable with(std::initializer_list<std::string_view> variants) const;
  // The row of this tensor of a file, with its layer's number.
  std::optional<RankRow> find(std::string_view name) const;
  // The first row that has this tensor of Hearth's.
  std::optional<RankRow> find_source(std::string_view hearth) const;
};
// A section of ranks.toml: "neox", "nxd", "torchtitan".
const RankTable& rank_table(std::string_view format);

// Which ranks have a copy of a key head if there are more ranks than key heads. Either neighbours share key rank * keys
// / ranks (Meta), or every keys-th rank has key rank % keys (NxD). A rank has only queries of its key.
enum class KeyOrder { kNeighbours, kInTurn };

// Rows (or columns) [first, first + count) of a source.
struct RankRun {
  size_t source;
  int64_t first, count;
};

class RankLayout {
 public:
  // The number of ranks divides the number of query heads. It divides the number of key heads, or is a multiple of it.
  RankLayout(int64_t queries, int64_t keys, int64_t ranks, KeyOrder order = KeyOrder::kNeighbours)
      : queries_(queries), keys_(keys), ranks_(ranks), order_(order) {}

  // The parts of sources that a rank has, in the order of its rows. `sizes`: the whole sources' sizes along the
  // dimension.
  std::vector<RankRun> runs(const RankRow& row, const std::vector<int64_t>& sizes, int64_t rank) const;
  // The number of ranks with different parts of a tensor. The other ranks have copies.
  int64_t owners(HeadKind heads) const { return heads == HeadKind::kKeys && has_copies() ? keys_ : ranks_; }

 private:
  bool has_copies() const { return ranks_ > keys_ && ranks_ % keys_ == 0; }

  int64_t queries_, keys_, ranks_;
  KeyOrder order_;
};

// The sizes of a block's sources along their dimension, in a model of this shape.
std::vector<int64_t> sizes_of(const RankRow& row, const plan::ModelShape& shape);

}  // namespace hearth::convert
