// SPDX-License-Identifier: Apache-2.0
#include "parallel/sharded_weights.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "mesh/mesh.h"

namespace hearth::parallel {

ShardedWeights::ShardedWeights(const plan::ParameterPlan& plan, plan::Precision precision, comm::Group& group,
                               Mode mode, std::vector<bool> trained, plan::Sharding sharding, at::Device device,
                               std::vector<bool> momentum_only, const ModelRanks& ranks)
    : plan_(plan),
      dense_(sharers_of(group, sharding.replicas)),
      experts_(ranks.experts == nullptr
                   ? Sharers{.all = dense_.all, .shards = dense_.shards, .replicas = dense_.replicas}
                   : sharers_of(*ranks.experts, sharding.replicas)),
      ranks_(ranks),
      precision_(precision),
      mode_(mode),
      trained_(std::move(trained)),
      momentum_only_(std::move(momentum_only)),
      sharding_(sharding),
      device_(device) {
  if (trained_.empty()) trained_.assign(plan.parameters.size(), true);
  HEARTH_CHECK(trained_.size() == plan.parameters.size(), "{} flags for {} parameters", trained_.size(),
               plan.parameters.size());
  if (momentum_only_.empty()) momentum_only_.assign(plan.parameters.size(), false);
  HEARTH_CHECK(momentum_only_.size() == plan.parameters.size(), "{} flags for {} parameters", momentum_only_.size(),
               plan.parameters.size());
  HEARTH_CHECK(plan.tensor.size == (ranks.tensor == nullptr ? 1 : ranks.tensor->size()), "a part of {}",
               plan.tensor.size);
  const int64_t R = group.size();
  HEARTH_CHECK(!sharding.reproducible || (R & (R - 1)) == 0, "{} ranks are not a power of two", R);
  HEARTH_CHECK(!sharding.reproducible || ranks.experts == nullptr, "sums in one order over other ranks");
  memory_bytes_ = planned_bytes();
  ops::Arena arena(memory_bytes_, device);
  for (const plan::Unit& unit : plan.units) allocate_unit(unit, arena);
  weight_slots_ = UnitSlots(plan::weight_slots(plan, shards(), sharding_, precision_), precision_.compute, arena);
  if (training())
    gradient_slots_ = UnitSlots(plan::gradient_slots(plan, shards(), sharding_), precision_.gradients, arena);
  for (const plan::Parameter& p : plan.parameters) {
    Moments& m = moments_.emplace_back();
    if (!training() || !trained_[moments_.size() - 1]) continue;
    const int64_t numel = owned_range(p).numel();
    if (momentum_only_[moments_.size() - 1]) {
      m.momentum = arena.take({numel}, precision_.moments);
      continue;
    }
    m.exp_avg = arena.take({numel}, precision_.moments);
    m.exp_avg_sq = arena.take({numel}, precision_.moments);
  }
}

// The calls under way use the buffers and groups of this object.
ShardedWeights::~ShardedWeights() { group().stream().finish(); }

ShardedWeights::Sharers ShardedWeights::sharers_of(comm::Group& all, int64_t replicas) {
  const int64_t R = all.size();
  HEARTH_CHECK(R % replicas == 0, "{} ranks for {} replicas", R, replicas);
  Sharers sharers{.all = &all};
  if (replicas == 1) return sharers;
  const mesh::Mesh mesh({.dp_replicate = replicas, .dp_shard = R / replicas});
  sharers.own_shards = all.split(mesh.group(all.rank(), mesh::kShardAxes));
  sharers.own_replicas = all.split(mesh.group(all.rank(), mesh::kReplicaAxes));
  sharers.shards = sharers.own_shards.get();
  sharers.replicas = sharers.own_replicas.get();
  return sharers;
}

void ShardedWeights::allocate_unit(const plan::Unit& unit, ops::Arena& arena) {
  UnitBuffers b;
  b.sharers = &sharers(unit);
  const comm::Group& shards = *b.sharers->shards;
  const int64_t R = shards.size();
  b.numel = unit.numel;
  b.shard_numel = plan::slice_numel(unit, R);
  b.slice = plan::unit_slice(unit, shards.rank(), R);
  if (has_whole_weights(unit)) b.weights = arena.take({R * b.shard_numel}, precision_.compute);
  const bool in_place = b.weights.defined() && !has_own_masters();
  b.masters = in_place ? shard_of(b, b.weights) : arena.take({b.shard_numel}, precision_.masters);
  if (training()) {
    if (has_whole_gradients(unit)) b.gradients = arena.take({R * b.shard_numel}, precision_.gradients);
    b.gradient_shard =
        b.gradients.defined() ? shard_of(b, b.gradients) : arena.take({b.shard_numel}, precision_.gradients);
  }
  units_.push_back(std::move(b));
}

// Buffers of a unit have space for equal shards; moments for this rank's part only.
int64_t ShardedWeights::planned_bytes() const {
  int64_t bytes = 0;
  for (const plan::Unit& unit : plan_.units) {
    const int64_t R = shards().of(unit), shard = plan::slice_numel(unit, R);
    const bool whole = has_whole_weights(unit);
    if (whole) bytes += ops::Arena::bytes_for({R * shard}, precision_.compute);
    if (!whole || has_own_masters()) bytes += ops::Arena::bytes_for({shard}, precision_.masters);
    if (training())
      bytes += ops::Arena::bytes_for({has_whole_gradients(unit) ? R * shard : shard}, precision_.gradients);
  }
  bytes += UnitSlots::bytes_for(plan::weight_slots(plan_, shards(), sharding_, precision_), precision_.compute);
  if (!training()) return bytes;
  bytes += UnitSlots::bytes_for(plan::gradient_slots(plan_, shards(), sharding_), precision_.gradients);
  for (size_t i = 0; i < plan_.parameters.size(); ++i) {
    const int64_t numel = owned_range(plan_.parameters[i]).numel();
    if (trained_[i]) bytes += (momentum_only_[i] ? 1 : 2) * ops::Arena::bytes_for({numel}, precision_.moments);
  }
  return bytes;
}

plan::Slice ShardedWeights::owned_range(const plan::Parameter& p) const {
  const plan::Unit& unit = plan_.units[static_cast<size_t>(p.unit)];
  const comm::Group& shards = *sharers(unit).shards;
  const plan::Slice slice = plan::unit_slice(unit, shards.rank(), shards.size());
  const int64_t begin = std::clamp<int64_t>(slice.begin - p.offset, 0, p.numel);
  return {begin, std::clamp<int64_t>(slice.end - p.offset, begin, p.numel)};
}

at::Tensor ShardedWeights::gather(int64_t unit) {
  UnitBuffers& b = buffers(unit);
  if (b.weights.defined()) {
    if (std::exchange(b.stale, false)) b.gathering = gather_into(b, b.weights, /*ahead=*/false);
    b.gathering.wait();
    return b.weights.narrow(0, 0, b.numel);
  }
  UnitSlot* slot = weight_slots_.find(unit);
  if (slot == nullptr) {
    slot = &weight_slots_.take(unit);
    slot->work = gather_into(b, slot->whole, /*ahead=*/false);
  }
  slot->work.wait();
  slot->in_use = true;
  return slot->whole.narrow(0, 0, b.numel);
}

void ShardedWeights::prefetch(int64_t unit) {
  UnitBuffers& b = buffers(unit);
  if (b.sharers->shards->size() == 1) return;  // nothing to wait for
  if (b.weights.defined()) {
    if (std::exchange(b.stale, false)) b.gathering = gather_into(b, b.weights, /*ahead=*/true);
  } else if (weight_slots_.find(unit) == nullptr) {
    UnitSlot& slot = weight_slots_.take(unit);
    slot.work = gather_into(b, slot.whole, /*ahead=*/true);
  }
}

void ShardedWeights::release(int64_t unit) {
  if (buffers(unit).weights.defined()) return;
  UnitSlot* slot = weight_slots_.find(unit);
  HEARTH_CHECK(slot != nullptr && slot->in_use, "unit {} is released and was not gathered", unit);
  slot->in_use = false;
}

comm::Work ShardedWeights::gather_into(UnitBuffers& b, const at::Tensor& whole, bool ahead) {
  comm::Group* const shards = b.sharers->shards;
  const at::Tensor full = whole.narrow(0, 0, shards->size() * b.shard_numel), own = shard_of(b, full);
  if (has_own_masters() && !b.is_cast) ops::copy_(own, b.masters);
  b.is_cast = has_copies(b);  // a slot may have another unit next time
  const at::Tensor shard = has_own_masters() ? own : b.masters;
  return start_or_run(ahead, [shards, full, shard] { shards->all_gather(full, shard); });
}

comm::Work ShardedWeights::start_or_run(bool ahead, std::function<void()> calls) {
  if (ahead) return group().start(std::move(calls));
  group().stream().run(calls);
  return {};
}

at::Tensor ShardedWeights::gradient(int64_t unit) {
  const at::Tensor whole = gradient_to_write(unit).whole;
  if (training()) zero_unwritten(unit, whole);
  return whole;
}

model::UnitGradient ShardedWeights::gradient_to_write(int64_t unit) {
  if (!training()) return {};
  UnitBuffers& b = buffers(unit);
  at::Tensor whole = b.gradients;
  bool begins = false;
  if (b.gradients.defined()) {
    begins = std::exchange(b.begins, false);
    if (begins) b.reducing.wait();
  } else {
    UnitSlot* slot = gradient_slots_.find(unit);
    begins = slot == nullptr;
    if (begins) slot = &gradient_slots_.take(unit);
    slot->in_use = true;
    whole = slot->whole;
  }
  if (begins) {
    b.unwritten.assign(parameters_of(unit).size(), true);
    zero_padding(unit, whole.narrow(0, 0, b.sharers->shards->size() * b.shard_numel));
  }
  return {whole.narrow(0, 0, b.numel), &b.unwritten};
}

void ShardedWeights::gradient_ready(int64_t unit) {
  UnitBuffers& b = buffers(unit);
  HEARTH_CHECK(b.num_ready < num_micro_batches_, "unit {} of a step of {} micro-batches", unit, num_micro_batches_);
  gradient(unit);  // zero where the micro-batch added nothing
  ++b.num_ready;
  const bool each = sharding_.reproducible || !b.gradients.defined();
  if (!each && b.num_ready < num_micro_batches_) return;
  UnitSlot* const slot = b.gradients.defined() ? nullptr : gradient_slots_.find(unit);
  const at::Tensor whole =
      slot == nullptr ? b.gradients : slot->whole.narrow(0, 0, b.sharers->shards->size() * b.shard_numel);
  zero_frozen_gradients(unit, whole);
  b.reducing = start_or_run(group().control().size() > 1, [this, unit, whole] { reduce(unit, whole); });
  if (slot == nullptr) {
    b.begins = each && b.num_ready < num_micro_batches_;
  } else {
    slot->work = b.reducing;
    slot->unit = -1;
    slot->in_use = false;
  }
}

void ShardedWeights::reduce(int64_t unit, const at::Tensor& whole) {
  UnitBuffers& b = buffers(unit);
  sum_whole_parameters(unit, whole);
  const at::Tensor sum = shard_of(b, whole);
  comm::Group* const replicas = b.sharers->replicas;
  b.sharers->shards->reduce_scatter(sum, whole);
  if (replicas != nullptr && sharding_.reproducible) replicas->all_reduce(sum);
  add_micro_batch(b, sum);
  if (replicas == nullptr || sharding_.reproducible) return;
  // Once a step: whole gradients are reduced once, slots with each micro-batch.
  if (b.gradients.defined() || b.num_reduced == num_micro_batches_) replicas->all_reduce(b.gradient_shard);
}

// A binary counter of the micro-batches of a block. Where its last digits change from 1 to 0, the partial sums of these
// digits are added. Complete blocks are added in sequence.
void ShardedWeights::add_micro_batch(UnitBuffers& b, const at::Tensor& sum) {
  const int64_t number = ++b.num_reduced;  // from 1
  const bool in_place = b.gradients.defined();
  if (in_place && !sharding_.reproducible) return;  // it is the sum of all micro-batches
  size_t digit = 0;
  for (int64_t count = (number - 1) % paired_ + 1; count % 2 == 0; count /= 2)
    ops::add_(sum, b.partial_sums.at(digit++));
  if (number % paired_ != 0) return ops::copy_(b.partial_sums.at(digit), sum);
  const auto blocks_so_far = [&] { return in_place ? b.partial_sums.at(digit) : b.gradient_shard; };
  if (number > paired_) ops::add_(sum, blocks_so_far());
  if (!in_place || number < num_micro_batches_) ops::copy_(blocks_so_far(), sum);
}

std::span<const plan::Parameter> ShardedWeights::parameters_of(int64_t unit) const {
  const plan::Unit& of = plan_.units[static_cast<size_t>(unit)];
  return std::span(plan_.parameters)
      .subspan(static_cast<size_t>(of.first_parameter), static_cast<size_t>(of.num_parameters));
}

void ShardedWeights::zero_padding(int64_t unit, const at::Tensor& gradients) const {
  int64_t begin = 0;
  const auto zero_until = [&](int64_t end) {
    if (begin < end) ops::zero_(gradients.narrow(0, begin, end - begin));
  };
  for (const plan::Parameter& p : parameters_of(unit)) {
    zero_until(p.offset);
    begin = p.offset + p.numel;
  }
  zero_until(gradients.numel());
}

// One call for neighbours: all of a unit may be unwritten.
void ShardedWeights::zero_unwritten(int64_t unit, const at::Tensor& gradients) {
  const std::span<const plan::Parameter> parameters = parameters_of(unit);
  std::vector<bool>& unwritten = buffers(unit).unwritten;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!unwritten[i]) continue;
    const int64_t begin = parameters[i].offset;
    while (i + 1 < parameters.size() && unwritten[i + 1]) ++i;
    const int64_t end = parameters[i].offset + parameters[i].numel;
    if (begin < end) ops::zero_(gradients.narrow(0, begin, end - begin));
  }
  unwritten.assign(parameters.size(), false);
}

