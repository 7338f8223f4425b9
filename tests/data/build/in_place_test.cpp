// SPDX-License-Identifier: Apache-2.0
// Datasets whose tokens stay in the token file, compared with a copying build of the same file; and changes of that
// file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "data/batch/loader.h"
#include "data/build/merge_parts.h"
#include "data/corpus_folder.h"
#include "data/order/neox_order.h"
#include "data/study/verify.h"
#include "support/failpoint.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using nlohmann::json;
using test::ScratchFolder;

// Sequences of 0 to `longest` ids below 100.
json sequences(int count, int64_t longest) {
  json all = json::array();
  for (int i = 0; i < count; ++i) {
    const auto n = static_cast<uint64_t>(i);
    json ids = json::array();
    const auto length =
        static_cast<int64_t>(random_u64(random_key(3, "length"), n) % static_cast<uint64_t>(longest + 1));
    for (int64_t k = 0; k < length; ++k)
      ids.push_back(random_u64(random_key(n, "ids"), static_cast<uint64_t>(k)) % 100);
    all.push_back(std::move(ids));
  }
  return all;
}

// Each job is [prefix, type, layout, sequences].
void write_token_files(const Path& scratch, const json& jobs) {
  write_text(scratch / "jobs.json", jobs.dump());
  const auto run =
      test::run_command(fmt::format("python3 {} < {}", test::source_path("tests/data/formats/indexed_reference.py"),
                                    (scratch / "jobs.json").string()));
  ASSERT_EQ(run.exit_code, 0) << run.output;
}

BuildOptions options_for(const Path& out, std::vector<Path> paths, bool in_place) {
  BuildOptions options;
  options.out = out;
  options.paths = std::move(paths);
  options.rules.tokenizer = "ids:100";
  options.rules.in_place = in_place;
  options.rules.shard_tokens = 100'000;  // bytes of ids: several shards
  options.portion_bytes = 1;
  options.threads = 2;
  return options;
}

// One file of 400 kB in some shards of several blocks each, and two datasets of it: "place" and "copy".
struct OneFile {
  ScratchFolder scratch;
  Path bin = scratch / "tokens.bin";
  explicit OneFile(int64_t shard_tokens = 300'000) {
    write_token_files(scratch, {{(scratch / "tokens").string(), "u16", "neox", sequences(120, 3400)}});
    for (const bool in_place : {true, false}) {
      BuildOptions options = options_for(scratch / (in_place ? "place" : "copy"), {bin}, in_place);
      options.rules.shard_tokens = shard_tokens;
      run(options);
    }
  }
  void flip(size_t byte) const {
    std::string bytes = read_file(bin);
    bytes[byte] = static_cast<char>(bytes[byte] ^ 2);
    write_text(bin, bytes);
  }
};

LoaderOptions small_batches() {
  LoaderOptions o;
  o.seed = 7;
  o.seq_len = 256;
  o.global_batch_size = o.local_batch_size = 4;
  return o;
}

void expect_same_split(const Split& a, const Split& b) {
  ASSERT_EQ(a.tokens(), b.tokens());
  ASSERT_EQ(a.documents(), b.documents());
  EXPECT_EQ(a.text_bytes(), b.text_bytes());
  EXPECT_TRUE(all_tokens(a) == all_tokens(b));
  EXPECT_EQ(a.document_begins(0, a.documents() + 1), b.document_begins(0, b.documents() + 1));
  for (int64_t i = 0; i < a.documents(); ++i) {
    EXPECT_EQ(a.origin(i).source, b.origin(i).source);
    EXPECT_EQ(a.origin(i).source_offset, b.origin(i).source_offset);
  }
}

