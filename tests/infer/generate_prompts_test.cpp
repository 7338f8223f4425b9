// SPDX-License-Identifier: Apache-2.0
// Files of prompts: next to one prompt at a time, to transformers, and to a command that was killed.
#include "infer/generate_prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "convert/foreign.h"
#include "formats/npy.h"
#include "infer/fill.h"
#include "infer/generate.h"
#include "infer/generate_array.h"
#include "train/poisoned.h"
#include "train/run_process.h"
#include "train/tiny_run.h"

namespace hearth::infer {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<json> lines_of(const Path& file) {
  std::vector<json> lines;
  for (const std::string& line : split_lines(read_file(file))) lines.push_back(json::parse(line));
  return lines;
}

struct Prompts : ::testing::Test {
  static void SetUpTestSuite() {
    scratch = new test::ScratchFolder;
    train::build_tiny_data(*scratch);
    config::RunConfig c = train::tiny_config(*scratch);
    c.training.steps = 60;
    train::train(c);
    std::string text;
    for (const std::string& prompt : prompts()) text += json{{"prompt", prompt}}.dump() + "\n\n";
    convert::write_text(*scratch / "prompts.jsonl", text);
  }
  static void TearDownTestSuite() { delete scratch; }

  // Prompts of many lengths: empty, below the window of 32, and beyond it.
  static std::vector<std::string> prompts() {
    std::vector<std::string> prompts = {"", "ka \"quoted\"", "lo\nmi", "\xE2\x82\xAC"};
    for (size_t i = 0; i < 11; ++i) prompts.push_back(train::tiny_text(3, 60).substr(7 * i, 1 + 9 * i));
    return prompts;
  }
  static config::GenerateOptions options(const std::string& out) {
    return {.checkpoint = *scratch / "run",
            .prompts = *scratch / "prompts.jsonl",
            .batch_size = 4,
            .max_tokens = 40,
            .seed = 7,
            .out = *scratch / out};
  }

  static test::ScratchFolder* scratch;
};
test::ScratchFolder* Prompts::scratch = nullptr;

TEST_F(Prompts, EachTextIsThatOfItsPromptAloneHoweverManyAreMadeTogether) {
  const auto model = load_model(*scratch / "run");
  std::set<std::string> stops;
  for (const int64_t batch : {1, 4, 32}) {
    config::GenerateOptions o = options(fmt::format("texts-{}.jsonl", batch));
    o.batch_size = batch;
    o.temperature = 1.3;
    o.top_k = 20;
    o.min_p = 0.02;
    o.stop = {"lo", "us."};
    run_generate(o);
    const std::vector<json> lines = lines_of(o.out);
    ASSERT_EQ(lines.size(), prompts().size());
    for (size_t i = 0; i < lines.size(); ++i) {
      std::string alone;
      const GenerationCounts counts =
          generate(*model, {prompts()[i], 40, {.temperature = 1.3, .top_k = 20, .min_p = 0.02}, 7 + i, {"lo", "us."}},
                   [&](std::string_view part) { alone += part; });
      EXPECT_EQ(lines[i].at("prompt"), prompts()[i]);
      EXPECT_EQ(lines[i].at("seed"), 7 + i);
      EXPECT_EQ(prompts()[i] + lines[i].at("text").get<std::string>(), alone) << "prompt " << i << " of " << batch;
      EXPECT_EQ(lines[i].at("tokens"), counts.generated_tokens);
      EXPECT_EQ(lines[i].at("stop") == "eos", counts.ended);
      EXPECT_EQ(lines[i].at("stop") == "length", counts.generated_tokens == 40);
      stops.insert(lines[i].at("stop"));
    }
    EXPECT_FALSE(path_exists(o.out.string() + ".partial"));
  }
  EXPECT_THAT(stops, testing::IsSupersetOf({"length", "stop"}));
}

// 96 positions: no text fills the window, after which transformers would go on differently.
TEST(GeneratePrompts, GreedyTextsAreThoseThatTransformersMakesFromTheExportedModel) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  ASSERT_EQ(test::run_python("tests/infer/lm_eval_scores.py model " + at).exit_code, 0);
  convert::converted(fmt::format("--to native {0}/hf {0}/native", at));
  convert::converted(fmt::format("--to hf {0}/native {0}/exported", at));
  std::string text;
  for (const char* prompt : {"Question: What is red?", "a", "", "long long long long end", "snow at noon",
                             "1 + 1 =", "the sea", "\xE6\x97\xA5\xE6\x9C\xAC", "B", "a rose and the sea and snow"})
    text += json{{"prompt", prompt}}.dump() + "\n";
  convert::write_text(scratch / "prompts.jsonl", text);
  const test::CommandResult theirs = test::run_python(
      fmt::format("tests/infer/hf_generate.py {0}/exported {0}/prompts.jsonl 50 {0}/theirs.jsonl", at));
  ASSERT_EQ(theirs.exit_code, 0) << theirs.output;
  const test::CommandResult ours = test::run_hearth(
      fmt::format("generate --checkpoint {0}/native --prompts {0}/prompts.jsonl --out {0}/ours.jsonl --temperature 0 "
                  "--max-tokens 50 --batch-size 4",
                  at));
  ASSERT_EQ(ours.exit_code, 0) << ours.output;
  std::vector<json> lines = lines_of(scratch / "ours.jsonl");
  for (json& line : lines) line.erase("seed");
  EXPECT_EQ(lines, lines_of(scratch / "theirs.jsonl"));
}