void ShardedWeights::zero_frozen_gradients(int64_t unit, const at::Tensor& gradients) {
  const plan::Unit& of = plan_.units[static_cast<size_t>(unit)];
  for (int64_t i = of.first_parameter; i < of.first_parameter + of.num_parameters; ++i) {
    const plan::Parameter& p = plan_.parameters[static_cast<size_t>(i)];
    if (!trained(i)) ops::zero_(gradients.narrow(0, p.offset, p.numel));
  }
}

void ShardedWeights::sum_whole_parameters(int64_t unit, const at::Tensor& gradients) {
  const plan::Unit& of = plan_.units[static_cast<size_t>(unit)];
  // Ranks that have different experts have each as a whole.
  if (ranks_.tensor == nullptr || (of.of_experts && ranks_.experts != nullptr)) return;
  const auto end = of.first_parameter + of.num_parameters;
  const auto at = [&](int64_t i) -> const plan::Parameter& { return plan_.parameters[static_cast<size_t>(i)]; };
  const auto counts = [&](int64_t i) { return at(i).is_whole() && trained(i); };
  for (int64_t i = of.first_parameter; i < end; ++i) {
    if (!counts(i)) continue;
    const int64_t begin = at(i).offset;
    int64_t numel = at(i).numel;
    // One call for neighbours: a layer has a bias of each expert.
    for (; i + 1 < end && counts(i + 1) && at(i + 1).offset == begin + numel; ++i) numel += at(i + 1).numel;
    ranks_.tensor->all_reduce(gradients.narrow(0, begin, numel));
  }
}

