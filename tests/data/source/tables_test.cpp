// SPDX-License-Identifier: Apache-2.0
// JSON that is not one object per line, and CSV.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/arrow_support.h"
#include "data/corpus_folder.h"
#include "data/read_source.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using nlohmann::json;
using test::ScratchFolder;

constexpr KindRules kKeyed{.has_keys = true};

struct Tables {
  ScratchFolder folder;
  Tables() { run_oracle("source/tables_reference.py", folder.path().string()); }
};

const Path& tables() {
  static const Tables all;
  return all.folder.path();
}

std::vector<std::string> expected(const std::string& name) {
  return json::parse(read_file(tables() / (name + ".texts"))).get<std::vector<std::string>>();
}

TEST(Tables, JsonOfAnyLayoutGivesTheTextsThatPythonReads) {
  HEARTH_NEEDS_ORACLE();
  for (const std::string name : {"array.json", "pretty.json", "unicode.json", "objects.json", "touching.json",
                                 "returns.jsonl", "one.json", "empty.json"}) {
    const SourceFile file = found_file(tables() / name, {}, kKeyed);
    EXPECT_EQ(format_name(file.format), "json") << name;
    const auto records = read_source(file);
    EXPECT_EQ(texts_of(records), expected(name)) << name;
    // Without a key the same, but for a file that may as well be a text.
    EXPECT_EQ(kind_of(tables() / name), name == "empty.json" ? "text none" : "json none") << name;
    const std::string content = read_file(tables() / name);
    for (const ReadRecord& record : records) ASSERT_EQ(content[static_cast<size_t>(record.position)], '{') << name;
  }
}

TEST(Tables, CsvOfAnyDialectGivesTheTextsThatPythonReads) {
  HEARTH_NEEDS_ORACLE();
  for (const std::string name :
       {"all.csv", "few.csv", "unix.csv", "tabs.tsv", "semicolons.csv", "named_by_content.txt", "single.csv"}) {
    const SourceFile file = found_file(tables() / name, {}, kKeyed);
    EXPECT_EQ(format_name(file.format), "csv") << name;
    EXPECT_EQ(texts_of(read_source(file)), expected(name)) << name;
  }
}

TEST(Tables, AJsonFileIsReadInTheMemoryOfOneRecord) {
  const ScratchFolder scratch;
  const std::string big(3 << 20, 'x');
  write_text(scratch / "x.json", "[{\"text\": \"one\"}, {\"text\": \"" + big + "\\\"\"}, {\"text\": \"two\"}]");
  ReadRules rules;
  rules.max_record_bytes = 1000;
  const auto records = read_source(found_file(scratch / "x.json", rules, kKeyed), rules);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[1].problem, RecordProblem::kTooLong);
  EXPECT_EQ(records[1].why, "it has more than 1000 bytes (--max-record-bytes)");
  EXPECT_EQ(records[2].text, "two");
  // An object longer than the bytes that are looked at.
  write_text(scratch / "y.json", "[{\"text\": \"" + big + "\"}]");
  EXPECT_EQ(kind_of(scratch / "y.json"), "json none");
  EXPECT_EQ(read_source(found_file(scratch / "y.json", {}, kKeyed))[0].text, big);
}

struct Bad {
  std::string content, why, location;
};

TEST(Tables, JsonThatIsNotARecordSaysWhatItIsAndWhere) {
  const ScratchFolder scratch;
  const std::vector<Bad> cases = {
      {"[{\"text\": \"a\"},\n \"b\"]", "it is a string instead of a JSON object", "line 2"},
      {"[{\"text\": \"a\"},\n\n [1]]", "it is a list instead of a JSON object", "line 3"},
      {"[{\"text\": \"a\"}\n {\"text\": \"b\"}]", "not JSON at line 2: a comma or ] is expected", "line 2"},
      {"[{\"text\": \"a\"},\n]", "not JSON at line 2: a value is expected after the comma", "line 2"},
      {"[{\"text\": \"a\"}, {\"text\": \"b\"}", "not JSON at line 1: the array has no end", "line 1"},
      {"[{\"text\": \"a\"}, {\"text\": \"b\"},\n {\"text\"", "not JSON at line 2: a value has no end", "line 2"},
      {"[{\"text\": \"a\"}, {\"text\": \"b\"}]\n{}", "not JSON at line 2: something follows the array", "line 2"},
      {"[{\"text\": \"a\"},\n {\"id\": 1, \"body\": \"b\"}]", "it has no key \"text\": its keys are \"id\", \"body\"",
       "line 2"},
      {"[{\"text\": \"a\"},\n {}]", "it has no key \"text\": the object is empty", "line 2"},
      {"[{\"text\": \"a\"},\n {\"text\": 5}]", "\"text\" is a number instead of a string", "line 2"}};
  ReadRules rules;
  rules.format = "json";
  for (const Bad& bad : cases) {
    write_text(scratch / "x.json", bad.content);
    const auto records = read_source(found_file(scratch / "x.json", rules), rules);
    ASSERT_GE(records.size(), 2u) << bad.content;
    EXPECT_EQ(records[0].text, "a");
    EXPECT_EQ(records.back().why, bad.why) << bad.content;
    EXPECT_EQ(records.back().location, bad.location) << bad.content;
  }
}

