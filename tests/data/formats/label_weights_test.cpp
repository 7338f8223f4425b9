// SPDX-License-Identifier: Apache-2.0
// Label masks and weights from the sources to a dataset's readers.
#include "data/formats/label_weights.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/label_weights_support.h"
#include "data/study/verify.h"

namespace hearth::data {
namespace {

using nlohmann::json;
using test::ScratchFolder;

const json& expected_rows() {
  static const json rows = json::parse(weight_rows().json);
  return rows;
}

BuildRules of_ids(const std::string& labels_key, const std::string& weights_key) {
  BuildRules rules;
  rules.tokenizer = "ids:500";
  rules.read.text_keys = {"input_ids"};
  rules.read.labels_key = labels_key;
  rules.read.weights_key = weights_key;
  return rules;
}

BuildRules of_texts(std::vector<std::string> loss_keys, const std::string& weights_key) {
  BuildRules rules;
  rules.read.text_keys = {"prompt", "completion"};
  rules.read.text_join = "";
  rules.read.loss_keys = std::move(loss_keys);
  rules.read.weights_key = weights_key;
  return rules;
}

BuildOptions with_labels(const Path& out, const Path& tokens, const Path& labels) {
  BuildOptions options;
  options.out = out;
  options.paths = {tokens};
  options.labels = {labels};
  options.rules.tokenizer = "ids:500";
  return options;
}

TEST(LabelWeights, RunsMergeAndKeepWhatStandsBeforeAndBehindAText) {
  WeightRuns runs;
  runs.append(0, 0);  // an empty prompt
  runs.append(3, 1);
  runs.append(0, 0);  // empty, between two texts
  runs.append(2, 1);
  runs.append(0, 2);  // an empty text at the end
  EXPECT_EQ(runs.runs(), (std::vector<WeightRuns::Run>{{0, 0}, {5, 1}, {5, 2}}));
  runs.append(1, -0.0F);
  EXPECT_EQ(runs.runs(), (std::vector<WeightRuns::Run>{{0, 0}, {5, 1}, {6, 0}}));
  EXPECT_FALSE(std::signbit(runs.runs().back().weight));
  EXPECT_FALSE(runs.all_one());
  EXPECT_TRUE(WeightRuns().all_one());
}

TEST(LabelWeights, ColumnsOfHuggingFacesRowsBecomeThoseOfTheTokens) {
  HEARTH_NEEDS_ARROW();
  const Path& in = weight_rows().folder;
  const json& expected = expected_rows();
  const auto mask = joined<float>(expected["mask"]), weights = joined<float>(expected["weights"]);
  std::vector<float> both;
  for (size_t i = 0; i < mask.size(); ++i) both.push_back(mask[i] * weights[i]);
  struct Case {
    std::string from, labels_key, weights_key;
    std::vector<float> weights;
  };
  const std::vector<Case> cases = {{"saved", "labels", "", mask},          {"saved", "", "completion_mask", mask},
                                   {"saved", "", "loss_weights", weights}, {"saved", "labels", "loss_weights", both},
                                   {"rows.parquet", "labels", "", mask},   {"rows.parquet", "", "bools", mask},
                                   {"rows.parquet", "", "bytes", mask},    {"rows.parquet", "", "doubles", weights},
                                   {"rows.parquet", "", "meta.w", weights}};
  const ScratchFolder scratch;
  std::map<std::vector<float>, std::string> identities;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.from + " " + c.labels_key + " " + c.weights_key);
    const Path out = scratch / fmt::format("{}-{}-{}", c.from, c.labels_key, c.weights_key);
    const DatasetManifest m = build(out, {in / c.from}, of_ids(c.labels_key, c.weights_key)).manifest;
    const Dataset dataset = Dataset::open(out);
    const Split& split = dataset.split("train");
    EXPECT_EQ(all_tokens(split), joined<int32_t>(expected["ids"]));
    EXPECT_EQ(all_weights(split), c.weights);
    ASSERT_TRUE(split.weights());
    EXPECT_EQ(split.weights()->is_mask, c.weights == mask);
    EXPECT_EQ(split.weights()->counted,
              std::count_if(c.weights.begin(), c.weights.end(), [](float weight) { return weight != 0; }));
    EXPECT_EQ(split.weights()->sum, std::accumulate(c.weights.begin(), c.weights.end(), 0.0));
    // The weights' source does not matter.
    EXPECT_EQ(identities.emplace(c.weights, m.identity).first->second, m.identity);
  }
  EXPECT_EQ(identities.size(), 3U);
}

