// SPDX-License-Identifier: Apache-2.0
// Parquet and Arrow files, compared with pyarrow, which wrote them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "data/arrow_support.h"
#include "data/corpus_folder.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using nlohmann::json;
using test::ScratchFolder;

// The files and their rows: written once for all tests of this process.
struct Cases {
  ScratchFolder folder;
  std::vector<json> all;
  Cases() {
    std::istringstream lines(run_oracle("formats/columns_reference.py", folder.path().string()));
    for (std::string line; std::getline(lines, line);) all.push_back(json::parse(line));
  }
};
const Cases& cases() {
  static const Cases written;
  return written;
}

SourceFile source_at(const Path& path) {
  const Recognised recognised = recognise(path, {});
  SourceFile file;
  file.path = file.real_path = path.string();
  file.size_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  file.format = recognised.format;
  return file;
}

// [neurons, bins] as lists.
json lists_of(const recordings::SpikeArray& array) {
  json lists = json::array();
  const auto bins = static_cast<size_t>(array.shape.bins), neurons = static_cast<size_t>(array.shape.neurons);
  EXPECT_EQ(array.counts.size(), neurons * bins);
  for (size_t n = 0; n < neurons; ++n) {
    json& list = lists.emplace_back(json::array());
    for (size_t t = 0; t < bins; ++t) list.push_back(array.counts[t * neurons + n]);
  }
  return lists;
}

// The records in the reference's form, each after its row's number.
json read_rows(const SourceFile& file, const ReadRules& rules, SourceRange range = {}) {
  json rows = json::array();
  const auto reader = open_source(file, rules, range);
  for (Record record; reader->next(record);) {
    json value;
    if (record.problem != RecordProblem::kNone) {
      value = {{"problem", problem_name(record.problem)}};
      if (record.problem == RecordProblem::kNotUnicode) value["text"] = record.text;
      if (record.problem == RecordProblem::kUnreadable) value["text"] = record.why;
      EXPECT_FALSE(record.why.empty());
    } else if (record.array != nullptr) {
      value = lists_of(*record.array);
    } else if (record.is_ids) {
      value = std::vector<uint32_t>(record.ids.begin(), record.ids.end());
    } else {
      value = record.text;
    }
    rows.push_back({record.position, value});
  }
  return rows;
}

TEST(Columns, EveryTypeEncodingAndCompressionGivesTheRowsThatPyarrowWroteWholeAndInRanges) {
  HEARTH_NEEDS_ARROW();
  ASSERT_GT(cases().all.size(), 290U);
  for (const json& c : cases().all) {
    SCOPED_TRACE(c["file"].get<std::string>() + " " + c["keys"].dump());
    ReadRules rules;
    rules.text_keys = c["keys"].get<std::vector<std::string>>();
    rules.join_first = c["join_first"];
    json expected = json::array();
    for (const json& row : c["rows"]) expected.push_back({expected.size(), row});
    const SourceFile file = source_at(cases().folder / c["file"]);
    EXPECT_EQ(file.format, file.path.ends_with(".parquet") ? Format::kParquet : Format::kArrow);
    EXPECT_TRUE(read_rows(file, rules) == expected) << read_rows(file, rules).dump().substr(0, 2000);
    const int64_t step = file.size_bytes / 5 + 1;
    json pieces = json::array();
    size_t most = 0;
    for (int64_t begin = 0; begin < file.size_bytes; begin += step) {
      const json piece = read_rows(file, rules, {begin, begin + step});
      most = std::max(most, piece.size());
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    EXPECT_TRUE(pieces == expected) << pieces.dump().substr(0, 2000);
    if (c["file"] == "packed-zstd-1.0.parquet" || c["file"] == "packed-lz4.arrow") {
      EXPECT_LT(most, expected.size()) << "one range has it all";
    }
  }
}

TEST(Columns, ABuildOfColumnsIsTheBuildOfTheSameDocumentsAsJsonLines) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  const json* rows = nullptr;
  for (const json& c : cases().all) {
    if (c["file"] == "packed-zstd-2.0.parquet" && c["keys"][0] == "text") rows = &c["rows"];
  }
  ASSERT_NE(rows, nullptr);
  std::string lines;
  for (const json& row : *rows) lines += json{{"text", row}}.dump() + "\n";
  write_text(scratch / "x.jsonl", lines);
  BuildRules rules;
  rules.validation = 0.1;
  const BuildResult reference = build(scratch / "jsonl", {scratch / "x.jsonl"}, rules);
  const Dataset expected = Dataset::open(scratch / "jsonl");
  for (const char* name : {"packed-zstd-2.0.parquet", "packed-snappy-1.0.parquet", "packed-zstd.arrow",
                           "packed-lz4.arrows", "DELTA_BYTE_ARRAY.parquet"}) {
    SCOPED_TRACE(name);
    // Small units: each has some row groups or batches.
    const Path out = scratch / name;
    const BuildResult result = build(out, {cases().folder / name}, rules, 2, false, 4000);
    EXPECT_EQ(result.manifest.identity, reference.manifest.identity);
    EXPECT_EQ(result.manifest.splits[0].text_bytes, reference.manifest.splits[0].text_bytes);
    const Dataset dataset = Dataset::open(out);
    for (const char* split : {"train", "validation"})
      EXPECT_EQ(all_tokens(dataset.split(split)), all_tokens(expected.split(split)));
    EXPECT_EQ(dataset.split("validation").origin(0).source, 0);
    const auto row = static_cast<size_t>(dataset.split("validation").origin(0).source_offset);
    EXPECT_EQ(static_cast<size_t>(dataset.split("validation").origin(0).text_bytes),
              (*rows)[row].get<std::string>().size());
  }
}

