// SPDX-License-Identifier: Apache-2.0
#include "decode/rows.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "model/local_weights.h"

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

}  // namespace
}  // namespace hearth::decode
