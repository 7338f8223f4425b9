// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other besides tensors: votes, counts, names of files, errors. Messages are short, so latency
// matters and bandwidth does not. Tensors go through comm/group.h.
//
// The ranks' notes in a call are merged into one on their way to rank 0, and all ranks get that note. So a sum or a
// vote costs hardly more with thousands of ranks than with a few. all_gather() and gather() make lists that grow with
// the number of ranks, so no step of a training calls them.
//
// Every call is Collective: all ranks make the same calls in the same order. `operation` names the call in errors. If a
// rank is in another operation, this is our bug, and the error names the rank. Posted calls may be collected in any
// order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace hearth::comm {

// The beginning of the line in an error's text that names the rank that failed.
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

// Merges two notes into `lower`. `lower` is the note of some neighbouring ranks, `upper` of the ranks after them. No
// bit of the result may depend on which neighbours are merged first. Any thread may call it.
using NoteMerge = void (*)(std::string& lower, std::string_view upper);
void merge_lists(std::string& lower, std::string_view upper);  // one after the other
void merge_first(std::string& lower, std::string_view upper);  // the first that is not empty
void merge_bits(std::string& lower, std::string_view upper);   // or'ed; all have the same length
void merge_sums(std::string& lower, std::string_view upper);   // comm/notes/pair_sums.h

class Control {
 public:
  virtual ~Control() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  virtual std::string name() const { return "rank " + std::to_string(rank()); }  // a process adds its host and number
  virtual bool is_process() const { return false; }  // false: ranks are threads (in tests), or there is one rank

  // Sends this rank's bytes and returns. Use it to overlap a call's messages with computation. Throws Aborted after
  // abort().
  virtual Posted post(std::string_view operation, std::string_view bytes, NoteMerge merge, Answers to) = 0;
  Posted post(std::string_view operation, std::string_view bytes, NoteMerge merge) {
    return post(operation, bytes, merge, Answers::kAll);
  }
  // Waits until all ranks have posted, and returns their bytes, merged in rank order. With Answers::kRank0 the other
  // ranks get an empty result. Once for each posted call. Throws Aborted after abort(), and an Error (kHardware) that
  // names the missing ranks if they do not post in time.
  virtual std::string collect(const Posted& posted) = 0;
  std::string reduce(std::string_view operation, std::string_view bytes, NoteMerge merge) {
    return collect(post(operation, bytes, merge));
  }
  // Every rank's bytes, in rank order; the lengths may differ. For a few calls at the start, because each rank gets all
  // ranks' bytes.
  std::vector<std::string> all_gather(std::string_view operation, std::string_view bytes);
  // The same, but only rank 0 gets the list. Use it for lists that grow with the number of ranks.
  std::vector<std::string> gather(std::string_view operation, std::string_view bytes);
  // Local: makes every waiting and future call of all ranks throw Aborted. Any thread may call it.
  virtual void abort() = 0;
  // Local: sets how long a call waits for a missing rank. Ranks that are threads keep the time that they began with.
  virtual void set_timeout(double timeout_s) = 0;
  // Local: tells the training step that this rank is in, so that errors about other ranks can name the step.
  virtual void set_step(int64_t step) = 0;

  void barrier(std::string_view operation) { reduce(operation, {}, merge_lists); }
  // The bytes of the first rank that has any.
  std::string first(std::string_view operation, std::string_view bytes) {
    return reduce(operation, bytes, merge_first);
  }
  std::string broadcast(std::string_view operation, std::string_view bytes);  // rank 0's bytes
  bool any(std::string_view operation, bool value);                           // true if true on any rank
  // The sums over ranks, element by element, in pairs of ranks: the same bits on every rank.
  std::vector<double> sum(std::string_view operation, std::span<const double> values);
  // Runs `body`, whose calls are Local, on every rank. If it throws an Error on some ranks, all ranks throw the Error
  // of the first of these ranks, with the rank's name if it is not rank 0. Use it where one rank's failure must not
  // leave others waiting.
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
