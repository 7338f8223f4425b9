// SPDX-License-Identifier: Apache-2.0
#include "infer/eval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "comm/group.h"
#include "data/shard/dataset.h"
#include "infer/zero_model.h"
#include "run/run.h"
#include "run/saver.h"
#include "support/hearth_command.h"
#include "tokenizer/bpe/train.h"
#include "tokenizer/pretokenizer/pretokenizer.h"
#include "train/tiny_run.h"

namespace hearth::infer {
namespace {

using testing::HasSubstr;

struct Eval : train::TinyData {};

TEST_F(Eval, AModelThatKnowsNothingHasTheLossOfItsVocabulary) {
  const Path checkpoint = save_zero_model(train::tiny_config(scratch));
  const data::Dataset dataset = data::Dataset::open(scratch / "data");
  const data::Split& held_out = dataset.split("validation");

  for (const int64_t batch_size : {1, 3, 8}) {
    const EvalReport report =
        eval_checkpoint({.checkpoint = checkpoint, .ngram = {3}, .batch_size = batch_size}).front();
    EXPECT_NEAR(report.validation.loss(), std::log(258.0), 1e-6);
    EXPECT_NEAR(report.perplexity(), 258, 1e-3);
    // Every token but the first is predicted once. The first is a byte; the ends of documents stand for no bytes.
    EXPECT_EQ(report.validation.counted_tokens, static_cast<double>(held_out.tokens() - 1));
    EXPECT_EQ(report.validation.counted_units, static_cast<double>(held_out.text_bytes() - 1));
    EXPECT_NEAR(report.bits_per_unit(),
                std::log2(258.0) * report.validation.counted_tokens / report.validation.counted_units, 1e-6);
    ASSERT_EQ(report.ngram.size(), 3u);
    EXPECT_LT(report.ngram[2], report.ngram[0]);
  }
}

// The same closed forms from the command's JSON.
TEST_F(Eval, JsonHasTheNumbersOfTheReport) {
  const Path checkpoint = save_zero_model(train::tiny_config(scratch));
  const std::string words = "eval --json --checkpoint " + checkpoint.string();
  const auto set = nlohmann::json::parse(test::run_hearth(words + " --ngram 2").output).at("sets").at(0);
  const data::Dataset dataset = data::Dataset::open(scratch / "data");
  const double tokens = static_cast<double>(dataset.split("validation").tokens() - 1);
  const double bytes = static_cast<double>(dataset.split("validation").text_bytes() - 1);
  EXPECT_TRUE(set.at("name").is_null());
  EXPECT_NEAR(set.at("loss").get<double>(), std::log(258.0), 1e-6);
  EXPECT_NEAR(set.at("perplexity").get<double>(), 258, 1e-3);
  EXPECT_EQ(set.at("predicts"), "next");
  EXPECT_EQ(set.at("counted_tokens"), tokens);
  EXPECT_EQ(set.at("unit"), "byte");
  EXPECT_EQ(set.at("counted_units"), bytes);
  EXPECT_NEAR(set.at("bits_per_unit").get<double>(), std::log2(258.0) * tokens / bytes, 1e-6);
  ASSERT_EQ(set.at("ngram").size(), 2u);
  EXPECT_GT(set.at("ngram")[0], set.at("ngram")[1]);
  const std::string data = (scratch / "data").string();
  const auto two =
      nlohmann::json::parse(test::run_hearth(words + " --data a=" + data + " --data b=" + data).output).at("sets");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].at("name"), "b");
  EXPECT_TRUE(two[1].at("ngram").is_null());
}

TEST(EvalReport, JsonSaysWhatIsCounted) {
  EvalReport report;
  report.masked = report.weighted = true;
  report.validation.loss_sum = 6;
  report.validation.counted_tokens = 2.5;
  const auto set = nlohmann::json::parse(reports_json({report}, {})).at("sets").at(0);
  EXPECT_EQ(set.at("predicts"), "hidden");
  EXPECT_EQ(set.at("counted_weights"), 2.5);
  EXPECT_FALSE(set.contains("counted_tokens"));
  EXPECT_EQ(set.at("loss"), 2.4);
  EXPECT_TRUE(set.at("unit").is_null() && set.at("counted_units").is_null() && set.at("bits_per_unit").is_null());
}

