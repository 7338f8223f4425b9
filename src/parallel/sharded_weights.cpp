#include "parallel/sharded_weights.h"

#include <algorithm>

#include "base/error.h"
#include "ops/tensor.h"
#include "plan/scratch.h"

namespace hearth::parallel {

ShardedWeights::ShardedWeights(const plan::ParameterPlan& plan, plan::Precision precision, comm::Group& group,
                               Mode mode, std::vector<bool> trained, bool reproducible, at::Device device,
                               std::vector<bool> momentum_only)
    : plan_(plan),
      group_(group),
      precision_(precision),
      mode_(mode),
      trained_(std::move(trained)),
      momentum_only_(std::move(momentum_only)),
      reproducible_(reproducible),
      device_(device) {
  if (trained_.empty()) trained_.assign(plan.parameters.size(), true);
  HEARTH_CHECK(trained_.size() == plan.parameters.size(), "{} flags for {} parameters", trained_.size(),
               plan.parameters.size());
  if (momentum_only_.empty()) momentum_only_.assign(plan.parameters.size(), false);
  HEARTH_CHECK(momentum_only_.size() == plan.parameters.size(), "{} flags for {} parameters", momentum_only_.size(),
               plan.parameters.size());
  const int64_t R = group.size(), rank = group.rank();
  HEARTH_CHECK(!reproducible || (R & (R - 1)) == 0, "the number of ranks, {}, is not a power of two", R);
  memory_bytes_ = planned_bytes();
  ops::Arena arena(memory_bytes_, device);
  for (const plan::Unit& unit : plan.units) {
    UnitBuffers b;
    b.numel = unit.numel;
    b.shard_numel = plan::slice_numel(unit, R);
    b.slice = plan::unit_slice(unit, rank, R);
    b.weights = arena.take({R * b.shard_numel}, precision_.compute);
    b.masters = has_own_masters() ? arena.take({b.slice.numel()}, precision_.masters)
                                  : b.weights.narrow(0, b.slice.begin, b.slice.numel());
    if (training()) b.gradients = arena.take({R * b.shard_numel}, precision_.gradients);
    units_.push_back(std::move(b));
  }
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

// Whole buffers have space for R equal shards; masters and moments for this rank's part only.
int64_t ShardedWeights::planned_bytes() const {
  const int64_t R = group_.size(), rank = group_.rank();
  int64_t bytes = 0;
  for (const plan::Unit& unit : plan_.units) {
    const int64_t whole = R * plan::slice_numel(unit, R), own = plan::unit_slice(unit, rank, R).numel();
    bytes += ops::Arena::bytes_for({whole}, precision_.compute);
    if (has_own_masters()) bytes += ops::Arena::bytes_for({own}, precision_.masters);
    if (training()) bytes += ops::Arena::bytes_for({whole}, precision_.gradients);
  }
  if (!training()) return bytes;
  for (size_t i = 0; i < plan_.parameters.size(); ++i) {
    const int64_t numel = owned_range(plan_.parameters[i]).numel();
    if (trained_[i]) bytes += (momentum_only_[i] ? 1 : 2) * ops::Arena::bytes_for({numel}, precision_.moments);
  }
  return bytes;
}

plan::Slice ShardedWeights::owned_range(const plan::Parameter& p) const {
  const plan::Slice slice = plan::unit_slice(plan_.units[static_cast<size_t>(p.unit)], group_.rank(), group_.size());
  const int64_t begin = std::clamp<int64_t>(slice.begin - p.offset, 0, p.numel);
  return {begin, std::clamp<int64_t>(slice.end - p.offset, begin, p.numel)};
}

at::Tensor ShardedWeights::gather(int64_t unit) {
  UnitBuffers& b = buffers(unit);
  if (b.stale) {
    if (has_own_masters()) ops::copy_(b.weights.narrow(0, b.slice.begin, b.slice.numel()), b.masters);
    group_.all_gather(b.weights, shard_of(b, b.weights));
    b.stale = false;
  }
  return b.weights.narrow(0, 0, b.numel);
}

at::Tensor ShardedWeights::gradient(int64_t unit) {
  const UnitBuffers& b = buffers(unit);
  return training() ? b.gradients.narrow(0, 0, b.numel) : at::Tensor();
}

void ShardedWeights::gradient_ready(int64_t unit) {
  UnitBuffers& b = buffers(unit);
  HEARTH_CHECK(b.num_ready < num_micro_batches_, "unit {} of a step of {} micro-batches", unit, num_micro_batches_);
  ++b.num_ready;
  add_in_pairs(b);
  if (b.num_ready < num_micro_batches_) return;
  zero_frozen_gradients(unit);
  group_.reduce_scatter(shard_of(b, b.gradients), b.gradients);
}

// A binary counter of complete groups. Where its last digits change from 1 to 0, the partial sums of these digits are
// added. The next group begins from zero.
void ShardedWeights::add_in_pairs(UnitBuffers& b) {
  if (b.num_ready % straight_ != 0) return;
  size_t level = 0;
  for (int64_t groups = b.num_ready / straight_; groups % 2 == 0; groups /= 2)
    ops::add_(b.gradients, b.partial_sums[level++]);
  if (b.num_ready == num_micro_batches_) return;
  ops::copy_(b.partial_sums.at(level), b.gradients);
  ops::zero_(b.gradients);
}

void ShardedWeights::gather_gradients() {
  for (const UnitBuffers& b : units_) {
    HEARTH_CHECK(b.num_ready == num_micro_batches_, "gradients are not complete");
    group_.all_gather(b.gradients, shard_of(b, b.gradients));
  }
}

void ShardedWeights::zero_frozen_gradients(int64_t unit) {
  const plan::Unit& of = plan_.units[static_cast<size_t>(unit)];
  for (int64_t i = of.first_parameter; i < of.first_parameter + of.num_parameters; ++i) {
    const plan::Parameter& p = plan_.parameters[static_cast<size_t>(i)];
    if (!trained(i)) ops::zero_(buffers(unit).gradients.narrow(0, p.offset, p.numel));
  }
}

void ShardedWeights::begin_step(int64_t num_micro_batches) {
  HEARTH_CHECK(training() && num_micro_batches >= 1, "{} micro-batches", num_micro_batches);
  num_micro_batches_ = num_micro_batches;
  straight_ = plan::straight_micro_batches(num_micro_batches, group_.size(), reproducible_);
  const int64_t num_sums = plan::num_partial_sums(num_micro_batches, straight_);
  for (UnitBuffers& b : units_) {
    b.num_ready = 0;
    while (static_cast<int64_t>(b.partial_sums.size()) < num_sums) {
      b.partial_sums.push_back(ops::empty(b.gradients.sizes(), precision_.gradients, device_));
      partial_sums_bytes_ += ops::Arena::bytes_for(b.gradients.sizes(), precision_.gradients);
    }
    ops::zero_(b.gradients);
  }
}

void ShardedWeights::end_step() {
  for (int64_t unit = 0; unit < num_units(); ++unit) {
    const int64_t num_ready = buffers(unit).num_ready;
    HEARTH_CHECK(num_ready == num_micro_batches_, "unit {} was ready {} times of {}", unit, num_ready,
                 num_micro_batches_);
  }
  masters_changed();
}

void ShardedWeights::masters_changed() {
  for (UnitBuffers& b : units_) b.stale = true;
}

plan::Slice ShardedWeights::slice(int64_t unit) const { return buffers(unit).slice; }

at::Tensor ShardedWeights::master(int64_t unit) const { return buffers(unit).masters; }

at::Tensor ShardedWeights::gradient_shard(int64_t unit) const {
  const UnitBuffers& b = buffers(unit);
  return training() ? b.gradients.narrow(0, b.slice.begin, b.slice.numel()) : at::Tensor();
}

ShardedWeights::Owned ShardedWeights::owned(int64_t index) const {
  HEARTH_CHECK(index >= 0 && index < static_cast<int64_t>(moments_.size()), "parameter {}", index);
  const plan::Parameter& p = plan_.parameters[static_cast<size_t>(index)];
  const plan::Slice range = owned_range(p);
  const UnitBuffers& b = buffers(p.unit);
  // If this rank owns nothing of the parameter, the parameter may be before or after the slice.
  const int64_t begin = std::clamp<int64_t>(p.offset + range.begin - b.slice.begin, 0, b.slice.numel());
  const Moments& m = moments_[static_cast<size_t>(index)];
  return {range.begin,
          range.end,
          b.masters.narrow(0, begin, range.numel()),
          training() ? gradient_shard(p.unit).narrow(0, begin, range.numel()) : at::Tensor(),
          m.exp_avg,
          m.exp_avg_sq,
          m.momentum};
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
  return whole.narrow(0, group_.rank() * b.shard_numel, b.shard_numel);
}

}  // namespace hearth::parallel
