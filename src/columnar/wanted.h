// The wanted columns of a table: where keys lead in its schema, and what a row holds there.
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

// Where a key leads: a column, and from there a member of each struct on the way. Lists are passed through.
struct WantedColumn {
  int column = 0;
  std::vector<int> members;
};

struct WantedColumns {
  std::vector<WantedColumn> columns;  // of each key; then those of labels, or of weights
  size_t num_keys = 0;
  data::ColumnKind kind = data::ColumnKind::kText;
  // For arrays: where in `columns` each of data::kLabelNames is; 0: nowhere.
  std::array<size_t, data::kLabelNames.size()> labels{};
  // For text and ids: where the columns of ReadRules::labels_key and weights_key are; 0: nowhere.
  size_t label_mask = 0, weights = 0;
};

// False, and `failure` with what the table has instead, where a key leads nowhere, or to something outside
// data::ColumnKind. A key is looked for as it stands first, and as a dotted path then.
bool find_wanted(const arrow::Schema& schema, const data::ReadRules& rules, WantedColumns& wanted,
                 data::ColumnFailure& failure);

// Rows of one record batch after another. Everything in a batch is checked before it is touched.
class BatchRows {
 public:
  // Larger arrays are a problem of their rows. `rules` outlive it; null: there are no rows.
  BatchRows(WantedColumns wanted, const data::ReadRules* rules, int64_t most_cells)
      : wanted_(std::move(wanted)), rules_(rules), most_cells_(most_cells) {}

  data::ColumnKind kind() const { return wanted_.kind; }
  arrow::Status set_batch(const arrow::RecordBatch& batch);
  void clear();  // lets go of the batch
  int64_t num_rows() const { return num_rows_; }
  // Row `i` of the batch, into `row` but for its number. Views are good until the next call of either function.
  void read(int64_t i, data::ColumnRow& row);

 private:
  void read_row_weights(int64_t i, data::ColumnRow& row);

  WantedColumns wanted_;
  const data::ReadRules* rules_;
  int64_t most_cells_;
  std::vector<std::shared_ptr<arrow::Array>> arrays_;  // of each column, without the other members of structs
  int64_t num_rows_ = 0;
  std::vector<uint32_t> ids_;
  std::vector<uint8_t> counts_;
  std::vector<float> weights_;
};

}  // namespace hearth::columnar