TEST_F(Eval, ItAgreesWithTheValidationOfTheTraining) {
  config::RunConfig c = train::tiny_config(scratch);
  c.validation.freq = 12;
  const auto records = train::train(c);
  const EvalReport report = eval_checkpoint({.checkpoint = c.run_folder(), .batch_size = 5}).front();
  EXPECT_NEAR(report.validation.loss(), *records.back().validation_loss, 1e-6);
}

// As in the run's own validation: the whole dataset, where nothing was held out.
TEST_F(Eval, AValidationSetWithoutHeldOutDocumentsIsReadWhole) {
  config::RunConfig c = train::tiny_config(scratch);
  train::build_tiny_data(scratch / "more", 100);
  data::BuildOptions options;
  options.out = scratch / "whole";
  options.paths = {scratch / "more/text"};
  data::BuildProgress progress;
  data::build_dataset(options, progress);
  c.validation.freq = 12;
  c.validation.set = {{"whole", "whole", ""}};
  const auto records = train::train(c);
  const EvalReport report = eval_checkpoint({.checkpoint = c.run_folder()}).front();
  EXPECT_EQ(report.validation.counted_tokens,
            static_cast<double>(data::Dataset::open(scratch / "whole").split("train").tokens() - 1));
  EXPECT_NEAR(report.validation.loss(), *records.back().validation_loss, 1e-6);
}

// The n-gram model reads the same split and no other. The expected bytes come from a unigram of the training text, by
// hand.
TEST_F(Eval, NgramsAreOfTheSplitThatIsEvaluated) {
  config::RunConfig c = train::tiny_config(scratch);
  data::BuildOptions options;
  options.out = scratch / "three";
  options.paths = {scratch / "text"};
  options.rules.split = "500,250,250";
  data::BuildProgress progress;
  data::build_dataset(options, progress);
  c.data.path = "three";
  const Path checkpoint = save_zero_model(c);
  const data::Dataset dataset = data::Dataset::open(scratch / "three");
  const auto text_of = [&](const std::string& name) {
    std::string text;
    const data::Split& split = dataset.split(name);
    for (int64_t i = 0; i < split.documents(); ++i)
      text += read_file(dataset.manifest().sources[static_cast<size_t>(split.origin(i).source)].path);
    return text;
  };
  std::map<char, double> counts;
  const std::string counted = text_of("train");
  for (const char byte : counted) ++counts[byte];
  for (const std::string split : {"validation", "test"}) {
    double bits = 0;
    const std::string scored = text_of(split);
    const auto n = static_cast<double>(counted.size()), kinds = static_cast<double>(counts.size());
    for (const char byte : scored)
      bits -= std::log2(((counts.contains(byte) ? counts[byte] : 0) + kinds / 256) / (n + kinds));
    const EvalReport report = eval_checkpoint({.checkpoint = checkpoint, .split = split, .ngram = {1}}).front();
    EXPECT_NEAR(report.ngram[0], bits / static_cast<double>(scored.size()), 1e-9) << split;
  }
}

// The text of a dataset's documents, each a file, from the files that it was built from.
void copy_text(const Path& folder, const std::string& split_name, const Path& to) {
  make_folders(to);
  const data::Dataset dataset = data::Dataset::open(folder);
  const data::Split& split = dataset.split(split_name);
  for (int64_t i = 0; i < split.documents(); ++i) {
    const Path source = dataset.manifest().sources[static_cast<size_t>(split.origin(i).source)].path;
    write_file_atomic(to / fmt::format("{}-{}", folder.parent_path().filename().string(), source.filename().string()),
                      read_file(source));
  }
}

