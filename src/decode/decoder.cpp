// SPDX-License-Identifier: Apache-2.0
#include "decode/decoder.h"

#include "base/error.h"
#include "model/execution.h"
#include "models/stage_program.h"
#include "ops/rope.h"
#include "ops/rows.h"
#include "ops/tensor.h"

namespace hearth::decode {

using model::Activations;
using model::Inputs;
using model::MicroBatch;
using model::UnitTensors;

namespace {

at::Tensor joined(const at::Tensor& first_CR, const at::Tensor& second_CR) {
  const int64_t C = first_CR.size(0);
  const at::Tensor both = ops::empty({2 * C, first_CR.size(1)}, ops::dtype_of(first_CR), first_CR.device());
  ops::copy_(both.narrow(0, 0, C), first_CR);
  ops::copy_(both.narrow(0, C, C), second_CR);
  return both;
}

model::ModelRopes ropes_of(const plan::ModelShape& shape, int64_t capacity, DType dtype, at::Device device) {
  if (!shape.rope.is_long(capacity)) return model::model_ropes(shape, capacity, capacity, dtype, device);
  const model::ModelRopes shorts = model::model_ropes(shape, capacity, shape.rope.original_seq_len, dtype, device);
  const model::ModelRopes longs = model::model_ropes(shape, capacity, capacity, dtype, device);
  const auto both = [](const ops::RopeTables& a, const ops::RopeTables& b) {
    return ops::RopeTables{joined(a.heads_SR, b.heads_SR), joined(a.queries_SR, b.queries_SR)};
  };
  return {both(shorts.main, longs.main), both(shorts.local, longs.local)};
}

// Rotates queries and keys. `heads_BSNK`: H queries, G keys, and the values. `first`: the table's row of position 0.
void rotate(const at::Tensor& heads_BSNK, const plan::ModelShape& s, const models::Layer& layer,
            const model::ModelRopes& ropes, int64_t first) {
  if (!layer.rotates) return;
  const ops::RopeTables& tables = layer.local_rope ? ropes.local : ropes.main;
  const auto turn = [&](int64_t begin, int64_t count, const at::Tensor& table_SR) {
    const at::Tensor x_BSNK = heads_BSNK.narrow(2, begin, count);
    ops::rope_forward(x_BSNK.narrow(3, s.first_rotated(), s.K - s.first_rotated()), table_SR, s.rope.halves, {},
                      {.first = first});
  };
  if (!s.rope_of(layer).scales_queries()) return turn(0, s.H + s.G, tables.heads_SR);
  turn(0, s.H, tables.queries_SR);
  turn(s.H, s.G, tables.heads_SR);
}

}  // namespace

Decoder::Decoder(const plan::ModelShape& shape, const plan::ParameterPlan& plan, model::Weights& weights,
                 int64_t capacity, DType dtype, at::Device device, int64_t rows)
    : shape_(shape),
      plan_(plan),
      weights_(weights),
      capacity_(capacity),
      sizes_(static_cast<size_t>(rows), 0),
      dtype_(dtype),
      device_(device),
      ropes_(ropes_of(shape, capacity, dtype, device)) {
  for (const models::Layer& layer : shape.layers)
    caches_.emplace_back(rows, capacity, layer.window, shape.G, shape.K, dtype, device);
}

std::unique_ptr<Activations> Decoder::activations(int64_t tokens, int64_t logits) const {
  models::Program program =
      models::stage_program(shape_, {1, tokens, dtype_, logits}, models::Backward::kNone, {}, /*uses_cache=*/true);
  return std::make_unique<Activations>(plan::activation_plan(std::move(program)),
                                       model::ComputeOptions{.dtype = dtype_, .device = device_});
}

bool Decoder::must_begin_again(int64_t tokens, int64_t row) const {
  return size(row) > 0 && !shape_.rope.is_long(size(row)) && shape_.rope.is_long(size(row) + tokens);
}

int64_t Decoder::table_row(int64_t position, int64_t length) const {
  return shape_.rope.is_long(length) ? capacity_ + position : position;
}

at::Tensor Decoder::append(std::span<const int32_t> tokens, int64_t row) {
  const auto N = std::ssize(tokens);
  HEARTH_CHECK(N > 0 && size(row) + N <= capacity_, "{} + {} tokens, capacity {}", size(row), N, capacity_);
  HEARTH_CHECK(!must_begin_again(N, row), "a row of {} tokens gets {} more", size(row), N);
  if (!of_row_ || of_row_->S() != N) of_row_ = activations(N, 1);
  const at::Tensor logits = forward(*of_row_, tokens, {.row = row}, 1).view({shape_.V});
  sizes_[static_cast<size_t>(row)] += N;
  return logits;
}

Decoder::Places Decoder::places_of(std::span<const int64_t> rows) const {
  std::vector<int64_t> sizes, positions;
  for (const int64_t row : rows) {
    sizes.push_back(size(row));
    positions.push_back(table_row(size(row), size(row) + 1));
  }
  Places places;
  for (const LayerCache& cache : caches_) {
    LayerCache::Slots& slots = places.slots[cache.length()];
    if (!slots.index_N.defined()) slots = cache.slots(rows, sizes);
  }
  const at::Tensor index_N = ops::from_int64(positions, device_);
  const auto rows_of = [&](const ops::RopeTables& tables) {
    return ops::RopeTables{ops::gathered(tables.heads_SR, index_N), ops::gathered(tables.queries_SR, index_N)};
  };
  places.ropes = {rows_of(ropes_.main), rows_of(ropes_.local)};
  return places;
}

at::Tensor Decoder::append_to_each(std::span<const int64_t> rows, std::span<const int32_t> tokens) {
  const auto N = std::ssize(rows);
  HEARTH_CHECK(N > 0 && N <= this->rows() && N == std::ssize(tokens), "{} tokens for {} rows", tokens.size(), N);
  for (const int64_t row : rows)
    HEARTH_CHECK(size(row) < capacity_ && !must_begin_again(1, row), "a full row, or one that must begin again");
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
    inputs.attend_cached = [&, layer](const at::Tensor& out, const at::Tensor& qkv, const at::Tensor& sinks) {
      attend(layer, places, out, qkv, sinks);
    };
    model::execute(a, a.program().ops_of(section, layer), unit, inputs);
  };
  const at::Tensor embedding = weights_.gather(0);
  run(Section::kEmbedding, 0, {plan_, 0, embedding, {}});
  if (!shape_.tied) weights_.release(0);
  for (int64_t layer = 0; layer < shape_.L(); ++layer) {
    run(Section::kForward, layer, model::layer_weights(plan_, weights_, layer));
    const plan::LayerUnits& units = plan_.units_of(layer);
    weights_.release(units.block);
    if (units.has_experts()) weights_.release(units.experts);
  }
  const int64_t last_unit = static_cast<int64_t>(plan_.units.size()) - 1;
  const at::Tensor last = weights_.gather(last_unit);
  run(Section::kFinalNorm, 0, {plan_, last_unit, last, {}});
  const model::UnitTensors unit{plan_, shape_.tied ? 0 : last_unit, shape_.tied ? embedding : last, {}};
  const at::Tensor logits_NV = a(a.program().logits).narrow(0, 0, logits);
  model::compute_logits(logits_NV, a(a.program().final_input).narrow(0, std::ssize(tokens) - logits, logits),
                        model::output_weights(unit, a.program()));
  weights_.release(last_unit);
  if (shape_.tied) weights_.release(0);
  return logits_NV;
}

