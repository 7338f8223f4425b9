// SPDX-License-Identifier: Apache-2.0
#include "decode/decoder.h"

#include "base/error.h"
#include "model/execution.h"
#include "model/parameter_view.h"
#include "models/stage_program.h"
#include "ops/matmul.h"
#include "ops/rope.h"
#include "ops/rows.h"
#include "ops/tensor.h"

namespace hearth::decode {

using model::Activations;
using model::Inputs;
using model::MicroBatch;
using model::UnitTensors;

Decoder::Decoder(const plan::ModelShape& shape, const plan::ParameterPlan& plan, model::Weights& weights,
                 int64_t capacity, DType dtype, at::Device device, int64_t rows)
    : shape_(shape),
      plan_(plan),
      weights_(weights),
      capacity_(capacity),
      sizes_(static_cast<size_t>(rows), 0),
      dtype_(dtype),
      device_(device),
      rope_CK_(ops::rope_table(capacity, shape.K, shape.rope, dtype, device)) {
  for (const models::Layer& layer : shape.layers)
    caches_.emplace_back(rows, capacity, layer.window, shape.G, shape.K, dtype, device);
}

std::unique_ptr<Activations> Decoder::activations(int64_t tokens, int64_t logits) const {
  models::Program program =
      models::stage_program(shape_, {1, tokens, dtype_, logits}, models::Backward::kNone, {}, /*uses_cache=*/true);
  return std::make_unique<Activations>(plan::activation_plan(std::move(program)),
                                       model::ComputeOptions{.dtype = dtype_, .device = device_});
}

at::Tensor Decoder::append(std::span<const int32_t> tokens, int64_t row) {
  const auto N = std::ssize(tokens);
  HEARTH_CHECK(N > 0 && size(row) + N <= capacity_, "{} + {} tokens, capacity {}", size(row), N, capacity_);
  if (!of_row_ || of_row_->S() != N) of_row_ = activations(N, 1);
  const at::Tensor logits = forward(*of_row_, tokens, {.row = row}, 1).view({shape_.V});
  sizes_[static_cast<size_t>(row)] += N;
  return logits;
}

Decoder::Places Decoder::places_of(std::span<const int64_t> rows) const {
  std::vector<int64_t> sizes;
  for (const int64_t row : rows) sizes.push_back(size(row));
  Places places;
  for (const LayerCache& cache : caches_) {
    LayerCache::Slots& slots = places.slots[cache.length()];
    if (!slots.index_N.defined()) slots = cache.slots(rows, sizes);
  }
  places.rope_NK = ops::gathered(rope_CK_, ops::from_int64(sizes, device_));
  return places;
}

at::Tensor Decoder::append_to_each(std::span<const int64_t> rows, std::span<const int32_t> tokens) {
  const auto N = std::ssize(rows);
  HEARTH_CHECK(N > 0 && N <= this->rows() && N == std::ssize(tokens), "{} tokens for {} rows", tokens.size(), N);
  for (const int64_t row : rows) HEARTH_CHECK(size(row) < capacity_, "a full row");
  constexpr size_t kMostNumbers = 4;  // each has logits of its own: a vocabulary times the rows
  if (!each_.contains(N) && each_.size() == kMostNumbers) each_.clear();
  std::unique_ptr<Activations>& a = each_[N];
  if (!a) a = activations(N, N);
  const at::Tensor logits = forward(*a, tokens, places_of(rows), N);
  for (const int64_t row : rows) ++sizes_[static_cast<size_t>(row)];
  return logits;
}

at::Tensor Decoder::forward(const Activations& a, std::span<const int32_t> tokens, const Places& places,
                            int64_t logits) {
  using models::Section;
  const MicroBatch batch{.tokens_T = ops::from_int32(tokens, device_), .labels_T = {}};
  Inputs inputs;
  inputs.batch = &batch;
  const auto run = [&](Section section, int64_t layer, const UnitTensors& unit) {
    inputs.attend_cached = [&, layer](const at::Tensor& out, const at::Tensor& qkv) {
      attend(layer, places, out, qkv);
    };
    model::execute(a, a.program().ops_of(section, layer), unit, inputs);
  };
  const at::Tensor embedding = weights_.gather(0);
  run(Section::kEmbedding, 0, {plan_, 0, embedding, {}});
  if (!shape_.tied) weights_.release(0);
  for (int64_t layer = 0; layer < shape_.L(); ++layer) {
    run(Section::kForward, layer, {plan_, 1 + layer, weights_.gather(1 + layer), {}});
    weights_.release(1 + layer);
  }
  const int64_t last_unit = static_cast<int64_t>(plan_.units.size()) - 1;
  const at::Tensor last = weights_.gather(last_unit);
  run(Section::kFinalNorm, 0, {plan_, last_unit, last, {}});
  const at::Tensor output_VD = shape_.tied ? model::parameter_view(embedding, plan_.parameters.front())
                                           : model::parameter_view(last, plan_.parameters.back());
  const at::Tensor logits_NV = a(a.program().logits).narrow(0, 0, logits);
  ops::matmul(logits_NV, a(a.program().final_input).narrow(0, std::ssize(tokens) - logits, logits), output_VD);
  weights_.release(last_unit);
  if (shape_.tied) weights_.release(0);
  return logits_NV;
}

// Rotates the new queries and keys, adds keys and values to the cache, and attends to all that the layer sees.
void Decoder::attend(int64_t layer, const Places& places, const at::Tensor& out, const at::Tensor& qkv) const {
  const plan::ModelShape& s = shape_;
  const bool rotates = s.layers[static_cast<size_t>(layer)].rotates;
  const int64_t N = qkv.size(0);
  const at::Tensor out_NHK = out.view({N, s.H, s.K}), heads = qkv.view({1, N, s.H + 2 * s.G, s.K});
  const at::Tensor turned = heads.narrow(2, 0, s.H + s.G);
  const at::Tensor q = heads.narrow(2, 0, s.H), k = heads.narrow(2, s.H, s.G), v = heads.narrow(2, s.H + s.G, s.G);
  const LayerCache& cache = caches_[static_cast<size_t>(layer)];
  if (!places.slots.empty()) {
    if (rotates) ops::rope_forward(turned, places.rope_NK, s.rope.halves);
    return cache.attend_to_each(out_NHK, q.squeeze(0), k.squeeze(0), v.squeeze(0), places.slots.at(cache.length()),
                                s.attention_multiplier);
  }
  const int64_t before = size(places.row);
  if (rotates) ops::rope_forward(turned, rope_CK_, s.rope.halves, {}, {.first = before});
  cache.attend(out_NHK.unsqueeze(0), q, k, v, places.row, before, s.attention_multiplier);
}

}  // namespace hearth::decode
