// SPDX-License-Identifier: Apache-2.0
// A dataset's weights after it is rebuilt, built in parts, joined, exported, packed, or damaged.
#include <gmock/gmock.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/build/merge_datasets.h"
#include "data/build/merge_parts.h"
#include "data/export/export.h"
#include "data/export/pack.h"
#include "data/label_weights_support.h"
#include "data/shard/weight_column.h"
#include "data/study/verify.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;
using testing::Not;

using nlohmann::json;
using test::ScratchFolder;

// Lines of prompts and completions with different weights; bytes are tokens.
std::string lines(int first, int end) {
  std::string all;
  for (int i = first; i < end; ++i)
    all += json{{"prompt", fmt::format("{} ", i) + words(static_cast<uint64_t>(i), 40)},
                {"completion", words(static_cast<uint64_t>(i + 1000), 10 + i % 30)},
                {"w", i % 3 == 0 ? 0.1 : 1.5}}
               .dump() +
           "\n";
  return all;
}

BuildRules prompts(const std::string& weights_key = "w") {
  BuildRules rules;
  rules.read.text_keys = {"prompt", "completion"};
  rules.read.text_join = "";
  rules.read.loss_keys = {"completion"};
  rules.read.weights_key = weights_key;
  rules.shard_tokens = 700;
  return rules;
}

BuildOptions options_for(const Path& out, const Path& in, const BuildRules& rules = prompts()) {
  BuildOptions options;
  options.out = out;
  options.paths = {in};
  options.rules = rules;
  options.portion_bytes = 1500;
  return options;
}

TEST(WeightedDataset, TheManifestSaysWhatCountsAndHasAVersionOfItsOwn) {
  const ScratchFolder scratch;
  write_text(scratch / "a.jsonl", lines(0, 50));
  BuildRules rules = prompts();
  rules.validation = 0.2;
  const DatasetManifest m = run(options_for(scratch / "out", scratch / "a.jsonl", rules)).manifest;
  const std::string text = read_file(scratch / "out" / "manifest.json");
  EXPECT_THAT(text, HasSubstr("\"version\": 3,"));
  EXPECT_THAT(text, HasSubstr("\"loss_keys\": [\n      \"completion\"\n    ]")) << text;
  EXPECT_EQ(manifest_text(parse_manifest(text, "m")), text);
  const Dataset dataset = Dataset::open(scratch / "out");
  for (const char* name : {"train", "validation"}) {
    const Split& split = dataset.split(name);
    const auto weights = all_weights(split);
    EXPECT_EQ(split.weights()->counted, std::count_if(weights.begin(), weights.end(), [](float w) { return w > 0; }));
    EXPECT_NEAR(split.weights()->sum, std::accumulate(weights.begin(), weights.end(), 0.0), 1e-9);
    EXPECT_FALSE(split.weights()->is_mask);
  }
  // Weights that are all 1 are not stored: the bytes are those of a build without weights.
  BuildRules all = prompts(""), none = prompts("");
  all.read.loss_keys = {"prompt", "completion"};
  none.read.loss_keys.clear();
  run(options_for(scratch / "all", scratch / "a.jsonl", all));
  run(options_for(scratch / "none", scratch / "a.jsonl", none));
  const DatasetManifest a = read_manifest(scratch / "all"), b = read_manifest(scratch / "none");
  EXPECT_EQ(a.identity, b.identity);
  EXPECT_FALSE(a.splits[0].weights());
  EXPECT_THAT(read_file(scratch / "none" / "manifest.json"), HasSubstr("\"version\": 1,"));
  for (const char* key : {"loss_keys", "labels_key", "weights_key", "label_file", "counted_tokens", "weight_sum"})
    EXPECT_THAT(read_file(scratch / "none" / "manifest.json"), Not(HasSubstr(key))) << key;
}

