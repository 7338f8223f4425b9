// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "data/arrow_support.h"
#include "data/corpus_folder.h"
#include "data/formats/json_text.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;

std::vector<Record> read_all(const Path& path, const ReadRules& rules, std::vector<std::string>& texts,
                             SourceRange range = {}) {
  const Recognised recognised = recognise(path, rules);
  SourceFile file{path.string(),     path.string(),         static_cast<int64_t>(std::filesystem::file_size(path)), {},
                  recognised.format, recognised.compression};
  const auto reader = open_source(file, rules, range);
  std::vector<Record> records;
  for (Record record; reader->next(record);) {
    texts.emplace_back(record.text);
    records.push_back(record);
  }
  return records;
}

// Lines of JSON of every kind, some of them invalid; the same for the same seed.
std::string random_lines(int count) {
  uint64_t n = 0;
  const auto below = [&](uint64_t limit) { return random_u64(random_key(5, "json"), n++) % limit; };
  static const std::vector<std::string> kPieces = {"plain words ",
                                                   "\\n",
                                                   "\\\"",
                                                   "\\\\",
                                                   "\\/",
                                                   "\\u00e9",
                                                   "\xc3\xa9",
                                                   "\\ud83d\\ude00",
                                                   "\xf0\x9f\x98\x80",
                                                   "\\b\\f\\r\\t",
                                                   "\\u0000",
                                                   "\\ud800",
                                                   "\\udc00",
                                                   "\\ud800\\u0041",
                                                   "\xff",
                                                   "\xed\xa0\x80",
                                                   "\\x",
                                                   "\\u12",
                                                   "\x01",
                                                   "\xe2\x82"};
  const auto string = [&] {
    std::string text = "\"";
    const uint64_t pieces = below(12);
    for (uint64_t i = 0; i < pieces; ++i) text += kPieces[below(20) == 0 ? below(kPieces.size()) : below(10)];
    return text + "\"";
  };
  const std::function<std::string(int)> value = [&](int depth) -> std::string {
    static const std::vector<std::string> kScalars = {
        "0",         "-1.5e+10", "1E400", "123456789012345678901234567890",
        "true",      "false",    "null",  "NaN",
        "-Infinity", "01",       "1.",    "-",
        "tru",       "'x'"};
    switch (below(depth > 3 ? 2 : 4)) {
      case 0:
        return string();
      case 1:
        return kScalars[below(20) == 0 ? below(kScalars.size()) : below(9)];
      case 2: {
        std::string list = "[";
        const uint64_t items = below(3);
        for (uint64_t i = 0; i < items; ++i) list += (i > 0 ? " , " : "") + value(depth + 1);
        return list + "]";
      }
      default: {
        std::string object = "{ ";
        const uint64_t items = below(3);
        for (uint64_t i = 0; i < items; ++i)
          object += (i > 0 ? "," : "") + std::string(below(2) == 0 ? "\"text\"" : "\"b\"") + " :" + value(depth + 1);
        return object + "}";
      }
    }
  };
  std::string lines;
  for (int i = 0; i < count; ++i) {
    std::string line = "{\"id\": " + value(3);
    if (below(20) != 0) line += ", \"text\":" + (below(15) == 0 ? value(2) : string());
    if (below(10) == 0) line += ", \"text\":" + string();
    if (below(20) != 0)
      line += ", \"a\": {\"b\": " + (below(3) == 0 ? "[" + string() + ", " + string() + "]" : string()) + "}";
    line += ", \"z\": " + value(0) + "}";
    if (below(12) == 0) line[below(line.size())] = "{}[]\",:x \\"[below(10)];
    if (below(40) == 0) line.resize(below(line.size()));
    if (below(40) == 0) line += " x";
    for (char& c : line) c = c == '\n' ? ' ' : c;
    lines += line + (below(9) == 0 ? "\r\n" : "\n");
    if (below(30) == 0) lines += "  \n";
  }
  return lines;
}

void compare_with_python(const std::vector<std::string>& keys) {
  const ScratchFolder scratch;
  write_text(scratch / "x.jsonl", random_lines(4000));
  ReadRules rules;
  rules.text_keys = keys;
  std::vector<std::string> texts;
  const auto records = read_all(scratch / "x.jsonl", rules, texts);
  std::string command = fmt::format("python3 {} {}", test::source_path("tests/data/formats/json_reference.py"),
                                    (scratch / "x.jsonl").string());
  for (const std::string& key : keys) command += " " + key;
  const auto run = test::run_command(command);
  ASSERT_EQ(run.exit_code, 0) << run.output;
  std::istringstream lines(run.output);
  size_t i = 0;
  int good = 0;
  const std::string content = read_file(scratch / "x.jsonl");
  for (std::string line; std::getline(lines, line); ++i) {
    ASSERT_LT(i, records.size());
    const auto expected = nlohmann::json::parse(line);
    const auto at = static_cast<size_t>(records[i].position);
    const std::string source = content.substr(at, content.find('\n', at) - at);
    if (expected[0] == "problem") {
      EXPECT_NE(records[i].problem, RecordProblem::kNone) << source;
    } else {
      EXPECT_EQ(records[i].problem, RecordProblem::kNone) << source << "\n" << records[i].why;
      EXPECT_EQ(texts[i], expected[1].get<std::string>()) << source;
      ++good;
    }
  }
  EXPECT_EQ(i, records.size());
  EXPECT_GT(good, 1500);
  EXPECT_LT(good, 3900);
}