TEST_F(Prompts, ACommandThatWasKilledGoesOnAndMakesTheSameFile) {
  config::GenerateOptions o = options("whole.jsonl");
  std::string many;
  for (int i = 0; i < 40; ++i) many += prompts()[static_cast<size_t>(4 + i % 11)] + "\n";
  convert::write_text(*scratch / "many.txt", many);
  o.prompts = *scratch / "many.txt";
  run_generate(o);
  const Path out = *scratch / "killed.jsonl", partial = out.string() + ".partial", log = *scratch / "log";
  const auto words = [&](const char* seed) {
    return std::vector<std::string>{"generate",
                                    "--checkpoint",
                                    o.checkpoint.string(),
                                    "--prompts",
                                    o.prompts.string(),
                                    "--out",
                                    out.string(),
                                    "--batch-size",
                                    "4",
                                    "--max-tokens",
                                    "40",
                                    "--seed",
                                    seed};
  };
  {
    train::RunProcess process(words("7"), log);
    ASSERT_TRUE(train::wait_until(process, [&] {
      return path_exists(partial) && split_lines(read_file(partial)).size() > 9;
    })) << read_file(log);
  }  // SIGKILL
  ASSERT_TRUE(path_exists(partial));
  EXPECT_FALSE(path_exists(out));
  File::open_append(partial).write("{\"prompt\": \"half a li");
  {
    train::RunProcess process(words("7"), log);
    EXPECT_EQ(process.wait(), 0) << read_file(log);
  }
  EXPECT_THAT(read_file(log), HasSubstr("of them from an earlier start"));
  EXPECT_EQ(read_file(out), read_file(o.out));
  EXPECT_FALSE(path_exists(partial));

  // Other settings: nothing of the earlier start is taken.
  remove_file(out);
  convert::write_text(partial, "{\"settings_of\":\"hearth generate\"}\n{}\n");
  {
    train::RunProcess process(words("7"), log);
    EXPECT_EQ(process.wait(), 0) << read_file(log);
  }
  EXPECT_THAT(read_file(log), HasSubstr("is of a command with other settings: it is begun anew"));
  EXPECT_EQ(read_file(out), read_file(o.out));
}

TEST_F(Prompts, TwoCommandsDoNotWriteTheSameFile) {
  const config::GenerateOptions o = options("shared.jsonl");
  const Path lock = o.out.string() + ".partial.lock";
  {
    const auto other = FileLock::try_lock(lock);
    const Error error = test::error_of([&] { run_generate(o); });
    EXPECT_EQ(error.code(), ExitCode::kUser);
    EXPECT_THAT(error.message(), HasSubstr("shared.jsonl: another command writes it"));
    EXPECT_FALSE(path_exists(o.out));
  }
  run_generate(o);
  EXPECT_EQ(lines_of(o.out).size(), prompts().size());
  EXPECT_FALSE(path_exists(lock));
}

