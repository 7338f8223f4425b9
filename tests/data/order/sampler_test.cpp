// SPDX-License-Identifier: Apache-2.0
#include "data/order/sampler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/error.h"
#include "support/environment.h"

namespace hearth::data {
namespace {

// How often the windows have each position of a text as input, and as label.
void count_cover(const Window& window, int64_t tokens, std::vector<int>& inputs, std::vector<int>& labels) {
  inputs.assign(static_cast<size_t>(tokens), 0);
  labels.assign(static_cast<size_t>(tokens), 0);
  for (int64_t i = 0; i < window.count(tokens); ++i) {
    const int64_t first = i * window.stride, end = std::min(first + window.length, tokens);
    ASSERT_LT(first, end);
    for (int64_t t = first; t < end; ++t) ++inputs[static_cast<size_t>(t)];
    for (int64_t t = first + 1; t < end; ++t) ++labels[static_cast<size_t>(t)];
  }
}

TEST(Window, CausalWindowsPredictEveryTokenButTheFirstExactlyOnce) {
  for (int64_t tokens = 0; tokens < 70; ++tokens) {
    std::vector<int> inputs, labels;
    count_cover(Window::causal(8), tokens, inputs, labels);
    for (int64_t t = 0; t < tokens; ++t) ASSERT_EQ(labels[static_cast<size_t>(t)], t > 0 ? 1 : 0) << tokens << " " << t;
  }
}

TEST(Window, MaskedWindowsHoldEveryTokenExactlyOnce) {
  for (int64_t tokens = 0; tokens < 70; ++tokens) {
    std::vector<int> inputs, labels;
    count_cover(Window::masked(8), tokens, inputs, labels);
    for (const int count : inputs) ASSERT_EQ(count, 1) << tokens;
  }
}

// Restated from torchtitan's loader: while a buffer has seq_len + 1 tokens, they are taken as one piece. And from
// GPT-NeoX's sample map: (tokens - 1) / seq_len samples of seq_len + 1, each beginning with the last token of the one
// before.
TEST(Window, StridesByNameAreThoseOfTheProgramsTheyAreNamedAfter) {
  for (int64_t tokens = 0; tokens < 70; ++tokens) {
    std::vector<int64_t> torchtitan, neox;
    for (int64_t taken = 0; tokens - taken >= 9; taken += 9) torchtitan.push_back(taken);
    for (int64_t k = 0; k < (tokens - 1) / 8; ++k) neox.push_back(8 * k);
    const auto starts = [&](config::Stride stride) {
      const Window window = Window::named(stride, 8);
      EXPECT_EQ(window.length, 9);
      std::vector<int64_t> result;
      for (int64_t i = 0; i < window.count(tokens); ++i) result.push_back(i * window.stride);
      return result;
    };
    EXPECT_EQ(starts(config::Stride::kTorchtitan), torchtitan) << tokens;
    EXPECT_EQ(starts(config::Stride::kNeox), neox) << tokens;
    EXPECT_EQ(Window::named(config::Stride::kExact, 8).count(tokens), Window::causal(8).count(tokens));
  }
}

TEST(Sampler, EachEpochHoldsEveryWindowOnceInItsOwnOrder) {
  for (const int64_t tokens : {9, 100, 1000, 12'345}) {
    const Sampler sampler({{"set", tokens, 1}}, Window::causal(8), 3);
    const uint64_t n = sampler.samples_per_epoch();
    EXPECT_EQ(n, static_cast<uint64_t>((tokens - 1 + 7) / 8));
    std::vector<std::vector<int64_t>> orders;
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      auto& order = orders.emplace_back();
      for (uint64_t i = 0; i < n; ++i) {
        const Sample sample = sampler.sample(epoch * n + i);
        EXPECT_EQ(sample.epoch, epoch);
        EXPECT_EQ(sample.first_token, sample.window * 8);
        EXPECT_EQ(sample.num_tokens, std::min<int64_t>(9, tokens - sample.first_token));
        order.push_back(sample.window);
      }
      auto sorted = order;
      std::sort(sorted.begin(), sorted.end());
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(sorted[i], static_cast<int64_t>(i));
    }
    if (n < 12) continue;
    EXPECT_NE(orders[0], orders[1]);
    EXPECT_NE(orders[1], orders[2]);
    EXPECT_FALSE(std::is_sorted(orders[0].begin(), orders[0].end()));
  }
}

TEST(Sampler, SeedAndDatasetDecideTheOrder) {
  const auto order = [](uint64_t seed, const char* identity) {
    const Sampler sampler({{identity, 10'000, 1}}, Window::causal(16), seed);
    std::vector<int64_t> windows;
    for (uint64_t g = 0; g < 100; ++g) windows.push_back(sampler.sample(g).window);
    return windows;
  };
  EXPECT_EQ(order(1, "a"), order(1, "a"));
  EXPECT_NE(order(1, "a"), order(2, "a"));
  EXPECT_NE(order(1, "a"), order(1, "b"));
}

TEST(Sampler, SourcesAreMixedByWeightAndEachIsSeenOncePerItsEpoch) {
  const Sampler sampler({{"a", 801, 3}, {"b", 161, 1}}, Window::causal(8), 5);
  std::vector<std::vector<int>> seen = {std::vector<int>(100), std::vector<int>(20)};
  std::vector<int> count(2);
  for (uint64_t g = 0; g < 80; ++g) {  // 60 of a, 20 of b
    const Sample sample = sampler.sample(g);
    ++count[static_cast<size_t>(sample.source)];
    ++seen[static_cast<size_t>(sample.source)][static_cast<size_t>(sample.window)];
  }
  EXPECT_EQ(count, (std::vector<int>{60, 20}));
  EXPECT_EQ(seen[1], std::vector<int>(20, 1));  // b's first epoch is complete
  EXPECT_EQ(*std::max_element(seen[0].begin(), seen[0].end()), 1);
  EXPECT_NEAR(static_cast<double>(sampler.samples_per_epoch(1)), 80, 4);
  EXPECT_NEAR(static_cast<double>(sampler.samples_per_epoch(0)), 133, 4);
}

TEST(Sampler, WithoutShufflingWindowsComeInOrder) {
  const Sampler sampler({{"a", 100, 1}}, Window::causal(8), 5, false);
  for (uint64_t g = 0; g < 26; ++g) EXPECT_EQ(sampler.sample(g).window, static_cast<int64_t>(g % 13));
}

TEST(Sampler, ATextShorterThanOneWindowIsAUserError) {
  try {
    const Sampler sampler({{"a", 8, 1}}, Window::causal(8), 5);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_EQ(e.message(), "the data is too short: 8 tokens, one window needs 9");
  }
  EXPECT_EQ(Sampler({{"a", 9, 1}}, Window::causal(8), 5).samples_per_epoch(), 1u);
  EXPECT_EQ(Sampler({{"a", 3, 1}}, Window::causal(8), 5, false).samples_per_epoch(), 1u);  // held out: padded
  EXPECT_THROW(Sampler({{"a", 1, 1}}, Window::causal(8), 5, false), Error);                // nothing to predict
}

// Resumed runs depend on these values: never change. Python computes them from the document alone.
TEST(Sampler, SamplesAreThoseThatTheDocumentDescribes) {
  struct Case {
    uint64_t seed;
    const char* identity;
    int64_t tokens, seq_len;
  };
  for (const Case& c :
       {Case{42, "fixed", 100'000, 64}, Case{(uint64_t{1} << 63) + 5, "00ff/train", 1'000'000'007, 2048},
        Case{0, "short/validation", 101, 10}}) {
    const Sampler sampler({{c.identity, c.tokens, 1}}, Window::causal(c.seq_len), c.seed);
    const uint64_t n = sampler.samples_per_epoch();
    std::string command =
        fmt::format("python3 {} windows {} {} {} {}", test::source_path("tests/data/order/order_reference.py"), c.seed,
                    c.identity, c.tokens, c.seq_len);
    std::string expected;
    for (const uint64_t g : {uint64_t{0}, uint64_t{1}, n - 1, n, n + 1, 2 * n - 1, 7 * n + 3, uint64_t{1} << 50}) {
      command += fmt::format(" {}", g);
      const Sample s = sampler.sample(g);
      expected += fmt::format("{} {} {} {}\n", s.epoch, s.window, s.first_token, s.num_tokens);
    }
    const test::CommandResult python = test::run_command(command);
    ASSERT_EQ(python.exit_code, 0) << python.output;
    EXPECT_EQ(python.output, expected) << c.identity;
  }
}

TEST(Sampler, ReportsItsSpeed) {
  const Sampler sampler({{"a", 1'000'000'000, 1}}, Window::causal(2048), 42);
  double best_ns = 1e9;
  int64_t sum = 0;
  for (int chunk = 0; chunk < 20; ++chunk) {
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t g = 0; g < 20'000; ++g) sum += sampler.sample(g).window;
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
    best_ns = std::min(best_ns, elapsed.count() / 20'000);
  }
  EXPECT_GT(sum, 0);
  std::printf("sample(g): %.1f ns\n", best_ns);
}

}  // namespace
}  // namespace hearth::data