// Rotates the new queries and keys, adds keys and values to the cache, and attends to all that the layer sees.
void Decoder::attend(int64_t layer, const Places& places, const at::Tensor& out, const at::Tensor& qkv,
                     const at::Tensor& sinks) const {
  const plan::ModelShape& s = shape_;
  const models::Layer& kind = s.layers[static_cast<size_t>(layer)];
  const int64_t N = qkv.size(0);
  const at::Tensor out_NHK = out.view({N, s.H, s.K}), heads = qkv.view({1, N, s.H + 2 * s.G, s.K});
  const at::Tensor q = heads.narrow(2, 0, s.H), k = heads.narrow(2, s.H, s.G), v = heads.narrow(2, s.H + s.G, s.G);
  const LayerCache& cache = caches_[static_cast<size_t>(layer)];
  if (!places.slots.empty()) {
    rotate(heads, s, kind, places.ropes, 0);
    return cache.attend_to_each(out_NHK, q.squeeze(0), k.squeeze(0), v.squeeze(0), places.slots.at(cache.length()),
                                s.score_scale(kind), sinks);
  }
  const int64_t before = size(places.row);
  rotate(heads, s, kind, ropes_, table_row(before, before + N));
  cache.attend(out_NHK.unsqueeze(0), q, k, v, places.row, before, s.score_scale(kind), sinks);
}

}  // namespace hearth::decode