TEST(Tables, AMissingKeyBelowAnotherOneNamesTheKeysThere) {
  const ScratchFolder scratch;
  write_text(scratch / "x.jsonl", "{\"meta\": {\"title\": \"a\", \"lang\\n\": 1}, \"text\": \"b\"}\n");
  ReadRules rules;
  rules.text_keys = {"meta.text"};
  EXPECT_EQ(read_source(found_file(scratch / "x.jsonl"), rules)[0].why,
            "it has no key \"meta.text\": the keys of \"meta\" are \"title\", \"lang\\n\"");
}

TEST(Tables, CsvThatIsNotARecordSaysWhatItIsAndWhere) {
  const ScratchFolder scratch;
  const std::string kRepeats = "it repeats the names of the columns, as where files were put one after another";
  const std::vector<Bad> cases = {{"id,text\n1,a\n2,b,c\n", "it has 3 fields and the first row 2", "line 3"},
                                  {"id,text\n1,a\n\n\n2\n", "it has 1 field and the first row 2", "line 5"},
                                  {"id,text\n1,a\n2,\"b\"c\n", "something follows a closing quote", "line 3"},
                                  {"id,text\n1,a\n\"2\n\n,b\n", "a quoted field has no end", "line 3"},
                                  {"id,text\n1,a\n2,caf\xE9\n", "it has bytes that are not UTF-8", "line 3"},
                                  {"id,text\r1,a\r2,b,c\r", "it has 3 fields and the first row 2", "line 3"},
                                  {"id,text\n1,a\nid,text\n", kRepeats, "line 3"},
                                  {"\xef\xbb\xbfid,text\n1,a\n\xef\xbb\xbfid,text\n", kRepeats, "line 3"},
                                  {"id,text\n1,a\n\"id\",\"text\"\n", kRepeats, "line 3"}};
  for (const Bad& bad : cases) {
    write_text(scratch / "x.csv", bad.content);
    const auto records = read_source(found_file(scratch / "x.csv"));
    ASSERT_EQ(records.size(), 2u) << bad.content;
    EXPECT_EQ(records[0].text, "a");
    EXPECT_EQ(records[1].why, bad.why) << bad.content;
    EXPECT_EQ(records[1].location, bad.location) << bad.content;
    EXPECT_EQ(records[1].problem == RecordProblem::kUnreadable, bad.why == "a quoted field has no end");
  }
  // A row with some of the names is a row.
  write_text(scratch / "x.csv", "id,text\nid,a\n1,text\ntext,id\n");
  EXPECT_EQ(texts_of(read_source(found_file(scratch / "x.csv"))), (std::vector<std::string>{"a", "text", "id"}));
  // After a bad row the next line is read.
  write_text(scratch / "x.csv", "text,id\n\"a\"x,1\nb,2\n" + std::string(5000, 'x') + ",3\n,4\n");
  ReadRules rules;
  rules.max_record_bytes = 1000;
  const auto records = read_source(found_file(scratch / "x.csv"), rules);
  EXPECT_EQ(texts_of(records), (std::vector<std::string>{"", "b", "", ""}));
  EXPECT_EQ(records[2].problem, RecordProblem::kTooLong);
  EXPECT_EQ(records[3].problem, RecordProblem::kNone);
}

TEST(Tables, ColumnsOfCsvThatAreMissingOrTwiceThereAreNamed) {
  const ScratchFolder scratch;
  ReadRules rules;
  write_text(scratch / "x.csv", "id;title;body\n1;a;b\n");
  Error e = test::error_of([&] { open_source(found_file(scratch / "x.csv", rules, kKeyed), rules); });
  EXPECT_THAT(e.message(), HasSubstr("x.csv has no column \"text\""));
  EXPECT_EQ(e.why(), "its columns are id, title, body");
  EXPECT_THAT(e.fix(), HasSubstr("--text-key"));
  write_text(scratch / "x.csv", "text,id,text\na,1,b\n");
  e = test::error_of([&] { open_source(found_file(scratch / "x.csv", rules, kKeyed), rules); });
  EXPECT_THAT(e.message(), HasSubstr("x.csv has 2 columns \"text\""));
  rules.weights_key = "id";
  e = test::error_of([&] { check_weight_keys(found_file(scratch / "x.csv", rules, kKeyed), rules); });
  EXPECT_THAT(e.message(), HasSubstr("--weights-key does not go with"));
}

