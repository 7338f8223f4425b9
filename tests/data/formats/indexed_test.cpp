// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/build/merge_parts.h"
#include "data/corpus_folder.h"
#include "data/export/export.h"
#include "data/formats/indexed_file.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;
using Sequences = std::vector<std::vector<uint32_t>>;

// Documents that GPT-NeoX's own writer wrote to the two files below (vocabulary 32016).
const Sequences kGolden = {{5, 6, 7, 2}, {8}, {9, 10, 11, 12, 13, 14, 2}, {15, 16, 2}, {17, 18, 19, 20, 21, 2}};
constexpr std::string_view kGoldenIndex =
    "4d4d49444944580000010000000000000008050000000000000006000000000000000400000001000000070000000300000006000000000000"
    "00"
    "0000000008000000000000000a0000000000000018000000000000001e00000000000000000000000000000001000000000000000200000000"
    "000000"
    "030000000000000004000000000000000500000000000000";

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

std::string golden_tokens() {
  std::string bytes;
  for (const auto& document : kGolden)
    for (const uint32_t id : document) bytes += std::string{static_cast<char>(id), '\0'};
  return bytes;
}

// A job is [prefix, type, layout, sequences].
void write_references(const Path& scratch, const nlohmann::json& jobs) {
  write_text(scratch / "jobs.json", jobs.dump());
  const auto run =
      test::run_command(fmt::format("python3 {} < {}", test::source_path("tests/data/formats/indexed_reference.py"),
                                    (scratch / "jobs.json").string()));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  remove_file(scratch / "jobs.json");
}

void write_reference(const Path& prefix, const std::string& type, const std::string& layout, const std::string& json) {
  make_folders(prefix.parent_path());
  write_references(prefix.parent_path(), {{prefix.string(), type, layout, nlohmann::json::parse(json)}});
}

Sequences read_all(const Path& bin) {
  const IndexedFile file(bin);
  file.check_documents();
  Sequences sequences(static_cast<size_t>(file.num_sequences()));
  for (int64_t i = 0; i < file.num_sequences(); ++i) file.read(i, sequences[static_cast<size_t>(i)]);
  return sequences;
}

BuildOptions options_for(const Path& out, const Path& path, int64_t vocab_size) {
  BuildOptions options;
  options.out = out;
  options.paths = {path};
  options.rules.tokenizer = fmt::format("ids:{}", vocab_size);
  return options;
}

TEST(Indexed, TheFilesOfNeoxsOwnWriterGoInAndComeOutByteForByte) {
  const ScratchFolder scratch;
  write_text(scratch / "gold.bin", golden_tokens());
  write_text(scratch / "gold.idx", from_hex(kGoldenIndex));
  ASSERT_EQ(read_file(scratch / "gold.idx").size(), 142u);
  EXPECT_EQ(read_all(scratch / "gold.bin"), kGolden);
  const DatasetManifest m = run(options_for(scratch / "out", scratch / "gold.idx", 32016)).manifest;
  EXPECT_EQ(m.find_split("train")->tokens, 21);
  EXPECT_EQ(m.find_split("train")->text_bytes, 0);
  const Dataset dataset = Dataset::open(scratch / "out");
  const ExportResult result = export_indexed(dataset, dataset.split("train"), scratch / "back");
  EXPECT_EQ(result.documents, 5);
  EXPECT_EQ(read_file(scratch / "back.bin"), golden_tokens());
  EXPECT_EQ(read_file(scratch / "back.idx"), from_hex(kGoldenIndex));
  EXPECT_EQ(error_of([&] { export_jsonl(dataset, dataset.split("train"), scratch / "x"); }).code(), ExitCode::kUser);
}

TEST(Indexed, OptionsOfTextsAreRefused) {
  const ScratchFolder scratch;
  write_text(scratch / "gold.bin", golden_tokens());
  write_text(scratch / "gold.idx", from_hex(kGoldenIndex));
  ReadRules named;
  named.format = "bin-idx";
  for (const ReadRules& rules : {ReadRules(), named}) {
    const Error e = error_of([&] { recognise(scratch / "gold.bin", rules, {.has_keys = true}); });
    EXPECT_THAT(e.message(), HasSubstr("--text-key does not go with "));
    EXPECT_THAT(e.message(), HasSubstr("gold.bin"));
    EXPECT_EQ(e.why(), "it is read as bin-idx: there are no keys");
  }
  const Error e = error_of([&] { recognise(scratch / "gold.bin", {}, {.as_text = true}); });
  EXPECT_THAT(e.message(), HasSubstr("--as-text does not go with "));
  EXPECT_THAT(e.fix(), HasSubstr("--format text"));
  named.format = "text";
  EXPECT_EQ(recognise(scratch / "gold.bin", named, {.as_text = true}).format, Format::kText);
}

