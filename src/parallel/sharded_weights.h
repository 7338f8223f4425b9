// SPDX-License-Identifier: Apache-2.0
// The weights of one of the data-parallel ranks. Every unit (plan/parameters.h) is one flat buffer. Rank r of R shards
// owns slice r of it, the master copy. The optimizer writes masters; gather() completes a unit. plan/sharding.h has the
// stages of ZeRO and HSDP.
//
// If a unit has a whole buffer, and masters and compute have one type, masters are a part of it and are gathered in
// place, and a gradient's slice is reduced in place. So with one rank nothing is copied. If the types differ (float32
// masters, bfloat16 compute), a gather first casts this rank's slice, unless the optimizer has written both. Without
// whole buffers, units use slots in turn (parallel/unit_slots.h), and the slices are separate.
//
// A matrix that Muon updates has one momentum in place of two moments.
//
// Where ranks share the layers (tensor parallel), `plan` is of this rank's part of the model, and each of those ranks
// has shards of its own part. Norms are whole on each of these ranks, and get gradients from that rank's rows of the
// residual stream. These gradients are summed over the ranks before the reduction, so all ranks make the same update.
//
// Where ranks have different experts (expert parallel), `plan` has this rank's, and fewer ranks shard their units:
// those with the same experts. Their gradients already have the tokens of all ranks that sent some.
//
// Where ranks have different layers (pipeline parallel), `plan` is of this rank's layers, and all other units are
// empty. Tied weights are on two ranks, which add their gradients in finish_gradients() and make the same update.
//
// Frozen parameters (`trained` false) are gathered like all others but have no moments. Their gradient is set to zero
// before the reduction, so it adds nothing to a norm.
//
// A step:
//   begin_step(A)          gradients are zero, or unwritten (model/weights.h) until something is added
//   A micro-batches        prefetch(u), gather(u), release(u), gradient(u) +=, gradient_ready(u)
//   finish_gradients()     tied weights of a pipeline
//   AdamW on the slices    owned(p) for each parameter: reads its gradient, writes master and moments
//   copies_written()       if Owned::copy had the masters' changes, too
//   end_step()             gathered weights are stale: the next gather(u) communicates
// Gradients accumulate locally and are reduced with the last micro-batch, or with each one (slots of stages 2 and 3,
// and reproducible: plan::paired_micro_batches has the order of the sum). Gathers ahead and reductions run in the
// communication stream (comm/stream.h) while the caller computes.
//
// Slices: all but the last have slice_numel(unit, R) elements; trailing ranks may own nothing. Collectives move equal
// shards. The elements after unit.numel are padding and stay zero.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/group.h"
#include "model/weights.h"
#include "parallel/unit_slots.h"
#include "plan/parameters.h"
#include "plan/precision.h"
#include "plan/sharding.h"

namespace hearth::parallel {

// Groups of ranks that share a model; null: one rank. They must outlive what borrows them.
struct ModelRanks {
  comm::Group* tensor = nullptr;     // ranks that share the layers
  comm::Group* pipeline = nullptr;   // ranks with different layers
  comm::Group* embedding = nullptr;  // the ranks of the pipeline that have the tied weights
  // The ranks with the same experts, the shards of a replica next to each other. Null: all data-parallel ranks have the
  // same experts, or the same parts of them.
  comm::Group* experts = nullptr;
};

class ShardedWeights final : public model::Weights {
 public:
  // `group`: all data-parallel ranks, the shards of a replica next to each other. Makes one allocation on `device`,
  // zero-filled; partial sums of `reproducible` come with the first step. kInference has weights only. `trained`: a
  // flag for each of plan.parameters; empty: all true. `momentum_only`: the same for parameters whose state is Muon's
  // momentum (plan/muon.h); empty: none. `ranks`: the groups that share the model. Borrows `plan` and the groups, which
  // must outlive this. Collective with replicas, else Local.
  enum class Mode { kTraining, kInference };
  ShardedWeights(const plan::ParameterPlan& plan, plan::Precision precision, comm::Group& group, Mode mode,
                 std::vector<bool> trained = {}, plan::Sharding sharding = {}, at::Device device = at::kCPU,
                 std::vector<bool> momentum_only = {}, const ModelRanks& ranks = {});
  ~ShardedWeights() override;

