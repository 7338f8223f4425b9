// The notes of all ranks in one call of Control, and messages of several parts as bytes.
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
  Answers to = Answers::kAll;
};

class Notes {
 public:
  explicit Notes(int64_t ranks) : notes_(static_cast<size_t>(ranks)) {}

  void add(int64_t rank, Note note);
  bool complete() const { return missing_ranks().empty(); }
  // The ranks whose note is not here, in order.
  std::vector<int64_t> missing_ranks() const;
  // Their bytes, in rank order. Throws an Error (kBug) if ranks name different operations.
  std::vector<std::string> bytes() const;
  // Who gets them. For complete notes.
  Answers answers() const { return notes_.front()->to; }

 private:
  std::vector<std::optional<Note>> notes_;
};

// "rank 1, rank 3".
std::string list_ranks(const std::vector<int64_t>& ranks);

// The error of a rank that waited timeout_s for `missing` in vain. `detail` of each may follow.
[[noreturn]] void throw_missing(int64_t rank, std::string_view operation, double timeout_s, const std::string& missing);

// Appends a part: its length in 8 bytes, and its bytes.
void put_part(std::string& to, std::string_view part);

template <class... Parts>
std::string parts_as_bytes(const Parts&... parts) {
  std::string bytes;
  (put_part(bytes, parts), ...);
  return bytes;
}

// The parts that put_part() wrote; nullopt for other bytes.
std::optional<std::vector<std::string>> find_parts(std::string_view bytes);

// The same of a message from a rank that has been met. Throws an Error (kBug) for other bytes.
std::vector<std::string> parts_of(std::string_view bytes);

}  // namespace hearth::comm
