#include "commands/tokenizer/counted_pieces.h"

#include <mutex>

#include "base/parallel.h"
#include "data/build/holdout.h"

namespace hearth::commands {
namespace {

constexpr int64_t kUnitBytes = 8 << 20;  // bytes that a thread reads at a time

}  // namespace

tokenizer::PieceCounts count_pieces(const data::Discovery& found, const data::BuildRules& rules, int64_t threads,
                                    const std::function<CountDocument()>& make_counter, TrainingProgress& progress) {
  const std::vector<data::Unit> units = data::plan_units(found.sources, kUnitBytes);
  const data::Holdout holdout = data::find_holdout(found.sources, units, rules);
  for (const data::Unit& unit : units) progress.bytes_total += unit.size_bytes;
  tokenizer::PieceCounts all;
  std::mutex mutex;
  for_each_index(static_cast<int64_t>(units.size()), threads, [&](int64_t index) {
    const data::Unit& unit = units[static_cast<size_t>(index)];
    data::UnitRecords records(found.sources, unit, rules);
    const CountDocument count = make_counter();
    tokenizer::PieceCounts counts;
    for (data::Document document; records.next(document);) {
      if (!holdout.contains(document.hash)) count(document, found.sources[document.source].path, counts);
    }
    progress.bytes_done += unit.size_bytes;
    const std::lock_guard lock(mutex);
    all.add(counts);
  });
  return all;
}

}  // namespace hearth::commands
