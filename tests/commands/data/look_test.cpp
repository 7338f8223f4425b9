// SPDX-License-Identifier: Apache-2.0
// data inspect, data verify and data sample.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/hearth_command.h"
#include "support/text_file.h"

namespace hearth {
namespace {

using testing::HasSubstr;
using testing::Not;

using test::CommandResult;
using test::run_hearth;
using test::ScratchFolder;
using test::write_text;

class DataLook : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 26; ++i)
      write_text(scratch_ / "text" / fmt::format("{:02}.txt", i), std::string(30, static_cast<char>('a' + i)) + "\n");
    out_ = (scratch_ / "out").string();
    const CommandResult built =
        run_hearth(fmt::format("data build --out {} --validation 0.2 {}", out_, (scratch_ / "text").string()));
    ASSERT_EQ(built.exit_code, 0) << built.output;
  }
  ScratchFolder scratch_;
  std::string out_;
};

TEST_F(DataLook, InspectShowsCountsSizesTokenizerAndSources) {
  const CommandResult result = run_hearth("data inspect " + out_);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const char* part :
       {"tokenizer   bytes, 258 tokens, hash 2105be2c4cfaa69af2fc47a560700c5c", "no BOS, EOS after each", "train",
        "validation", "26 sources", "00.txt", "and 16 more (--sources lists them)"})
    EXPECT_THAT(result.output, HasSubstr(part)) << part << "\n" << result.output;
  EXPECT_THAT(run_hearth("data inspect --sources " + out_).output, HasSubstr("25.txt"));
}

TEST_F(DataLook, InspectAsJsonIsTheManifest) {
  const CommandResult result = run_hearth("data inspect --json " + out_);
  ASSERT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, read_file(out_ + "/manifest.json"));
  int64_t tokens = 0;
  const auto manifest = nlohmann::json::parse(result.output);
  for (const auto& split : manifest["splits"]) tokens += split["tokens"].get<int64_t>();
  EXPECT_EQ(tokens, 26 * 32);
}

TEST_F(DataLook, VerifySaysWholeOrNamesTheBlockWithExitCode3) {
  CommandResult result = run_hearth("data verify " + out_);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr(" is whole: "));
  const Path shard = out_ + "/train-000000-0000.shard";
  std::string bytes = read_file(shard);
  bytes[300] = static_cast<char>(bytes[300] ^ 1);
  write_text(shard, bytes);
  result = run_hearth("data verify " + out_);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, HasSubstr("train-000000-0000.shard: block 0 (bytes 128 to ")) << result.output;
  EXPECT_THAT(result.output, HasSubstr("column tokens"));
  EXPECT_EQ(run_hearth("data sample " + out_ + " --seq-len 16").exit_code, 3);
}

TEST_F(DataLook, AFolderThatIsNoDatasetIsAUserError) {
  for (const char* command : {"inspect", "verify", "sample"}) {
    const CommandResult result = run_hearth(fmt::format("data {} {}", command, (scratch_ / "text").string()));
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_THAT(result.output, HasSubstr("holds no dataset")) << result.output;
  }
}

// Each document is one repeated letter, so the text identifies its file.
TEST_F(DataLook, SampleNamesTheFileAndOffsetsOfTheTextItPrints) {
  const CommandResult result = run_hearth(fmt::format("data sample {} --at 3 --count 5 --seed 4 --seq-len 40", out_));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (int g = 3; g < 8; ++g) EXPECT_THAT(result.output, HasSubstr(fmt::format("sample {}: epoch 0, window ", g)));
  std::istringstream lines(result.output);
  int parts = 0;
  char letter = '?';
  int64_t begin = 0, end = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  document ")) {
      long long document = 0;
      ASSERT_EQ(std::sscanf(line.c_str(), "  document %lld, tokens %ld to %ld of", &document, &begin, &end), 3) << line;
      letter = static_cast<char>('a' + std::stoi(line.substr(line.size() - 6, 2)));
      ++parts;
    } else if (line.starts_with("    | ")) {
      const auto letters = static_cast<size_t>(std::min<int64_t>(end, 30) - std::min<int64_t>(begin, 30));
      EXPECT_EQ(line.substr(6), std::string(letters, letter));
    }
  }
  EXPECT_GE(parts, 10);  // 41 tokens span two documents of 32
  EXPECT_THAT(result.output, Not(HasSubstr("from byte"))) << "every document is a file";
}

