// Collectives of tensors over ranks. Implementations: one rank (comm/single), and ranks in one host's memory
// (comm/host_group), which are processes, or threads in tests. NCCL and MPI will be added; callers do not know which
// one runs.
//
// Every call is Collective over the group: all ranks make the same calls in the same order, with the same sizes and
// types. A rank that makes a different call is our bug, and the error names it. Tensors are contiguous and used as 1-D
// arrays. Reductions add in pairs of ranks, ((0 + 1) + (2 + 3)) + ..., in the tensors' own type; bfloat16 is added in
// float32 and rounded once. So the result does not depend on timing, and every rank gets the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "comm/control.h"

namespace hearth::comm {

class Group {
 public:
  virtual ~Group() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // The same ranks' messages.
  virtual Control& control() = 0;

  // full: [size * n], shard: [n], of any one type; n may be 0. `shard` may be the view of `full` at rank * n (in
  // place); otherwise they must not overlap. With one rank, in place does nothing and out of place copies.
  virtual void all_gather(at::Tensor full, const at::Tensor& shard) = 0;
  // shard[i] = sum over ranks of full[rank * n + i]; float32, float64 or bfloat16. If `shard` is the view of `full` at
  // rank * n, the rest of `full` keeps this rank's own values.
  virtual void reduce_scatter(at::Tensor shard, const at::Tensor& full) = 0;
  // In place, sum; float32, float64 or bfloat16.
  virtual void all_reduce(at::Tensor values) = 0;
  // to[r * n + i] = rank r's from[rank * n + i]; both [size * n], of any one type. They must not overlap.
  virtual void all_to_all(at::Tensor to, const at::Tensor& from) = 0;
};

// The group of one.
std::unique_ptr<Group> single();

}  // namespace hearth::comm