// A run on two datasets, evaluated on a third, whose own training documents are no part of it: the formula in Python.
struct EvalNgrams : ::testing::Test {
  EvalNgrams() {
    for (const char* name : {"a", "b", "unused", "held"})
      train::build_tiny_data(scratch / name, name[0] == 'a' ? 90 : 60);
    for (uint64_t i = 0; i < 8; ++i)  // so that "b" and "held" differ from "a", as its documents do
      for (const char* name : {"b", "held"})
        write_file_atomic(scratch / name / "text" / fmt::format("{}.txt", i),
                          train::tiny_text(100 * (name[0] - 'a') + i, 70));
    for (const char* name : {"b", "held"}) {
      data::BuildOptions options;
      options.out = scratch / name / "data";
      options.paths = {scratch / name / "text"};
      options.rules.validation = 0.3;
      options.overwrite = true;
      data::BuildProgress progress;
      data::build_dataset(options, progress);
    }
    config::RunConfig c = train::tiny_config(scratch);
    c.data.path.clear();
    c.data.source = {{"a/data", 1}, {"b/data", 2}, {"unused/data", 0}};
    checkpoint = save_zero_model(c);
  }
  std::string folder(const std::string& name) const { return (scratch / name / "data").string(); }
  void expect_reference(const std::vector<double>& scores) const {
    const auto run =
        test::run_command(fmt::format("python3 {} {} {} {}", test::source_path("tests/data/study/ngram_reference.py"),
                                      scores.size(), (scratch / "counted").string(), (scratch / "scored").string()));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    std::istringstream expected(run.output);
    for (const double score : scores) {
      double value = 0;
      ASSERT_TRUE(expected >> value);
      EXPECT_NEAR(score, value, 1e-12 * value);
    }
  }
  test::ScratchFolder scratch;
  Path checkpoint;
};

TEST_F(EvalNgrams, CountWhatTheRunTrainsOnWhateverIsEvaluated) {
  for (const char* name : {"a", "b"}) copy_text(folder(name), "train", scratch / "counted");
  for (const std::string split : {"validation", "train"}) {
    std::filesystem::remove_all(scratch / "scored");
    copy_text(folder("held"), split, scratch / "scored");
    const auto reports =
        eval_checkpoint({.checkpoint = checkpoint, .data = {folder("held")}, .split = split, .ngram = {4}});
    ASSERT_EQ(reports[0].ngram.size(), 4u);
    expect_reference(reports[0].ngram);
  }
  // The n-gram model did not count a source of weight 0, so that source may be evaluated.
  std::filesystem::remove_all(scratch / "scored");
  copy_text(folder("unused"), "train", scratch / "scored");
  const auto reports =
      eval_checkpoint({.checkpoint = checkpoint, .data = {folder("unused")}, .split = "train", .ngram = {2}});
  expect_reference(reports[0].ngram);
}

TEST_F(EvalNgrams, CountAnotherFolderWhereTheDataLieElsewhereNow) {
  std::filesystem::rename(folder("b"), scratch / "moved");
  const Error gone =
      test::error_of([&] { eval_checkpoint({.checkpoint = checkpoint, .data = {folder("held")}, .ngram = {2}}); });
  EXPECT_EQ(gone.message(), fmt::format("--ngram has nothing to count: {} does not exist", folder("b")));
  EXPECT_EQ(gone.why(),
            fmt::format("n-gram models count the training data of {}, which was there", checkpoint.string()));
  EXPECT_EQ(gone.fix(), "give each dataset's folder with --ngram-data DIR, or leave --ngram out");
  copy_text(scratch / "moved", "train", scratch / "counted");
  copy_text(folder("held"), "validation", scratch / "scored");
  expect_reference(
      eval_checkpoint(
          {.checkpoint = checkpoint, .data = {folder("held")}, .ngram = {3}, .ngram_data = {scratch / "moved"}})[0]
          .ngram);
}

