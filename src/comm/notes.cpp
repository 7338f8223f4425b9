#include "comm/notes.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/quantity.h"

namespace hearth::comm {

void Notes::add(int64_t rank, Note note) {
  std::optional<Note>& slot = notes_.at(static_cast<size_t>(rank));
  HEARTH_CHECK(!slot, "two notes of rank {}", rank);
  slot = std::move(note);
}

std::vector<int64_t> Notes::missing_ranks() const {
  std::vector<int64_t> ranks;
  for (size_t r = 0; r < notes_.size(); ++r)
    if (!notes_[r]) ranks.push_back(static_cast<int64_t>(r));
  return ranks;
}

std::vector<std::string> Notes::bytes() const {
  std::vector<std::string> all;
  for (size_t r = 0; r < notes_.size(); ++r) {
    const Note &first = *notes_.front(), &note = *notes_[r];
    if (note.operation != first.operation || note.to != first.to)
      throw Error(ExitCode::kBug,
                  fmt::format("ranks disagree: rank 0 is in {}, rank {} in {}", first.operation, r, note.operation));
    all.push_back(note.bytes);
  }
  return all;
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
      "if the ranks are merely slow, raise comm.train_timeout_seconds");
}

}  // namespace hearth::comm