TEST(LabelWeights, TheLabelFileOfNeoxBesideItsTokensMasksThemCopiedOrInPlace) {
  HEARTH_NEEDS_ARROW();
  const Path& in = weight_rows().folder;
  const json& expected = expected_rows();
  const ScratchFolder scratch;
  for (const bool in_place : {false, true}) {
    const Path out = scratch / (in_place ? "place" : "copy");
    BuildOptions options = with_labels(out, in / "gold_text_document.bin", in / "gold_text_label_document");
    options.rules.in_place = in_place;
    EXPECT_EQ(run(options).manifest.sources.front().label_file,
              std::filesystem::canonical(in / "gold_text_label_document.bin").string());
    const Dataset dataset = Dataset::open(out);
    EXPECT_EQ(all_tokens(dataset.split("train")), joined<int32_t>(expected["ids"]));
    EXPECT_EQ(all_weights(dataset.split("train")), joined<float>(expected["mask"]));
    EXPECT_TRUE(verify_dataset(out, 1).damage.empty());
    std::vector<float> some(7);
    dataset.split("train").read_weights(100, some);
    const auto all = joined<float>(expected["mask"]);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + 100));
  }
  EXPECT_EQ(Dataset::open(scratch / "copy").manifest().identity, Dataset::open(scratch / "place").manifest().identity);
}

// With the tokenizer of bytes a text's tokens are its bytes, so their weights can be counted.
TEST(LabelWeights, OfTextsThoseNamedCountAndANumberWeighsThemAll) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  const auto expect = [&](const std::string& from, BuildRules rules, const auto& weights_of) {
    SCOPED_TRACE(from);
    std::vector<float> weights;
    for (const json& row : expected_rows()["texts"]) {
      const auto [bos, prompt, completion, eos] = weights_of(row);
      weights.push_back(bos);
      weights.insert(weights.end(), row["prompt"].get<std::string>().size(), prompt);
      weights.insert(weights.end(), row["completion"].get<std::string>().size(), completion);
      weights.push_back(eos);
    }
    rules.bos = true;
    build(scratch / "out", {weight_rows().folder / from}, rules, 1, /*overwrite=*/true);
    const Dataset dataset = Dataset::open(scratch / "out");
    EXPECT_EQ(all_weights(dataset.split("train")), weights);
  };
  using Four = std::array<float, 4>;
  for (const char* from : {"texts.parquet", "texts.jsonl"}) {
    expect(from, of_texts({"completion"}, ""), [](const json&) { return Four{0, 0, 1, 1}; });
    expect(from, of_texts({"prompt"}, ""), [](const json&) { return Four{1, 1, 0, 0}; });
    expect(from, of_texts({}, "weight"), [](const json& row) {
      const auto weight = row["weight"].get<float>();
      return Four{weight, weight, weight, weight};
    });
    expect(from, of_texts({"completion"}, "weight"), [](const json& row) {
      const auto weight = row["weight"].get<float>();
      return Four{0, 0, weight, weight};
    });
    expect(from, of_texts({}, "good"), [](const json& row) {
      const float weight = row["good"].get<bool>() ? 1 : 0;
      return Four{weight, weight, weight, weight};
    });
  }
  BuildRules nested = of_texts({"completion"}, "");
  nested.read.text_keys[0] = "meta.prompt";
  expect("texts.jsonl", nested, [](const json&) { return Four{0, 0, 1, 1}; });
}

