// SPDX-License-Identifier: Apache-2.0
#include "model/activations.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"

namespace hearth::model {
namespace {

ActivationMemory allocated(const plan::ActivationPlan& plan, const ComputeOptions& options) {
  const models::Program& program = plan.program;
  ops::Arena arena(plan.total_bytes, options.device);
  return {.shared = arena.take({plan.total_bytes}, DType::kUInt8),
          .slots = {},
          .ropes = model_ropes(program.shape, program.size.S, program.size.S, options.dtype, options.device)};
}

}  // namespace

ModelRopes model_ropes(const plan::ModelShape& shape, int64_t S, int64_t length, DType dtype, at::Device device) {
  const ops::RopeTables main = ops::rope_tables(S, length, shape.K, shape.rope, dtype, device);
  const bool has_local = std::any_of(shape.layers.begin(), shape.layers.end(),
                                     [](const models::Layer& layer) { return layer.local_rope; });
  return {main, has_local ? ops::rope_tables(S, length, shape.K, shape.local_rope, dtype, device) : main};
}

int64_t bytes_of(const ModelRopes& ropes) {
  std::set<const void*> counted;
  size_t bytes = 0;
  for (const at::Tensor& table :
       {ropes.main.heads_SR, ropes.main.queries_SR, ropes.local.heads_SR, ropes.local.queries_SR}) {
    if (counted.insert(table.const_data_ptr()).second) bytes += table.nbytes();
  }
  return static_cast<int64_t>(bytes);
}

Activations::Activations(plan::ActivationPlan plan, const ComputeOptions& options)
    : Activations(plan, options, allocated(plan, options)) {}

Activations::Activations(plan::ActivationPlan plan, const ComputeOptions& options, const ActivationMemory& memory)
    : float8(options.float8),
      tensor(options.tensor),
      experts(options.experts),
      context(options.context),
      ropes(memory.ropes),
      plan_(std::move(plan)) {
  HEARTH_CHECK(shape().tensor.size == (tensor == nullptr ? 1 : tensor->size()), "a part of {}", shape().tensor.size);
  const auto size = [](const comm::Group* group) { return group == nullptr ? 1 : group->size(); };
  HEARTH_CHECK(shape().head_ranks() == size(context.heads) && shape().key_ranks == size(context.keys),
               "sequences of {} x {} ranks", shape().key_ranks, shape().head_ranks());
  HEARTH_CHECK(shape().expert_part.size == size(experts), "experts of {} ranks", shape().expert_part.size);
  for (int64_t slot = 0; slot < std::max<int64_t>(1, plan_.num_slots); ++slot) {
    expert_rows_.emplace_back(static_cast<size_t>(shape().L()));
    auto& of_slot = tensors_.emplace_back();
    for (size_t i = 0; i < plan_.places.size(); ++i) {
      const models::Buffer& buffer = program().buffers()[i];
      const plan::BufferPlace& place = plan_.places[i];
      of_slot.push_back(ops::view_as(place.is_in_slot ? memory.slots : memory.shared,
                                     place.offset_bytes + (place.is_in_slot ? slot * plan_.slot_bytes : 0),
                                     buffer.shape, buffer.dtype));
    }
  }
}

at::Tensor Activations::operator()(const models::Ref& ref) const {
  if (!ref.exists()) return {};
  at::Tensor whole = tensors_[slot_][static_cast<size_t>(ref.buffer)];
  if (program().buffer(ref).varies) whole = with_arrivals(ref, whole);
  return ref.columns == 0 ? whole : whole.narrow(1, ref.first, ref.columns);
}

at::Tensor Activations::with_arrivals(const models::Ref& ref, const at::Tensor& usual) const {
  const models::Buffer& buffer = program().buffer(ref);
  const size_t layer = buffer.layer < 0 ? layer_ : static_cast<size_t>(buffer.layer);
  const int64_t rows = expert_rows_[slot_][layer].arriving;
  if (rows <= usual.size(0)) return usual.narrow(0, 0, rows);
  at::Tensor& larger = larger_[{plan_.places[static_cast<size_t>(ref.buffer)].is_in_slot ? slot_ : 0, ref.buffer}];
  if (!larger.defined() || larger.size(0) < rows)
    larger = ops::empty({rows + rows / 8, usual.size(1)}, buffer.dtype, device());
  return larger.narrow(0, 0, rows);
}

at::Tensor Activations::heads(const models::Ref& ref) const {
  const at::Tensor& whole = tensors_[slot_][static_cast<size_t>(ref.buffer)];
  const int64_t K = shape().K, columns = ref.columns == 0 ? whole.size(1) : ref.columns;
  return whole.view({B(), whole.size(0) / B(), whole.size(1) / K, K}).narrow(2, ref.first / K, columns / K);
}

plan::SequencePart Activations::sequence_part() const {
  const auto rank = [](const comm::Group* group) { return group == nullptr ? 0 : group->rank(); };
  return {rank(context.keys) * shape().head_ranks() + rank(context.heads), shape().context, shape().key_ranks};
}

}  // namespace hearth::model