TEST(Indexed, EveryTypeOfEveryLayoutIsReadAndTheDialectsAreToldApart) {
  const ScratchFolder scratch;
  const Sequences sequences = {{1, 2, 3}, {}, {127}, {4, 5, 6, 7}};
  nlohmann::json jobs = nlohmann::json::array();
  for (const char* type : {"u8", "i8", "i16", "i32", "i64", "u16", "f32", "f64"}) {
    for (const char* layout : {"neox", "megatron", "modes", "legacy"})
      jobs.push_back({(scratch / fmt::format("{}-{}", type, layout)).string(), type, layout, sequences});
  }
  write_references(scratch, jobs);
  for (const auto& job : jobs) EXPECT_EQ(read_all(job[0].get<std::string>() + ".bin"), sequences) << job[0];
  write_reference(scratch / "large", "i64", "neox", "[[2147483647]]");
  EXPECT_EQ(read_all(scratch / "large.bin"), (Sequences{{2147483647}}));
}

TEST(Indexed, ADialectIsThatOfTheFileOrRefused) {
  const ScratchFolder scratch;
  const auto at = [&](const std::string& name) { return scratch / name; };
  // The last sequences are empty: the one before them shows the dialect.
  const Sequences sequences = {{9}, {1, 2, 3}, {}, {}};
  for (const char* type : {"f32", "f64"}) {
    for (const char* layout : {"neox", "megatron"}) {
      write_reference(at("x"), type, layout, nlohmann::json(sequences).dump());
      EXPECT_EQ(read_all(at("x.bin")), sequences) << type << layout;
      for (const std::string dialect : {"neox", "megatron"}) {
        BuildOptions options = options_for(at("out"), at("x.bin"), 10);
        options.rules.read.dialect = dialect;
        options.overwrite = true;
        if (dialect == layout) {
          EXPECT_EQ(run(options).manifest.find_split("train")->tokens, 4);
          continue;
        }
        const Error e = error_of([&] { run(options); });
        EXPECT_EQ(e.code(), ExitCode::kUser);
        EXPECT_EQ(e.message(), at("x.idx").string() + " is not in the dialect \"" + dialect + "\"");
        EXPECT_THAT(e.why(), HasSubstr(std::string("which is ") + layout + "'s")) << e.why();
      }
    }
  }
  write_reference(at("legacy"), "f64", "legacy", "[[1, 2]]");  // the older writer's numbers are GPT-NeoX's
  EXPECT_EQ(IndexedFile(at("legacy.bin"), "neox").num_sequences(), 1);
  EXPECT_EQ(error_of([&] { IndexedFile(at("legacy.bin"), "megatron"); }).code(), ExitCode::kUser);
  write_reference(at("whole"), "i32", "megatron", "[[1, 2]]");  // the same in both dialects
  EXPECT_EQ(IndexedFile(at("whole.bin"), "neox").num_sequences(), 1);
  write_reference(at("empty"), "f32", "neox", "[[], []]");  // both dialects fit
  EXPECT_EQ(IndexedFile(at("empty.bin"), "neox").num_sequences(), 2);
  EXPECT_EQ(IndexedFile(at("empty.bin"), "megatron").num_sequences(), 2);

  write_reference(at("x"), "f64", "neox", "[[9], [1, 2, 3]]");
  write_text(at("x.bin"), read_file(at("x.bin")) + "1234");  // neither four nor eight bytes a token
  const Error cut = error_of([&] { IndexedFile(at("x.bin")); });
  EXPECT_EQ(cut.code(), ExitCode::kDamaged);
  EXPECT_THAT(cut.why(), HasSubstr("sequence 1 has 3 tokens")) << cut.why();
  BuildOptions options = options_for(at("out"), at("x.bin"), 10);
  options.rules.read.dialect = "olmo";
  EXPECT_EQ(error_of([&] { run(options); }).message(), "there is no dialect \"olmo\"");
}

TEST(Indexed, ValuesThatAreNoIdsAreNamed) {
  const ScratchFolder scratch;
  const auto message = [&](const char* type, const char* json, int64_t vocab_size = 1000) {
    write_reference(scratch / "x", type, "neox", json);
    return error_of([&] { run(options_for(scratch / "out", scratch / "x.bin", vocab_size)); }).message();
  };
  const std::string where = (scratch / "x.bin").string() + ": sequence 1: ";
  EXPECT_EQ(message("i16", "[[1],[2,-3]]"), where + "its token 1 is not an id: negative, not whole, or too large");
  EXPECT_EQ(message("f32", "[[1],[2.5]]"), where + "its token 0 is not an id: negative, not whole, or too large");
  EXPECT_EQ(message("i64", "[[1],[4294967296]]"),
            where + "its token 0 is not an id: negative, not whole, or too large");
  EXPECT_EQ(message("u16", "[[1],[1000]]"), where + "token 1000 is outside the vocabulary of 1000");
  EXPECT_EQ(message("u16", "[[1],[300]]", 258), where + "token 300 is outside the vocabulary of 258");
}