TEST_F(Prompts, WrongFilesAreErrorsWithTheirLine) {
  const auto error = [&](const std::string& name, const std::string& content) {
    convert::write_text(*scratch / name, content);
    config::GenerateOptions o = options("none.jsonl");
    o.prompts = *scratch / name;
    const Error e = test::error_of([&] { run_generate(o); });
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_FALSE(path_exists(o.out));
    EXPECT_FALSE(path_exists(o.out.string() + ".partial"));
    return fmt::format("{}: {}", e.message().substr(e.message().find(name)), e.why());
  };
  EXPECT_THAT(error("a.jsonl", "{\"prompt\": \"a\"}\n\nka\n"),
              AllOf(HasSubstr("a.jsonl:3: "), HasSubstr("JSON object")));
  EXPECT_THAT(error("a.jsonl", "{\"text\": \"a\"}\n"),
              AllOf(HasSubstr("a.jsonl:1: "), HasSubstr("\"prompt\" is missing")));
  EXPECT_THAT(error("a.jsonl", "{\"prompt\": 3}\n"),
              AllOf(HasSubstr("a.jsonl:1: "), HasSubstr("\"prompt\" is not a text")));
  EXPECT_THAT(error("a.txt", "a\n\xFF\n"), AllOf(HasSubstr("a.txt:2: "), HasSubstr("UTF-8")));
  EXPECT_EQ(error("a.txt", "\n \n"), "a.txt has no prompts: ");
  EXPECT_THAT(error("a.txt", "ka\n{\"prompt\": \"a\"}\n"),
              AllOf(HasSubstr("a.txt:2: "), HasSubstr("an object with a \"prompt\"")));
  std::string wide;
  for (const char c : std::string_view("a line of text\nand another one\n")) wide += {c, '\0'};
  EXPECT_THAT(error("a.txt", wide), HasSubstr("UTF-16LE"));
  for (const char* name : {"a.JSONL", "a.ndjson"}) {
    convert::write_text(*scratch / name, "{\"prompt\": \"ka\"}\n");
    EXPECT_EQ(read_prompts(*scratch / name).at(0).text, "ka") << name;
  }
  EXPECT_THAT(error("a.json", "[{\"prompt\": \"a\"}]\n"), AllOf(HasSubstr("a.json is JSON"), HasSubstr(".jsonl")));
  // Lines of text are taken as they are.
  convert::write_text(*scratch / "a.txt", "{\"prompt\": 3}\r\n\n  ka \n");
  const std::vector<PromptLine> lines = read_prompts(*scratch / "a.txt");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].text, "{\"prompt\": 3}");
  EXPECT_EQ(lines[1].text, "  ka ");
  EXPECT_EQ(lines[1].line, 3);
  EXPECT_EQ(test::error_of([&] { read_prompts(*scratch / "nowhere"); }).code(), ExitCode::kUser);
}

TEST_F(Prompts, ADivergedModelIsAnErrorWithItsName) {
  config::RunConfig c = train::tiny_config(*scratch);
  const Path poisoned = train::poisoned_checkpoint(c, 60, *scratch / "poisoned");
  const auto expect = [&](const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kDamaged);
    EXPECT_THAT(e.message(), HasSubstr("poisoned/step-00000060 gives no probabilities"));
  };
  config::GenerateOptions o = options("diverged.jsonl");
  o.checkpoint = poisoned;
  expect(test::error_of([&] { run_generate(o); }));
  const auto model = load_model(poisoned);
  expect(test::error_of([&] { generate(*model, {.prompt = "ka"}, [](std::string_view) {}); }));
}

TEST_F(Prompts, AnOutputThatIsThereIsNotOverwritten) {
  config::GenerateOptions o = options("there.jsonl");
  convert::write_text(o.out, "precious");
  EXPECT_THAT(test::error_of([&] { run_generate(o); }).message(), HasSubstr("there.jsonl: it exists"));
  EXPECT_EQ(read_file(o.out), "precious");
}

TEST_F(Prompts, CachesThatDoNotFitAreRefused) {
  config::GenerateOptions o = options("big.jsonl");
  convert::write_text(*scratch / "repeated.txt", [] {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "ka\n";
    return text;
  }());
  const auto model = load_model(*scratch / "run");
  // Rows are no more than prompts, so the model is made large, not the batch.
  model->config.training.seq_len = int64_t{1} << 34;
  o.prompts = *scratch / "repeated.txt";
  o.max_tokens = int64_t{1} << 34;
  const Error error = test::error_of([&] { run_generate_prompts(*model, o); });
  EXPECT_THAT(error.message(), HasSubstr("--batch-size 4 needs 16.0 TiB of memory for keys, values and logits"));
  EXPECT_THAT(error.fix(), HasSubstr("give --batch-size 1 or less"));
}

