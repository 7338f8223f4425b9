// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "compare.h"

namespace hearth::ops::test {
namespace {

class Embedding : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t>> {};

TEST_P(Embedding, LooksUpRowsAndAddsTheirGradients) {
  const auto [type, D] = GetParam();
  at::manual_seed(1);
  const int64_t V = 11, T = 300;
  const at::Tensor weight = random({V, D}, type), dx = random({T, D}, type);
  const at::Tensor tokens = at::randint(V - 1, {T}, at::TensorOptions().dtype(at::kLong));  // the last one never occurs
  const at::Tensor tokens32 = tokens.to(at::kInt);
  const at::Tensor x = at::empty({T, D}, weight.options());
  embedding_forward(x, weight, tokens32);
  EXPECT_TRUE(same_bits(x, weight.index_select(0, tokens)));

  const at::Tensor dw = at::ones({V, D}, sum_type(type));
  embedding_backward(dw, in_wider_rows(dx), tokens32);
  const at::Tensor expected = at::ones({V, D}, at::kDouble).index_add(0, tokens, dx.to(at::kDouble));
  EXPECT_LE(relative_error(dw, expected), bound(sum_type(type), 5e-7));

  const at::Tensor one_thread = at::ones_like(dw);
  at::set_num_threads(1);
  embedding_backward(one_thread, dx, tokens32);
  at::set_num_threads(2);
  EXPECT_TRUE(same_bits(one_thread, dw));
}

INSTANTIATE_TEST_SUITE_P(Widths, Embedding,
                         testing::Combine(testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                                          testing::Values<int64_t>(1, 101, 512)));

// Three ranks have 4, 4 and 3 of 11 rows.
TEST_P(Embedding, PartsOfTheVocabularyAddUpToTheWhole) {
  const auto [type, D] = GetParam();
  at::manual_seed(1);
  const int64_t V = 11, T = 100;
  const at::Tensor weight = random({V, D}, type), dx = random({T, D}, type);
  const at::Tensor tokens = at::randint(V, {T}, at::TensorOptions().dtype(at::kInt));
  const at::Tensor whole = at::empty({T, D}, weight.options()), dwhole = at::ones({V, D}, sum_type(type));
  embedding_forward(whole, weight, tokens);
  embedding_backward(dwhole, dx, tokens);
  at::Tensor sum = at::zeros({T, D}, weight.options());
  for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 4}, {4, 4}, {8, 3}}) {
    const plan::VocabularyPart part{.first = first, .total = V};
    const at::Tensor x = at::empty({T, D}, weight.options()), dweight = at::ones({rows, D}, sum_type(type));
    embedding_forward(x, weight.narrow(0, first, rows).contiguous(), tokens, part);
    sum = sum + x;
    embedding_backward(dweight, dx, tokens, part);
    EXPECT_TRUE(same_bits(dweight, dwhole.narrow(0, first, rows).contiguous()));
  }
  EXPECT_TRUE(same_bits(sum, whole));
}

TEST(EmbeddingEdge, ATokenOutsideTheTableIsRefused) {
  const at::Tensor weight = at::zeros({3, 4}), x = at::empty({1, 4});
  EXPECT_TRUE(refused([&] { embedding_forward(x, weight, at::tensor({3}, at::kInt)); }, "token 3 of 3"));
  EXPECT_TRUE(refused([&] { embedding_backward(weight, x, at::tensor({-1}, at::kInt)); }, "token -1 of 3"));
}

}  // namespace
}  // namespace hearth::ops::test
