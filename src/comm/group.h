// Ranks that talk. Two implementations: one rank (comm/single), and R threads of one process (comm/threads, for tests and
// for trying a layout on a laptop). NCCL and MPI come beside them; nothing above this folder knows which one runs.
//
// Every call is Collective over the group: all ranks, the same order, the same sizes. Reductions add in rank order, so
// the result does not depend on timing. A rank that fails calls abort(); all others then throw Aborted from
// whatever they wait in, and only the first failure is reported.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hearth::comm {

// Thrown in the ranks that did not fail first. run_ranks swallows it.
struct Aborted {};

class Group {
 public:
  virtual ~Group() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  // full: [size * n], shard: [n], contiguous, one dtype. `shard` may be a view of `full` at rank * n (in place).
  virtual void all_gather(at::Tensor full, const at::Tensor& shard) = 0;
  // shard[i] = sum over ranks of full[rank * n + i]. `shard` may be a view of `full` at rank * n.
  virtual void reduce_scatter(at::Tensor shard, const at::Tensor& full) = 0;
  // In place, sum.
  virtual void all_reduce(at::Tensor values) = 0;
  virtual double all_reduce(double value) = 0;
  virtual bool any(bool value) = 0;  // true if true on any rank
  // Every rank's bytes, in rank order.
  virtual std::vector<std::string> all_gather_bytes(const std::string& bytes) = 0;
  virtual void barrier() = 0;
  // Makes every waiting and future call on the other ranks throw Aborted.
  virtual void abort() = 0;
};

std::unique_ptr<Group> single();

// Runs `body` once per rank, each in a thread of its own (size 1: in this thread), and returns when all have ended.
// Rethrows the first exception any rank threw. A rank that waits longer than timeout_s throws an Error (exit code 4)
// naming the ranks that did not arrive and the operation.
void run_ranks(int64_t size, double timeout_s, const std::function<void(Group&)>& body);

}  // namespace hearth::comm
