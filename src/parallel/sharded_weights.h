// The weights of one rank of a data-parallel group: every unit (plan/parameters.h) is one flat buffer, of which rank r
// owns slice r, the master copy. The optimizer writes masters; gather() makes a unit whole again.
//
// Memory of a rank, N parameters, R ranks (ZeRO-1, arXiv 1910.02054): weights N and gradients N, whole; moments
// 2 N / R, sharded. Masters lie inside the whole buffer and are gathered in place, and a gradient's slice is reduced in
// place, so with R = 1 nothing is copied and nothing is special. ZeRO-2 and 3 free the whole buffers between uses; that
// changes this file and no caller.
//
// A step:
//   begin_step(A)          gradients are zero
//   A micro-batches        gather(u), gradient(u) +=, gradient_ready(u): with the A-th, reduce-scatter
//   AdamW on the slices    reads gradient_shard(u), writes master(u), exp_avg(u), exp_avg_sq(u)
//   end_step()             the whole buffers are stale: the next gather(u) communicates
// Within a step, gradients accumulate locally over micro-batches, and one reduce-scatter per unit and step is paid.
//
// Slices: all but the last have slice_numel(unit, R) elements, trailing ranks may own nothing. Collectives move equal
// shards; what lies behind unit.numel is padding and stays zero.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "comm/group.h"
#include "model/weights.h"
#include "plan/parameters.h"

namespace hearth::parallel {

class ShardedWeights final : public model::Weights {
 public:
  // dtype: float32 or float64, of the masters, of compute, gradients and moments. Everything is one allocation,
  // zero-filled. kInference has weights only. `plan` and `group` are borrowed and must outlive this.
  enum class Purpose { kTraining, kInference };
  ShardedWeights(const plan::ParameterPlan& plan, DType dtype, comm::Group& group, Purpose purpose);

  // Of model::Weights. gather is Collective when the unit is stale, Local otherwise; gradient_ready is Collective with
  // the last micro-batch.
  at::Tensor gather(int64_t unit) override;
  at::Tensor gradient(int64_t unit) override;
  void gradient_ready(int64_t unit) override;

  // Local. A step that threw may be begun again.
  void begin_step(int64_t num_micro_batches);
  // Local. Checks that every unit was reduced.
  void end_step();
  // Local. Call on all ranks after anything but a step wrote masters (initialisation, loading).
  void masters_changed();

  // What this rank owns of a unit: all [slice(unit).numel()], possibly empty. The gradient's shard is the sum over
  // ranks and micro-batches once the unit was reduced. Moments and gradients are undefined for inference.
  plan::Slice slice(int64_t unit) const;
  at::Tensor master(int64_t unit) const;
  at::Tensor gradient_shard(int64_t unit) const;
  at::Tensor exp_avg(int64_t unit) const;
  at::Tensor exp_avg_sq(int64_t unit) const;

  const plan::ParameterPlan& plan() const { return plan_; }
  int64_t num_units() const { return static_cast<int64_t>(units_.size()); }
  comm::Group& group() const { return group_; }
  DType dtype() const { return dtype_; }
  bool training() const { return purpose_ == Purpose::kTraining; }
  int64_t memory_bytes() const { return memory_bytes_; }

 private:
  struct UnitBuffers {
    int64_t numel;                   // of the unit
    int64_t shard_numel;             // of a full slice: what collectives move
    plan::Slice slice;               // this rank's
    at::Tensor weights;              // [R * shard_numel]
    at::Tensor gradients;            // [R * shard_numel]
    at::Tensor exp_avg, exp_avg_sq;  // [slice.numel()]
    bool stale = true;               // other ranks' slices of `weights` are out of date
    int64_t num_ready = 0;           // gradient_ready calls of this step
  };
  UnitBuffers& buffers(int64_t unit);
  const UnitBuffers& buffers(int64_t unit) const;
  // This rank's part of a whole buffer, as collectives see it: [shard_numel].
  at::Tensor shard_of(const UnitBuffers& unit, const at::Tensor& whole) const;

  const plan::ParameterPlan& plan_;
  comm::Group& group_;
  DType dtype_;
  Purpose purpose_;
  int64_t memory_bytes_ = 0;
  int64_t num_micro_batches_ = 0;
  std::vector<UnitBuffers> units_;
};

}  // namespace hearth::parallel