TEST(LabelWeights, WhatJoinsTwoTextsCountsWhereBothDo) {
  const ScratchFolder scratch;
  write_text(scratch / "a.jsonl", R"({"a": ["p", "q"], "b": ["", "cc"], "c": ""})"
                                  "\n");
  BuildRules rules;
  rules.read.text_keys = {"a", "b", "c"};
  rules.read.text_join = "--";
  rules.read.loss_keys = {"b", "c"};
  const auto weights = [&](bool join_first) {
    rules.read.join_first = join_first;
    build(scratch / "out", {scratch / "a.jsonl"}, rules, 1, true);
    const Dataset dataset = Dataset::open(scratch / "out");
    std::string all;
    for (const float weight : all_weights(dataset.split("train"))) all += weight == 0 ? '0' : '1';
    return all;
  };
  EXPECT_EQ(weights(false),
            "0000"
            "00"
            "11"
            "11"
            "11"
            "1");  // p--q, --, --, cc, --, EOS
  EXPECT_EQ(weights(true),
            "00"
            "0000"
            "00"
            "11"
            "11"
            "11"
            "1");
  rules.read.text_keys = {"b", "a"};
  rules.read.loss_keys = {"b"};
  EXPECT_EQ(weights(true),
            "11"
            "11"
            "11"
            "00"
            "0"
            "00"
            "0"
            "0");
}

struct Bad {
  std::string row, why;
};

// Builds from a good row and each bad one: the build stops there, and with --on-error skip it leaves the bad row out.
void expect_problems(const BuildRules& given, const std::vector<Bad>& rows) {
  const ScratchFolder scratch;
  for (const Bad& bad : rows) {
    SCOPED_TRACE(bad.row);
    BuildRules rules = given;
    write_text(scratch / "rows.jsonl", R"({"prompt": "good", "completion": "row", "w": 1})"
                                       "\n" +
                                           bad.row + "\n");
    const Error error = error_of([&] { build(scratch / "out", {scratch / "rows.jsonl"}, rules, 1, true); });
    EXPECT_EQ(error.code(), ExitCode::kUser);
    EXPECT_EQ(error.message(), (scratch / "rows.jsonl").string() + ": line 2: " + bad.why);
    rules.on_error = OnError::kSkip;
    const DatasetManifest m = build(scratch / "out", {scratch / "rows.jsonl"}, rules, 1, true).manifest;
    EXPECT_EQ(m.records.num_skipped(), 1);
    EXPECT_EQ(m.find_split("train")->documents, 1);
  }
}

TEST(LabelWeights, ALineOfJsonWithAWeightThatIsNoneIsAProblemOfThatLine) {
  const std::string texts = R"("prompt": "p", "completion": "c")";
  expect_problems(of_texts({}, "w"),
                  {{"{" + texts + "}", "it has no key \"w\": its keys are \"prompt\", \"completion\""},
                   {"{" + texts + R"(, "w": null})", "\"w\" is null instead of a number"},
                   {"{" + texts + R"(, "w": "1"})", "\"w\" is a string instead of a number"},
                   {"{" + texts + R"(, "w": {}})", "\"w\" is an object instead of a number"},
                   {"{" + texts + R"(, "w": [1, 1]})", "\"w\" is 2 numbers instead of one"},
                   {"{" + texts + R"(, "w": []})", "\"w\" is 0 numbers instead of one"},
                   {"{" + texts + R"(, "w": -1})", "\"w\" is -1: weights are finite and not negative"},
                   {"{" + texts + R"(, "w": NaN})", "\"w\" is NaN: weights are finite and not negative"},
                   {"{" + texts + R"(, "w": Infinity})", "\"w\" is Infinity: weights are finite and not negative"},
                   {"{" + texts + R"(, "w": 1e39})", "\"w\" is 1e39: weights are finite and not negative"},
                   {"{" + texts + R"(, "w": 1e999})", "\"w\" is 1e999: weights are finite and not negative"}});
}

