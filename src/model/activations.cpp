#include "model/activations.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ops/rope.h"

namespace hearth::model {
namespace {

plan::ActivationPlan plan_of(const plan::ModelShape& shape, int64_t B, int64_t S, const ComputeOptions& options) {
  return plan::activation_plan(shape, B, S, options.dtype, options.loss_chunk_tokens,
                               options.training ? plan::Backward::kWhole : plan::Backward::kNone, options.recompute);
}

ActivationMemory allocated(const plan::ActivationPlan& plan, const plan::ModelShape& shape, int64_t S,
                           const ComputeOptions& options) {
  ops::Arena arena(plan.total_bytes, options.device);
  return {.shared = arena.take({plan.total_bytes}, DType::kUInt8),
          .slots = {},
          .rope_SK = ops::rope_table(S, shape.K, shape.rope, options.dtype, options.device)};
}

}  // namespace

Activations::Activations(const plan::ModelShape& model_shape, int64_t num_sequences, int64_t num_positions,
                         const ComputeOptions& options)
    : Activations(
          model_shape, num_sequences, num_positions, options,
          plan_of(model_shape, num_sequences, num_positions, options),
          allocated(plan_of(model_shape, num_sequences, num_positions, options), model_shape, num_positions, options)) {
}

Activations::Activations(const plan::ModelShape& model_shape, int64_t num_sequences, int64_t num_positions,
                         const ComputeOptions& options, plan::ActivationPlan plan, const ActivationMemory& memory)
    : shape(model_shape),
      B(num_sequences),
      S(num_positions),
      float8(options.float8),
      tensor(options.tensor),
      context(options.context),
      rope_SK(memory.rope_SK),
      plan_(std::move(plan)) {
  HEARTH_CHECK(shape.tensor.size == (tensor == nullptr ? 1 : tensor->size()), "a part of {}", shape.tensor.size);
  const auto size = [](const comm::Group* group) { return group == nullptr ? 1 : group->size(); };
  HEARTH_CHECK(shape.head_ranks() == size(context.heads) && shape.key_ranks == size(context.keys),
               "sequences of {} x {} ranks", shape.key_ranks, shape.head_ranks());
  for (int64_t slot = 0; slot < std::max<int64_t>(1, plan_.num_slots); ++slot) {
    auto& of_slot = tensors_.emplace_back();
    for (const plan::ActivationBuffer& buffer : plan_.buffers) {
      auto& copies = of_slot.emplace_back();
      for (size_t i = 0; i < buffer.offset_bytes.size(); ++i) {
        const bool in_slot = buffer.in_slot[i];
        copies.push_back(ops::view_as(in_slot ? memory.slots : memory.shared,
                                      buffer.offset_bytes[i] + (in_slot ? slot * plan_.slot_bytes : 0), buffer.shape,
                                      buffer.dtype));
      }
    }
  }
}

plan::SequencePart Activations::sequence_part() const {
  const auto rank = [](const comm::Group* group) { return group == nullptr ? 0 : group->rank(); };
  return {rank(context.keys) * shape.head_ranks() + rank(context.heads), shape.context, shape.key_ranks};
}

}  // namespace hearth::model
