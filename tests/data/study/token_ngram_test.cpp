// SPDX-License-Identifier: Apache-2.0
#include "data/study/token_ngram.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "data/corpus_folder.h"
#include "recordings/synthetic.h"

namespace hearth::data {
namespace {

struct TokenNgram : testing::Test {
  TokenNgram() {
    recordings::write_synthetic_spikes(scratch / "rec", 1, 6);
    BuildOptions options;
    options.out = scratch / "data";
    options.paths = {scratch / "rec"};
    options.rules.tokenizer = "spikes:16";
    options.rules.n_fixed = 5;
    options.rules.validation = 0.3;
    run(options);
    dataset = std::make_unique<Dataset>(Dataset::open(scratch / "data"));
  }
  // One document a line.
  Path write_tokens(const std::string& split_name) const {
    const Split& split = dataset->split(split_name);
    std::string text;
    for (int64_t d = 0; d < split.documents(); ++d) {
      const std::vector<int64_t> begins = split.document_begins(d, 2);
      std::vector<int32_t> tokens(static_cast<size_t>(begins[1] - begins[0]));
      split.read(begins[0], tokens);
      text += fmt::format("{}\n", fmt::join(tokens, " "));
    }
    write_file_atomic(scratch / (split_name + ".txt"), text);
    return scratch / (split_name + ".txt");
  }
  test::ScratchFolder scratch;
  std::unique_ptr<Dataset> dataset;
};

// The rule restated in Python, with nested dictionaries.
TEST_F(TokenNgram, IsThatOfNestedDictionariesWithOneAddedToEveryCount) {
  const Path train = write_tokens("train"), test = write_tokens("validation");
  for (const int32_t uncounted : {-1, 15}) {
    const test::CommandResult python = test::run_command(
        fmt::format("python3 -c \"\n"
                    "import sys, math, collections\n"
                    "read = lambda path: [list(map(int, line.split())) for line in open(path)]\n"
                    "train, test = read(sys.argv[1]), read(sys.argv[2])\n"
                    "for n in range(1, 13):\n"
                    "  counts = collections.defaultdict(lambda: collections.defaultdict(int))\n"
                    "  for row in train:\n"
                    "    for i in range(n - 1, len(row)): counts[tuple(row[i - n + 1:i])][row[i]] += 1\n"
                    "  losses = []\n"
                    "  for row in test:\n"
                    "    for i in range(n - 1, len(row)):\n"
                    "      seen = counts[tuple(row[i - n + 1:i])]\n"
                    "      if row[i] != {}: losses.append(-math.log((seen[row[i]] + 1) / (sum(seen.values()) + 16)))\n"
                    "  print(repr(sum(losses) / len(losses)))\n"
                    "\" {} {}",
                    uncounted, train.string(), test.string()));
    ASSERT_EQ(python.exit_code, 0) << python.output;
    std::istringstream lines(python.output);
    const auto scores = score_token_ngrams({&dataset->split("train")}, dataset->split("validation"), 12, 16, uncounted);
    ASSERT_EQ(scores.size(), 12u);
    for (const double score : scores) {
      double expected = 0;
      ASSERT_TRUE(lines >> expected);
      EXPECT_NEAR(score, expected, 1e-12);
    }
  }
}

TEST_F(TokenNgram, AnOrderOutOfRangeIsRefused) {
  const Error error =
      error_of([&] { score_token_ngrams({&dataset->split("train")}, dataset->split("validation"), 17, 16, -1); });
  EXPECT_EQ(error.message(), "an n-gram model of order 17");
  EXPECT_EQ(error.why(), "1 to 16 are possible");
}

}  // namespace
}  // namespace hearth::data
