// Ranks that talk. Two implementations: one rank (comm/single), and R threads of one process (comm/threads, for tests
// and for trying a layout on a laptop). NCCL and MPI come beside them; nothing above this folder knows which one runs.
//
// Every call is Collective over the group: all ranks, the same order, the same sizes and types; a rank that calls
// something else is our bug and is named. Tensors are contiguous and 1-D in spirit (only their elements count).
// Reductions add in pairs of ranks, ((0 + 1) + (2 + 3)) + ..., in the tensors' own type, so the result does not depend
// on timing and every rank gets the same bits. A rank that fails calls abort() (run_ranks does it for a rank that
// throws); all others then throw Aborted from whatever they wait in, and only the first failure is reported.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hearth::comm {

// Thrown in the ranks that did not fail first. run_ranks swallows it; nobody else should catch it.
struct Aborted {};

class Group {
 public:
  virtual ~Group() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  // full: [size * n], shard: [n], of any one type; n may be 0. `shard` may be the view of `full` at rank * n (in
  // place); otherwise the two do not overlap. With one rank, in place is free and out of place a copy.
  virtual void all_gather(at::Tensor full, const at::Tensor& shard) = 0;
  // shard[i] = sum over ranks of full[rank * n + i]; float32 or float64. `shard` may be the view of `full` at rank * n:
  // then the rest of `full` keeps this rank's own values.
  virtual void reduce_scatter(at::Tensor shard, const at::Tensor& full) = 0;
  // In place, sum; float32 or float64.
  virtual void all_reduce(at::Tensor values) = 0;
  virtual double all_reduce(double value) = 0;
  virtual bool any(bool value) = 0;  // true if true on any rank
  // Every rank's bytes, in rank order. The lengths may differ.
  virtual std::vector<std::string> all_gather_bytes(const std::string& bytes) = 0;
  virtual void barrier() = 0;
  // Local: makes every waiting and future call of all ranks throw Aborted. Any thread may call it.
  virtual void abort() = 0;
};

// The group of one.
std::unique_ptr<Group> single();

// How long the ranks that did not fail may take to notice that one did; see below.
inline constexpr double kGraceSeconds = 60;

// Runs `body` once per rank, each in a thread of its own (size 1: in this thread), and returns when all have ended.
// Rethrows the first exception any rank threw. A rank that waits longer than timeout_s for the others throws an Error
// (exit code 4) naming the operation and the ranks that did not arrive.
//
// A thread cannot be stopped from outside. If a rank failed and another is still busy (not waiting in a collective)
// grace_s later, the message goes to stderr and the process ends with exit code 4, rather than hang.
//
// The body sets its own threads (ops::prepare_thread): OpenMP keeps one pool for each thread that opens a parallel
// region, so R ranks of T threads each use R * T cores.
void run_ranks(int64_t size, double timeout_s, const std::function<void(Group&)>& body, double grace_s = kGraceSeconds);

}  // namespace hearth::comm
