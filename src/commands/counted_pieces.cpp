// SPDX-License-Identifier: Apache-2.0
#include "commands/counted_pieces.h"

#include <mutex>

#include "base/parallel.h"
#include "data/build/holdout.h"

namespace hearth::commands {
namespace {

constexpr int64_t kPortionBytes = 8 << 20;  // bytes that a thread reads at a time

}  // namespace

tokenizer::PieceCounts count_pieces(const data::Discovery& found, const data::BuildRules& rules, int64_t threads,
                                    const std::function<CountDocument()>& make_counter, TrainingProgress& progress) {
  const std::vector<data::Portion> portions = data::plan_portions(found.sources, kPortionBytes);
  const data::Holdout holdout = data::find_holdout(found.sources, portions, rules);
  for (const data::Portion& portion : portions) progress.bytes_total += portion.size_bytes;
  tokenizer::PieceCounts all;
  std::mutex mutex;
  for_each_index(static_cast<int64_t>(portions.size()), threads, [&](int64_t index) {
    const data::Portion& portion = portions[static_cast<size_t>(index)];
    data::PortionReader records(found.sources, portion, rules);
    const CountDocument count = make_counter();
    tokenizer::PieceCounts counts;
    for (data::Document document; records.next(document);) {
      if (!holdout.contains(document.hash)) count(document, found.sources[document.source].path, counts);
    }
    progress.bytes_done += portion.size_bytes;
    const std::lock_guard lock(mutex);
    all.add(counts);
  });
  return all;
}

}  // namespace hearth::commands