  // Same as in model::Weights. gather and prefetch are Collective if the unit is not there, else Local. gradient_ready
  // is Collective for the micro-batches whose gradients are reduced.
  at::Tensor gather(int64_t unit) override;
  void prefetch(int64_t unit) override;
  void release(int64_t unit) override;
  at::Tensor gradient(int64_t unit) override;
  model::UnitGradient gradient_to_write(int64_t unit) override;
  void gradient_ready(int64_t unit) override;

  // Begins a step, or begins a step again that threw. Local.
  void begin_step(int64_t num_micro_batches);
  // After the last micro-batch. Collective over the ranks that have the tied weights, else Local.
  void finish_gradients();
  // Tells that the optimizer has written this step's masters to Owned::copy, too. The next gathers then need no pass
  // that casts. Local.
  void copies_written() { copies_written_ = true; }
  // Local. Checks that every unit was reduced.
  void end_step();
  // Call this on all ranks after masters were written outside a step (initialisation, loading). Local.
  void masters_changed();

  // This rank's part of a unit: both [slice(unit).numel()], possibly empty. After the unit's last gradient_ready, the
  // gradient's shard is the sum over ranks and micro-batches; the call waits for the reduction. It is undefined for
  // inference.
  plan::Slice slice(int64_t unit) const;
  at::Tensor master(int64_t unit) const;
  at::Tensor gradient_shard(int64_t unit) const;

  // This rank's part of plan().parameters[index]: the row-major elements [begin, end), possibly none, as views [end -
  // begin]. Gradient and the optimizer's state are undefined for inference; the state also for frozen parameters. The
  // state is either both moments or the momentum; the others are undefined. `copy`: the place of the masters, rounded
  // to nearest, in whole weights of bfloat16 where masters are float32; otherwise undefined.
  struct Owned {
    int64_t begin, end;
    at::Tensor master, gradient, exp_avg, exp_avg_sq, momentum, copy;
    int64_t numel() const { return end - begin; }
  };
  Owned owned(int64_t index) const;
  const plan::Sharding& sharding() const { return sharding_; }
  // The number of neighbouring micro-batches of this rank that are added in pairs (plan/sharding.h).
  int64_t paired_micro_batches() const { return paired_; }
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
  comm::Group& group() const { return *dense_.all; }  // all data-parallel ranks
  // The ranks of this rank's replica that share a unit; and all of those that share units without experts.
  comm::Group& shard_group(int64_t unit) const { return *sharers(unit).shards; }
  comm::Group& shard_group() const { return *dense_.shards; }
  plan::Shards shards() const { return {dense_.shards->size(), experts_.shards->size()}; }
  const ModelRanks& ranks() const { return ranks_; }
  // The number of this rank's replica, from 0.
  int64_t replica() const { return dense_.all->rank() / dense_.shards->size(); }
  const plan::Precision& precision() const { return precision_; }
  at::Device device() const { return device_; }
  bool training() const { return mode_ == Mode::kTraining; }
  int64_t memory_bytes() const { return memory_bytes_; }
  int64_t partial_sums_bytes() const { return partial_sums_bytes_; }  // not in memory_bytes()

 private:
  // The ranks that have the same weights.
  struct Sharers {
    comm::Group* all;
    std::unique_ptr<comm::Group> own_shards{}, own_replicas{};  // null without replicas
    comm::Group *shards = all, *replicas = nullptr;
  };
  static Sharers sharers_of(comm::Group& all, int64_t replicas);
  const Sharers& sharers(const plan::Unit& unit) const { return unit.of_experts ? experts_ : dense_; }
  const Sharers& sharers(int64_t unit) const { return sharers(plan_.units[static_cast<size_t>(unit)]); }