// Files of two rows each; the second is wrong: see bad() in label_weights_reference.py.
TEST(LabelWeights, ARowOfIdsWithOtherLabelsOrWeightsIsAProblemOfThatRow) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  const auto why = [&](const std::string& name, const BuildRules& rules) {
    const Path file = weight_rows().folder / ("bad-" + name + ".parquet");
    const Error error = error_of([&] { build(scratch / "out", {file}, rules, 1, true); });
    EXPECT_EQ(error.code(), ExitCode::kUser);
    return error.message().substr(file.string().size());
  };
  const BuildRules labels = of_ids("w", ""), weights = of_ids("", "w");
  const std::string not_weights = ": weights are finite and not negative";
  EXPECT_EQ(why("short", labels), ": row 1: has 1 numbers in \"w\" for 2 tokens");
  EXPECT_EQ(why("other", labels), ": row 1: has the label 7 at 1, neither the token's id 6 nor -100");
  EXPECT_EQ(why("minus", labels), ": row 1: has the label -1 at 0, neither the token's id 5 nor -100");
  EXPECT_EQ(why("null", labels), ": row 1: has no \"w\": it is null");
  EXPECT_EQ(why("null-inside", labels), ": row 1: has a null in \"w\" at 1");
  EXPECT_EQ(why("null", weights), ": row 1: has no \"w\": it is null");
  EXPECT_EQ(why("negative", weights), ": row 1: has the weight -0.500000 in \"w\" at 1" + not_weights);
  EXPECT_EQ(why("nan", weights), ": row 1: has the weight nan in \"w\" at 1" + not_weights);
  EXPECT_EQ(why("inf", weights), ": row 1: has the weight inf in \"w\" at 0" + not_weights);
  BuildRules skip = weights;
  skip.on_error = OnError::kSkip;
  const DatasetManifest m = build(scratch / "out", {weight_rows().folder / "bad-nan.parquet"}, skip, 1, true).manifest;
  EXPECT_EQ(m.find_split("train")->tokens, 1);
  EXPECT_EQ(m.records.skipped[static_cast<size_t>(RecordProblem::kWrongType)], 1);
}

// U+FFFD has three bytes in place of one.
TEST(LabelWeights, ATextThatIsRepairedKeepsItsWeights) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  BuildRules rules = of_texts({"completion"}, "");
  rules.on_error = OnError::kReplace;
  build(scratch / "out", {weight_rows().folder / "bad-utf8.parquet"}, rules);
  const Dataset dataset = Dataset::open(scratch / "out");
  EXPECT_EQ(all_weights(dataset.split("train")), (std::vector<float>{0, 0, 0, 0, 1, 1, 1, 1, 1}));
}

// A column's type is reported once, for the file.
TEST(LabelWeights, AColumnThatHoldsNoWeightsIsAnErrorOfItsFile) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  const auto why = [&](const std::string& name, const BuildRules& rules) {
    const Path file = weight_rows().folder / ("bad-" + name + ".parquet");
    const Error error = error_of([&] { build(scratch / "out", {file}, rules); });
    EXPECT_EQ(error.code(), ExitCode::kUser);
    return error.message().substr(file.string().size());
  };
  const BuildRules labels = of_ids("w", ""), weights = of_ids("", "w");
  EXPECT_EQ(why("nan", of_ids("", "v")), " has no column \"v\"");
  EXPECT_EQ(why("nan", labels), " has no labels in column \"w\"");
  EXPECT_EQ(why("strings", weights), " has no weights in column \"w\"");
  EXPECT_EQ(why("single", weights), " has no weights in column \"w\"");
  BuildRules of_ids_as_text = weights;
  of_ids_as_text.read.loss_keys = {"input_ids"};
  EXPECT_EQ(why("nan", of_ids_as_text), " has nothing that --loss-key could weigh");
  BuildRules of_text;
  of_text.read.text_keys = {"input_ids"};
  of_text.read.weights_key = "w";
  EXPECT_EQ(why("text", of_text), " has no weights in column \"w\"");
  of_text.read.labels_key = "w";
  EXPECT_EQ(why("text", of_text), " has nothing that --labels-key could weigh");
  BuildRules arrays = weights;
  arrays.tokenizer = "spikes";
  EXPECT_EQ(why("arrays", arrays), " has nothing that --weights-key could weigh");
}

