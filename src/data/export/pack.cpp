// SPDX-License-Identifier: Apache-2.0
#include "data/export/pack.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/quantity.h"
#include "data/export/export.h"
#include "data/formats/saved_folder.h"

namespace hearth::data {
namespace {

// A run of tokens that is cut into rows from its start.
struct Run {
  int64_t first_row = 0, first_token = 0;
};

// The runs in order, and one entry after the last. Some may have no row.
std::vector<Run> plan_runs(const Split& split, const PackRules& rules) {
  if (rules.drop_tails == 0) return {{0, 0}, {div_ceil(split.tokens(), rules.length), split.tokens()}};
  std::vector<Run> runs;
  int64_t rows = 0, begin = 0;
  for (int64_t document = 0; document < split.documents(); document += rules.drop_tails) {
    const int64_t end = split.document_begin(std::min(document + rules.drop_tails, split.documents()));
    runs.push_back({rows, begin});
    rows += (end - begin) / rules.length;
    begin = end;
  }
  runs.push_back({rows, begin});
  return runs;
}

class PackedRows {
 public:
  PackedRows(const Split& split, const std::vector<Run>& runs, int64_t length, int32_t padding_id)
      : split_(split), runs_(runs), padding_id_(padding_id), ids_(static_cast<size_t>(length)) {}

  // Called for rows in order.
  void fill(int64_t row, SavedRow& out) {
    while (runs_[run_ + 1].first_row <= row) ++run_;
    const auto length = static_cast<int64_t>(ids_.size());
    const int64_t first = runs_[run_].first_token + (row - runs_[run_].first_row) * length;
    const auto there = static_cast<size_t>(std::min(length, split_.tokens() - first));
    split_.read(first, std::span(ids_).first(there));
    mask_.assign(ids_.size(), 0);
    std::fill_n(mask_.begin(), there, 1);
    labels_.assign(ids_.size(), kIgnore);
    weights_.resize(there);
    split_.read_weights(first, weights_);
    std::ranges::copy(masked_labels(std::span(ids_).first(there), weights_), labels_.begin());
    std::fill(ids_.begin() + static_cast<std::ptrdiff_t>(there), ids_.end(), padding_id_);
    out.add_ids(0, ids_);
    out.add_ids(1, mask_);
    out.add_ids(2, labels_);
  }

 private:
  const Split& split_;
  const std::vector<Run>& runs_;
  size_t run_ = 0;
  int32_t padding_id_;
  std::vector<int32_t> ids_, mask_, labels_;
  std::vector<float> weights_;
};

}  // namespace

PackResult pack_split(const Dataset& dataset, const Split& split, const PackRules& rules, const Path& folder,
                      int64_t file_bytes) {
  HEARTH_CHECK(rules.length > 0 && rules.drop_tails >= 0);
  if (split.weights() && !split.weights()->is_mask)
    throw real_weights(dataset, split, "rows of labels", "train on the dataset itself, or export its documents");
  const std::vector<Run> runs = plan_runs(split, rules);
  PackResult result;
  result.rows = runs.back().first_row;
  if (result.rows == 0)
    throw user_error(fmt::format("no {} documents in a row hold {} tokens", rules.drop_tails, rules.length),
                     fmt::format("--drop-tails would drop all {} tokens of \"{}\"", split.tokens(), split.name()),
                     "leave --drop-tails out, or give a smaller --length");
  const int64_t positions = result.rows * rules.length;
  result.dropped = std::max<int64_t>(0, split.tokens() - positions);
  result.padding = std::max<int64_t>(0, positions - split.tokens());
  result.padding_id = static_cast<int32_t>(std::max<int64_t>(0, dataset.manifest().eos));
  SavedTable table;
  table.columns = {{"input_ids", SavedType::kInt32List},
                   {"attention_mask", SavedType::kInt8List},
                   {"labels", SavedType::kInt64List}};
  table.rows = result.rows;
  table.bytes = 3 * (4 * result.rows) + (4 + 1 + 8) * positions;
  table.made_from =
      fmt::format("{}/{}/packed {} {}", split.dataset_identity(), split.name(), rules.length, rules.drop_tails);
  table.split = split.name();
  PackedRows rows(split, runs, rules.length, result.padding_id);
  write_saved_folder(folder, table, file_bytes, [&](int64_t row, SavedRow& out) { rows.fill(row, out); });
  return result;
}

}  // namespace hearth::data
