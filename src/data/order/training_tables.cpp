#include "data/order/training_tables.h"

#include <chrono>

#include "base/error.h"
#include "base/quantity.h"
#include "data/formats/table_file.h"
#include "data/order/best_fit.h"
#include "data/order/neox_order.h"

namespace hearth::data {
namespace {

// The version of the tables' content. Each version has its own file.
constexpr int kVersion = 1;

TrainingTable make_table(const Dataset& dataset, const char* name, const std::string& parameters, int64_t seq_len,
                         const std::function<Table(const Split&)>& build) {
  const Split& split = dataset.split("train");
  if (split.tokens() >= WindowTable::kMaxTokens)
    throw user_error(
        fmt::format("dataset {} is too large for a table of sequences", dataset.folder().string()),
        fmt::format("it has {} tokens, at most {} are possible", split.tokens(), WindowTable::kMaxTokens - 1),
        "leave data.order and data.packing out");
  const std::string key =
      fmt::format("{} {}\n{}/{}\n{}\n{}", name, kVersion, split.dataset_identity(), split.name(), seq_len, parameters);
  TrainingTable result;
  TableNote note;
  const auto start = std::chrono::steady_clock::now();
  const Path folder = dataset.folder() / "tables";
  keep_table(
      folder, name, key, note, [&] { return build(split); },
      [&](Table table) {
        result.windows = std::make_shared<const WindowTable>(std::move(table), split.tokens(), seq_len);
      });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!note.damage.empty()) result.note += fmt::format("; made again: {}", note.damage);
  if (note.built) result.note += fmt::format("; the table took {}", format_duration(seconds.count()));
  if (!note.unkept.empty()) result.note += fmt::format(" and could not be saved: {}", note.unkept);
  return result;
}

}  // namespace

TrainingTable neox_table(const Dataset& dataset, int64_t seq_len, uint64_t samples, uint32_t seed) {
  TrainingTable table =
      make_table(dataset, "neox", fmt::format("{} {}", samples, seed), seq_len,
                 [&](const Split& split) { return neox_window_table(split, seq_len, samples, seed); });
  table.note = fmt::format("{}: {} sequences of {} epochs in GPT-NeoX's order{}", dataset.folder().string(),
                           table.windows->windows(), table.windows->epochs(), table.note);
  return table;
}

TrainingTable best_fit_table(const Dataset& dataset, int64_t seq_len, int64_t threads) {
  TrainingTable table = make_table(dataset, "best_fit", "", seq_len,
                                   [&](const Split& split) { return best_fit_table(split, seq_len, threads); });
  const double positions = static_cast<double>(table.windows->windows() * seq_len);
  table.note = fmt::format("{}: {} sequences by best fit, {:.3f} % of their positions are padding{}",
                           dataset.folder().string(), table.windows->windows(),
                           100 * static_cast<double>(table.windows->padding()) / positions, table.note);
  return table;
}

}  // namespace hearth::data
