// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX's order, sample by sample: compared with its own golden vectors and with its rules restated in NumPy.
#include "data/order/neox_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "data/batch/loader.h"
#include "data/corpus_folder.h"
#include "data/order/neox_mixture.h"
#include "support/python.h"

namespace hearth::data {
namespace {

using Numbers = std::vector<uint32_t>;

std::string reference(const std::string& arguments) {
  const test::CommandResult result = test::run_python("tests/data/order/neox_reference.py " + arguments);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

template <typename Range>
std::string joined(const Range& numbers) {
  std::string text;
  for (const auto number : numbers) text += fmt::format("{}{}", text.empty() ? "" : " ", number);
  return text;
}

Numbers shuffled(NumpyShuffle& shuffle, uint32_t size) {
  Numbers values(size);
  for (uint32_t i = 0; i < size; ++i) values[i] = i;
  shuffle(values);
  return values;
}

TEST(NumpyShuffle, IsThatOfRandomState) {
  NumpyShuffle golden(1234);
  EXPECT_EQ(shuffled(golden, 20), (Numbers{3, 13, 2, 16, 14, 5, 4, 0, 8, 18, 17, 11, 10, 9, 7, 1, 19, 12, 6, 15}));
  EXPECT_EQ(shuffled(golden, 12), (Numbers{4, 7, 1, 10, 9, 3, 8, 6, 11, 5, 0, 2}));

  HEARTH_NEEDS_ORACLE();
  for (const uint32_t seed : {0u, 4294967295u}) {
    NumpyShuffle shuffle(seed);
    std::string expected;
    for (const uint32_t size : {1u, 2u, 3u, 64u, 65u, 1000u, 70'001u})
      expected += joined(shuffled(shuffle, size)) + "\n";
    EXPECT_TRUE(reference(fmt::format("shuffle {} 1 2 3 64 65 1000 70001", seed)) == expected) << seed;
  }
}

// Computed with GPT-NeoX's own functions.
TEST(NeoxOrder, MapsOfAFewDocumentsAreTheGoldenOnes) {
  const Numbers lengths = {4, 1, 7, 3, 6}, documents = {2, 2, 4, 1, 0, 3, 4, 0, 1, 3};
  const NeoxMaps four = neox_maps(lengths, 4, 9, 1234);
  EXPECT_EQ(four.epochs, 2);
  EXPECT_EQ(four.documents, documents);
  EXPECT_EQ(four.places, (Numbers{0, 0, 1, 1, 2, 3, 4, 6, 6, 7, 9}));
  EXPECT_EQ(four.offsets, (Numbers{0, 4, 1, 5, 2, 0, 3, 0, 4, 2, 1}));
  EXPECT_EQ(four.shuffle, (Numbers{7, 3, 5, 1, 4, 8, 0, 2, 6, 9}));
  const NeoxMaps eight = neox_maps(lengths, 8, 4, 1234);
  EXPECT_EQ(eight.documents, documents);
  EXPECT_EQ(eight.places, (Numbers{0, 1, 2, 4, 6, 9}));
  EXPECT_EQ(eight.offsets, (Numbers{0, 1, 2, 3, 4, 1}));
  EXPECT_EQ(eight.shuffle, (Numbers{0, 4, 3, 2, 1}));
}

TEST(NeoxOrder, MapsAreThoseOfTheRulesRestatedWithNumPy) {
  HEARTH_NEEDS_ORACLE();
  const RandomKey key = random_key(3, "lengths");
  for (const uint64_t i : {0, 1, 4, 6, 7}) {
    Numbers lengths;
    for (uint64_t d = 0; d < 1 + 37 * i; ++d)
      lengths.push_back(static_cast<uint32_t>(random_u64(key, 1000 * i + d) % (i % 3 == 0 ? 4 : 90)));
    lengths.push_back(5);  // some of the others have no token
    const int64_t seq_len = i % 2 == 0 ? 7 : 64;
    const uint64_t samples = 1 + 53 * i;
    const NeoxMaps maps = neox_maps(lengths, seq_len, samples, static_cast<uint32_t>(1234 + i));
    std::string rows;
    for (size_t row = 0; row < maps.places.size(); ++row)
      rows += fmt::format("{}{} {}", row == 0 ? "" : " ", maps.places[row], maps.offsets[row]);
    EXPECT_EQ(fmt::format("{}\n{}\n{}\n{}\n", maps.epochs, joined(maps.documents), rows, joined(maps.shuffle)),
              reference(fmt::format("maps {} {} {} {}", seq_len, samples, 1234 + i, joined(lengths))))
        << i;
    EXPECT_GE(maps.sequences(), static_cast<int64_t>(samples));
  }
}

// The loader's rows, compared with GPT-NeoX's rules applied to the documents' tokens.
TEST(NeoxOrder, TheLoaderGivesItsSequencesOneByOne) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  write_corpus(scratch / "text", 30);
  BuildRules rules;
  rules.shard_tokens = 2000;
  build(scratch / "out", {scratch / "text"}, rules);
  const Dataset dataset = Dataset::open(scratch / "out");
  const Split& split = dataset.split("train");
  std::string documents;
  for (int64_t d = 0; d < split.documents(); ++d) {
    std::vector<int32_t> tokens(static_cast<size_t>(split.document_begin(d + 1) - split.document_begin(d)));
    split.read(split.document_begin(d), tokens);
    documents += joined(tokens) + "\n";
  }
  write_text(scratch / "documents", documents);

  for (const int64_t seq_len : {16, 500}) {  // 500 is longer than any document
    const uint64_t samples = 1000;
    const TableArrays table = neox_window_table(split, seq_len, samples, 1234);
    LoaderOptions o;
    o.seq_len = seq_len;
    o.global_batch_size = o.local_batch_size = 5;
    o.order.stride = config::Stride::kNeox;
    o.order.tables = {std::make_shared<const WindowTable>(table, split.tokens(), seq_len)};
    const auto windows = o.order.tables[0]->windows();
    EXPECT_EQ(o.order.tables[0]->padding(), 0);
    Loader loader(split, o);
    std::string rows;
    for (int64_t g = 0; g < windows;) {
      const Batch batch = loader.next().micro_batches[0];
      for (int64_t row = 0; row < 5 && g < windows; ++row, ++g) {
        const auto begin = batch.tokens.begin() + row * seq_len;
        rows += joined(std::vector<int32_t>(begin, begin + seq_len)) +
                fmt::format(" {}\n", batch.labels[static_cast<size_t>((row + 1) * seq_len - 1)]);
        for (int64_t i = 0; i < seq_len; ++i) {
          const auto at = static_cast<size_t>(row * seq_len + i);
          if (i > 0) {
            ASSERT_EQ(batch.labels[at - 1], batch.tokens[at]);
          }
          const bool starts = i == 0 || batch.tokens[at - 1] == 257;  // after an EOS
          ASSERT_EQ(
              std::binary_search(batch.document_starts.begin(), batch.document_starts.end(), static_cast<int32_t>(at)),
              starts);
        }
      }
    }
    EXPECT_TRUE(rows ==
                reference(fmt::format("rows {} {} 1234 {}", seq_len, samples, (scratch / "documents").string())))
        << seq_len;
  }
}

TEST(NeoxOrder, DocumentsWithoutATokenAreNoPartOfASequence) {
  const test::ScratchFolder scratch;
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += i % 3 == 0 ? "{\"text\": \"\"}\n" : "{\"text\": \"abcdefg\"}\n";
  write_text(scratch / "text" / "lines.jsonl", lines);
  BuildRules rules;
  rules.eos = false;
  build(scratch / "out", {scratch / "text"}, rules);
  const Dataset dataset = Dataset::open(scratch / "out");
  const Split& split = dataset.split("train");
  ASSERT_EQ(split.documents(), 20);
  const WindowTable table(neox_window_table(split, 16, 40, 1), split.tokens(), 16);
  EXPECT_GE(table.windows(), 40);
  EXPECT_EQ(table.padding(), 0);
}

TEST(NeoxOrder, WhatDoesNotFitIntoTheTablesIsAUserError) {
  const Numbers lengths = {4, 1};
  EXPECT_EQ(error_of([&] { neox_maps(lengths, 4, uint64_t{1} << 33, 0); }).code(), ExitCode::kUser);
  EXPECT_EQ(error_of([&] { neox_maps(Numbers(1000, 1), 1000, 1 << 23, 0); }).message(),
            "data.order = \"neox\" with 8388609000 documents in all epochs");
}

constexpr double kLlemma[] = {2, 4, 1, 0.147368, 0.221053};

TEST(NeoxMixture, LlemmasPicksAreTheGoldenOnes) {
  const NeoxMixture mixture(kLlemma, 1024);
  std::vector<int64_t> first, counts(5);
  for (uint64_t g = 0; g < 1024; ++g) {
    const auto pick = mixture.pick(g);
    if (g < 40) first.push_back(pick.source);
    EXPECT_EQ(pick.index, static_cast<uint64_t>(counts[static_cast<size_t>(pick.source)]++));
  }
  EXPECT_EQ(first, (std::vector<int64_t>{1, 0, 2, 1, 1, 0, 1, 4, 1, 0, 1, 2, 1, 0, 1, 3, 1, 0, 1, 2,
                                         1, 0, 1, 1, 0, 1, 2, 1, 0, 1, 1, 0, 1, 2, 1, 0, 1, 4, 1, 0}));
  EXPECT_EQ(counts, (std::vector<int64_t>{278, 555, 139, 21, 31}));
  EXPECT_EQ(neox_samples(kLlemma, 49'152'000), (std::vector<uint64_t>{13407964, 26815928, 6703982, 987953, 1481936}));
}

TEST(NeoxMixture, OfSourcesThatAreEquallyFarBehindTheFirstIsTaken) {
  const NeoxMixture mixture(std::vector<double>{1, 1}, 4);
  for (uint64_t g = 0; g < 8; ++g) EXPECT_EQ(mixture.pick(g).source, static_cast<int64_t>(g % 2));
}

// 9 and 140 sources: NumPy adds so many weights in another order than left to right.
TEST(NeoxMixture, PicksAreThoseOfTheRulesRestatedWithNumPy) {
  HEARTH_NEEDS_ORACLE();
  const RandomKey key = random_key(4, "weights");
  for (const uint64_t sources : {1, 2, 5, 9, 140}) {
    std::vector<double> weights;
    std::string arguments;
    for (uint64_t i = 0; i < sources; ++i) {
      weights.push_back(std::ldexp(static_cast<double>(1 + random_u64(key, 1000 * sources + i) % 100'000), -10));
      arguments += fmt::format(" {}", weights.back());
    }
    const NeoxMixture mixture(weights, 3000);  // the test reads more than the 3000 that are prepared
    std::string picks;
    for (uint64_t g = 0; g < 4000; ++g) {
      const auto pick = mixture.pick(g);
      picks += fmt::format("{} {}\n", pick.source, pick.index);
    }
    EXPECT_TRUE(picks == reference("mixture 4000" + arguments)) << sources;
    if (sources != 5) continue;
    EXPECT_EQ(joined(neox_samples(weights, 123'457)) + "\n", reference("samples 123457" + arguments));
  }
}

// Weights of one digit: sources often differ only in the last bit of how far they are behind. Without the second
// division by the sum each list gives other picks. So do the long lists if NumPy's sum is added from left to right, or
// Python's sum in NumPy's order.
TEST(NeoxMixture, TheLastBitOfAWeightIsThatOfPythonAndNumpy) {
  HEARTH_NEEDS_ORACLE();
  for (const std::vector<double>& weights :
       {std::vector<double>{0.1, 0.2, 0.2, 0.6, 0.3}, std::vector<double>{0.5, 0.5, 0.4, 0.1, 0.3, 0.7, 0.7, 0.9, 0.6},
        std::vector<double>{0.7, 0.8, 0.6, 0.9, 0.6, 0.2, 0.4, 0.9, 0.4, 0.7, 0.7, 0.1}}) {
    const NeoxMixture mixture(weights, 600);
    std::string picks;
    for (uint64_t g = 0; g < 600; ++g) picks += fmt::format("{} {}\n", mixture.pick(g).source, mixture.pick(g).index);
    EXPECT_TRUE(picks == reference("mixture 600 " + joined(weights))) << weights.size();
  }
}

TEST(NeoxMixture, CountsAreThoseOfThePicks) {
  for (const uint64_t ready : {0, 1, 128, 1000, 1024}) {
    const NeoxMixture mixture(kLlemma, ready);
    std::vector<uint64_t> counts(5);
    for (uint64_t g = 0; g < 1200; ++g) {
      for (int64_t s = 0; s < 5; ++s) ASSERT_EQ(mixture.count(s, g), counts[static_cast<size_t>(s)]) << g;
      const int64_t source = mixture.pick(g).source;
      ++counts[static_cast<size_t>(source)];
      ASSERT_EQ(mixture.samples_until(source, counts[static_cast<size_t>(source)]), g + 1) << ready;
    }
    EXPECT_EQ(mixture.samples_until(3, 0), 0u);
  }
}

}  // namespace
}  // namespace hearth::data