TEST(Columns, TokenColumnsKeepTheirIdsAndTextGetsItsOwn) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  BuildRules rules;
  rules.tokenizer = "ids:128";
  rules.read.text_keys = {"input_ids"};
  rules.on_error = OnError::kSkip;
  const auto result = build(scratch / "out", {cases().folder / "ids-list-int16.parquet"}, rules);
  EXPECT_EQ(result.manifest.records.skipped[static_cast<size_t>(RecordProblem::kMissingKey)], 1);
  std::vector<int32_t> expected;
  for (const json& c : cases().all) {
    if (c["file"] != "ids-list-int16.parquet") continue;
    for (const json& row : c["rows"]) {
      if (row.is_array()) expected.insert(expected.end(), row.begin(), row.end());
    }
  }
  EXPECT_EQ(all_tokens(Dataset::open(scratch / "out").split("train")), expected);

  rules.tokenizer = "ids:30";
  rules.on_error = OnError::kStop;
  const Error outside = error_of([&] { build(scratch / "small", {cases().folder / "ids-fixed-int8.parquet"}, rules); });
  EXPECT_EQ(outside.code(), ExitCode::kUser);
  EXPECT_THAT(outside.message(), HasSubstr("row 30: token 30 is outside the vocabulary of 30")) << outside.what();
  EXPECT_THAT(outside.fix(), HasSubstr("give the tokenizer that made the ids (--tokenizer FILE), or --vocab-size N"));
}

TEST(Columns, AKeyThatLeadsNowhereOrToSomethingElseIsNamedWithWhatTheFileHas) {
  HEARTH_NEEDS_ARROW();
  const auto refused = [](const std::string& name, std::vector<std::string> keys) {
    ReadRules rules;
    rules.text_keys = std::move(keys);
    const Error e = error_of([&] { open_source(source_at(cases().folder / name), rules); });
    EXPECT_EQ(e.code(), ExitCode::kUser);
    return std::string(e.what());
  };
  for (const char* name : {"nested.parquet", "nested.arrows"}) {
    const std::string none = refused(name, {"meta.body"});
    EXPECT_THAT(none, HasSubstr("has no column \"meta.body\"")) << none;
    EXPECT_THAT(none, HasSubstr("parts (list<")) << none;
    EXPECT_THAT(refused(name, {"meta"}), HasSubstr("it is struct<"));
    EXPECT_THAT(refused(name, {"meta.n"}), HasSubstr("it is int64, neither strings nor lists of token ids nor"));
    EXPECT_THAT(refused(name, {"parts", "deep.ids"}), HasSubstr("only texts can be joined"));
  }
}