  struct UnitBuffers {
    const Sharers* sharers;
    int64_t numel;        // of the unit
    int64_t shard_numel;  // of a full slice, the size of a collective's shard
    plan::Slice slice;    // of this rank
    // Whole: [R * shard_numel], undefined where units use slots. Shards: [shard_numel], views of the whole where there
    // is one and the types are equal.
    at::Tensor weights, masters, gradients, gradient_shard;
    std::vector<at::Tensor> partial_sums;  // [shard_numel] each: the digits of a binary counter, then the blocks so far
    bool stale = true;                     // `weights` are out of date
    bool is_cast = false;                  // this rank's part of `weights` is its masters, cast
    bool begins = true;                    // the step's sum has not begun in `gradients`
    std::vector<bool> unwritten;           // of each parameter: its gradient, here or in the slot, is undefined
    int64_t num_ready = 0;                 // number of gradient_ready calls in this step
    int64_t num_reduced = 0;               // number of reductions in this step; the communication stream counts it
    comm::Work gathering, reducing;
  };
  // The optimizer's state for this rank's elements of a parameter, as in Owned: [numel] each.
  struct Moments {
    at::Tensor exp_avg, exp_avg_sq, momentum;
    int64_t updates_before = 0;
  };
  bool has_own_masters() const { return precision_.masters != precision_.compute; }
  bool has_copies(const UnitBuffers& unit) const {
    return precision_.masters == DType::kFloat32 && precision_.compute == DType::kBFloat16 && unit.weights.defined();
  }
  bool has_whole_weights(const plan::Unit& unit) const {
    return sharding_.has_whole_weights(sharers(unit).shards->size(), precision_);
  }
  bool has_whole_gradients(const plan::Unit& unit) const {
    return sharding_.has_whole_gradients(sharers(unit).shards->size());
  }
  int64_t planned_bytes() const;
  void allocate_unit(const plan::Unit& unit, ops::Arena& arena);
  // This rank's part of a parameter, as a range of the parameter's elements.
  plan::Slice owned_range(const plan::Parameter& parameter) const;
  // Fills `whole` from the masters of all ranks: casts here where needed, then gathers, in the communication stream if
  // `ahead`.
  comm::Work gather_into(UnitBuffers& unit, const at::Tensor& whole, bool ahead);
  // Marks all weights as out of date, so that the next gather communicates.
  void set_stale();
  // In the stream of all groups of this object.
  comm::Work start_or_run(bool ahead, std::function<void()> calls);
  // In a whole buffer, sets padding and the elements of unwritten parameters to zero.
  void zero_padding(int64_t unit, const at::Tensor& gradients) const;
  void zero_unwritten(int64_t unit, const at::Tensor& gradients);
  std::span<const plan::Parameter> parameters_of(int64_t unit) const;
  void zero_frozen_gradients(int64_t unit, const at::Tensor& gradients);
  void sum_whole_parameters(int64_t unit, const at::Tensor& gradients);
  // Sums a gradient, of one micro-batch or of all, over the ranks, and adds it to the step's sum.
  void reduce(int64_t unit, const at::Tensor& whole);
  void add_micro_batch(UnitBuffers& unit, const at::Tensor& sum);
  UnitBuffers& buffers(int64_t unit);
  const UnitBuffers& buffers(int64_t unit) const;
  // This rank's part of a whole buffer, for collectives: [shard_numel].
  at::Tensor shard_of(const UnitBuffers& unit, const at::Tensor& whole) const;

  const plan::ParameterPlan& plan_;
  const Sharers dense_, experts_;
  ModelRanks ranks_;
  plan::Precision precision_;
  Mode mode_;
  std::vector<bool> trained_, momentum_only_;  // a flag for each parameter
  plan::Sharding sharding_;
  at::Device device_;
  int64_t memory_bytes_ = 0, partial_sums_bytes_ = 0;
  int64_t num_micro_batches_ = 0, paired_ = 1;
  bool copies_written_ = false;
  std::vector<UnitBuffers> units_;
  std::vector<Moments> moments_;  // of each parameter
  UnitSlots weight_slots_, gradient_slots_;
};

}  // namespace hearth::parallel