TEST(Indexed, TokensAndTextMixAndAFolderCountsEachPairOnce) {
  const ScratchFolder scratch;
  write_reference(scratch / "in" / "a", "u16", "neox", "[[104,105,257],[],[72,105,256]]");
  write_text(scratch / "in" / "b.txt", "hello");
  BuildOptions options = options_for(scratch / "out", scratch / "in", 258);
  EXPECT_EQ(error_of([&] { run(options); }).message(), "text cannot be encoded without a tokenizer");
  options.rules.tokenizer = "bytes";
  options.overwrite = true;
  const DatasetManifest m = run(options).manifest;
  EXPECT_EQ(m.sources.size(), 2u);
  EXPECT_EQ(m.sources[0].path, (scratch / "in" / "a.bin").string());
  const Dataset dataset = Dataset::open(scratch / "out");
  const Split& split = dataset.split("train");
  EXPECT_EQ(all_tokens(split), (std::vector<int32_t>{104, 105, 257, 72, 105, 256, 'h', 'e', 'l', 'l', 'o', 257}));
  EXPECT_EQ(split.documents(), 4);
  EXPECT_EQ(split.text_bytes(), 2 + 0 + 2 + 5);  // the ids' text; special tokens have none
  EXPECT_EQ(split.origin(2).source_offset, 2);
  export_jsonl(dataset, split, scratch / "x.jsonl");
  EXPECT_EQ(read_file(scratch / "x.jsonl"),
            "{\"text\":\"hi\"}\n{\"text\":\"\"}\n{\"text\":\"Hi\"}\n{\"text\":\"hello\"}\n");
}

TEST(Indexed, TextThatIsExportedComesBackAsItWas) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 5);
  write_text(scratch / "text" / "odd.txt", "quote \" backslash \\ caf\xc3\xa9 \x01");
  build(scratch / "out", {scratch / "text"});
  const Dataset dataset = Dataset::open(scratch / "out");
  EXPECT_EQ(export_jsonl(dataset, dataset.split("train"), scratch / "x.jsonl").replaced_documents, 0);
  build(scratch / "again", {scratch / "x.jsonl"});
  EXPECT_EQ(all_tokens(Dataset::open(scratch / "again").split("train")), all_tokens(dataset.split("train")));
  EXPECT_EQ(Dataset::open(scratch / "again").manifest().identity, dataset.manifest().identity);
}

TEST(Indexed, RangesPartsAndThreadsGiveEachSequenceOnce) {
  const ScratchFolder scratch;
  Sequences sequences;
  for (uint32_t i = 0; i < 300; ++i) sequences.push_back(std::vector<uint32_t>(i % 7, i));
  sequences.insert(sequences.end(), 3, {});
  write_reference(scratch / "x", "i32", "neox", nlohmann::json(sequences).dump());
  BuildOptions options = options_for(scratch / "one", scratch / "x", 1000);  // Megatron names the prefix
  options.rules.shard_tokens = 40;
  options.portion_bytes = 100;
  const DatasetManifest m = run(options).manifest;
  EXPECT_EQ(m.find_split("train")->documents, 303);
  EXPECT_GT(m.find_split("train")->shards.size(), 30u);
  std::vector<int32_t> expected;
  for (const auto& sequence : sequences) expected.insert(expected.end(), sequence.begin(), sequence.end());
  EXPECT_EQ(all_tokens(Dataset::open(scratch / "one").split("train")), expected);
  options.out = scratch / "two";
  options.num_parts = 2;
  options.threads = 3;
  for (options.part = 1; options.part <= 2; ++options.part) run(options);
  merge_parts(options.out);
  EXPECT_EQ(folder_content(scratch / "one"), folder_content(scratch / "two"));
}

// Changes every byte of the index and cuts it to every length: an error, or sequences of the file's own bytes; no
// crash.
TEST(Indexed, ADamagedIndexIsAnErrorAndNeverReadOutside) {
  const ScratchFolder scratch;
  int64_t errors = 0, total = 0;
  for (const char* layout : {"neox", "legacy"}) {
    write_reference(scratch / "good", "u16", layout, "[[1,2,3],[],[4],[5,6]]");
    const std::string good = read_file(scratch / "good.idx");
    write_text(scratch / "x.bin", read_file(scratch / "good.bin"));
    const auto attempt = [&](const std::string& index) {
      write_text(scratch / "x.idx", index);
      ++total;
      try {
        size_t tokens = 0;
        for (const auto& sequence : read_all(scratch / "x.bin")) tokens += sequence.size();
        EXPECT_LE(tokens, 12u);
      } catch (const Error& e) {
        EXPECT_TRUE(e.code() == ExitCode::kDamaged || e.code() == ExitCode::kUser) << e.what();
        ++errors;
      }
    };
    for (size_t i = 0; i < good.size(); ++i) {
      for (const int flip : {1, 0x80}) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ flip);
        attempt(bad);
      }
      attempt(good.substr(0, i));
    }
  }
  EXPECT_GT(errors * 10, total * 7);
  write_text(scratch / "y.bin", "1234");
  EXPECT_EQ(error_of([&] { IndexedFile(scratch / "y.bin"); }).code(), ExitCode::kUser);
}

}  // namespace
}  // namespace hearth::data