TEST(Columns, ATextThatIsRepeatedFourThousandTimesNeedsNoMemoryForAllOfThem) {
  HEARTH_NEEDS_ARROW();
  const SourceFile file = source_at(cases().folder / "repeated.parquet");
  EXPECT_LT(file.size_bytes, 100'000);
  ReadRules rules;
  rules.max_record_bytes = 4 << 20;
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const auto reader = open_source(file, rules);
  int64_t rows = 0;
  for (Record record; rows < 200 && reader->next(record); ++rows) {
    ASSERT_EQ(record.problem, RecordProblem::kNone) << record.why;
    ASSERT_EQ(record.position, rows);
    ASSERT_EQ(record.text.size(), 1'000'000U);
  }
  EXPECT_EQ(rows, 200);
  ::getrusage(RUSAGE_SELF, &after);
#ifndef __SANITIZE_ADDRESS__                               // it keeps freed memory
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 100'000);  // KiB
#endif
  rules.max_record_bytes = 999'999;
  Record record;
  ASSERT_TRUE(open_source(file, rules)->next(record));
  EXPECT_EQ(record.problem, RecordProblem::kTooLong);
}

// The result of reading a damaged file: rows, and at most one problem, which ends them.
struct Outcome {
  size_t rows = 0;
  bool unreadable = false, refused = false;
};
Outcome read_damaged(const Path& path, std::string_view bytes, const std::vector<std::string>& keys) {
  remove_file(path);  // some file systems wait for the disk when a file is overwritten
  write_text(path, bytes);
  Outcome outcome;
  try {
    SourceFile file = source_at(path);
    ReadRules rules;
    rules.text_keys = keys;
    const auto reader = open_source(file, rules);
    for (Record record; reader->next(record); ++outcome.rows) {
      if (outcome.unreadable) ADD_FAILURE() << "something follows kUnreadable";
      outcome.unreadable = record.problem == RecordProblem::kUnreadable;
      if (!outcome.unreadable && record.problem != RecordProblem::kNone && record.why.empty())
        ADD_FAILURE() << "no reason";
    }
  } catch (const Error& e) {
    outcome.refused = true;
    EXPECT_EQ(e.code(), ExitCode::kUser) << e.what();
  }
  return outcome;
}

TEST(Columns, AFileThatIsCutShortAnywhereIsUnreadableFromThere) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  for (const std::string name : {"packed-zstd-1.0.parquet", "packed-lz4.arrow", "packed-zstd.arrows", "nested.arrows",
                                 "arrays-packed.parquet", "arrays-packed.arrow", "arrays-packed.arrows"}) {
    const std::string bytes = read_file(cases().folder / name);
    const Path path = scratch / Path("cut" + Path(name).extension().string()).string();
    const std::vector<std::string> keys = {name == "nested.arrows"      ? "meta.text"
                                           : name.starts_with("arrays") ? "spike_counts"
                                                                        : "text"};
    const Outcome whole = read_damaged(path, bytes, keys);
    EXPECT_FALSE(whole.unreadable);
    size_t most = 0;
    for (size_t i = 1; i <= 60; ++i) {
      const size_t size = i == 60 ? bytes.size() - 1 : std::max<size_t>(1, bytes.size() * i / 60 - i % 5);
      const Outcome cut = read_damaged(path, std::string_view(bytes).substr(0, size), keys);
      EXPECT_TRUE(cut.unreadable) << name << " cut to " << size << " of " << bytes.size();
      most = std::max(most, cut.rows);
    }
    // The part before the cut is read if the format allows it: Parquet has its directory at the end.
    EXPECT_EQ(most > 1, !name.ends_with(".parquet")) << name;
  }
  const std::string stream = read_file(cases().folder / "nested.arrows");
  EXPECT_TRUE(read_damaged(scratch / "x.arrows", stream.substr(0, stream.size() - 8), {"meta.text"}).unreadable)
      << "all batches, and no end mark";
  EXPECT_TRUE(read_damaged(scratch / "x.arrows", stream + stream, {"meta.text"}).unreadable) << "two streams";
}

TEST(Columns, FlippedBytesNeverDoMoreThanMakeAFileUnreadable) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  for (const std::string name :
       {"dictionary.parquet", "ids-list-int32.parquet", "text-string_view.arrow", "ids-view-uint16.arrows",
        "deltas.arrows", "packed-zstd-2.0.parquet", "packed-lz4.arrows", "arrays-packed.parquet",
        "arrays-list-list-uint8.parquet", "arrays-list-list-uint8.arrows", "arrays-views.arrow",
        "arrays-fixed-both-int16.arrows"}) {
    std::string bytes = read_file(cases().folder / name);
    const Path path = scratch / Path("flipped" + Path(name).extension().string()).string();
    const bool ids = name.starts_with("ids") || name.starts_with("packed-zstd");
    const std::vector<std::string> keys = {ids ? "input_ids" : name.starts_with("arrays") ? "spike_counts" : "text"};
    int noticed = 0, all = 0;
    const size_t step = std::max<size_t>(1, bytes.size() / 250);
    for (size_t i = 0; i < bytes.size(); i += step, ++all) {
      const char flip = i % 3 == 0 ? '\x80' : i % 3 == 1 ? '\xff' : '\x01';
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      const Outcome outcome = read_damaged(path, bytes, keys);
      noticed += outcome.unreadable || outcome.refused ? 1 : 0;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
    }
    EXPECT_GT(noticed, 0) << name;
    // Pages with checksums: any damage in them is found.
    if (name.starts_with("packed-zstd-2") || name == "arrays-packed.parquet") {
      EXPECT_GT(noticed, all / 2) << noticed << " of " << all;
    }
  }
}