TEST(Tables, WithAKeyNoFileIsATextUnlessTheUserSaysSo) {
  const ScratchFolder scratch;
  std::string true_values;  // the bytes that are looked at end in a value
  while (true_values.size() < kSniffBytes + 10) true_values += "true,";
  const std::vector<Bad> cases = {
      {"plain words\n", "is plain text: it has no keys, and --text-key names one", ""},
      {"[link](url) begins a page\n", "is plain text", "not JSON: a value is expected"},
      {"[1] Smith, J.: The sea. 1999.\n[2] Hill, A.: The land.\n", "is plain text", "something follows the array"},
      {"[1, 2, x]", "is plain text", "not JSON: a value is expected"},
      {"42 is a number\n", "is plain text", ""},
      {"\"Yes\", she said.\n", "is plain text", ""},
      {"[1] " + std::string(2 << 20, 'x'), "is plain text", "something follows the array"},
      {"{ int x; }\n{ int y; }\n", "is plain text", "not JSON at column 3: a key in quotes is expected"},
      {"{\"text\": \"a\"},\n{\"text\": \"b\"}\n", "is JSON with a fault", "not JSON at line 1: a value is expected"},
      {"[{\"text\": \"a\"}]\n[{\"text\": \"b\"}]", "is JSON with a fault",
       "not JSON at line 2: something follows the array"},
      {"# a comment\n{\"text\": \"a\"}\n", "is plain text", ""},
      {"\"one\"\n\"two\"\n", "is JSON of strings", ""},
      {"[\"one\", \"two\"]", "is JSON of a list of strings", ""},
      {"[[1], [2]]", "is JSON of a list of lists", ""},
      {"[" + true_values + "true]", "is JSON of a list of numbers or truth values", ""},
      {"<?xml version=\"1.0\"?><a/>", "is XML", ""},
      {"<!DOCTYPE html>\n<html></html>", "is HTML", ""},
      {"text\nwords\n", "is plain text", ""},
      {"text, and more\nand then, a, line\n", "is plain text", ""}};
  for (const Bad& bad : cases) {
    const Path path = scratch / "x";
    write_text(path, bad.content);
    const Error e = test::error_of([&] { recognise(path, {}, kKeyed); });
    EXPECT_THAT(e.message(), HasSubstr(path.string() + " " + bad.why));
    EXPECT_THAT(e.why(), HasSubstr(bad.location));
    EXPECT_THAT(e.fix(), HasSubstr("whole with --as-text"));
    EXPECT_EQ(found_file(path, {}, {.has_keys = true, .as_text = true}).format, Format::kText);
    EXPECT_EQ(found_file(path).format, Format::kText);
  }
  ReadRules rules;
  rules.format = "text";
  EXPECT_THAT(test::error_of([&] { recognise(scratch / "x", rules, kKeyed); }).message(),
              HasSubstr("--text-key and --format text are both given"));
  rules.format = "jsonl";
  EXPECT_THAT(test::error_of([&] { recognise(scratch / "x", rules, {.as_text = true}); }).message(),
              HasSubstr("--as-text and --format jsonl are both given"));
}

TEST(Tables, JsonThatMayBeATextIsARecordWhereItHasTheKey) {
  const ScratchFolder scratch;
  const auto kind = [&](const std::string& name, const std::string& content) {
    write_text(scratch / name, content);
    return kind_of(scratch / name);
  };
  EXPECT_EQ(kind("package.json", "{\n  \"name\": \"a\",\n  \"files\": [1]\n}\n"), "text none");
  EXPECT_EQ(kind("one.json", "{\n  \"text\": \"a\"\n}\n"), "json none");
  EXPECT_EQ(kind("list.json", "[{\"name\": \"a\"}]"), "text none");
  EXPECT_EQ(kind("records.json", "[{\"name\": \"a\"}, {\"name\": \"b\"}]"), "json none");
  EXPECT_EQ(kind("empty.json", "[]"), "text none");
  EXPECT_EQ(kind("numbers.json", "[1, 2]"), "text none");
  EXPECT_EQ(kind("pretty.jsonl", "{\n  \"name\": \"a\"\n}\n"), "json none");
  EXPECT_EQ(kind("array.jsonl", "[{\"name\": \"a\"}]"), "json none");
  EXPECT_EQ(kind("table.csv", "a,b\n1,2\n"), "csv none");
  EXPECT_EQ(kind("table.txt", "a,b\n1,2\n"), "text none");
}

