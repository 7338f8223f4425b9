// The weights of one rank of a data-parallel group. Every unit (plan/parameters.h) is one flat buffer. Rank r owns
// slice r of it, the master copy. The optimizer writes masters; gather() completes a unit.
//
// Memory of a rank, N parameters, R ranks (ZeRO-1, arXiv 1910.02054): weights N and gradients N, whole; moments 2 N /
// R, sharded. If masters and compute have one type, masters are a part of the whole buffer and are gathered in place,
// and a gradient's slice is reduced in place. So with R = 1 nothing is copied. If the types differ (float32 masters,
// bfloat16 compute), masters add N / R, and a gather first casts this rank's slice. ZeRO-2 and 3 free the whole buffers
// between uses; they need changes in this file only.
//
// A matrix that Muon updates has one momentum in place of two moments: N / R.
//
// Frozen parameters (`trained` false) are gathered like all others but have no moments. Their gradient is set to zero
// before the reduction, so it adds nothing to a norm.
//
// A step:
//   begin_step(A)          gradients are zero
//   A micro-batches        gather(u), gradient(u) +=, gradient_ready(u): with the A-th, reduce-scatter
//   AdamW on the slices    owned(p) for each parameter: reads its gradient, writes master and moments
//   end_step()             the whole buffers are stale: the next gather(u) communicates
// Within a step, gradients accumulate locally over micro-batches. Each unit is reduce-scattered once per step.
//
// reproducible: the sum over a step's micro-batches is the same to the bit for any number of ranks that is a power of
// two. There are 2^a m micro-batches in total, m odd. Each m neighbours are added in sequence. The 2^a sums are added
// in pairs, first within a rank, then between ranks (comm/group.h). For this a rank has up to log2(micro-batches of its
// own) extra buffers of partial sums for a unit's gradient.
//
// Slices: all but the last have slice_numel(unit, R) elements; trailing ranks may own nothing. Collectives move equal
// shards. The elements after unit.numel are padding and stay zero.
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
  // Makes one allocation on `device`, zero-filled; partial sums of `reproducible` come with the first step. kInference
  // has weights only. `trained`: a flag for each of plan.parameters; empty: all true. Borrows `plan` and `group`, which
  // must outlive this. `momentum_only`: a flag for each parameter, whether its state is Muon's momentum (plan/muon.h);
  // empty: none.
  enum class Mode { kTraining, kInference };
  ShardedWeights(const plan::ParameterPlan& plan, plan::Precision precision, comm::Group& group, Mode mode,
                 std::vector<bool> trained = {}, bool reproducible = false, at::Device device = at::kCPU,
                 std::vector<bool> momentum_only = {});

  // Same as in model::Weights. gather is Collective if the unit is stale, else Local. gradient_ready is Collective for
  // the last micro-batch.
  at::Tensor gather(int64_t unit) override;
  at::Tensor gradient(int64_t unit) override;
  void gradient_ready(int64_t unit) override;

  // Begins a step, or begins a step again that threw. Local.
  void begin_step(int64_t num_micro_batches);
  // After the last gradient_ready: makes gradient(unit) of every unit the whole sum on every rank. Collective.
  void gather_gradients();
  // Local. Checks that every unit was reduced.
  void end_step();
  // Call this on all ranks after masters were written outside a step (initialisation, loading). Local.
  void masters_changed();

  // This rank's part of a unit: both [slice(unit).numel()], possibly empty. After the unit's reduction, the gradient's
  // shard is the sum over ranks and micro-batches. It is undefined for inference.
  plan::Slice slice(int64_t unit) const;
  at::Tensor master(int64_t unit) const;
  at::Tensor gradient_shard(int64_t unit) const;

  // This rank's part of plan().parameters[index]: the row-major elements [begin, end), possibly none, as views [end -
  // begin]. Gradient and the optimizer's state are undefined for inference; the state also for frozen
  // parameters. The state is either both moments or the momentum; the others are undefined.
  struct Owned {
    int64_t begin, end;
    at::Tensor master, gradient, exp_avg, exp_avg_sq, momentum;
    int64_t numel() const { return end - begin; }
  };
  Owned owned(int64_t index) const;
  bool reproducible() const { return reproducible_; }
  // The number of neighbouring micro-batches that are added in sequence: all of a rank's unless reproducible.
  int64_t straight_micro_batches() const { return straight_; }
  bool trained(int64_t index) const { return trained_[static_cast<size_t>(index)]; }
  bool momentum_only(int64_t index) const { return momentum_only_[static_cast<size_t>(index)]; }
  // The number of the optimizer's updates before this parameter's moments began. Nonzero only if its moments began anew
  // while others continued (checkpoint.fresh in a branch).
  int64_t updates_before(int64_t index) const { return moments_[static_cast<size_t>(index)].updates_before; }
  void set_updates_before(int64_t index, int64_t updates) {
    moments_[static_cast<size_t>(index)].updates_before = updates;
  }

  const plan::ParameterPlan& plan() const { return plan_; }
  int64_t num_units() const { return static_cast<int64_t>(units_.size()); }
  comm::Group& group() const { return group_; }
  const plan::Precision& precision() const { return precision_; }
  at::Device device() const { return device_; }
  bool training() const { return mode_ == Mode::kTraining; }
  int64_t memory_bytes() const { return memory_bytes_; }
  int64_t partial_sums_bytes() const { return partial_sums_bytes_; }  // not in memory_bytes()

 private:
  struct UnitBuffers {
    int64_t numel;                         // of the unit
    int64_t shard_numel;                   // of a full slice, the size of a collective's shard
    plan::Slice slice;                     // of this rank
    at::Tensor weights;                    // [R * shard_numel]
    at::Tensor masters;                    // [slice.numel()]; a view of `weights` if the types are equal
    at::Tensor gradients;                  // [R * shard_numel]
    bool stale = true;                     // `weights` are out of date
    int64_t num_ready = 0;                 // number of gradient_ready calls in this step
    std::vector<at::Tensor> partial_sums;  // [R * shard_numel] each; number k is the sum of 2^k groups of micro-batches
  };
  // The optimizer's state for this rank's elements of a parameter, as in Owned: [numel] each.
  struct Moments {
    at::Tensor exp_avg, exp_avg_sq, momentum;
    int64_t updates_before = 0;
  };
  bool has_own_masters() const { return precision_.masters != precision_.compute; }
  int64_t planned_bytes() const;
  // This rank's part of a parameter, as a range of the parameter's elements.
  plan::Slice owned_range(const plan::Parameter& parameter) const;
  void zero_frozen_gradients(int64_t unit);
  void add_in_pairs(UnitBuffers& unit);
  UnitBuffers& buffers(int64_t unit);
  const UnitBuffers& buffers(int64_t unit) const;
  // This rank's part of a whole buffer, for collectives: [shard_numel].
  at::Tensor shard_of(const UnitBuffers& unit, const at::Tensor& whole) const;

  const plan::ParameterPlan& plan_;
  comm::Group& group_;
  plan::Precision precision_;
  Mode mode_;
  std::vector<bool> trained_, momentum_only_;  // a flag for each parameter
  bool reproducible_;
  at::Device device_;
  int64_t memory_bytes_ = 0, partial_sums_bytes_ = 0;
  int64_t num_micro_batches_ = 0, straight_ = 1;
  std::vector<UnitBuffers> units_;
  std::vector<Moments> moments_;  // of each parameter
};

}  // namespace hearth::parallel
