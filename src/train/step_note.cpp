// SPDX-License-Identifier: Apache-2.0
#include "train/step_note.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "comm/notes/frames.h"
#include "comm/notes/pair_sums.h"

namespace hearth::train {
namespace {

// A note's bytes: this, the counts, and the substitutes, each as frames.
struct Fixed {
  int64_t written_step;
  bool failed, leave, save;
};

struct Parts {
  Fixed fixed{};
  std::string_view counts, substitutes;
};

Parts take_apart(std::string_view bytes) {
  Parts parts;
  uint64_t counts_size = 0;
  HEARTH_CHECK(bytes.size() >= sizeof parts.fixed + sizeof counts_size, "a note of {} bytes", bytes.size());
  std::memcpy(&parts.fixed, bytes.data(), sizeof parts.fixed);
  std::memcpy(&counts_size, bytes.data() + sizeof parts.fixed, sizeof counts_size);
  bytes.remove_prefix(sizeof parts.fixed + sizeof counts_size);
  HEARTH_CHECK(bytes.size() >= counts_size, "a note of {} bytes", bytes.size());
  parts.counts = bytes.substr(0, counts_size);
  parts.substitutes = bytes.substr(counts_size);
  return parts;
}

std::string bytes_of(const Fixed& fixed, const std::string& counts, std::string_view substitutes) {
  std::string bytes(sizeof fixed, '\0');
  std::memcpy(bytes.data(), &fixed, sizeof fixed);
  comm::put_part(bytes, counts);
  bytes += substitutes;
  return bytes;
}

}  // namespace

std::string to_bytes(const StepNote& note, std::optional<int64_t> data_index) {
  Fixed fixed;
  std::memset(&fixed, 0, sizeof fixed);  // the gaps, too: equal notes have equal bytes
  fixed.written_step = note.written_step;
  fixed.failed = note.failed;
  fixed.leave = note.leave;
  fixed.save = note.save;
  std::string counts, substitutes;
  if (data_index && !note.failed) counts = comm::PairSums(*data_index, note.counts).bytes();
  if (data_index)
    for (const std::string& line : note.substitutes) comm::put_part(substitutes, line);
  return bytes_of(fixed, counts, substitutes);
}

void merge_step_notes(std::string& lower, std::string_view upper) {
  const Parts a = take_apart(lower), b = take_apart(upper);
  Fixed fixed = a.fixed;
  fixed.failed |= b.fixed.failed;
  fixed.leave |= b.fixed.leave;
  fixed.save |= b.fixed.save;
  fixed.written_step = std::min(fixed.written_step, b.fixed.written_step);
  comm::PairSums counts = comm::PairSums::from_bytes(a.counts);
  counts.append(comm::PairSums::from_bytes(b.counts));
  std::string substitutes(a.substitutes);
  substitutes += b.substitutes;
  lower = bytes_of(fixed, counts.bytes(), substitutes);
}

StepNote agreed_note(std::string_view merged, int64_t data_ranks) {
  const Parts parts = take_apart(merged);
  StepNote agreed{.substitutes = comm::parts_of(parts.substitutes),
                  .failed = parts.fixed.failed,
                  .leave = parts.fixed.leave,
                  .save = parts.fixed.save,
                  .written_step = parts.fixed.written_step};
  if (!agreed.failed) agreed.counts = comm::PairSums::from_bytes(parts.counts).total(data_ranks);
  return agreed;
}

}  // namespace hearth::train