TEST(Jsonl, FourThousandLinesAreReadAsPythonReadsThem) { compare_with_python({"text"}); }
TEST(Jsonl, DottedKeysAndListsAreReadAsPythonReadsThem) { compare_with_python({"a.b", "text"}); }

std::pair<RecordProblem, std::string> json_text(std::string_view json, std::vector<std::string> keys = {"text"},
                                                bool join_first = false) {
  ReadRules rules;
  rules.text_keys = std::move(keys);
  rules.join_first = join_first;
  JsonText reader(rules);
  std::string text;
  const RecordProblem problem = reader.read(json, text);
  return {problem, problem == RecordProblem::kNone ? text : reader.why() + "|" + text};
}

TEST(Jsonl, EachProblemIsNamed) {
  using P = std::pair<RecordProblem, std::string>;
  EXPECT_EQ(json_text(R"({"a": 1})"), P(RecordProblem::kMissingKey, "it has no key \"text\": its keys are \"a\"|"));
  EXPECT_EQ(json_text(R"({"text": 1})"), P(RecordProblem::kWrongType, "\"text\" is a number instead of a string|"));
  EXPECT_EQ(json_text(R"({"text": null})"), P(RecordProblem::kWrongType, "\"text\" is null instead of a string|"));
  EXPECT_EQ(json_text(R"({"text": {"a": "x"}})"),
            P(RecordProblem::kWrongType, "\"text\" is an object instead of a string|"));
  EXPECT_EQ(json_text(R"({"a": "x"})", {"a.b"}),
            P(RecordProblem::kMissingKey, "it has no key \"a.b\": \"a\" is a string|"));
  EXPECT_EQ(json_text(R"({"text": "x")"), P(RecordProblem::kMalformed, "not JSON at column 13: it ends early|"));
  EXPECT_EQ(json_text(R"(["text"])"), P(RecordProblem::kMalformed, "it is a list instead of a JSON object|"));
  EXPECT_EQ(json_text("3"), P(RecordProblem::kMalformed, "not JSON at column 1: it is not a JSON object|"));
  const P ids(RecordProblem::kWrongType, "\"text\" is a list of numbers instead of a string|");
  EXPECT_EQ(json_text(R"({"text": [1, 2]})"), ids);
  EXPECT_EQ(json_text(R"({"text": [["a"], [[2]]]})"), ids);
  EXPECT_EQ(json_text(R"({"text": [{"a": [1]}, null]})").second, "\"text\" is null instead of a string|");
  EXPECT_EQ(json_text(R"({"a": [1]})", {"a.b"}).second, "it has no key \"a.b\": \"a\" is a list of numbers|");
  EXPECT_EQ(json_text("{\"text\": \"a\xff\"}"),
            P(RecordProblem::kNotUnicode, "it has bytes that are not UTF-8|a\xef\xbf\xbd"));
  EXPECT_EQ(json_text(R"({"text": "a\ud800b"})"), P(RecordProblem::kNotUnicode,
                                                    "it has an unpaired surrogate (\\ud800 to \\udfff)|a\xef\xbf\xbd"
                                                    "b"));
  EXPECT_EQ(json_text(R"({"other": "\ud800", "text": "fine"})"), P(RecordProblem::kNone, "fine"));
  const std::string deep(100'000, '[');
  EXPECT_EQ(json_text("{\"a\": " + deep).first, RecordProblem::kMalformed);
}

// The error's advice is followed literally, and gives the ids.
TEST(Jsonl, IdsInJsonLinesAreRefusedWithTheWayToAFileOfIds) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  const Path lines = scratch / "ids.jsonl";
  write_text(lines, "{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": [4]}\n");
  BuildRules rules;
  rules.tokenizer = "ids:5";
  rules.read.text_keys = {"input_ids"};
  const Error error = error_of([&] { build(scratch / "out", {lines}, rules, 1, true); });
  EXPECT_EQ(error.message(), lines.string() + ": line 1: \"input_ids\" is a list of numbers instead of a string");
  const size_t command = error.fix().find("python3");
  ASSERT_NE(command, std::string::npos) << error.fix();
  const auto python = test::run_command(
      fmt::format("cd {} && {}{}", scratch.path().string(), test::oracle_python(), error.fix().substr(command + 7)));
  ASSERT_EQ(python.exit_code, 0) << python.output;
  build(scratch / "out", {scratch / "ids.parquet"}, rules, 1, true);
  EXPECT_EQ(all_tokens(Dataset::open(scratch / "out").split("train")), (std::vector<int32_t>{1, 2, 3, 4}));
  rules.read.text_keys = {"text"};
  EXPECT_EQ(error_of([&] { build(scratch / "out", {lines}, rules, 1, true); }).fix(),
            "name the key of the text (--text-key), or leave out such records with --on-error skip");
}

// seeds_frontier 4.1: "\n\n" + file.text for every file of a repository.
TEST(Jsonl, FilesOfARepositoryAreJoinedAsTheStackRecipeDoes) {
  const char* repository = R"({"files": [{"text": "one", "id": 1}, {"id": 2, "text": "two"}, {"text": "three"}]})";
  EXPECT_EQ(json_text(repository, {"files.text"}).second, "one\n\ntwo\n\nthree");
  EXPECT_EQ(json_text(repository, {"files.text"}, true).second, "\n\none\n\ntwo\n\nthree");
  EXPECT_EQ(json_text(R"({"files": [{"text": "one"}, {"id": 2}]})", {"files.text"}).first, RecordProblem::kMissingKey);
  EXPECT_EQ(json_text(R"({"files": []})", {"files.text"}), std::make_pair(RecordProblem::kNone, std::string()));
  EXPECT_EQ(json_text(R"({"title": "t", "text": "x"})", {"title", "text"}).second, "t\n\nx");
  EXPECT_EQ(json_text(R"({"a.b": "literal", "a": {"c": 1}})", {"a.b"}).second, "literal");
}

std::string gzip_member(std::string_view text) {
  std::string out(text.size() + 100, '\0');
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string zstd_frame(std::string_view text, bool sized = true) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, sized ? 1 : 0);
  out.resize(ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return out;
}

std::string numbered_lines(int first, int end) {
  std::string lines;
  for (int i = first; i < end; ++i)
    lines += fmt::format("{{\"text\": \"record {} {}\"}}\n", i, words(static_cast<uint64_t>(i), 80));
  for (char& c : lines) c = c == '\n' ? ' ' : c;  // `words` has line ends
  for (size_t at = 0; (at = lines.find("\"} ", at)) != std::string::npos;) lines[at + 2] = '\n';
  return lines;
}

TEST(Jsonl, EveryGzipMemberAndZstdFrameIsReadToTheEndOfTheFile) {
  const ScratchFolder scratch;
  const std::string a = numbered_lines(0, 9000), b = numbered_lines(9000, 12000), c = numbered_lines(12000, 12010);
  const std::string skippable("\x50\x2a\x4d\x18\x05\x00\x00\x00hello", 13);
  const std::string half = a.substr(0, a.size() / 2), rest = a.substr(a.size() / 2);  // a line across members
  write_text(scratch / "plain.jsonl", a + b + c);
  write_text(scratch / "x.jsonl.gz",
             gzip_member(half) + gzip_member(rest + b) + gzip_member("") + gzip_member(c) + std::string(512, '\0'));
  write_text(scratch / "x.jsonl.zst",
             skippable + zstd_frame(half, false) + zstd_frame(rest + b) + zstd_frame("") + skippable + zstd_frame(c));
  std::vector<std::string> plain, gzip, zstd;
  EXPECT_EQ(read_all(scratch / "plain.jsonl", {}, plain).size(), 12010u);
  read_all(scratch / "x.jsonl.gz", {}, gzip);
  read_all(scratch / "x.jsonl.zst", {}, zstd);
  EXPECT_EQ(gzip, plain);
  EXPECT_EQ(zstd, plain);
}

TEST(Jsonl, CompressedFilesThatAreCutOrDamagedSaySoAfterTheirLastGoodRecord) {
  const ScratchFolder scratch;
  const std::string text = numbered_lines(0, 20000);
  for (const bool gzip : {true, false}) {
    const std::string whole = gzip ? gzip_member(text) : zstd_frame(text);
    std::string flipped = whole;
    flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 0x10);
    for (const std::string& bad :
         {whole.substr(0, whole.size() - 1), whole.substr(0, whole.size() / 2), flipped, whole + "rubbish after it"}) {
      write_text(scratch / "x", bad);
      ReadRules rules;
      rules.format = "jsonl";
      std::vector<std::string> texts;
      const auto records = read_all(scratch / "x", rules, texts);
      ASSERT_FALSE(records.empty());
      EXPECT_EQ(records.back().problem, RecordProblem::kUnreadable);
      EXPECT_FALSE(records.back().why.empty());
      for (size_t i = 0; i + 1 < records.size() && bad != flipped; ++i)
        ASSERT_EQ(records[i].problem, RecordProblem::kNone) << i << records[i].why;
    }
  }
}