TEST(InPlace, EveryTypeOfEveryLayoutReadsAsItsCopyDoes) {
  const ScratchFolder scratch;
  json jobs = json::array();
  for (const char* type : {"u8", "i8", "i16", "i32", "u16"}) {
    for (const char* layout : {"neox", "modes", "legacy"})
      jobs.push_back({(scratch / fmt::format("{}-{}", type, layout)).string(), type, layout, sequences(40, 300)});
  }
  write_token_files(scratch, jobs);
  for (const auto& job : jobs) {
    const Path bin = job[0].get<std::string>() + ".bin";
    const std::string before = read_file(bin);
    BuildOptions copying = options_for(scratch / "copy", {bin}, false);
    BuildOptions staying = options_for(scratch / "place", {bin}, true);
    for (BuildOptions* options : {&copying, &staying}) {
      options->overwrite = true;
      options->rules.shard_tokens = 6000;
    }
    const BuildResult copied = run(copying), stayed = run(staying);
    EXPECT_GT(stayed.shards_written, 2);
    EXPECT_EQ(stayed.manifest.identity, copied.manifest.identity) << bin;
    expect_same_split(Dataset::open(scratch / "place").split("train"), Dataset::open(scratch / "copy").split("train"));
    EXPECT_EQ(read_file(bin), before);
  }
}

TEST(InPlace, TheFolderHoldsNoTokensAndTheSamplesOfATrainingAreThoseOfTheCopy) {
  const OneFile one;
  const Dataset place = Dataset::open(one.scratch / "place"), copy = Dataset::open(one.scratch / "copy");
  const auto on_disk = [](const Dataset& dataset) {
    int64_t bytes = 0;
    for (const ShardEntry& shard : dataset.manifest().splits[0].shards) bytes += shard.size_bytes;
    return bytes;
  };
  EXPECT_GT(place.manifest().splits[0].shards.size(), 2U);
  const auto tokens = static_cast<int64_t>(std::filesystem::file_size(one.bin));
  EXPECT_GT(on_disk(copy), tokens / 2);  // a byte each: the vocabulary is 100
  EXPECT_LT(on_disk(place), tokens / 20);
  const VerifyResult verified = verify_dataset(one.scratch / "place", 2);
  EXPECT_TRUE(verified.damage.empty());
  EXPECT_EQ(verified.bytes, on_disk(place) + tokens);

  for (const bool neox : {false, true}) {
    LoaderOptions o = small_batches();
    if (neox) {
      o.order.stride = config::Stride::kNeox;
      o.order.tables = {std::make_shared<const WindowTable>(neox_window_table(place.split("train"), o.seq_len, 900, 5),
                                                            place.split("train").tokens(), o.seq_len)};
    }
    Loader a(place.split("train"), o), b(copy.split("train"), o);
    for (int step = 0; step < 200; ++step) {
      const Batch from_place = a.next().micro_batches[0], from_copy = b.next().micro_batches[0];
      ASSERT_EQ(from_place.tokens, from_copy.tokens);
      ASSERT_EQ(from_place.labels, from_copy.labels);
      ASSERT_EQ(from_place.document_starts, from_copy.document_starts);
    }
  }
}

TEST(InPlace, AStrangerReadsItFromTheDocumentAlone) {
  const OneFile one;
  const auto read = test::run_command(fmt::format(
      "python3 {} {}", test::source_path("tests/data/shard/read_from_document.py"), (one.scratch / "place").string()));
  ASSERT_EQ(read.exit_code, 0) << read.output;
  EXPECT_TRUE(json::parse(read.output)["train"] == sequences(120, 3400));
}

