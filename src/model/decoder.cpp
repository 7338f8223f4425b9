#include "model/decoder.h"

#include "base/error.h"
#include "model/attention.h"
#include "model/feedforward.h"
#include "model/unit_views.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "ops/tensor.h"

namespace hearth::model {

using enum plan::Activation;

Decoder::Decoder(const plan::ModelShape& shape, const plan::ParameterPlan& plan, Weights& weights, int64_t capacity,
                 DType dtype, at::Device device)
    : shape_(shape),
      plan_(plan),
      weights_(weights),
      capacity_(capacity),
      dtype_(dtype),
      device_(device),
      rope_CK_(ops::rope_table(capacity, shape.K, shape.rope, dtype, device)) {
  for (int64_t layer = 0; layer < shape.L; ++layer) {
    keys_.push_back(ops::zeros({1, capacity, shape.G, shape.K}, dtype, device));
    values_.push_back(ops::zeros({1, capacity, shape.G, shape.K}, dtype, device));
  }
}

at::Tensor Decoder::append(const std::vector<int32_t>& tokens) {
  const auto N = static_cast<int64_t>(tokens.size());
  HEARTH_CHECK(N > 0 && size_ + N <= capacity_, "{} + {} tokens, capacity {}", size_, N, capacity_);
  if (!activations_ || activations_->S != N) {
    const ComputeOptions options = {.dtype = dtype_, .loss_chunk_tokens = 1, .device = device_};
    activations_ = std::make_unique<Activations>(shape_, 1, N, options);
  }
  const Activations& a = *activations_;

  const at::Tensor embedding_VD = parameter_view(weights_.gather(0), plan_.parameters.front());
  ops::embedding_forward(a(kStream), embedding_VD, ops::from_int32(tokens, device_));
  if (!shape_.tied) weights_.release(0);
  for (int64_t layer = 0; layer < shape_.L; ++layer) {
    const BlockViews w = block_views(weights_.gather(1 + layer), plan_, layer);
    if (layer == 0) {
      ops::norm_forward(shape_.norm, a(kAttentionInput), a(kAttentionStatistics), a(kStream), w.attention_norm_D);
    } else {
      ops::add_norm_forward(shape_.norm, a(kStream, layer), a(kAttentionInput, layer), a(kAttentionStatistics, layer),
                            a(kMiddle, layer - 1), a(kBranch), w.attention_norm_D);
    }
    attend(a, w, layer);
    ops::add_norm_forward(shape_.norm, a(kMiddle, layer), a(kFeedForwardInput, layer), a(kFeedForwardStatistics, layer),
                          a(kStream, layer), a(kBranch), w.ffn_norm_D);
    feedforward_forward(a, w, layer);
    weights_.release(1 + layer);
  }
  size_ += N;

  const int64_t last_unit = static_cast<int64_t>(plan_.units.size()) - 1;
  const at::Tensor last_flat = weights_.gather(last_unit);
  const at::Tensor norm_D = final_norm_view(last_flat, plan_);
  ops::add_norm_forward(shape_.norm, a(kStream, shape_.L), a(kFinalInput), a(kFinalStatistics),
                        a(kMiddle, shape_.L - 1), a(kBranch), norm_D);
  const at::Tensor output_VD = shape_.tied ? embedding_VD : parameter_view(last_flat, plan_.parameters.back());
  ops::matmul(a(kLogits), a(kFinalInput).narrow(0, N - 1, 1), output_VD);
  weights_.release(last_unit);
  if (shape_.tied) weights_.release(0);
  return a(kLogits).view({shape_.V});
}

// Like attention_forward, but with new keys and values in the cache.
void Decoder::attend(const Activations& a, const BlockViews& weights, int64_t layer) {
  const plan::ModelShape& s = shape_;
  const int64_t N = a.S;
  const at::Tensor& keys = keys_[static_cast<size_t>(layer)];
  const at::Tensor& values = values_[static_cast<size_t>(layer)];

  ops::matmul(a(kQkv, layer), a(kAttentionInput, layer), weights.wqkv_ND);
  bias_and_norm_heads(a, weights, a(kQkv, layer), layer);
  ops::rope_forward(a(kQkv, layer).view({1, N, s.H + 2 * s.G, s.K}).narrow(2, 0, s.H + s.G), rope_CK_, s.rope.halves,
                    {}, {.first = size_});
  const auto [q, k, v] = qkv_views(a(kQkv, layer), s, 1, N);
  ops::copy_(keys.narrow(1, size_, N), k);
  ops::copy_(values.narrow(1, size_, N), v);
  ops::decode_attention(a(kAttention, layer).view({1, N, s.H, s.K}), q, keys, values, size_ + N);
  ops::matmul(a(kBranch), a(kAttention, layer), weights.wo_DN);
}

}  // namespace hearth::model
