// SPDX-License-Identifier: Apache-2.0
// One pass over a JSON text. json_text.h reads each record with it.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/json_text.h"

namespace hearth::data {

struct JsonFailure : std::exception {
  JsonFailure(RecordProblem p, std::string w) : problem(p), why(std::move(w)) {}
  RecordProblem problem;
  std::string why;
};

// A member of an object itself, not of an object in it.
struct JsonMember {
  std::string name;
  int64_t num_elements = -1;  // of a list; -1: it is another value, or a list without an end
};

// Recursive; the depth is bounded. The text must outlive it.
class JsonScanner {
 public:
  // Puts the values at `keys` into `parts`, one list per key. They are strings. From key `num_texts` on they are
  // numbers or truth values, as spelled.
  JsonScanner(std::string_view json, const std::vector<std::string>& keys, size_t num_texts,
              std::vector<std::vector<JsonPart>>& parts);

  // Throws JsonFailure.
  void scan();
  // From now on the object's own members are kept, at most kMostMembers.
  void keep_members() { keeps_members_ = true; }
  const std::vector<JsonMember>& members() const { return members_; }
  // After a failure: whether a longer text could be correct.
  bool failed_at_end() const;

  static constexpr size_t kMostMembers = 100;

 private:
  // A key that may still be found further down.
  struct Wanted {
    size_t key;
    size_t offset;  // of the unmatched part of its name; the name's size: the value here is wanted
  };

  [[noreturn]] void fail(std::string_view what) const;
  void skip_space();
  char peek();
  bool take(char c);
  void value(const std::vector<Wanted>& wanted, int depth, bool in_list = false);
  void list(const std::vector<Wanted>& wanted, int depth);
  void object(const std::vector<Wanted>& wanted, int depth);
  void member_name(const std::vector<Wanted>& wanted, int depth);
  size_t match(const Wanted& wanted) const;
  void keep_number(const std::vector<Wanted>& wanted, const std::string& number);
  void string(const std::vector<Wanted>& wanted);
  void scan_string(std::string* out);
  void escape(std::string* out);
  uint32_t code_unit();
  bool digits();
  void number();
  void word();
  void note(std::vector<std::string>& notes, size_t key, std::string what) const;
  void clear_notes(size_t key);
  void note_wrong_type(const std::vector<Wanted>& wanted, std::string_view kind);
  void note_dead_end(const std::vector<Wanted>& wanted, std::string_view kind);
  void note_missing(const Wanted& wanted, const char* object_begin);

  const char* begin_;
  const char* p_;
  const char* end_;
  const std::vector<std::string>& keys_;
  size_t num_texts_;
  std::vector<std::vector<JsonPart>>& parts_;
  std::vector<std::string> wrong_, missing_;  // by key; empty: no problem
  std::string name_;
  bool lone_surrogate_ = false;                   // in a string since it was last set to false
  bool keeps_members_ = false, in_kept_ = false;  // the last of members_ is being scanned
  std::vector<JsonMember> members_;
};

}  // namespace hearth::data
