// SPDX-License-Identifier: Apache-2.0
// One rank's part in the calls of Control. It merges its own note with its children's (note_tree.h), sends the merged
// note to its parent, and passes the result down. When rank 0's note is complete, it is the result.
//
// Knows neither connections nor threads: the caller carries the messages, and holds a lock if it has threads.
// comm/process_control.h carries them between processes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/notes/note_tree.h"
#include "comm/notes/notes.h"

namespace hearth::comm {

// A call that is not complete at a rank.
struct OldestCall {
  uint64_t number = 0;
  double began_s = 0;                    // its first note came
  std::vector<int64_t> missing_ranks{};  // this rank or children
};

struct LastCall {
  uint64_t number = 0;
  std::string operation = "none";
};

class NoteExchange {
 public:
  // A message about call `number`: a note to the parent, or the result to all children.
  struct Outgoing {
    bool is_result = false;
    uint64_t number = 0;
    std::string bytes{};
    const std::vector<int64_t>* to = nullptr;  // ranks; owned by the exchange
  };

  // Calls up to `star_calls` go straight to rank 0, later ones through parts of `part` ranks.
  NoteExchange(int64_t rank, int64_t size, int64_t part, uint64_t star_calls = 0);
  NoteExchange(const NoteExchange&) = delete;

  // Takes this rank's note of a call, or a child's. Both return what is to be sent now, and throw an Error (kBug) if
  // ranks are in different operations.
  std::optional<Outgoing> post(uint64_t number, Note note, double now_s);
  std::optional<Outgoing> take_note(uint64_t number, int64_t child, const std::string& bytes, double now_s);
  // The parent's result.
  std::optional<Outgoing> take_result(uint64_t number, std::string bytes);

  bool has_result(uint64_t number) const { return results_.contains(number); }
  std::string take_result_of(uint64_t number) { return results_.extract(number).mapped(); }

  // The oldest call that is not complete here.
  std::optional<OldestCall> oldest() const;
  const NoteTree& tree(uint64_t number) const { return of(number).tree; }

  // The last call of this rank and of each child that has sent one.
  const std::map<int64_t, LastCall>& last_calls() const { return last_calls_; }

 private:
  struct Way {  // of a call's messages
    explicit Way(const NoteTree& way);
    NoteTree tree;
    std::vector<int64_t> children, up;  // up: the parent; empty for rank 0
    std::vector<int64_t> members;       // this rank and its children
  };
  struct Call {
    Notes notes;
    double began_s;
  };
  const Way& of(uint64_t number) const { return number <= star_calls_ ? star_ : parts_; }
  std::optional<Outgoing> add(uint64_t number, int64_t rank, Note note, double now_s);

  const int64_t rank_;
  const uint64_t star_calls_;
  const Way star_, parts_;
  std::map<uint64_t, Call> calls_;           // not complete here
  std::map<uint64_t, std::string> results_;  // not yet taken
  std::map<int64_t, LastCall> last_calls_;
};

}  // namespace hearth::comm