TEST(LabelWeights, ALabelFileThatDoesNotBelongToItsTokensIsRefused) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  const auto write = [&](const std::string& name, const json& sequences, const char* type) {
    write_text(scratch / "jobs.json", json{{(scratch / name).string(), type, "neox", sequences}}.dump());
    const auto run =
        test::run_command(fmt::format("python3 {} < {}", test::source_path("tests/data/formats/indexed_reference.py"),
                                      (scratch / "jobs.json").string()));
    ASSERT_EQ(run.exit_code, 0) << run.output;
  };
  write("t", {{1, 2, 3}, {4}}, "u16");
  const auto message = [&](const BuildOptions& options) {
    const Error error = error_of([&] { run(options); });
    EXPECT_EQ(error.code(), ExitCode::kUser);
    return error.message();
  };
  const std::string at = (scratch / "t.bin").string() + ": sequence 0: ";
  const auto of = [&](const json& labels, const char* type) {
    write("l", labels, type);
    return message(with_labels(scratch / "out", scratch / "t.bin", scratch / "l.bin"));
  };
  EXPECT_EQ(of({{1, 2}, {4, 4}}, "i32"), at + "it has 2 labels for 3 tokens");
  EXPECT_EQ(of({{1, -100, 9}, {4}}, "i32"), at + "label 2 is 9, neither the token's id 3 nor -100");
  EXPECT_EQ(of({{1, -1, 3}, {4}}, "i64"),
            at + "in its labels: its token 1 is not an id: negative, not whole, or too large");
  EXPECT_EQ(of({{1, 65436, 3}, {4}}, "u16"), at + "label 1 is 65436, neither the token's id 2 nor -100");
  EXPECT_EQ(of({{1, 2, 3}}, "i32"),
            (scratch / "l.bin").string() + " does not belong to " + (scratch / "t.bin").string());
  write("l", {{1, -100, 3}, {4}}, "i32");
  BuildOptions options = with_labels(scratch / "out", scratch / "t.bin", scratch / "nothing");
  EXPECT_EQ(message(options),
            "--labels " + (scratch / "nothing").string() + " is not a token file of Megatron or GPT-NeoX");
  options.labels.push_back(scratch / "l.bin");
  EXPECT_EQ(message(options), "there are 2 --labels for 1 paths");
  write_text(scratch / "a.txt", "text");
  options = with_labels(scratch / "out", scratch / "a.txt", scratch / "l.bin");
  EXPECT_EQ(message(options), "--labels " + (scratch / "l.bin").string() + " has no token file");
  // The same tokens with other labels are another source; with the same labels they are the same source.
  for (const char* ending : {".bin", ".idx"})
    std::filesystem::copy(scratch / (std::string("t") + ending), scratch / (std::string("u") + ending));
  options = with_labels(scratch / "out", scratch / "t.bin", scratch / "l.bin");
  options.paths.push_back(scratch / "u.bin");
  options.labels.push_back(scratch / "t.bin");
  EXPECT_EQ(run(options).manifest.find_split("train")->documents, 4);
  options.labels[1] = scratch / "l.bin";
  options.overwrite = true;
  EXPECT_EQ(run(options).manifest.duplicates_dropped, 1);
}

TEST(LabelWeights, AnOptionThatTheFormatHasNoPlaceForIsRefused) {
  const ScratchFolder scratch;
  write_text(scratch / "a.txt", "text");
  write_text(scratch / "a.jsonl", "{\"text\": \"a\"}\n");
  const auto message = [&](const char* file, const auto& set) {
    BuildRules rules;
    set(rules.read);
    const Error error = error_of([&] { build(scratch / "out", {scratch / file}, rules); });
    EXPECT_EQ(error.code(), ExitCode::kUser);
    return error.message();
  };
  const std::string text = (scratch / "a.txt").string(), lines = (scratch / "a.jsonl").string();
  EXPECT_EQ(message("a.txt", [](ReadRules& r) { r.weights_key = "w"; }), "--weights-key does not go with " + text);
  EXPECT_EQ(message("a.txt", [](ReadRules& r) { r.labels_key = "w"; }), "--labels-key does not go with " + text);
  EXPECT_EQ(message("a.txt", [](ReadRules& r) { r.loss_keys = {"text"}; }), "--loss-key does not go with " + text);
  EXPECT_EQ(message("a.jsonl", [](ReadRules& r) { r.labels_key = "w"; }), "--labels-key does not go with " + lines);
  EXPECT_EQ(message("a.jsonl", [](ReadRules& r) { r.loss_keys = {"completion"}; }),
            "--loss-key completion names no text");
}

}  // namespace
}  // namespace hearth::data
