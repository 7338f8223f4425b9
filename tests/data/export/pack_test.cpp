// SPDX-License-Identifier: Apache-2.0
// Packed rows, compared with the Trainium recipe run with `datasets`, and with the tokens that they were made of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "data/arrow_support.h"
#include "data/corpus_folder.h"
#include "data/export/pack.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using nlohmann::json;
using test::ScratchFolder;

constexpr int64_t kLength = 64;

// Documents of 0 to 40 tokens, with BOS and without EOS as in the recipe. The last group of 1000 is shorter than a row.
struct Packed {
  ScratchFolder scratch;
  std::vector<std::vector<int32_t>> documents;
  std::vector<int32_t> tokens;

  explicit Packed(int count = 2003, bool eos = false) {
    std::string lines;
    for (int i = 0; i < count; ++i) {
      const auto length = static_cast<int64_t>(random_u64(random_key(5, "length"), static_cast<uint64_t>(i)) % 40);
      lines += json{{"text", i >= 2000 ? "end" : words(static_cast<uint64_t>(i), length)}}.dump() + "\n";
    }
    write_text(scratch / "x.jsonl", lines);
    BuildRules rules;
    rules.bos = true;
    rules.eos = eos;
    build(scratch / "data", {scratch / "x.jsonl"}, rules);
    const Dataset dataset = Dataset::open(scratch / "data");
    const Split& split = dataset.split("train");
    tokens = all_tokens(split);
    for (int64_t i = 0; i < split.documents(); ++i)
      documents.emplace_back(tokens.begin() + split.document_begin(i), tokens.begin() + split.document_begin(i + 1));
    write_text(scratch / "documents.json", json(documents).dump());
  }
  PackResult pack(int64_t drop_tails, int64_t length = kLength, int64_t file_bytes = 500'000'000) {
    const Dataset dataset = Dataset::open(scratch / "data");
    return pack_split(dataset, dataset.split("train"), {length, drop_tails}, scratch / "packed", file_bytes);
  }
  // The folder as `datasets` reads it.
  json read() {
    return json::parse(run_oracle(
        "export/pack_reference.py",
        fmt::format("{} {} {}", (scratch / "packed").string(), kLength, (scratch / "documents.json").string())));
  }
  std::vector<int32_t> read_back() {
    BuildRules rules;
    rules.tokenizer = "ids:258";
    rules.read.text_keys = {"input_ids"};
    build(scratch / "again", {scratch / "packed"}, rules, 1, true);
    return all_tokens(Dataset::open(scratch / "again").split("train"));
  }
};

TEST(Pack, DroppingTheTailOfEachThousandDocumentsGivesTheRowsOfTheTrainiumRecipe) {
  HEARTH_NEEDS_ARROW();
  Packed packed;
  const PackResult result = packed.pack(1000);
  const json read = packed.read();
  EXPECT_EQ(read["same_rows"], true);
  EXPECT_EQ(read["same_types"], true) << read["types"];
  EXPECT_EQ(read["same_batches"], true);
  EXPECT_EQ(read["types"], "input_ids: list<item: int32>, attention_mask: list<item: int8>, labels: list<item: int64>");
  EXPECT_EQ(read["rows"], result.rows);

  // In closed form: whole rows of each thousand.
  int64_t rows = 0;
  for (size_t first = 0; first < packed.documents.size(); first += 1000) {
    int64_t sum = 0;
    for (size_t i = first; i < std::min(first + 1000, packed.documents.size()); ++i)
      sum += static_cast<int64_t>(packed.documents[i].size());
    rows += sum / kLength;
  }
  EXPECT_EQ(result.rows, rows);
  EXPECT_EQ(result.dropped, static_cast<int64_t>(packed.tokens.size()) - rows * kLength);
  EXPECT_GT(result.dropped, 12);  // tails of two groups, and the whole third group
  EXPECT_EQ(result.padding, 0);
}

TEST(Pack, EveryTokenIsInARowOnceAndTheLastRowIsFilledUp) {
  HEARTH_NEEDS_ARROW();
  for (const bool eos : {false, true}) {
    Packed packed(301, eos);
    const PackResult result = packed.pack(0);
    const auto tokens = static_cast<int64_t>(packed.tokens.size());
    EXPECT_EQ(result.rows, (tokens + kLength - 1) / kLength);
    EXPECT_EQ(result.dropped, 0);
    ASSERT_GT(result.padding, 0);
    EXPECT_EQ(result.padding, result.rows * kLength - tokens);
    EXPECT_EQ(result.padding_id, 257);  // EOS, also where no document ends with it

    const json read = packed.read();
    EXPECT_EQ(read["rows"], result.rows);
    EXPECT_EQ(read["types"],
              "input_ids: list<item: int32>, attention_mask: list<item: int8>, labels: list<item: int64>");
    EXPECT_EQ(read["sum"],
              std::accumulate(packed.tokens.begin(), packed.tokens.end(), int64_t{0}) + 257 * result.padding);
    std::vector<int32_t> ids(packed.tokens.end() - (kLength - result.padding), packed.tokens.end());
    std::vector<int32_t> mask(ids.size(), 1), labels = ids;
    ids.resize(kLength, 257);
    mask.resize(kLength, 0);
    labels.resize(kLength, -100);
    EXPECT_EQ(read["last"], json({{"input_ids", ids}, {"attention_mask", mask}, {"labels", labels}}));

    // Back into a dataset: the same tokens, and then the padding.
    std::vector<int32_t> expected = packed.tokens;
    expected.resize(expected.size() + static_cast<size_t>(result.padding), 257);
    EXPECT_EQ(packed.read_back(), expected);
  }
}

TEST(Pack, ManyFilesHoldTheRowsInOrder) {
  HEARTH_NEEDS_ARROW();
  Packed packed;
  const PackResult result = packed.pack(1000);
  const auto expected = packed.read_back();
  // 12 bytes of offsets a row, and 13 bytes a token: three whole files and a little.
  packed.pack(1000, kLength, result.rows * (12 + 13 * kLength) / 3 - 1);
  EXPECT_TRUE(path_exists(packed.scratch / "packed" / "data-00003-of-00004.arrow"));
  EXPECT_EQ(packed.read_back(), expected);
}

TEST(Pack, ARowLongerThanEverythingIsFilledUpAndOneThatNoGroupFillsIsRefused) {
  HEARTH_NEEDS_ARROW();
  Packed packed(20);
  const PackResult result = packed.pack(0, 4096);
  EXPECT_EQ(result.rows, 1);
  EXPECT_EQ(result.padding, 4096 - static_cast<int64_t>(packed.tokens.size()));
  const std::string before = folder_content(packed.scratch / "packed");
  const Error e = error_of([&] { packed.pack(1000, 4096); });
  EXPECT_EQ(e.code(), ExitCode::kUser);
  EXPECT_THAT(e.message(), HasSubstr("no 1000 documents in a row hold 4096 tokens")) << e.what();
  EXPECT_EQ(folder_content(packed.scratch / "packed"), before);
}

}  // namespace
}  // namespace hearth::data