TEST(InPlace, AFlippedByteIsFoundWhereItLiesAndNowhereElse) {
  const OneFile one;
  one.flip(200'001);
  const auto damage = verify_dataset(one.scratch / "place", 2).damage;
  ASSERT_EQ(damage.size(), 1U);
  EXPECT_THAT(damage[0].description, HasSubstr(one.bin.string() + " (column tokens) have a wrong checksum"))
      << damage[0].description;
  int64_t begin = 0, end = 0;
  ASSERT_EQ(std::sscanf(damage[0].description.c_str(), "bytes %ld to %ld of", &begin, &end), 2);
  EXPECT_LE(begin, 200'001);
  EXPECT_GT(end, 200'001);
  EXPECT_LE(end - begin, 65536);

  const Dataset place = Dataset::open(one.scratch / "place"), copy = Dataset::open(one.scratch / "copy");
  const Split& split = place.split("train");
  // The other blocks are read as before.
  for (const auto& [first, count] : {std::pair{int64_t{0}, begin / 2}, std::pair{end / 2, split.tokens() - end / 2}}) {
    std::vector<int32_t> here(static_cast<size_t>(count)), there = here;
    split.read(first, here);
    copy.split("train").read(first, there);
    EXPECT_TRUE(here == there);
  }
  std::vector<int32_t> one_token(1);
  const Error e = error_of([&] { split.read(100'000, one_token); });
  EXPECT_EQ(e.code(), ExitCode::kDamaged);
  EXPECT_THAT(e.why(), HasSubstr(one.bin.string())) << e.what();

  // A training reports it, or continues with other samples.
  LoaderOptions o = small_batches();
  const auto windows = static_cast<uint64_t>((split.tokens() + o.seq_len - 2) / o.seq_len);
  Loader strict(split, o);
  EXPECT_EQ(error_of([&] {
              for (uint64_t g = 0; g < windows; g += 4) strict.next();
            }).code(),
            ExitCode::kDamaged);
  o.substitute_damage = true;
  Loader lenient(split, o);
  size_t substitutes = 0;
  for (uint64_t g = 0; g < windows; g += 4) substitutes += lenient.next().substitutes.size();
  EXPECT_GE(substitutes, static_cast<size_t>((end - begin) / 2 / o.seq_len));
}

TEST(InPlace, AFileThatIsMissingOrHasAnotherSizeIsNamedWhenTheDatasetIsOpened) {
  const OneFile one;
  const Path folder = one.scratch / "place", away = one.scratch / "away.bin";
  const auto why = [&] {
    const Error e = error_of([&] { Dataset::open(folder); });
    EXPECT_EQ(e.code(), ExitCode::kDamaged) << e.what();
    EXPECT_EQ(e.fix(), "put the file back as it was, or build the dataset again");
    const auto damage = verify_dataset(folder, 1).damage;
    EXPECT_EQ(damage.size(), read_manifest(folder).splits[0].shards.size());
    EXPECT_EQ(damage.at(0).description, e.why());
    return e.why();
  };
  const std::string lies = "its tokens are in " + one.bin.string() + ", which ";
  rename_path(one.bin, away);
  EXPECT_EQ(why(), lies + "is missing");
  ASSERT_EQ(::mkfifo(one.bin.c_str(), 0600), 0);  // opening it would wait for a writer
  EXPECT_EQ(why(), lies + "is missing");
  remove_file(one.bin);
  const std::string bytes = read_file(away);
  write_text(one.bin, bytes + "ab");
  EXPECT_EQ(why(), fmt::format("{}has {} bytes instead of {}", lies, bytes.size() + 2, bytes.size()));
  write_text(one.bin, bytes.substr(2));
  EXPECT_EQ(why(), fmt::format("{}has {} bytes instead of {}", lies, bytes.size() - 2, bytes.size()));
  remove_file(one.bin);
  rename_path(away, one.bin);
  EXPECT_TRUE(verify_dataset(folder, 1).damage.empty());
}

TEST(InPlace, PartsThreadsSplitsAndRestartsGiveTheSameBytes) {
  const ScratchFolder scratch;
  make_folders(scratch / "in");
  write_token_files(scratch, {{(scratch / "in" / "a").string(), "u16", "neox", sequences(50, 900)},
                              {(scratch / "in" / "b").string(), "i32", "megatron", sequences(35, 500)},
                              {(scratch / "in" / "c").string(), "u8", "legacy", json::parse("[[1, 2], [], [3]]")},
                              {(scratch / "in" / "d").string(), "u8", "neox", json::parse("[[4], [5, 6]]")}});
  BuildOptions options = options_for(scratch / "whole", {scratch / "in"}, true);
  options.rules.split = "70,20,10";
  options.rules.drop_empty = true;
  options.rules.shard_tokens = 30'000;
  const BuildResult whole = run(options);
  const std::string bytes = folder_content(options.out);
  EXPECT_TRUE(run(options).was_complete);
  BuildOptions copying = options;
  copying.out = scratch / "copy";
  copying.rules.in_place = false;
  EXPECT_EQ(run(copying).manifest.identity, whole.manifest.identity);
  const Dataset place = Dataset::open(scratch / "whole"), copy = Dataset::open(scratch / "copy");
  for (const char* name : {"train", "validation", "test"}) expect_same_split(place.split(name), copy.split(name));
  EXPECT_EQ(error_of([&] {
              BuildOptions other = options;
              other.out = scratch / "copy";
              run(other);
            }).message(),
            (scratch / "copy").string() + " holds a different dataset");

  // Equal files elsewhere are not the shards' files.
  std::filesystem::copy(scratch / "in", scratch / "elsewhere");
  BuildOptions elsewhere = options;
  elsewhere.paths = {scratch / "elsewhere"};
  EXPECT_EQ(error_of([&] { run(elsewhere); }).message(), (scratch / "whole").string() + " holds a different dataset");

  options.out = scratch / "parts";
  options.num_parts = 2;
  options.threads = 1;
  for (const int64_t part : {2, 1}) {
    options.part = part;
    run(options);
  }
  merge_parts(options.out);
  EXPECT_EQ(folder_content(options.out), bytes);

  options.num_parts = options.part = 1;
  bool done = false;
  int failures = 0;
  for (int64_t call = 1; !done; call += 7) {
    options.out = scratch / "again";
    remove_tree(options.out);
    failpoint::arm(call, ENOSPC);
    try {
      run(options);
      done = true;
    } catch (const Error& e) {
      ++failures;
      EXPECT_EQ(e.code(), ExitCode::kHardware) << e.what();
    }
    failpoint::disarm();
    run(options);
    EXPECT_EQ(folder_content(options.out), bytes) << call;
  }
  EXPECT_GT(failures, 5);
}

TEST(InPlace, WhatCannotStayWhereItIsIsRefusedByName) {
  const ScratchFolder scratch;
  write_token_files(scratch, {{(scratch / "x").string(), "u16", "neox", json{{1, 2}, {3}}},
                              {(scratch / "long").string(), "i64", "neox", json{{1}}},
                              {(scratch / "real").string(), "f32", "megatron", json{{1}}},
                              {(scratch / "large").string(), "u16", "neox", json{{1, 100}}}});
  write_text(scratch / "text.txt", "text");
  std::string fix;
  const auto refused = [&](const char* file, const std::function<void(BuildRules&)>& change) {
    BuildOptions options = options_for(scratch / "out", {scratch / file}, true);
    change(options.rules);
    const Error e = error_of([&] { run(options); });
    EXPECT_EQ(e.code(), ExitCode::kUser) << e.what();
    EXPECT_FALSE(path_exists(scratch / "out" / "manifest.json"));
    fix = e.fix();
    return e.message();
  };
  const auto nothing = [](BuildRules&) {};
  EXPECT_EQ(refused("x.bin", [](BuildRules& r) { r.validation = 0.1; }), "--validation does not go with --in-place");
  EXPECT_EQ(refused("x.bin", [](BuildRules& r) { r.dedup_exact = true; }), "--dedup exact does not go with --in-place");
  EXPECT_EQ(refused("x.bin", [](BuildRules& r) { r.on_error = OnError::kSkip; }),
            "--on-error skip does not go with --in-place");
  for (const char* file : {"long.bin", "real.bin", "text.txt"})
    EXPECT_EQ(refused(file, nothing), (scratch / file).string() + " cannot be used in place");
  EXPECT_EQ(refused("large.bin", nothing),
            (scratch / "large.bin").string() + ": sequence 0: token 100 is outside the vocabulary of 100");
  EXPECT_THAT(fix, testing::StartsWith("give the tokenizer that made the ids (--tokenizer FILE), or --vocab-size N"));
}

}  // namespace
}  // namespace hearth::data