TEST_F(Prompts, MasksAreFilledIn) {
  config::RunConfig c = train::tiny_config(*scratch);
  c.job.dump_folder = "masked";
  c.model.vocab_size = 259;
  c.objective.kind = config::ObjectiveKind::kMaskedLm;
  c.objective.mask_id = 258;
  train::train(c);
  convert::write_text(*scratch / "masks.txt", "ka[MASK]\n[MASK]lo[MASK]\n");
  config::GenerateOptions o{.checkpoint = *scratch / "masked",
                            .prompts = *scratch / "masks.txt",
                            .temperature = 0.7,
                            .seed = 3,
                            .out = *scratch / "filled.jsonl"};
  run_generate(o);
  const std::vector<json> lines = lines_of(o.out);
  ASSERT_EQ(lines.size(), 2u);
  const auto model = load_model(*scratch / "masked");
  for (size_t i = 0; i < 2; ++i) {
    const std::string prompt = lines[i].at("prompt");
    const Filled filled = fill_masks(*model, {prompt, {.temperature = 0.7}, 3 + i});
    EXPECT_EQ(lines[i],
              json::parse(json{
                  {"prompt", prompt}, {"text", filled.text}, {"tokens", i + 1}, {"stop", "filled"}, {"seed", 3 + i}}
                              .dump(-1, ' ', false, json::error_handler_t::replace)));
  }
  convert::write_text(*scratch / "masks.txt", "ka[MASK]\nka\n");
  o.out = *scratch / "not.jsonl";
  EXPECT_THAT(test::error_of([&] { run_generate(o); }).message(), HasSubstr("masks.txt:2: the text has no mask"));
  o.batch_size = 3;
  EXPECT_THAT(test::error_of([&] { run_generate(o); }).message(), HasSubstr("--batch-size has no effect with"));
}

TEST_F(Prompts, RecordingsAreContinuedAsOneByOne) {
  train::build_tiny_spikes(*scratch, "spikes", 8);
  config::RunConfig c = train::tiny_config(*scratch);
  c.job.dump_folder = "spikes-run";
  c.data.path = "spikes";
  c.training.steps = 5;
  train::train(c);
  const auto recording = [](const std::string& name, int64_t neurons, const std::string& counts) {
    const int64_t shape[] = {neurons, std::ssize(counts) / neurons};
    write_file_atomic(*scratch / name, formats::npy_header("|u1", shape) + counts);
    return (*scratch / name).string();
  };
  const std::string files[] = {recording("a.npy", 8, std::string(32, '\1')),
                               recording("b.npy", 4, std::string(8, '\2'))};
  convert::write_text(*scratch / "recordings.txt", files[0] + "\n" + files[1] + "\n");
  config::GenerateOptions o{.checkpoint = *scratch / "spikes-run",
                            .prompts = *scratch / "recordings.txt",
                            .max_tokens = 40,
                            .seed = 5,
                            .n_fixed = 6,
                            .context_bins = 2,
                            .out = *scratch / "bins.jsonl"};
  run_generate(o);
  const std::vector<json> lines = lines_of(o.out);
  ASSERT_EQ(lines.size(), 2u);
  const auto model = load_model(o.checkpoint);
  for (size_t i = 0; i < 2; ++i) {
    std::vector<std::vector<int>> bins;
    const GenerationCounts counts =
        generate_array(*model, {read_prompt_array(*model, files[i], 2, 6).context, 40, {}, 5 + i},
                       [&](std::span<const uint8_t> bin) { bins.emplace_back(bin.begin(), bin.end()); });
    EXPECT_EQ(bins.front().size(), 6u);
    EXPECT_EQ(lines[i], (json{{"prompt", files[i]},
                              {"bins", bins},
                              {"tokens", counts.generated_tokens},
                              {"stop", "length"},
                              {"seed", 5 + i}}));
  }
  const auto refused = [&] {
    o.out = *scratch / "not.jsonl";
    const std::string message = test::error_of([&] { run_generate(o); }).message();
    EXPECT_FALSE(path_exists(o.out.string() + ".partial"));
    return message;
  };
  convert::write_text(*scratch / "recordings.txt", files[0] + "\n\nnowhere.npy\n");
  EXPECT_EQ(refused(), o.prompts.string() + ":3: there is no file \"nowhere.npy\"");
  o.batch_size = 2;
  EXPECT_THAT(refused(), HasSubstr("--batch-size has no effect with"));
  o.batch_size = 0;
  o.stop = {"a"};
  EXPECT_EQ(refused(), "--stop is for text");
  o.stop.clear();
  o.checkpoint = *scratch / "run";
  EXPECT_EQ(refused(), "--n-fixed is for recordings");
}

}  // namespace
}  // namespace hearth::infer