TEST_F(DataLook, SampleOfAPartOfAFileSaysWhereTheDocumentBegins) {
  std::string text;
  for (int i = 100; i < 200; ++i) text += fmt::format("line {}\n", i);  // 9 bytes each
  write_text(scratch_ / "long.txt", text);
  ASSERT_EQ(
      run_hearth(fmt::format("data build --out {0}/parts --document-bytes 90 {0}/long.txt", scratch_.path().string()))
          .exit_code,
      0);
  const std::string output =
      run_hearth(fmt::format("data sample {}/parts --count 10 --seq-len 91", scratch_.path().string())).output;
  for (int part = 0; part < 10; ++part) {
    const std::string document = fmt::format("\n  document {}, tokens 0 to 91 of ", part);
    const size_t at = output.find(document);
    ASSERT_NE(at, std::string::npos) << output;
    const std::string head = output.substr(at + 1, output.find("\n    | ", at) - at - 1);
    EXPECT_EQ(head.ends_with(fmt::format("long.txt from byte {}", 90 * part)), part > 0) << head;
    EXPECT_EQ(output.find(fmt::format("\n    | line {}\n", 100 + 10 * part), at), at + 1 + head.size()) << head;
  }
}

TEST_F(DataLook, VerifyListsEveryDamagedPlace) {
  for (const char* name : {"train-000000-0000.shard", "validation-000000-0000.shard"}) {
    std::string bytes = read_file(out_ + "/" + name);
    bytes[200] = static_cast<char>(bytes[200] ^ 1);
    write_text(Path(out_) / name, bytes);
  }
  const CommandResult result = run_hearth("data verify " + out_);
  EXPECT_EQ(result.exit_code, 3);
  for (const char* line :
       {"train-000000-0000.shard: block 0 ", "\nvalidation-000000-0000.shard: block 0 ", "is damaged in 2 places"})
    EXPECT_THAT(result.output, HasSubstr(line)) << line << "\n" << result.output;
}

TEST_F(DataLook, SampleOfAStepNeedsARunFile) {
  const CommandResult result = run_hearth(fmt::format("data sample {} --step 2", out_));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("--step needs a run file")) << result.output;
}

TEST_F(DataLook, SampleOfARunFilePrintsTheStepsSamples) {
  const Path run = scratch_ / "run.toml";
  write_text(run,
             "[data]\npath = \"out\"\n[training]\nsteps = 1000\nseq_len = 40\nseed = 4\nlocal_batch_size = 2\n"
             "global_batch_size = 4\n");
  const CommandResult step = run_hearth(fmt::format("data sample {} --step 2", run.string()));
  ASSERT_EQ(step.exit_code, 0) << step.output;
  EXPECT_EQ(step.output, run_hearth(fmt::format("data sample {} --at 4 --count 4 --seed 4 --seq-len 40", out_)).output);
  EXPECT_EQ(run_hearth(fmt::format("data sample {} --seed 4", run.string())).exit_code, 2);
}

