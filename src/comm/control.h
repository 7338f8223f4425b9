// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other besides tensors: votes, counts, names of files, errors. Messages are short, so latency
// matters and bandwidth does not. Tensors go through comm/group.h.
//
// The notes of a call become one on their way to rank 0, and all get that one: with thousands of ranks, a sum or a vote
// costs what it costs with few. Lists of all ranks' bytes grow with their number, so no step of a training has one.
//
// Every call is Collective: all ranks make the same calls in the same order. `operation` names the call in errors. A
// rank in another operation is our bug, and the error names it. Calls that were posted may be collected in any order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace hearth::comm {

// The line of an error's text that names the rank that it is from.
inline constexpr std::string_view kRankLine = "\n  rank: ";

// Thrown in ranks that did not fail first.
struct Aborted {};

// A call whose answers are not collected yet.
struct Posted {
  uint64_t number = 0;
  std::string operation;
};

// Who gets the answer of a call.
enum class Answers : char { kAll, kRank0 };

// Makes one note of two: `lower` is that of some neighbouring ranks, `upper` that of the next ones. The result may not
// depend, in any bit, on which neighbours meet first. Any thread may call it.
using NoteMerge = void (*)(std::string& lower, std::string_view upper);
void merge_lists(std::string& lower, std::string_view upper);  // one after the other
void merge_first(std::string& lower, std::string_view upper);  // the first that is not empty
void merge_bits(std::string& lower, std::string_view upper);   // or'ed; all have as many
void merge_sums(std::string& lower, std::string_view upper);   // comm/notes/pair_sums.h

class Control {
 public:
  virtual ~Control() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  virtual std::string name() const { return "rank " + std::to_string(rank()); }  // processes add host and number
  virtual bool is_process() const { return false; }  // else ranks are threads, in tests, or there is one

  // Sends this rank's bytes and does not wait for those of others. Throws Aborted after abort().
  virtual Posted post(std::string_view operation, std::string_view bytes, NoteMerge merge, Answers to) = 0;
  Posted post(std::string_view operation, std::string_view bytes, NoteMerge merge) {
    return post(operation, bytes, merge, Answers::kAll);
  }
  // The bytes of all ranks in a posted call, merged in rank order. With Answers::kRank0 the other ranks get nothing,
  // when all have posted. Once for each. Throws Aborted after abort(); an Error (kHardware) that names the missing
  // ranks if they do not arrive in time.
  virtual std::string collect(const Posted& posted) = 0;
  std::string reduce(std::string_view operation, std::string_view bytes, NoteMerge merge) {
    return collect(post(operation, bytes, merge));
  }
  // Every rank's bytes, in rank order; the lengths may differ. For a few calls at the start: everybody gets everything.
  std::vector<std::string> all_gather(std::string_view operation, std::string_view bytes);
  // The same for rank 0 alone: the others get nothing. For lists that grow with the number of ranks.
  std::vector<std::string> gather(std::string_view operation, std::string_view bytes);
  // Local: makes every waiting and future call of all ranks throw Aborted. Any thread may call it.
  virtual void abort() = 0;
  // Local: from now on, a rank is waited for this long. Ranks that are threads keep the time that they began with.
  virtual void set_timeout(double timeout_s) = 0;
  // Local: the training step of this rank. Errors about other ranks name it.
  virtual void set_step(int64_t step) = 0;

  void barrier(std::string_view operation) { reduce(operation, {}, merge_lists); }
  // The bytes of the first rank that has any.
  std::string first(std::string_view operation, std::string_view bytes) {
    return reduce(operation, bytes, merge_first);
  }
  std::string broadcast(std::string_view operation, std::string_view bytes);  // those of rank 0
  bool any(std::string_view operation, bool value);                           // true if true on any rank
  // The sums over ranks, element by element, in pairs of ranks: the same bits on every rank.
  std::vector<double> sum(std::string_view operation, std::span<const double> values);
  // Runs `body`, whose calls are Local, on every rank. If it throws an Error on any rank, all ranks throw the Error of
  // the first of them, with that rank's name if it is not rank 0.
  template <class Body>
  void together(std::string_view operation, Body body) {
    std::optional<Error> error;
    try {
      body();
    } catch (const Error& e) {
      error = e;
    }
    throw_first(operation, error);
  }

 private:
  void throw_first(std::string_view operation, const std::optional<Error>& error);
  Error with_rank(const Error& error) const;
};

}  // namespace hearth::comm