void ShardedWeights::begin_step(int64_t num_micro_batches) {
  HEARTH_CHECK(training() && num_micro_batches >= 1, "{} micro-batches", num_micro_batches);
  num_micro_batches_ = num_micro_batches;
  paired_ = plan::paired_micro_batches(num_micro_batches, sharding_.reproducible);
  copies_written_ = false;
  const int64_t num_sums = plan::num_partial_sums(num_micro_batches, sharding_, shard_group().size());
  weight_slots_.clear();  // a step that threw may have left some in use
  gradient_slots_.clear();
  for (UnitBuffers& b : units_) {
    b.reducing.wait();
    b.num_ready = b.num_reduced = 0;
    b.begins = true;
    while (std::ssize(b.partial_sums) < num_sums) {
      b.partial_sums.push_back(ops::empty({b.shard_numel}, precision_.gradients, device_));
      partial_sums_bytes_ += ops::Arena::bytes_for({b.shard_numel}, precision_.gradients);
    }
  }
}

// The two ranks reduce the tied unit at different times of a step, so they add its gradients when both have ended.
void ShardedWeights::finish_gradients() {
  if (ranks_.embedding != nullptr) ranks_.embedding->all_reduce(gradient_shard(0));
}

void ShardedWeights::end_step() {
  for (int64_t unit = 0; unit < num_units(); ++unit) {
    const UnitBuffers& b = buffers(unit);
    const int64_t wanted = plan_.units[static_cast<size_t>(unit)].is_here ? num_micro_batches_ : 0;
    HEARTH_CHECK(b.num_ready == wanted, "unit {} was ready {} times of {}", unit, b.num_ready, wanted);
  }
  // A part that was cast before, and was changed with its masters, is still that.
  std::exchange(copies_written_, false) ? set_stale() : masters_changed();
}

