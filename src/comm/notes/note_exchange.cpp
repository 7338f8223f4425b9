// SPDX-License-Identifier: Apache-2.0
#include "comm/notes/note_exchange.h"

#include <utility>

#include "base/error.h"
#include "comm/notes/frames.h"

namespace hearth::comm {

NoteExchange::NoteExchange(int64_t rank, int64_t size, int64_t part, uint64_t star_calls)
    : rank_(rank), star_calls_(star_calls), star_(NoteTree::star(rank, size)), parts_(NoteTree{rank, size, part}) {}

NoteExchange::Way::Way(const NoteTree& way) : tree(way), children(way.children()), members{way.rank} {
  if (tree.rank > 0) up.push_back(tree.parent());
  members.insert(members.end(), children.begin(), children.end());
}

std::optional<NoteExchange::Outgoing> NoteExchange::post(uint64_t number, Note note, double now_s) {
  return add(number, rank_, std::move(note), now_s);
}

std::optional<NoteExchange::Outgoing> NoteExchange::take_note(uint64_t number, int64_t child, const std::string& bytes,
                                                              double now_s) {
  std::vector<std::string> parts = parts_of(bytes);
  HEARTH_CHECK(parts.size() == 2, "a note of {} parts", parts.size());
  return add(number, child, {.operation = std::move(parts[0]), .bytes = std::move(parts[1])}, now_s);
}

std::optional<NoteExchange::Outgoing> NoteExchange::add(uint64_t number, int64_t rank, Note note, double now_s) {
  LastCall& last = last_calls_[rank];
  if (number > last.number) last = {number, note.operation};
  const Way& way = of(number);
  const auto at = calls_.try_emplace(number, Call{Notes(way.members), now_s}).first;
  Notes& notes = at->second.notes;
  notes.add(rank, std::move(note));
  if (!notes.complete()) return std::nullopt;
  std::string merged = notes.take_merged();
  const Note& mine = *notes.first();
  Outgoing out{.number = number};
  if (rank_ == 0) {
    out.is_result = true;
    if (mine.to == Answers::kAll) out.bytes = merged;
    out.to = &way.children;
    results_.emplace(number, std::move(merged));
  } else {
    out.bytes = parts_as_bytes(mine.operation, merged);
    out.to = &way.up;
  }
  calls_.erase(at);
  return out;
}

std::optional<NoteExchange::Outgoing> NoteExchange::take_result(uint64_t number, std::string bytes) {
  const Way& way = of(number);
  std::optional<Outgoing> down;
  if (!way.children.empty()) down = {.is_result = true, .number = number, .bytes = bytes, .to = &way.children};
  results_.emplace(number, std::move(bytes));
  return down;
}

std::optional<OldestCall> NoteExchange::oldest() const {
  if (calls_.empty()) return std::nullopt;
  const auto& [number, call] = *calls_.begin();
  return OldestCall{number, call.began_s, call.notes.missing_ranks()};
}

}  // namespace hearth::comm
