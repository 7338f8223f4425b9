// SPDX-License-Identifier: Apache-2.0
#include "comm/notes/notes.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/quantity.h"

namespace hearth::comm {

void Notes::add(int64_t rank, Note note) {
  const auto at = std::lower_bound(ranks_->begin(), ranks_->end(), rank);
  HEARTH_CHECK(at != ranks_->end() && *at == rank, "a note of rank {}", rank);
  std::optional<Note>& slot = notes_[static_cast<size_t>(at - ranks_->begin())];
  HEARTH_CHECK(!slot, "two notes of rank {}", rank);
  slot = std::move(note);
  --num_missing_;
}

std::vector<int64_t> Notes::missing_ranks() const {
  std::vector<int64_t> ranks;
  for (size_t i = 0; i < notes_.size(); ++i)
    if (!notes_[i]) ranks.push_back((*ranks_)[i]);
  return ranks;
}

std::string Notes::take_merged() {
  Note& first = *notes_.front();
  std::string merged = std::move(first.bytes);
  for (size_t i = 1; i < notes_.size(); ++i) {
    const Note& note = *notes_[i];
    if (note.operation != first.operation)
      throw Error(ExitCode::kBug, fmt::format("ranks disagree: rank {} is in {}, rank {} in {}", ranks_->front(),
                                              first.operation, (*ranks_)[i], note.operation));
    first.merge(merged, note.bytes);
  }
  return merged;
}

std::string list_ranks(const std::vector<int64_t>& ranks) {
  std::string list;
  for (const int64_t rank : ranks) list += fmt::format("{}rank {}", list.empty() ? "" : ", ", rank);
  return list;
}

void throw_missing(int64_t rank, std::string_view operation, double timeout_s, const std::string& missing) {
  throw Error(
      ExitCode::kHardware,
      fmt::format("rank {} waited {} in {}; not arrived: {}", rank, format_duration(timeout_s), operation, missing),
      "a rank hangs, is far slower than the others, or waits for a disk",
      "if the ranks are merely slow, raise comm.train_timeout_seconds, or comm.init_timeout_seconds before the first "
      "step");
}

}  // namespace hearth::comm