void ShardedWeights::masters_changed() {
  for (UnitBuffers& b : units_) b.is_cast = false;
  set_stale();
}

void ShardedWeights::set_stale() {
  for (UnitBuffers& b : units_) {
    b.gathering.wait();
    b.stale = true;
  }
  weight_slots_.clear();
}

plan::Slice ShardedWeights::slice(int64_t unit) const { return buffers(unit).slice; }

at::Tensor ShardedWeights::master(int64_t unit) const {
  const UnitBuffers& b = buffers(unit);
  return b.masters.narrow(0, 0, b.slice.numel());
}

at::Tensor ShardedWeights::gradient_shard(int64_t unit) const {
  if (!training()) return {};
  const UnitBuffers& b = buffers(unit);
  b.reducing.wait();
  return b.gradient_shard.narrow(0, 0, b.slice.numel());
}

ShardedWeights::Owned ShardedWeights::owned(int64_t index) const {
  HEARTH_CHECK(index >= 0 && index < static_cast<int64_t>(moments_.size()), "parameter {}", index);
  const plan::Parameter& p = plan_.parameters[static_cast<size_t>(index)];
  const plan::Slice range = owned_range(p);
  const UnitBuffers& b = buffers(p.unit);
  // If this rank owns nothing of the parameter, the parameter may be before or after the slice.
  const int64_t begin = std::clamp<int64_t>(p.offset + range.begin - b.slice.begin, 0, b.slice.numel());
  const Moments& m = moments_[static_cast<size_t>(index)];
  if (has_copies(b)) b.gathering.wait();  // it reads the copy
  return {range.begin,
          range.end,
          b.masters.narrow(0, begin, range.numel()),
          training() ? gradient_shard(p.unit).narrow(0, begin, range.numel()) : at::Tensor(),
          m.exp_avg,
          m.exp_avg_sq,
          m.momentum,
          has_copies(b) ? shard_of(b, b.weights).narrow(0, begin, range.numel()) : at::Tensor()};
}

ShardedWeights::UnitBuffers& ShardedWeights::buffers(int64_t unit) {
  HEARTH_CHECK(unit >= 0 && unit < num_units(), "unit {}", unit);
  return units_[static_cast<size_t>(unit)];
}

const ShardedWeights::UnitBuffers& ShardedWeights::buffers(int64_t unit) const {
  HEARTH_CHECK(unit >= 0 && unit < num_units(), "unit {}", unit);
  return units_[static_cast<size_t>(unit)];
}

at::Tensor ShardedWeights::shard_of(const UnitBuffers& b, const at::Tensor& whole) const {
  return whole.narrow(0, b.sharers->shards->rank() * b.shard_numel, b.shard_numel);
}

}  // namespace hearth::parallel
