// SPDX-License-Identifier: Apache-2.0
// The wanted columns of a table: the place of keys in its schema, and a row's values there.
#pragma once

#include <arrow/record_batch.h>
#include <arrow/status.h>
#include <arrow/type.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "data/formats/arrow_library.h"

namespace hearth::columnar {

// The place of a key: a column, then a member of each struct below it. Lists are passed through.
struct WantedColumn {
  int column = 0;
  std::vector<int> members;
};

struct WantedColumns {
  std::vector<WantedColumn> columns;  // of each key, then of labels or weights
  size_t num_keys = 0;
  data::ColumnKind kind = data::ColumnKind::kText;
  // For arrays: the index in `columns` of each of recordings::kLabelNames; 0: missing.
  std::array<size_t, recordings::kLabelNames.size()> labels{};
  // For text and ids: the index of the columns of ReadRules::labels_key and weights_key; 0: missing.
  size_t label_mask = 0, weights = 0;
};

// Returns false if a key is missing or its type is not in data::ColumnKind; `failure` says what the table has instead.
// A key is looked up as a name first, then as a dotted path.
bool find_wanted(const arrow::Schema& schema, const data::ReadRules& rules, WantedColumns& wanted,
                 data::ColumnFailure& failure);

// Rows of one record batch after another. A batch is checked as a whole before its values are read.
class BatchRows {
 public:
  // Arrays of more than `most_cells` are a problem of their rows. `rules` must outlive it; null: there are no rows.
  BatchRows(WantedColumns wanted, const data::ReadRules* rules, int64_t most_cells)
      : wanted_(std::move(wanted)), rules_(rules), most_cells_(most_cells) {}

  data::ColumnKind kind() const { return wanted_.kind; }
  arrow::Status set_batch(const arrow::RecordBatch& batch);
  void clear();  // releases the batch
  int64_t num_rows() const { return num_rows_; }
  // Reads row `i` of the batch into `row`, except its number. Views are valid until the next call of either function.
  void read(int64_t i, data::ColumnRow& row);

 private:
  void read_row_weights(int64_t i, data::ColumnRow& row);

  WantedColumns wanted_;
  const data::ReadRules* rules_;
  int64_t most_cells_;
  std::vector<std::shared_ptr<arrow::Array>> arrays_;  // one per column, without unwanted members of structs
  int64_t num_rows_ = 0;
  std::vector<uint32_t> ids_;
  std::vector<uint8_t> counts_;
  std::vector<float> weights_;
};

}  // namespace hearth::columnar
