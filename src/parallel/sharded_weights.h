// The weights of one rank of a data-parallel group: every unit (plan/parameters.h) is one flat buffer, of which rank r
// owns slice r, the master copy. The optimizer writes masters; gather() makes a unit whole again.
//
// Memory of a rank, N parameters, R ranks (ZeRO-1, arXiv 1910.02054): weights N and gradients N, whole; moments
// 2N/R, sharded. If masters and compute have the same type, masters are a part of the whole buffer. They are gathered
// in place, and a gradient's slice is reduced in place: R = 1 copies nothing and needs no special case. If the types
// differ (float32 masters, bfloat16 compute), masters take N/R more elements, and a gather casts the rank's own slice
// first. ZeRO-2 and 3 free the whole buffers between uses; that changes this file and no caller.
//
// Frozen parameters (`trained` false) are gathered as all others, have no moments, and their gradient is zero once it
// is reduced, so that it is in no norm.
//
// A step:
//   begin_step(A)          gradients are zero
//   A micro-batches        gather(u), gradient(u) +=, gradient_ready(u): with the A-th, reduce-scatter
//   AdamW on the slices    owned(p) for each parameter: reads its gradient, writes master and moments
//   end_step()             the whole buffers are stale: the next gather(u) communicates
// Within a step, gradients accumulate locally over micro-batches, and one reduce-scatter per unit and step is paid.
//
// reproducible: the sum over a step's micro-batches does not depend on how many ranks share them, to the bit, as long
// as those are a power of two. There are 2^a m micro-batches in all, m odd: each m neighbours are added up one after
// the other, and the 2^a sums in pairs, first within a rank, then between ranks (comm/group.h). A rank keeps up to
// log2(its micro-batches) partial sums of a unit's gradient.
//
// Slices: all but the last have slice_numel(unit, R) elements, trailing ranks may own nothing. Collectives move equal
// shards; elements after unit.numel are padding and stay zero.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "comm/group.h"
#include "model/weights.h"
#include "plan/parameters.h"
#include "plan/precision.h"

namespace hearth::parallel {

class ShardedWeights final : public model::Weights {
 public:
  // Everything is one allocation on `device`, zero-filled. kInference has weights only. `trained`: a flag for each of
  // plan.parameters; empty: all are. `plan` and `group` are borrowed and must outlive this.
  enum class Purpose { kTraining, kInference };
  ShardedWeights(const plan::ParameterPlan& plan, plan::Precision precision, comm::Group& group, Purpose purpose,
                 std::vector<bool> trained = {}, bool reproducible = false, at::Device device = at::kCPU);

  // As in model::Weights. gather is Collective when the unit is stale, Local otherwise; gradient_ready is Collective
  // with the last micro-batch.
  at::Tensor gather(int64_t unit) override;
  at::Tensor gradient(int64_t unit) override;
  void gradient_ready(int64_t unit) override;

  // Local. A step that threw may be begun again.
  void begin_step(int64_t num_micro_batches);
  // Collective, after the last gradient_ready: gradient(unit) of every unit is the whole sum, on every rank.
  void gather_gradients();
  // Local. Checks that every unit was reduced.
  void end_step();
  // Local. Call on all ranks after anything but a step wrote masters (initialisation, loading).
  void masters_changed();

  // This rank's part of a unit: both [slice(unit).numel()], possibly empty. The gradient's shard is the sum over ranks
  // and micro-batches once the unit was reduced; undefined for inference.
  plan::Slice slice(int64_t unit) const;
  at::Tensor master(int64_t unit) const;
  at::Tensor gradient_shard(int64_t unit) const;

  // This rank's part of plan().parameters[index]: its row-major elements [begin, end), possibly empty, as views [end -
  // begin]. Gradient and moments are undefined for inference; moments are also undefined for frozen parameters.
  struct Owned {
    int64_t begin, end;
    at::Tensor master, gradient, exp_avg, exp_avg_sq;
    int64_t numel() const { return end - begin; }
  };
  Owned owned(int64_t index) const;
  bool reproducible() const { return reproducible_; }
  // How many neighbouring micro-batches are added up one after the other: all of a rank's where not reproducible.
  int64_t straight_micro_batches() const { return straight_; }
  bool trained(int64_t index) const { return trained_[static_cast<size_t>(index)]; }
  // The optimizer's updates before this parameter's moments began: 0, except for a fresh parameter of a branch whose
  // other moments were loaded (checkpoint.fresh).
  int64_t updates_before(int64_t index) const { return moments_[static_cast<size_t>(index)].updates_before; }
  void set_updates_before(int64_t index, int64_t updates) {
    moments_[static_cast<size_t>(index)].updates_before = updates;
  }

  const plan::ParameterPlan& plan() const { return plan_; }
  int64_t num_units() const { return static_cast<int64_t>(units_.size()); }
  comm::Group& group() const { return group_; }
  const plan::Precision& precision() const { return precision_; }
  at::Device device() const { return device_; }
  bool training() const { return purpose_ == Purpose::kTraining; }
  int64_t memory_bytes() const { return memory_bytes_; }
  int64_t partial_sums_bytes() const { return partial_sums_bytes_; }  // not in memory_bytes()

 private:
  struct UnitBuffers {
    int64_t numel;                         // of the unit
    int64_t shard_numel;                   // of a full slice, as collectives move it
    plan::Slice slice;                     // this rank's
    at::Tensor weights;                    // [R * shard_numel]
    at::Tensor masters;                    // [slice.numel()]; a view of `weights` where the types are one
    at::Tensor gradients;                  // [R * shard_numel]
    bool stale = true;                     // `weights` are out of date
    int64_t num_ready = 0;                 // gradient_ready calls of this step
    std::vector<at::Tensor> partial_sums;  // [R * shard_numel] each; number k of 2^k groups of micro-batches
  };
  // The moments of a parameter's owned elements: [numel] each, undefined where it is frozen.
  struct Moments {
    at::Tensor exp_avg, exp_avg_sq;
    int64_t updates_before = 0;
  };
  bool has_own_masters() const { return precision_.masters != precision_.compute; }
  int64_t planned_bytes() const;
  // This rank's range of a parameter, in elements.
  plan::Slice owned_range(const plan::Parameter& parameter) const;
  void zero_frozen_gradients(int64_t unit);
  void add_in_pairs(UnitBuffers& unit);
  UnitBuffers& buffers(int64_t unit);
  const UnitBuffers& buffers(int64_t unit) const;
  // This rank's part of a whole buffer, as collectives see it: [shard_numel].
  at::Tensor shard_of(const UnitBuffers& unit, const at::Tensor& whole) const;

  const plan::ParameterPlan& plan_;
  comm::Group& group_;
  plan::Precision precision_;
  Purpose purpose_;
  std::vector<bool> trained_;  // a flag for each parameter
  bool reproducible_;
  at::Device device_;
  int64_t memory_bytes_ = 0, partial_sums_bytes_ = 0;
  int64_t num_micro_batches_ = 0, straight_ = 1;
  std::vector<UnitBuffers> units_;
  std::vector<Moments> moments_;  // of each parameter
};

}  // namespace hearth::parallel