// Steps 1 and 2 had 4 sequences of 40 tokens. Step 3, after a resume with another batch, had 6; step 4 is yet to come.
// The step 4 before the resume does not count.
TEST_F(DataLook, SampleOfAStepCountsWhatTheRunRecordedWhateverItsBatchWas) {
  const Path run = scratch_ / "run.toml";
  write_text(run,
             "[data]\npath = \"out\"\n[training]\nsteps = 1000\nseq_len = 40\nseed = 4\nlocal_batch_size = 2\n"
             "global_batch_size = 6\n");
  const auto record = [](int64_t step, int64_t tokens) {
    return fmt::format(
        "{{\"step\": {}, \"tokens\": {}, \"tokens_per_second\": 1, \"mfu\": 0, \"data_wait_s\": 0, "
        "\"step_s\": 1, \"memory_bytes\": 1}}\n",
        step, tokens);
  };
  const auto expect_samples = [&](int64_t step, int64_t first, int64_t count) {
    EXPECT_EQ(
        run_hearth(fmt::format("data sample {} --step {}", run.string(), step)).output,
        run_hearth(fmt::format("data sample {} --at {} --count {} --seed 4 --seq-len 40", out_, first, count)).output)
        << "step " << step;
  };
  const std::string resume = "{\"event\": \"resume\", \"step\": 2}\n";
  write_text(scratch_ / "metrics.jsonl",
             record(1, 160) + record(2, 320) + record(3, 480) + record(4, 640) + resume + record(3, 560));
  expect_samples(1, 0, 4);
  expect_samples(2, 4, 4);
  expect_samples(3, 8, 6);
  expect_samples(4, 14, 6);
  expect_samples(6, 26, 6);
  // A run's own record of its samples counts. After a rewind the next step begins after the samples of the failed one.
  const auto at = [&](int64_t step, int64_t tokens, int64_t first, int64_t samples) {
    std::string line = record(step, tokens);
    line.insert(line.find(", \"data_wait_s\""), fmt::format(", \"first_sample\": {}, \"samples\": {}", first, samples));
    return line;
  };
  write_text(scratch_ / "metrics.jsonl",
             at(1, 160, 0, 4) + at(2, 320, 4, 4) + at(3, 480, 8, 4) +
                 "{\"event\": \"rewind\", \"step\": 2, \"next_sample\": 16, \"from_step\": 4}\n");
  expect_samples(2, 4, 4);
  expect_samples(3, 16, 6);
  expect_samples(5, 28, 6);
  write_text(scratch_ / "metrics.jsonl", read_file(scratch_ / "metrics.jsonl") + at(3, 480, 16, 4));
  expect_samples(3, 16, 4);
  expect_samples(4, 20, 6);
  // A branch that keeps the data without the steps, and one that keeps the steps without the data.
  write_text(scratch_ / "metrics.jsonl", "{\"event\": \"resume\", \"step\": 0, \"next_sample\": 48}\n");
  expect_samples(1, 48, 6);
  write_text(scratch_ / "metrics.jsonl", "{\"event\": \"resume\", \"step\": 12, \"next_sample\": 0}\n");
  expect_samples(13, 0, 6);
  // A branch of an older Hearth began in the middle: its first step's batch is the run file's.
  write_text(scratch_ / "metrics.jsonl", record(101, 40 * 406) + record(102, 40 * 412));
  expect_samples(101, 400, 6);
  expect_samples(102, 406, 6);
}

TEST_F(DataLook, BenchDataMeasuresEverythingAndLeavesNothingBehind) {
  make_folders(scratch_ / "tmp");
  const CommandResult result = test::run_command("TMPDIR=" + (scratch_ / "tmp").string() + " " + test::hearth_binary() +
                                                 " bench data --shards 50 --megabytes 1 --json");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto object = nlohmann::json::parse(result.output);
  EXPECT_EQ(object.at("shards"), 50);
  for (const char* key :
       {"sample_one_source_ns", "sample_six_sources_ns", "locate_ns", "open_ms", "loader_tokens_per_second"})
    EXPECT_GT(object.at(key).get<double>(), 0) << key;
  EXPECT_TRUE(list_folder(scratch_ / "tmp").empty());
}

