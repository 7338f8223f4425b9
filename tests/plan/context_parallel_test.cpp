// SPDX-License-Identifier: Apache-2.0
#include "plan/context_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "config/load.h"
#include "plan/parameters.h"
#include "plan/run_shape.h"
#include "support/errors.h"

namespace hearth::plan {
namespace {

// 6 heads, 3 of keys and values.
TEST(ContextParallel, RanksExchangeHeadsAsFarAsTheseGoAndGatherKeysBeyond) {
  config::Model m;
  m.dim = 24, m.n_layers = 1, m.n_heads = 6, m.n_kv_heads = 3, m.hidden_dim = 36;
  const ModelShape whole = model_shape(m, 257);
  const int64_t expected[][4] = {                             // ranks, key ranks, heads, key/value heads of a rank
                                 {1, 1, 6, 3}, {2, 2, 6, 3},  // two ranks would have one and a half key/value heads
                                 {3, 1, 2, 1}, {4, 4, 6, 3}, {5, 5, 6, 3}, {6, 1, 1, 1}, {12, 2, 1, 1}, {18, 3, 1, 1}};
  for (const auto& [ranks, key_ranks, heads, key_heads] : expected) {
    const ModelShape part = model_part(whole, {}, ranks);
    EXPECT_EQ(part.key_ranks, key_ranks) << ranks;
    EXPECT_EQ(part.attention_heads(), heads) << ranks;
    EXPECT_EQ(part.attention_key_heads(), key_heads) << ranks;
  }
}

// Every position has one rank. Under a causal mask each group of head ranks looks at as many keys as every other.
TEST(ContextParallel, RanksShareThePositionsAndGroupsOfThemTheCausalWork) {
  for (const auto& [heads, keys] : {std::pair<int64_t, int64_t>{1, 1}, {4, 1}, {1, 2}, {3, 2}, {2, 4}, {1, 5}}) {
    const int64_t size = heads * keys, S = 2 * 3 * size;
    std::set<int64_t> seen;
    std::vector<int64_t> work(static_cast<size_t>(keys));
    for (int64_t rank = 0; rank < size; ++rank) {
      const SequencePart part{rank, size, keys};
      ASSERT_TRUE(divides_sequence(part, S));
      int64_t row = 0;
      for (const PositionRange& range : positions_of(part, S)) {
        for (int64_t p = range.begin; p < range.begin + range.count; ++p, ++row) {
          EXPECT_TRUE(seen.insert(p).second) << p;
          work[static_cast<size_t>(rank / heads)] += p + 1;
          // Attention's queries are the rows of the group's ranks one after another.
          EXPECT_EQ(chunks_of(part, S).position(part.head_rank() * S / size + row), p);
        }
      }
      EXPECT_EQ(row, S / size);
    }
    EXPECT_EQ(std::ssize(seen), S);
    EXPECT_EQ(*seen.rbegin(), S - 1);
    EXPECT_EQ(std::ranges::count(work, S * (S + 1) / 2 / keys), keys) << heads << " x " << keys;
  }
}

TEST(ContextParallel, WindowsThatCannotBeCutAreKnown) {
  EXPECT_TRUE(divides_sequence({0, 3, 1}, 9));
  EXPECT_FALSE(divides_sequence({0, 3, 1}, 10));
  EXPECT_FALSE(divides_sequence({0, 3, 3}, 9));  // no two chunks each
  EXPECT_TRUE(divides_sequence({0, 3, 3}, 12));
  EXPECT_TRUE(divides_sequence({0, 12, 2}, 12));
}

TEST(ContextParallel, AWindowThatRanksCannotShareIsRefusedWithItsChunks) {
  const auto refused = [](int64_t ranks, int64_t S) {
    const config::LoadResult run = config::read_run(
        {}, {"model.dim=24", "model.n_heads=6", "model.n_kv_heads=3", "model.vocab_size=257",
             fmt::format("training.seq_len={}", S), fmt::format("parallelism.context_parallel_degree={}", ranks)});
    return std::string(test::error_of([&] { run_shape(run.config, {}); }).what());
  };
  EXPECT_THAT(refused(10, 270),
              testing::HasSubstr("10 ranks cannot share a window of training.seq_len = 270\n  why: each "
                                 "has two chunks of the window, so 20 chunks have equal lengths\n"));
  EXPECT_THAT(refused(12, 270),
              testing::HasSubstr("why: 2 groups of 6 ranks, which share heads, have two chunks of the "
                                 "window, so 4 chunks have equal lengths\n"));
  EXPECT_THAT(refused(3, 271), testing::HasSubstr("why: each has as many positions as every other\n"));
}

}  // namespace
}  // namespace hearth::plan
