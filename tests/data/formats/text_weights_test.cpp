// SPDX-License-Identifier: Apache-2.0
// The tokens that begin in the counted texts, compared with the offsets of `tokenizers`.
#include "data/formats/text_weights.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "data/label_weights_support.h"
#include "data/shard/dataset.h"
#include "tokenizer/reference.h"

namespace hearth::data {
namespace {

using nlohmann::json;

// 1 up to the first border, then 0 and 1 in alternation.
WeightRuns alternating(const std::vector<int64_t>& borders, int64_t end) {
  WeightRuns runs;
  int64_t begin = 0;
  float weight = 1;
  for (const int64_t border : borders) {
    runs.append(border - begin, weight);
    weight = 1 - weight;
    begin = border;
  }
  runs.append(end - begin, weight);
  return runs;
}

std::vector<float> one_by_one(const WeightRuns& runs) {
  std::vector<float> all;
  for (const WeightRuns::Run& run : runs.runs()) all.resize(static_cast<size_t>(run.end), run.weight);
  return all;
}

TEST(TextWeights, ATokenCountsWhereItBeginsInATextThatCountsForEveryStyleOfTokenizer) {
  HEARTH_NEEDS_ORACLE();
  const Path folder = test::reference_folder("huggingface");
  const auto documents = test::read_texts(folder / "documents.bin");
  std::string arguments = (folder / "documents.bin").string();
  const std::vector<std::string> styles = test::styles_in(folder);
  for (const std::string& style : styles) arguments += " " + (folder / style / "tokenizer.json").string();
  std::istringstream lines(run_oracle("formats/text_weights_reference.py", arguments));
  size_t inside = 0;
  for (const std::string& style : styles) {
    SCOPED_TRACE(style);
    const auto tokenizer = tokenizer::open_tokenizer((folder / style).string());
    TextWeights weigher(*tokenizer);
    for (const std::string& text : documents) {
      std::string line;
      ASSERT_TRUE(std::getline(lines, line));
      const json row = json::parse(line);
      const auto ids = row[2].get<std::vector<uint32_t>>();
      WeightRuns tokens;
      weigher.append(text, ids, alternating(row[0].get<std::vector<int64_t>>(), std::ssize(text)), 0, tokens);
      const auto counts = row[1].get<std::vector<int64_t>>();
      EXPECT_EQ(one_by_one(tokens), one_by_one(alternating(counts, std::ssize(ids))))
          << "borders " << row[0] << ", tokens before " << row[1] << ": " << text.substr(0, 300);
      for (const int64_t count : counts) inside += count > 0 && count < std::ssize(ids) ? 1 : 0;
    }
  }
  EXPECT_GT(inside, 200 * styles.size());
}

// The library gives no such offsets for a model alone. But if a word ends before the border, the next text begins with
// its own token.
TEST(TextWeights, OfSentencePieceTheTokensOfAPromptThatEndsWithAWordDoNotCount) {
  HEARTH_NEEDS_ORACLE();
  const Path folder = test::reference_folder("sentencepiece");
  for (const std::string& style : test::styles_in(folder)) {
    SCOPED_TRACE(style);
    const auto tokenizer = tokenizer::open_tokenizer((folder / style).string());
    TextWeights weigher(*tokenizer);
    for (const std::string prompt : {"the word", "", "the \xef\xac\x81re", "\xe2\x82\xac 3", "the  two"}) {
      const std::string text = prompt + (prompt.empty() ? "answer" : " answer");
      std::vector<uint32_t> ids, of_prompt;
      tokenizer->encode(text, ids);
      tokenizer->encode(prompt, of_prompt);
      WeightRuns bytes, tokens, expected;
      bytes.append(std::ssize(prompt), 0);
      bytes.append(std::ssize(text) - std::ssize(prompt), 1);
      weigher.append(text, ids, bytes, 0, tokens);
      expected.append(std::ssize(of_prompt), 0);
      expected.append(std::ssize(ids) - std::ssize(of_prompt), 1);
      EXPECT_EQ(one_by_one(tokens), one_by_one(expected)) << prompt;
    }
  }
}

// Texts of more than a megabyte are encoded in parts.
TEST(TextWeights, ALongTextIsWeighedAcrossItsParts) {
  const test::ScratchFolder scratch;
  const std::string prompt = words(1, 1'500'000), completion = words(2, 1'200'000);
  write_text(scratch / "a.jsonl", json{{"prompt", prompt}, {"completion", completion}}.dump() + "\n");
  BuildRules rules;
  rules.read.text_keys = {"prompt", "completion"};
  rules.read.text_join = "";
  rules.read.loss_keys = {"completion"};
  build(scratch / "out", {scratch / "a.jsonl"}, rules);
  const Dataset dataset = Dataset::open(scratch / "out");
  std::vector<float> expected(prompt.size());
  expected.resize(prompt.size() + completion.size() + 1, 1);
  EXPECT_TRUE(all_weights(dataset.split("train")) == expected);
}

}  // namespace
}  // namespace hearth::data