TEST(Jsonl, RangesCoverEachRecordOnceWhereverTheyAreCut) {
  const ScratchFolder scratch;
  const std::string text = "\xef\xbb\xbf" + numbered_lines(0, 40) + "\n\r\n" + R"({"text": "no line end"})";
  write_text(scratch / "x.jsonl", text);
  std::vector<std::string> whole;
  const auto records = read_all(scratch / "x.jsonl", {}, whole);
  ASSERT_EQ(whole.size(), 41u);
  const auto size = static_cast<int64_t>(text.size());
  for (int64_t step : {1, 7, 100, 1000}) {
    std::vector<std::string> parts;
    std::vector<int64_t> positions;
    for (int64_t begin = 0; begin < size; begin += step) {
      for (const Record& record : read_all(scratch / "x.jsonl", {}, parts, {begin, begin + step}))
        positions.push_back(record.position);
    }
    EXPECT_EQ(parts, whole) << step;
    for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(positions[i], records[i].position);
  }
}

TEST(Jsonl, ALineThatIsTooLongIsPassedOverInLittleMemory) {
  const ScratchFolder scratch;
  const std::string long_line = "{\"text\": \"" + std::string(5 << 20, 'x') + "\"}\n";
  write_text(scratch / "x.jsonl",
             numbered_lines(0, 2) + long_line + numbered_lines(2, 3) + long_line.substr(0, 3 << 20));
  ReadRules rules;
  rules.max_record_bytes = 1000;
  std::vector<std::string> texts;
  const auto records = read_all(scratch / "x.jsonl", rules, texts);
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ(records[2].problem, RecordProblem::kTooLong);
  EXPECT_EQ(records[2].why, "it has more than 1000 bytes (--max-record-bytes)");
  EXPECT_EQ(records[2].location, "line 3");
  EXPECT_EQ(records[3].problem, RecordProblem::kNone);
  EXPECT_EQ(records[4].problem, RecordProblem::kTooLong);
}

