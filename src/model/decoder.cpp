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
                 DType dtype, at::Device device, int64_t rows)
    : shape_(shape),
      plan_(plan),
      weights_(weights),
      capacity_(capacity),
      sizes_(static_cast<size_t>(rows), 0),
      dtype_(dtype),
      device_(device),
      rope_CK_(ops::rope_table(capacity, shape.K, shape.rope, dtype, device)) {
  for (int64_t layer = 0; layer < shape.L; ++layer) {
    keys_.push_back(ops::zeros({rows, capacity, shape.G, shape.K}, dtype, device));
    values_.push_back(ops::zeros({rows, capacity, shape.G, shape.K}, dtype, device));
  }
}

std::unique_ptr<Activations> Decoder::activations(int64_t tokens, int64_t logits) const {
  return std::make_unique<Activations>(shape_, 1, tokens,
                                       ComputeOptions{.dtype = dtype_, .loss_chunk_tokens = logits, .device = device_});
}

at::Tensor Decoder::append(std::span<const int32_t> tokens, int64_t row) {
  const auto N = std::ssize(tokens);
  HEARTH_CHECK(N > 0 && size(row) + N <= capacity_, "{} + {} tokens, capacity {}", size(row), N, capacity_);
  if (!of_row_ || of_row_->S != N) of_row_ = activations(N, 1);
  const Stretch stretch{.row = row, .first = 0, .count = N};
  return forward(*of_row_, tokens, std::span(&stretch, 1)).view({shape_.V});
}

at::Tensor Decoder::append_to_each(std::span<const int64_t> rows, std::span<const int32_t> tokens) {
  const auto N = std::ssize(rows);
  HEARTH_CHECK(N > 0 && N <= this->rows() && N == std::ssize(tokens), "{} tokens for {} rows", tokens.size(), N);
  std::vector<Stretch> stretches;
  for (int64_t i = 0; i < N; ++i) {
    const int64_t row = rows[static_cast<size_t>(i)];
    HEARTH_CHECK(size(row) < capacity_, "a full row");
    stretches.push_back({.row = row, .first = i, .count = 1});
  }
  constexpr size_t kMostNumbers = 4;  // each has logits of its own: a vocabulary times the rows
  if (!each_.contains(N) && each_.size() == kMostNumbers) each_.clear();
  std::unique_ptr<Activations>& a = each_[N];
  if (!a) a = activations(N, N);
  return forward(*a, tokens, stretches);
}

at::Tensor Decoder::forward(const Activations& a, std::span<const int32_t> tokens, std::span<const Stretch> stretches) {
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
    attend(a, w, layer, stretches);
    ops::add_norm_forward(shape_.norm, a(kMiddle, layer), a(kFeedForwardInput, layer), a(kFeedForwardStatistics, layer),
                          a(kStream, layer), a(kBranch), w.ffn_norm_D);
    feedforward_forward(a, w, layer);
    weights_.release(1 + layer);
  }
  for (const Stretch& stretch : stretches) sizes_[static_cast<size_t>(stretch.row)] += stretch.count;

  const int64_t last_unit = static_cast<int64_t>(plan_.units.size()) - 1;
  const at::Tensor last_flat = weights_.gather(last_unit);
  const at::Tensor norm_D = final_norm_view(last_flat, plan_);
  ops::add_norm_forward(shape_.norm, a(kStream, shape_.L), a(kFinalInput), a(kFinalStatistics),
                        a(kMiddle, shape_.L - 1), a(kBranch), norm_D);
  const at::Tensor output_VD = shape_.tied ? embedding_VD : parameter_view(last_flat, plan_.parameters.back());
  // Either one stretch, or stretches of one token: the rows that count are next to each other.
  const auto N = std::ssize(stretches);
  const at::Tensor logits_NV = a(kLogits).narrow(0, 0, N);
  ops::matmul(logits_NV, a(kFinalInput).narrow(0, std::ssize(tokens) - N, N), output_VD);
  weights_.release(last_unit);
  if (shape_.tied) weights_.release(0);
  return logits_NV;
}

// Like attention_forward, but with new keys and values in the cache.
void Decoder::attend(const Activations& a, const BlockViews& weights, int64_t layer,
                     std::span<const Stretch> stretches) {
  const plan::ModelShape& s = shape_;
  ops::matmul(a(kQkv, layer), a(kAttentionInput, layer), weights.wqkv_ND);
  bias_and_norm_heads(a, weights, a(kQkv, layer), layer);
  for (const auto& [row, first, N] : stretches) {
    const int64_t before = size(row);
    const at::Tensor keys = keys_[static_cast<size_t>(layer)].narrow(0, row, 1);
    const at::Tensor values = values_[static_cast<size_t>(layer)].narrow(0, row, 1);
    const at::Tensor qkv = a(kQkv, layer).narrow(0, first, N);
    ops::rope_forward(qkv.view({1, N, s.H + 2 * s.G, s.K}).narrow(2, 0, s.H + s.G), rope_CK_, s.rope.halves, {},
                      {.first = before});
    const auto [q, k, v] = qkv_views(qkv, s, 1, N);
    ops::copy_(keys.narrow(1, before, N), k);
    ops::copy_(values.narrow(1, before, N), v);
    ops::decode_attention(a(kAttention, layer).narrow(0, first, N).view({1, N, s.H, s.K}), q, keys, values, before + N);
  }
  ops::matmul(a(kBranch), a(kAttention, layer), weights.wo_DN);
}

}  // namespace hearth::model
