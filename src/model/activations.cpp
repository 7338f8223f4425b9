#include "model/activations.h"

#include "base/error.h"
#include "ops/rope.h"

namespace hearth::model {

Activations::Activations(const plan::ModelShape& model_shape, int64_t num_sequences, int64_t num_positions,
                         const ComputeOptions& options)
    : shape(model_shape),
      B(num_sequences),
      S(num_positions),
      float8(options.float8),
      tensor(options.tensor),
      context(options.context),
      rope_SK(ops::rope_table(S, shape.K, shape.rope, options.dtype, options.device)),
      plan_(plan::activation_plan(shape, B, S, options.dtype, options.loss_chunk_tokens, options.training,
                                  options.recompute)),
      arena_(plan_.total_bytes, options.device) {
  HEARTH_CHECK(shape.tensor.size == (tensor == nullptr ? 1 : tensor->size()), "a part of {}", shape.tensor.size);
  HEARTH_CHECK(shape.context == (context == nullptr ? 1 : context->size()), "sequences of {} ranks", shape.context);
  const at::Tensor memory = arena_.take({plan_.total_bytes}, DType::kUInt8);
  for (const plan::ActivationBuffer& buffer : plan_.buffers) {
    auto& copies = tensors_.emplace_back();
    for (const int64_t offset_bytes : buffer.offset_bytes)
      copies.push_back(ops::view_as(memory, offset_bytes, buffer.shape, buffer.dtype));
  }
}

}  // namespace hearth::model