TEST_F(EvalNgrams, AreRefusedForWhatTheyCount) {
  const auto message = [&](const std::string& data, std::vector<Path> ngram_data = {}) {
    return test::error_of([&] {
             eval_checkpoint({.checkpoint = checkpoint,
                              .data = {folder(data)},
                              .split = "train",
                              .ngram = {2},
                              .ngram_data = std::move(ngram_data)});
           })
        .message();
  };
  EXPECT_EQ(message("b"), fmt::format("--ngram cannot evaluate the split \"train\" of {}", folder("b")));
  EXPECT_EQ(message("held", {folder("held")}),
            fmt::format("--ngram cannot evaluate the split \"train\" of {}", folder("held")));
  EXPECT_EQ(message("held", {folder("a"), folder("a")}),
            fmt::format("{} and {} are the same dataset", folder("a"), folder("a")));
  train::build_tiny_spikes(scratch, "spikes", 12);
  EXPECT_THAT(message("held", {scratch / "spikes"}), HasSubstr("was built with another tokenizer"));
}

TEST_F(Eval, EverySetHasAReportUnderItsName) {
  config::RunConfig c = train::tiny_config(scratch);
  train::build_tiny_data(scratch / "more", 100);
  c.validation.freq = 12;
  c.validation.set = {{"own", "data", ""}, {"more", "more/data", "train"}};
  const Path checkpoint = save_zero_model(c);
  const auto of_run = eval_checkpoint({.checkpoint = checkpoint});
  ASSERT_EQ(of_run.size(), 2u);
  EXPECT_EQ(of_run[0].name, "own");
  EXPECT_EQ(of_run[1].name, "more");
  const data::Dataset more = data::Dataset::open(scratch / "more/data");
  EXPECT_EQ(of_run[1].validation.counted_tokens, static_cast<double>(more.split("train").tokens() - 1));
  const auto given = eval_checkpoint(
      {.checkpoint = checkpoint, .data = {(scratch / "data").string(), "b=" + (scratch / "more/data").string()}});
  ASSERT_EQ(given.size(), 2u);
  EXPECT_EQ(given[0].name, "data");
  EXPECT_EQ(given[1].name, "b");
  EXPECT_EQ(given[1].validation.counted_tokens, static_cast<double>(more.split("validation").tokens() - 1));
  EXPECT_THAT(format_report(given[1]),
              testing::StartsWith(fmt::format("b\ndata             {}, split \"validation\"\nloss  ",
                                              (scratch / "more/data").string())));
  const Error error = test::error_of([&] { eval_checkpoint({.checkpoint = checkpoint, .split = "test"}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  const Error nope = test::error_of(
      [&] { eval_checkpoint({.checkpoint = checkpoint, .data = {(scratch / "data").string()}, .split = "nope"}); });
  EXPECT_EQ(nope.message(), fmt::format("dataset {} has no split \"nope\"", (scratch / "data").string()));
  EXPECT_EQ(nope.fix(), "give one of those that it has: train, validation");
}

TEST_F(Eval, SetsOfOneNameAreToldApartByTheirPathsOrRefused) {
  train::build_tiny_data(scratch / "more", 100);
  const Path checkpoint = save_zero_model(train::tiny_config(scratch));
  const std::string one = (scratch / "data").string(), two = (scratch / "more/data").string();
  const auto names = [&](std::vector<std::string> data) {
    std::vector<std::string> result;
    for (const EvalReport& report : eval_checkpoint({.checkpoint = checkpoint, .data = std::move(data)}))
      result.push_back(report.name);
    return result;
  };
  EXPECT_EQ(names({one, two}), (std::vector<std::string>{one, two}));
  EXPECT_EQ(names({"b=" + one, two}), (std::vector<std::string>{"b", "data"}));
  EXPECT_EQ(names({"data=" + one, two}), (std::vector<std::string>{"data", two}));
  for (const auto& given : {std::vector{one, one}, std::vector{"b=" + one, "b=" + two}}) {
    const Error error = test::error_of([&] { names(given); });
    EXPECT_EQ(error.message(), fmt::format("two sets of --data are called \"{}\"", given[0] == one ? one : "b"));
    EXPECT_EQ(error.fix(), "give each a name of its own: --data NAME=DIR");
  }
}

// Hidden positions are a function of the seed; a model without knowledge finds every one equally hard.
TEST_F(Eval, AMaskedModelIsAskedForTheSameHiddenTokensEveryTime) {
  config::RunConfig c = train::tiny_config(scratch);
  c.model.vocab_size = 259;
  c.objective.kind = config::ObjectiveKind::kMaskedLm;
  c.objective.mask_id = 258;
  const Path checkpoint = save_zero_model(c);
  const auto counted = [&](uint64_t seed, int64_t batch_size) {
    const EvalReport report =
        eval_checkpoint({.checkpoint = checkpoint, .seed = seed, .batch_size = batch_size}).front();
    EXPECT_NEAR(report.validation.loss(), std::log(259.0), 1e-6);
    EXPECT_THAT(format_report(report), HasSubstr("nats per hidden token"));
    return report.validation.counted_tokens;
  };
  const double tokens = static_cast<double>(data::Dataset::open(scratch / "data").split("validation").tokens());
  EXPECT_NEAR(counted(0, 8) / tokens, 0.3, 0.05);
  EXPECT_EQ(counted(0, 8), counted(0, 3));
  EXPECT_NE(counted(0, 8), counted(1, 8));
  EXPECT_EQ(test::error_of([&] { eval_checkpoint({.checkpoint = checkpoint, .ngram = {2}}); }).message(),
            "--ngram cannot be compared with a model that fills in hidden tokens");
}

TEST_F(Eval, ACheckpointOfPyTorchDoesNotSayWhatItIs) {
  make_folders(scratch / "theirs");
  const Path ours = save_zero_model(train::tiny_config(scratch));
  for (const char* file : {".metadata", "__R_0.distcp"})
    write_file_atomic(scratch / "theirs" / file, read_file(ours / file));
  const Error error = test::error_of([&] { eval_checkpoint({.checkpoint = scratch / "theirs"}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_THAT(error.message(), HasSubstr("theirs has no hearth.json")) << error.what();
}

TEST(EvalReport, ShowsEveryOrderBesideOurs) {
  EvalReport report;
  report.units = EvalReport::Units::kBytes;
  report.validation = {.loss_sum = 200 * std::log(2.0), .counted_tokens = 110, .counted_units = 100};
  report.ngram = {4.5, 3.0, 1.5};
  const std::string text = format_report(report);
  EXPECT_THAT(text, HasSubstr("bits per byte    2.0000")) << text;
  EXPECT_THAT(text, HasSubstr("order 1        4.5000   the model is better")) << text;
  EXPECT_THAT(text, HasSubstr("order 3        1.5000   the model is worse")) << text;
}

TEST_F(Eval, ADatasetOfAnotherTokenizerIsRefused) {
  const Path checkpoint = save_zero_model(train::tiny_config(scratch));
  // As many ids as the checkpoint's: bytes, EOS and one merge.
  tokenizer::PieceCounts counts;
  counts.add("kaka", 10);
  write_file_atomic(scratch / "tokenizer.json",
                    tokenizer::huggingface_file(tokenizer::train_bpe(
                        counts, {258, {"<|endoftext|>"}, std::string(tokenizer::kGpt2Pattern), 2}, nullptr)));
  data::BuildOptions options;
  options.out = scratch / "data";
  options.paths = {scratch / "text"};
  options.rules.validation = 0.3;
  options.rules.tokenizer = (scratch / "tokenizer.json").string();
  options.overwrite = true;
  data::BuildProgress progress;
  data::build_dataset(options, progress);
  const Error error = test::error_of([&] { eval_checkpoint({.checkpoint = checkpoint}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  const std::string data_folder = (scratch / "data").string();
  EXPECT_EQ(error.message(),
            fmt::format("{} was built with another tokenizer than {}", data_folder, checkpoint.string()));
  EXPECT_EQ(error.fix(), fmt::format("build {} again: hearth data build --tokenizer bytes ...", data_folder));

  // A run continues only with its own tokenizer.
  config::RunConfig c = train::tiny_config(scratch);
  const Error resume = test::error_of([&] { train::run_training(c, {}); });
  EXPECT_EQ(resume.code(), ExitCode::kUser);
  EXPECT_EQ(resume.message(), error.message());
  EXPECT_EQ(resume.why(), error.why());
  EXPECT_EQ(resume.fix(), error.fix());
}

}  // namespace
}  // namespace hearth::infer
