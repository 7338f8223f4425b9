#include "comm/notes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
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
      "if the ranks are merely slow, raise comm.train_timeout_seconds, or comm.init_timeout_seconds before the first "
      "step");
}

void put_part(std::string& to, std::string_view part) {
  const uint64_t size = part.size();
  to.append(reinterpret_cast<const char*>(&size), sizeof size);
  to += part;
}

std::optional<std::vector<std::string>> find_parts(std::string_view bytes) {
  std::vector<std::string> parts;
  while (!bytes.empty()) {
    uint64_t size = 0;
    if (bytes.size() < sizeof size) return std::nullopt;
    std::memcpy(&size, bytes.data(), sizeof size);
    if (bytes.size() - sizeof size < size) return std::nullopt;
    parts.emplace_back(bytes.substr(sizeof size, size));
    bytes.remove_prefix(sizeof size + size);
  }
  return parts;
}

std::vector<std::string> parts_of(std::string_view bytes) {
  std::optional<std::vector<std::string>> parts = find_parts(bytes);
  HEARTH_CHECK(parts.has_value(), "a message of {} bytes has no parts", bytes.size());
  return std::move(*parts);
}

}  // namespace hearth::comm