TEST(WeightedDataset, EqualTextsWithOtherWeightsAreTwoDocumentsOfOneSide) {
  const ScratchFolder scratch;
  std::string twice;
  for (int i = 0; i < 40; ++i)
    for (const double weight : {1.0, 0.5, 0.5})
      twice += json{{"prompt", fmt::format("{}", i)}, {"completion", "c"}, {"w", weight}}.dump() + "\n";
  write_text(scratch / "a.jsonl", twice);
  BuildRules rules = prompts();
  rules.dedup_exact = true;
  rules.validation = 0.4;
  const DatasetManifest m = run(options_for(scratch / "out", scratch / "a.jsonl", rules)).manifest;
  EXPECT_EQ(m.records.duplicates_dropped, 40);
  EXPECT_EQ(m.find_split("train")->documents + m.find_split("validation")->documents, 80);
  EXPECT_EQ(m.find_split("validation")->documents % 2, 0);
  EXPECT_GT(m.find_split("validation")->documents, 10);
}

TEST(WeightedDataset, ARestartedBuildAndOneInPartsMakeTheSameBytes) {
  const ScratchFolder scratch;
  write_text(scratch / "a.jsonl", lines(0, 120));
  run(options_for(scratch / "out", scratch / "a.jsonl"));
  const std::string whole = folder_content(scratch / "out");
  for (int64_t part = 1; part <= 3; ++part) {
    BuildOptions options = options_for(scratch / "parts", scratch / "a.jsonl");
    options.part = part;
    options.num_parts = 3;
    options.threads = part;
    run(options);
  }
  merge_parts(scratch / "parts");
  EXPECT_EQ(folder_content(scratch / "parts"), whole);

  std::string shard = read_file(scratch / "out" / "train-000000-0001.shard");
  shard[200] = static_cast<char>(shard[200] ^ 4);
  write_text(scratch / "out" / "train-000000-0001.shard", shard);
  remove_file(scratch / "out" / "manifest.json");
  const BuildResult again = run(options_for(scratch / "out", scratch / "a.jsonl"));
  EXPECT_EQ(again.shards_written, 1);
  EXPECT_GT(again.shards_kept, 5);
  EXPECT_EQ(folder_content(scratch / "out"), whole);
  EXPECT_TRUE(run(options_for(scratch / "out", scratch / "a.jsonl")).was_complete);
  EXPECT_EQ(error_of([&] { run(options_for(scratch / "out", scratch / "a.jsonl", prompts(""))); }).message(),
            (scratch / "out").string() + " holds a different dataset");
}

TEST(WeightedDataset, JoinedWithAnotherEachKeepsItsWeights) {
  const ScratchFolder scratch;
  write_text(scratch / "a.jsonl", lines(0, 30));
  write_text(scratch / "b.jsonl", lines(30, 60));
  write_text(scratch / "c.jsonl", lines(60, 90));
  BuildRules plain = prompts("");
  plain.read.loss_keys.clear();
  run(options_for(scratch / "a", scratch / "a.jsonl"));
  run(options_for(scratch / "b", scratch / "b.jsonl", plain));
  run(options_for(scratch / "c", scratch / "c.jsonl", prompts("")));
  const DatasetManifest m =
      merge_datasets({scratch / "a", scratch / "b", scratch / "c"}, scratch / "all", false).manifest;
  EXPECT_TRUE(m.rules.read.loss_keys.empty());
  EXPECT_TRUE(m.rules.read.weights_key.empty());
  std::vector<float> expected;
  WeightTotals totals{false, 0, 0};
  for (const char* name : {"a", "b", "c"}) {
    const Dataset dataset = Dataset::open(scratch / name);
    const auto weights = all_weights(dataset.split("train"));
    expected.insert(expected.end(), weights.begin(), weights.end());
    for (const float weight : weights) totals.add(1, weight);
  }
  const Dataset all = Dataset::open(scratch / "all");
  EXPECT_EQ(all_weights(all.split("train")), expected);
  EXPECT_EQ(all.split("train").weights()->counted, totals.counted);
  EXPECT_NEAR(all.split("train").weights()->sum, totals.sum, 1e-9);
  EXPECT_TRUE(verify_dataset(scratch / "all", 1).damage.empty());
}

