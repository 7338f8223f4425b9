// Ranks that communicate. Two implementations: one rank (comm/single), and R threads of one process (comm/threads, for
// tests and for trying a layout on a laptop). NCCL and MPI will be added; callers do not know which one runs.
//
// Every call is Collective over the group: all ranks make the same calls in the same order, with the same sizes and
// types. A rank that makes a different call is our bug, and the error names it. Tensors are contiguous and used as 1-D
// arrays. Reductions add in pairs of ranks, ((0 + 1) + (2 + 3)) + ..., in the tensors' own type. So the result does not
// depend on timing, and every rank gets the same bits. A rank that fails calls abort() (run_ranks does it for a rank
// that throws). Then all other ranks throw Aborted from their waits, and only the first failure is reported.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hearth::comm {

// Thrown in the ranks that did not fail first. Only run_ranks catches it.
struct Aborted {};

class Group {
 public:
  virtual ~Group() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  // full: [size * n], shard: [n], of any one type; n may be 0. `shard` may be the view of `full` at rank * n (in
  // place); otherwise they must not overlap. With one rank, in place does nothing and out of place copies.
  virtual void all_gather(at::Tensor full, const at::Tensor& shard) = 0;
  // shard[i] = sum over ranks of full[rank * n + i]; float32 or float64. If `shard` is the view of `full` at rank * n,
  // the rest of `full` keeps this rank's own values.
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

// The default time for the other ranks to notice a failure; see below.
inline constexpr double kGraceSeconds = 60;

// Runs `body` once per rank, each in its own thread (size 1: in this thread). Returns when all have ended. Rethrows the
// first exception of any rank. A rank that waits longer than timeout_s for the others throws an Error (exit code 4),
// which names the operation and the missing ranks.
//
// A thread cannot be stopped from outside. If a rank failed and another is still busy (not waiting in a collective)
// after grace_s, the process prints the message to stderr and ends with exit code 4.
//
// The body sets its own threads (ops::prepare_thread): OpenMP keeps one pool for each thread that opens a parallel
// region, so R ranks of T threads each use R * T cores.
void run_ranks(int64_t size, double timeout_s, const std::function<void(Group&)>& body, double grace_s = kGraceSeconds);

}  // namespace hearth::comm
