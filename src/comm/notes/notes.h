// SPDX-License-Identifier: Apache-2.0
// The notes of several ranks in one call of Control, which are merged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/control.h"

namespace hearth::comm {

struct Note {
  std::string operation, bytes;
  NoteMerge merge = nullptr;  // null in another rank's note: it is the same function on all ranks
  Answers to = Answers::kAll;
};

class Notes {
 public:
  // `ranks` ascend, and are borrowed. A rank's note may include the notes of the ranks up to the next one in the list.
  explicit Notes(const std::vector<int64_t>& ranks)
      : ranks_(&ranks), notes_(ranks.size()), num_missing_(ranks.size()) {}

  void add(int64_t rank, Note note);
  bool complete() const { return num_missing_ == 0; }
  // The ranks whose note is not here, in order.
  std::vector<int64_t> missing_ranks() const;
  // The note of the first rank, if it is here.
  const std::optional<Note>& first() const { return notes_.front(); }
  // All bytes as one, by the merge of the first rank. Once, for complete notes. Throws an Error (kBug) if ranks name
  // different operations.
  std::string take_merged();

 private:
  const std::vector<int64_t>* ranks_;
  std::vector<std::optional<Note>> notes_;
  size_t num_missing_;
};

// "rank 1, rank 3".
std::string list_ranks(const std::vector<int64_t>& ranks);

// What limits a call of tensors, for its error.
inline constexpr std::string_view kLimitOfCalls =
    "comm.init_timeout_seconds is the limit up to the end of the first step, then comm.train_timeout_seconds";

// Throws the error of a rank that waited timeout_s for `missing` in vain. The `detail` of each missing rank may follow.
[[noreturn]] void throw_missing(int64_t rank, std::string_view operation, double timeout_s, const std::string& missing);

}  // namespace hearth::comm