TEST(WeightedDataset, ExportedMasksAreReadByNumpyAndDatasetsAndBuiltAgain) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  write_text(scratch / "a.jsonl", lines(0, 50));
  run(options_for(scratch / "out", scratch / "a.jsonl", prompts("")));
  const Dataset dataset = Dataset::open(scratch / "out");
  const Split& split = dataset.split("train");
  const auto ids = all_tokens(split);
  const auto labels = masked_labels(ids, all_weights(split));

  EXPECT_EQ(export_indexed(dataset, split, scratch / "neox").documents, 50);
  const std::string prefix = (scratch / "neox").string();
  json found = json::parse(run_oracle("formats/label_weights_reference.py", "indexed " + prefix));
  EXPECT_EQ(joined<int32_t>(found["sequences"]), ids);
  found = json::parse(run_oracle("formats/label_weights_reference.py", "indexed " + prefix + "_label"));
  EXPECT_EQ(joined<int32_t>(found["sequences"]), labels);
  EXPECT_EQ(found["type"], "int32");

  EXPECT_EQ(default_saved_columns(split), (std::vector<std::string>{"input_ids", "labels"}));
  export_saved(dataset, split, {"input_ids", "labels", "weights"}, scratch / "saved");
  found = json::parse(run_oracle("formats/label_weights_reference.py", "saved " + (scratch / "saved").string()));
  EXPECT_EQ(joined<int32_t>(found["rows"]["input_ids"]), ids);
  EXPECT_EQ(joined<int32_t>(found["rows"]["labels"]), labels);
  EXPECT_EQ(joined<float>(found["rows"]["weights"]), all_weights(split));
  EXPECT_EQ(found["types"]["weights"].get<std::string>().substr(0, 4), "list");

  // Built again, both exports give one dataset, with the same tokens and weights.
  BuildOptions again = options_for(scratch / "again", scratch / "neox.bin", BuildRules());
  again.rules.tokenizer = "bytes";
  again.labels = {scratch / "neox_label.bin"};
  const std::string identity = run(again).manifest.identity;
  BuildRules rules;
  rules.read.text_keys = {"input_ids"};
  rules.read.labels_key = "labels";
  EXPECT_EQ(run(options_for(scratch / "saved-again", scratch / "saved", rules)).manifest.identity, identity);
  const Dataset twin = Dataset::open(scratch / "again");
  EXPECT_EQ(all_tokens(twin.split("train")), ids);
  EXPECT_EQ(all_weights(twin.split("train")), all_weights(split));
}

TEST(WeightedDataset, PackedRowsHaveNoLabelWhereNothingCountsAndNoPlaceForOtherWeights) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  write_text(scratch / "a.jsonl", lines(0, 20));
  run(options_for(scratch / "mask", scratch / "a.jsonl", prompts("")));
  run(options_for(scratch / "weights", scratch / "a.jsonl"));
  const Dataset mask = Dataset::open(scratch / "mask"), weights = Dataset::open(scratch / "weights");
  const Split& split = mask.split("train");
  pack_split(mask, split, {64, 0}, scratch / "rows");
  const json found =
      json::parse(run_oracle("formats/label_weights_reference.py", "saved " + (scratch / "rows").string()));
  auto labels = masked_labels(all_tokens(split), all_weights(split));
  labels.resize(joined<int32_t>(found["rows"]["labels"]).size(), kIgnore);
  EXPECT_EQ(joined<int32_t>(found["rows"]["labels"]), labels);

  const Split& real = weights.split("train");
  const std::string at = " cannot hold the weights of " + (scratch / "weights").string();
  EXPECT_EQ(error_of([&] { pack_split(weights, real, {64, 0}, scratch / "no"); }).message(), "rows of labels" + at);
  EXPECT_EQ(error_of([&] { export_indexed(weights, real, scratch / "no"); }).message(), "bin-idx" + at);
  EXPECT_EQ(error_of([&] { export_saved(weights, real, {"labels"}, scratch / "no"); }).message(),
            "--column labels" + at);
  EXPECT_EQ(default_saved_columns(real), (std::vector<std::string>{"input_ids", "weights"}));
  for (const char* ending : {"", ".tmp", ".bin", ".bin.tmp", "_label.bin.tmp"})
    EXPECT_FALSE(path_exists(scratch / (std::string("no") + ending))) << ending;
}

