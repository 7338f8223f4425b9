// SPDX-License-Identifier: Apache-2.0
#include "decode/rows.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "model/local_weights.h"
#include "model/transformer.h"
#include "ops/tensor.h"

namespace hearth::decode {
namespace {

// A full window keeps its newer half: of 7 tokens and a new one, the last 4. Three rows begin at different times.
TEST(ContextRows, OfAFullWindowContinueWithItsNewerHalf) {
  config::Model m;
  m.dim = 48, m.n_layers = 2, m.n_heads = 4, m.n_kv_heads = 2, m.hidden_dim = 64;
  const plan::ModelShape shape = plan::model_shape(m, 101);
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  test::LocalWeights weights(plan, DType::kFloat64, 3);
  constexpr int64_t kWindow = 7;
  ContextRows rows(shape, plan, weights, kWindow, kWindow, DType::kFloat64, at::kCPU, 3);
  Decoder whole(shape, plan, weights, kWindow, DType::kFloat64);
  const std::vector<int64_t> visible = {1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4};  // tokens, by hand
  std::vector<std::vector<int32_t>> texts(3);
  for (int64_t step = 0; step < 20; ++step) {
    std::vector<int64_t> open;
    for (int64_t row = 0; row < 3; ++row) {
      std::vector<int32_t>& text = texts[static_cast<size_t>(row)];
      if (step < 2 * row || text.size() == visible.size()) continue;
      text.push_back(static_cast<int32_t>((13 * step + 7 * row) % 101));
      text.size() == 1 ? rows.begin(row, text) : rows.append(row, text.back());
      open.push_back(row);
    }
    const at::Tensor logits = rows.logits(open).clone();
    for (int64_t i = 0; i < std::ssize(open); ++i) {
      const std::vector<int32_t>& text = texts[static_cast<size_t>(open[static_cast<size_t>(i)])];
      whole.clear();
      const at::Tensor expected = whole.append(std::span(text).last(static_cast<size_t>(visible[text.size() - 1])));
      EXPECT_LT((logits.select(0, i) - expected).norm().item<double>(), 1e-10 * expected.norm().item<double>())
          << "row " << i << " after " << text.size();
    }
  }
}

// As transformers, which computes the whole sequence again at the border: with long factors, all positions have them.
TEST(ContextRows, BeginAgainWhereLongRopesFactorsChange) {
  config::Model m;
  m.dim = 48, m.n_layers = 2, m.n_heads = 4, m.n_kv_heads = 2, m.hidden_dim = 64;
  m.rope_type = config::RopeType::kLongRope, m.rope_scaling_factor = 4, m.rope_original_seq_len = 8;
  m.rope_short_factor = {1, 1, 1.5, 1.5, 2, 2}, m.rope_long_factor = {1, 3, 5, 7, 9, 11};
  const plan::ModelShape shape = plan::model_shape(m, 101);
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  test::LocalWeights weights(plan, DType::kFloat64, 3);
  constexpr int64_t kWindow = 12;
  ContextRows rows(shape, plan, weights, kWindow, kWindow, DType::kFloat64, at::kCPU, 2);
  std::vector<int32_t> texts[2] = {{5}, {7, 9, 11, 13}};  // the second one is at the border three steps earlier
  for (int64_t row = 0; row < 2; ++row) rows.begin(row, texts[row]);
  for (int32_t step = 0; step < 9; ++step) {  // then the second row is as long as the window
    const std::vector<int64_t> both = {0, 1};
    const at::Tensor logits = rows.logits(both).clone();
    for (int64_t row = 0; row < 2; ++row) {
      std::vector<int32_t>& text = texts[row];
      const auto length = std::ssize(text);
      const at::Tensor tokens = ops::from_int32(text, at::kCPU);
      model::Transformer model(shape, plan, 1, length, {.dtype = DType::kFloat64, .loss_chunk_tokens = 64});
      model.loss(weights, {tokens, tokens, {}});
      const at::Tensor expected = model.logits(weights).select(0, length - 1);
      EXPECT_LT((logits.select(0, row) - expected).norm().item<double>(), 1e-11 * expected.norm().item<double>())
          << "row " << row << " of " << length;
      text.push_back(17 * step % 101);
      rows.append(row, text.back());
    }
  }
}

}  // namespace
}  // namespace hearth::decode