TEST(Tables, AListThatIsCutByTheLookHasRecords) {
  const ScratchFolder scratch;
  const std::string meta = "{\"meta\": \"" + std::string(3 << 19, 'x') + "\", \"text\": ";
  write_text(scratch / "x.json", "[" + meta + "\"one\"}, {\"text\": \"two\"}]");
  EXPECT_EQ(texts_of(read_source(found_file(scratch / "x.json"))), (std::vector<std::string>{"one", "two"}));
  write_text(scratch / "x.json", meta + "\"one\"}");  // a record, whose text stands behind the look
  EXPECT_EQ(kind_of(scratch / "x.json"), "json none");
}

TEST(Tables, JsonWithoutItsEndIsDamagedAndNoText) {
  const ScratchFolder scratch;
  const std::string whole = "[{\"content\": \"beach\"}, {\"content\": \"sea\"}]";
  for (size_t size = 3; size < whole.size(); ++size) {
    write_text(scratch / "c.json", whole.substr(0, size));
    ASSERT_EQ(kind_of(scratch / "c.json"), "json none") << size;
    EXPECT_EQ(read_source(found_file(scratch / "c.json")).back().problem, RecordProblem::kUnreadable) << size;
  }
  write_text(scratch / "c.txt", whole.substr(0, 18));
  EXPECT_EQ(kind_of(scratch / "c.txt"), "text none");
  write_text(scratch / "c.json", "{\n  \"text\": \"a\"\n}\n{\n  \"te");
  EXPECT_EQ(kind_of(scratch / "c.json"), "json none");
}

TEST(Tables, AByteOrderMarkAndWordsBetweenRecordsAreNamed) {
  const ScratchFolder scratch;
  ReadRules rules;
  const std::string mark = "\xef\xbb\xbf", a = "{\"text\": \"a\"}\n", b = "{\"text\": \"b\"}\n";
  for (const std::string format : {"json", "jsonl"}) {
    rules.format = format;
    write_text(scratch / "x", mark + a + mark + b);
    const auto records = read_source(found_file(scratch / "x", rules), rules);
    ASSERT_GE(records.size(), 2u);
    EXPECT_EQ(records[0].text, "a");
    EXPECT_EQ(records[1].why, "it begins with a byte order mark (EF BB BF), as where two files were joined");
    EXPECT_EQ(records[1].location, "line 2");
  }
  rules.format = "json";
  for (const auto& [value, why] :
       std::vector<std::pair<std::string, std::string>>{{"plain", "it is not JSON: a value is expected"},
                                                        {"nul", "it is not JSON: a value is expected"},
                                                        {"null", "it is null instead of a JSON object"},
                                                        {"true", "it is a truth value instead of a JSON object"},
                                                        {"-1.5", "it is a number instead of a JSON object"}}) {
    write_text(scratch / "x", a + value + "\n" + b);
    EXPECT_EQ(read_source(found_file(scratch / "x", rules), rules)[1].why, why) << value;
  }
}

TEST(Tables, AKeyIsGivenOnce) {
  ReadRules rules;
  rules.text_keys = {"text", "title", "text"};
  const Error e = test::error_of([&] { check_read_rules(rules); });
  EXPECT_EQ(e.message(), "--text-key text is given twice");
  EXPECT_EQ(e.fix(), "give each key once");
}

TEST(Tables, AnEndingHasItsMeaningInAnyCase) {
  const ScratchFolder scratch;
  const auto kind = [&](const std::string& name, const std::string& content) {
    write_text(scratch / name, content);
    return kind_of(scratch / name);
  };
  for (const std::string name : {"DATA.CSV", "Data.Csv", "DATA.TSV", "DATA.TAB"})
    EXPECT_EQ(kind(name, "a\tb\n1\t2\n"), "csv none") << name;
  for (const std::string name : {"DATA.JSONL", "DATA.NDJSON", "Data.JsonLines"})
    EXPECT_EQ(kind(name, "no JSON\n"), "jsonl none") << name;
  EXPECT_EQ(kind("DATA.PARQUET", "no table\n"), "parquet none");
  EXPECT_EQ(kind("DATA.ARROW", "no table\n"), "arrow none");
  EXPECT_EQ(kind("DATA.FEATHER", "no table\n"), "arrow none");
  write_text(scratch / "PACKED.CSV", "text,id\none,1\ntwo,2\n");
  const std::string packed = (scratch / "PACKED.CSV").string();
  ASSERT_EQ(test::run_command("gzip --keep --suffix .GZ " + packed).exit_code, 0);
  EXPECT_EQ(kind_of(packed + ".GZ"), "csv gzip");
  EXPECT_EQ(texts_of(read_source(found_file(packed + ".GZ"))), (std::vector<std::string>{"one", "two"}));
}

}  // namespace
}  // namespace hearth::data