TEST(WeightedDataset, AColumnThatHoldsSomethingElseIsDamage) {
  const ScratchFolder scratch;
  const auto write = [&](ElementType type, ColumnAxis axis, const auto& values, std::vector<uint64_t> shape) {
    ShardWriter writer(scratch / "a.shard", "00112233445566778899aabbccddeeff");
    writer.begin_column("tokens", ElementType::kU8, ColumnAxis::kToken);
    writer.append(std::vector<uint8_t>{1, 2, 3, 4});
    writer.begin_column("weights", type, axis, std::move(shape));
    writer.append(values);
    writer.begin_column("document_ends", ElementType::kU64, ColumnAxis::kDocument);
    writer.append(std::vector<uint64_t>{2, 3, 4, 4});
    writer.finish();
    return ShardReader(scratch / "a.shard");
  };
  const auto why = [&](const ShardReader& shard) {
    const Error error = error_of([&] { find_weights(shard); });
    EXPECT_EQ(error.code(), ExitCode::kDamaged);
    EXPECT_EQ(error.message(), "shard " + (scratch / "a.shard").string() + " is damaged");
    return error.why();
  };
  const auto f32 = ElementType::kF32, u8 = ElementType::kU8;
  EXPECT_EQ(find_weights(write(f32, ColumnAxis::kToken, std::vector<float>{0, 1, 0.5F, 2}, {}))->sum, 3.5);
  EXPECT_TRUE(find_weights(write(u8, ColumnAxis::kToken, std::vector<uint8_t>{0, 1, 1, 0}, {}))->is_mask);
  const std::string no_weight = ": weights are finite and not negative";
  EXPECT_EQ(why(write(f32, ColumnAxis::kToken, std::vector<float>{0, 1, -2, 2}, {})),
            "the weight of token 2 is -2" + no_weight);
  EXPECT_EQ(why(write(f32, ColumnAxis::kToken, std::vector<float>{std::nanf(""), 1, 2, 2}, {})),
            "the weight of token 0 is nan" + no_weight);
  EXPECT_EQ(why(write(f32, ColumnAxis::kToken, std::vector<float>{1, 1, 2, HUGE_VALF}, {})),
            "the weight of token 3 is inf" + no_weight);
  EXPECT_EQ(why(write(u8, ColumnAxis::kToken, std::vector<uint8_t>{1, 2, 1, 1}, {})),
            "the weight of token 1 is 2, in a column of 0 and 1");
  const std::string other = "it has no column \"weights\" of u8 or f32, one per token";
  EXPECT_EQ(why(write(u8, ColumnAxis::kDocument, std::vector<uint8_t>{1, 1, 1, 1}, {})), other);
  EXPECT_EQ(why(write(ElementType::kU16, ColumnAxis::kToken, std::vector<uint16_t>{1, 1, 1, 1}, {})), other);
  EXPECT_EQ(why(write(u8, ColumnAxis::kToken, std::vector<uint8_t>{1, 1, 1, 1, 1, 1, 1, 1}, {2})), other);
}

TEST(WeightedDataset, AStrangerReadsTheWeightsFromTheDocumentAlone) {
  const ScratchFolder scratch;
  write_text(scratch / "a.jsonl", lines(0, 50));
  for (const std::string key : {"", "w"}) {
    run(options_for(scratch / ("out" + key), scratch / "a.jsonl", prompts(key)));
    const auto read =
        test::run_command(fmt::format("python3 {} {}", test::source_path("tests/data/shard/read_from_document.py"),
                                      (scratch / ("out" + key)).string()));
    ASSERT_EQ(read.exit_code, 0) << read.output;
    const json found = json::parse(read.output);
    const Dataset dataset = Dataset::open(scratch / ("out" + key));
    EXPECT_EQ(joined<int32_t>(found["train"]["ids"]), all_tokens(dataset.split("train")));
    EXPECT_EQ(joined<float>(found["train"]["weights"]), all_weights(dataset.split("train")));
  }
}

}  // namespace
}  // namespace hearth::data
