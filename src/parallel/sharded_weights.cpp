#include "parallel/sharded_weights.h"

#include "base/error.h"
#include "ops/tensor.h"

namespace hearth::parallel {

namespace {

// Whole buffers have room for R equal shards; moments for what the rank owns.
int64_t arena_bytes(const plan::ParameterPlan& plan, DType dtype, int64_t rank, int64_t ranks, bool training) {
  int64_t bytes = 0;
  for (const plan::Unit& unit : plan.units) {
    bytes += (training ? 2 : 1) * ops::Arena::bytes_for({ranks * plan::slice_numel(unit, ranks)}, dtype);
    if (training) bytes += 2 * ops::Arena::bytes_for({plan::unit_slice(unit, rank, ranks).numel()}, dtype);
  }
  return bytes;
}

}  // namespace

ShardedWeights::ShardedWeights(const plan::ParameterPlan& plan, DType dtype, comm::Group& group, Purpose purpose)
    : plan_(plan), group_(group), dtype_(dtype), purpose_(purpose) {
  const int64_t R = group.size(), rank = group.rank();
  memory_bytes_ = arena_bytes(plan, dtype, rank, R, training());
  ops::Arena arena(memory_bytes_);
  for (const plan::Unit& unit : plan.units) {
    UnitBuffers b;
    b.numel = unit.numel;
    b.shard_numel = plan::slice_numel(unit, R);
    b.slice = plan::unit_slice(unit, rank, R);
    b.weights = arena.take({R * b.shard_numel}, dtype);
    if (training()) {
      b.gradients = arena.take({R * b.shard_numel}, dtype);
      b.exp_avg = arena.take({b.slice.numel()}, dtype);
      b.exp_avg_sq = arena.take({b.slice.numel()}, dtype);
    }
    units_.push_back(std::move(b));
  }
}

at::Tensor ShardedWeights::gather(int64_t unit) {
  UnitBuffers& b = buffers(unit);
  if (b.stale) {
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
  if (++b.num_ready == num_micro_batches_) group_.reduce_scatter(shard_of(b, b.gradients), b.gradients);
}

void ShardedWeights::begin_step(int64_t num_micro_batches) {
  HEARTH_CHECK(training() && num_micro_batches >= 1, "{} micro-batches", num_micro_batches);
  num_micro_batches_ = num_micro_batches;
  for (UnitBuffers& b : units_) {
    b.num_ready = 0;
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

at::Tensor ShardedWeights::master(int64_t unit) const {
  const UnitBuffers& b = buffers(unit);
  return b.weights.narrow(0, b.slice.begin, b.slice.numel());
}

at::Tensor ShardedWeights::gradient_shard(int64_t unit) const {
  const UnitBuffers& b = buffers(unit);
  return training() ? b.gradients.narrow(0, b.slice.begin, b.slice.numel()) : at::Tensor();
}

at::Tensor ShardedWeights::exp_avg(int64_t unit) const { return buffers(unit).exp_avg; }

at::Tensor ShardedWeights::exp_avg_sq(int64_t unit) const { return buffers(unit).exp_avg_sq; }

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