TEST(Columns, ATokenizerLearnsFromParquetWhatItLearnsFromJsonLines) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  std::string lines;
  for (const json& c : cases().all) {
    if (c["file"] != "packed-zstd-2.0.parquet" || c["keys"][0] != "text") continue;
    for (const json& row : c["rows"]) lines += json{{"body", row}}.dump() + "\n";
  }
  write_text(scratch / "x.jsonl", lines);
  const auto train = [&](const Path& source, const std::string& key, const std::string& out) {
    const auto run =
        test::run_command(fmt::format("{} tokenizer train --vocab-size 300 --text-key {} --out {} {}",
                                      test::hearth_binary(), key, (scratch / out).string(), source.string()));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return read_file(scratch / out);
  };
  EXPECT_EQ(train(cases().folder / "packed-zstd-2.0.parquet", "text", "a.json"),
            train(scratch / "x.jsonl", "body", "b.json"));
}

TEST(Columns, DamageEndsABuildWithItsNameOrIsCounted) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  const std::string bytes = read_file(cases().folder / "packed-snappy-2.0.parquet");
  write_text(scratch / "in" / "a.parquet", std::string_view(bytes).substr(0, bytes.size() / 2));
  write_text(scratch / "in" / "b.jsonl", "{\"text\": \"whole\"}\n");
  const Error e = error_of([&] { build(scratch / "out", {scratch / "in"}); });
  EXPECT_EQ(e.code(), ExitCode::kDamaged);
  EXPECT_THAT(e.message(), HasSubstr("a.parquet: the file: the Parquet file cannot be read: ")) << e.what();
  BuildRules rules;
  rules.on_error = OnError::kSkip;
  const auto result = build(scratch / "out", {scratch / "in"}, rules, 2, false, 100);
  EXPECT_EQ(result.manifest.records.skipped[static_cast<size_t>(RecordProblem::kUnreadable)], 1);
  EXPECT_EQ(result.manifest.splits[0].documents, 1);
}

TEST(Columns, ACompressedColumnFileIsNotTakenForText) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  write_text(scratch / "x.parquet", read_file(cases().folder / "dictionary.parquet"));
  ASSERT_EQ(test::run_command(fmt::format("gzip {}", (scratch / "x.parquet").string())).exit_code, 0);
  const Error e = error_of([&] { recognise(scratch / "x.parquet.gz", {}); });
  EXPECT_THAT(e.message(), HasSubstr("is a compressed parquet file"));
  const std::string file = (scratch / "x.parquet.gz").string();
  EXPECT_EQ(e.fix(), fmt::format("unpack it first: gzip --decompress < {0} > {0}.unpacked", file));
  write_text(scratch / "text.parquet", "PAR, he said, and that is no Parquet\n");
  EXPECT_EQ(recognise(scratch / "text.parquet", {}).format, Format::kParquet);
}

TEST(Columns, WithoutTheSharedObjectOneErrorSaysWhatToInstall) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  std::filesystem::copy_file(test::hearth_binary(), scratch / "hearth");
  const std::string line = fmt::format("{} data build --out {} {}", (scratch / "hearth").string(),
                                       (scratch / "out").string(), (cases().folder / "dictionary.parquet").string());
  const auto alone = test::run_command(line);
  EXPECT_EQ(alone.exit_code, 2) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("Parquet and Arrow files cannot be read or written here"));
  EXPECT_THAT(alone.output, HasSubstr("fix: run scripts/setup.sh, and build again")) << alone.output;
  std::filesystem::copy_file(Path(HEARTH_BIN_DIR) / kArrowObject, scratch / kArrowObject);
  const auto half = test::run_command(line);
  EXPECT_EQ(half.exit_code, 2) << half.output;
  EXPECT_THAT(half.output, HasSubstr("libarrow")) << half.output;
  EXPECT_THAT(half.output, HasSubstr("fix: copy the libraries from the build's bin/ folder")) << half.output;
}

// A library of an older build: its functions are unknown, so none is called.
TEST(Columns, ASharedObjectOfAnotherBuildIsRefused) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  std::filesystem::copy_file(test::hearth_binary(), scratch / "hearth");
  write_text(scratch / "other.c",
             "void* hearth_arrow_library(void) { return 0; }\n"
             "void* hearth_arrow_library_00000000(void) { return 0; }\n");
  ASSERT_EQ(test::run_command(fmt::format("cc -shared -fPIC -o {} {}", (scratch / kArrowObject).string(),
                                          (scratch / "other.c").string()))
                .exit_code,
            0);
  const auto result =
      test::run_command(fmt::format("{} data build --out {} {}", (scratch / "hearth").string(),
                                    (scratch / "out").string(), (cases().folder / "dictionary.parquet").string()));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("libhearth_arrow.so belongs to another build than this program\n  why: it has no "
                        "hearth_arrow_library_"))
      << result.output;
  EXPECT_THAT(result.output, HasSubstr("fix: build Hearth again, and copy the build's bin/ folder as a whole"))
      << result.output;
}

}  // namespace
}  // namespace hearth::data