// Two datasets in one run file. Then the run continues with other weights, and its past is kept.
TEST_F(DataLook, SampleNamesTheSourceOfEachAndFollowsTheCheckpointsPast) {
  for (int i = 0; i < 26; ++i)
    write_text(scratch_ / "more" / fmt::format("{:02}.txt", i), std::string(40, static_cast<char>('A' + i)) + "\n");
  const std::string more = (scratch_ / "more-data").string();
  ASSERT_EQ(run_hearth(fmt::format("data build --out {} {}", more, (scratch_ / "more").string())).exit_code, 0);
  write_text(scratch_ / "run.toml",
             "[training]\nsteps = 20\nseq_len = 16\nlocal_batch_size = 4\nseed = 3\n[lr_scheduler]\nwarmup_steps = 0\n"
             "[[data.source]]\npath = \"out\"\nweight = 3\n[[data.source]]\npath = \"more-data\"\n");
  const std::string toml = (scratch_ / "run.toml").string();
  const CommandResult step = run_hearth("data sample " + toml + " --step 2");
  ASSERT_EQ(step.exit_code, 0) << step.output;
  EXPECT_THAT(step.output, HasSubstr("sample 4: " + out_ + ", epoch 0, window ")) << step.output;
  EXPECT_THAT(step.output, HasSubstr(": " + more + ", epoch 0, window ")) << step.output;
  EXPECT_EQ(run_hearth("data sample " + toml + " --at 4 --count 4").output, step.output);
}

// The documents of GPT-NeoX's golden vectors, with a token file, its order and its mixture: every sample of a step.
TEST(DataSample, AStepOfGptNeoxsOrderIsTheGoldenOne) {
  const ScratchFolder scratch;
  const int documents[][8] = {{5, 6, 7, 2}, {8}, {9, 10, 11, 12, 13, 14, 2}, {15, 16, 2}, {17, 18, 19, 20, 21, 2}};
  const char sizes[] = {4, 1, 7, 3, 6};
  std::string tokens, index = std::string("MMIDIDX\0\0\1\0\0\0\0\0\0\0\x8", 18);
  const auto put = [&index](uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i, value >>= 8) index += static_cast<char>(value);
  };
  put(5, 8);
  put(6, 8);
  for (const char size : sizes) put(static_cast<uint64_t>(size), 4);
  uint64_t pointer = 0;
  for (size_t d = 0; d < 5; ++d) {
    put(pointer, 8);
    pointer += static_cast<uint64_t>(2 * sizes[d]);
    for (int i = 0; i < sizes[d]; ++i) tokens += std::string{static_cast<char>(documents[d][i]), '\0'};
  }
  for (uint64_t d = 0; d <= 5; ++d) put(d, 8);
  write_text(scratch / "golden.bin", tokens);
  write_text(scratch / "golden.idx", index);
  const std::string built = (scratch / "data").string();
  ASSERT_EQ(
      run_hearth(fmt::format("data build --vocab-size 32016 --out {} {}", built, (scratch / "golden.bin").string()))
          .exit_code,
      0);
  write_text(scratch / "run.toml",
             "[training]\nseq_len = 4\nsteps = 3\nlocal_batch_size = 3\nseed = 1234\n"
             "[lr_scheduler]\nwarmup_steps = 0\n[data]\npath = \"data\"\norder = \"neox\"\nstride = \"neox\"\n");
  const CommandResult result = run_hearth("data sample --step 1 " + (scratch / "run.toml").string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  // Sequences 7, 3 and 5, which begin at tokens (0, 0), (1, 5) and (3, 0) of the documents 4, 2 | 2, 4 | 1, 0.
  for (const char* part :
       {"sample 0: pass 0, window 7, tokens 15 to 20 of train\n  document 4, tokens 0 to 5",
        "sample 1: pass 0, window 3, 2 parts of train\n  document 2, tokens 5 to 7", "  document 4, tokens 0 to 3",
        "sample 2: pass 0, window 5, 2 parts of train\n  document 1, tokens 0 to 1", "  document 0, tokens 0 to 4"})
    EXPECT_THAT(result.output, HasSubstr(part)) << part << "\n" << result.output;
  EXPECT_TRUE(path_exists(scratch / "data" / "tables"));
}

}  // namespace
}  // namespace hearth