TEST(Jsonl, AZipBombIsRefusedBeforeItIsUnpacked) {
  const ScratchFolder scratch;
  const std::string zeros(64 << 20, '\n');
  std::string bomb;
  const std::string frame = zstd_frame(zeros);
  for (int i = 0; i < 8; ++i) bomb += frame;
  write_text(scratch / "x.jsonl.zst", bomb);
  std::vector<std::string> texts;
  const auto records = read_all(scratch / "x.jsonl.zst", {}, texts);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].problem, RecordProblem::kUnreadable);
  EXPECT_THAT(records[0].why, HasSubstr("it looks like a zip bomb")) << records[0].why;
}

TEST(Jsonl, FormatsAreRecognisedByContentAndJsonLinesByNameToo) {
  const ScratchFolder scratch;
  const auto format_of = [&](const std::string& name, const std::string& content) {
    write_text(scratch / name, content);
    const Recognised found = recognise(scratch / name, {});
    return fmt::format("{} {}", format_name(found.format), compression_name(found.compression));
  };
  const std::string lines = numbered_lines(0, 5);
  EXPECT_EQ(format_of("a", lines), "jsonl none");
  EXPECT_EQ(format_of("a.txt", gzip_member(lines)), "jsonl gzip");
  EXPECT_EQ(format_of("b", zstd_frame(lines)), "jsonl zstd");
  EXPECT_EQ(format_of("c.jsonl", "not json"), "jsonl none");
  EXPECT_EQ(format_of("c.jsonl.gz", gzip_member("not json")), "jsonl gzip");
  EXPECT_EQ(format_of("package.json", "{\n  \"a\": 1\n}\n"), "text none");
  EXPECT_EQ(format_of("one.json", "{\"a\": 1}\n"), "text none");  // may be a configuration file
  EXPECT_EQ(format_of("long", "{\"a\": 1}\n{\"text\": \"" + std::string(2 << 20, 'x') + "\"}\n"), "jsonl none");
  EXPECT_EQ(format_of("code.c", "{ int x; }\n{ int y; }\n"), "text none");
  EXPECT_EQ(format_of("d", gzip_member("plain words")), "text gzip");
  EXPECT_EQ(format_of("e", "x"), "text none");
  ReadRules rules;
  rules.format = "text";
  EXPECT_EQ(recognise(scratch / "a", rules).format, Format::kText);
}

}  // namespace
}  // namespace hearth::data
