// SPDX-License-Identifier: Apache-2.0
// JSON files with a fault, and JSON files that are one object of several texts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "data/corpus_folder.h"
#include "data/read_source.h"

namespace hearth::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using test::ScratchFolder;

TEST(JsonFiles, AFileNamedJsonWithAFaultInItsRecordsIsNoText) {
  const ScratchFolder scratch;
  const Path path = scratch / "c.json";
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"[{\"text\":\"a1\"}]\n[{\"text\":\"b1\"}]\n", "line 2: something follows the array"},
      {"[{\"text\":\"a1\"}] hello\n", "line 1: something follows the array"},
      {"[{\"text\":\"a1\"}]\n{\"text\":\"b1\"}\n", "line 2: something follows the array"},
      {"{\"text\":\"x\", }", "column 14: a key in quotes is expected"},
      {"{ // a comment\n\"text\" : \"x\"}", "column 3: a key in quotes is expected"},
      {"{'text':'a1'}", "column 2: a key in quotes is expected"},
      {"[{'text':'a1'}]", "column 2: a key in quotes is expected"},
      {"{\"body\": 1}\n{'body': 2}", "column 2: a key in quotes is expected"},
      {"[{\"body\": 1} {\"body\": 2}]", "line 1: a comma or ] is expected"},
      {"[", "the array has no end"},
      {"[1, 2", "the array has no end"},
      {"[link](url)", "not JSON"}};
  for (const auto& [text, why] : faults) {
    write_text(path, text);
    ASSERT_EQ(kind_of(path), "json none") << text;
    EXPECT_THAT(read_source(found_file(path)).back().why, HasSubstr(why)) << text;
    for (const bool has_keys : {false, true})
      EXPECT_EQ(kind_of(path, {}, {.has_keys = has_keys, .as_text = true}), "text none") << text;
    std::filesystem::copy_file(path, scratch / "c.txt", std::filesystem::copy_options::overwrite_existing);
    EXPECT_EQ(kind_of(scratch / "c.txt"), "text none") << text;
  }
  // Configurations, templates, and a list whose first value is longer than the bytes that are looked at.
  const std::vector<std::string> texts = {"{ int x; and more words",
                                          "{ // a comment\n\"type\": \"text\",\n}",
                                          "{\"a\": 1, }",
                                          "{{ name }}",
                                          "# [1]\n",
                                          "[\"" + std::string(2 << 20, 'x') + "\"]"};
  for (const std::string& text : texts) {
    write_text(path, text);
    EXPECT_EQ(kind_of(path), "text none") << text.substr(0, 40);
  }
}

TEST(JsonFiles, ALongObjectIsARecordWhereItsKeyStandsBehindTheBytesLookedAt) {
  const ScratchFolder scratch;
  const std::string long_text(kSniffBytes, 'x');
  std::string many_keys;
  for (int i = 0; i < 150; ++i) many_keys += fmt::format("\"k{}\": {}, ", i, i);
  const std::vector<std::pair<std::string, std::vector<std::string>>> records = {
      {"{\"id\": \"" + long_text + "\", \"text\": \"late\"}", {"late"}},
      {"{\n\"id\": \"" + long_text + "\",\n\"text\": \"a\"\n}\n{\n\"text\": \"b\"\n}", {"a", "b"}},
      {"{" + many_keys + "\"text\": \"late\"}", {"late"}}};
  for (const auto& [content, texts] : records) {
    write_text(scratch / "x.txt", content);
    EXPECT_EQ(texts_of(read_source(found_file(scratch / "x.txt"))), texts) << content.substr(0, 20);
  }
  // Other long objects stay texts.
  for (const std::string& content : {"{\"id\": \"" + long_text + "\"}", "{" + many_keys + "\"id\": 1}",
                                     "{\"id\": \"" + long_text + "\"} and words", "{\"id\": \"" + long_text}) {
    write_text(scratch / "x.txt", content);
    EXPECT_EQ(kind_of(scratch / "x.txt"), "text none") << content.substr(0, 20);
  }
}

TEST(JsonFiles, AnObjectOfRowsIsRefusedWithACommandThatWritesThem) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  const std::string long_text(kSniffBytes, 'x');  // the columns end after the bytes that are looked at
  const std::vector<std::string> columns = {
      "{\"text\": [\"a\", \"b\", \"c\"]}", "{\n\"id\": [1, 2, 3],\n\"text\": [\"a\", null, \"b\"]}",
      "{\"text\": [\"" + long_text + "\", \"b\"], \"id\": [1, 2]}", "{\"version\": \"1\", \"text\": [\"a\", \"b\"]}",
      "{\"text\": [\"a\", \"b\"], \"id\": [1]}"};
  for (const std::string& content : columns) {
    for (const bool has_keys : {false, true}) {
      write_text(scratch / "x.json", content);
      const Error e = test::error_of([&] { recognise(scratch / "x.json", {}, {.has_keys = has_keys}); });
      EXPECT_EQ(e.code(), ExitCode::kUser);
      EXPECT_THAT(e.message(), AllOf(HasSubstr("x.json is one JSON object with "), HasSubstr(" texts at \"text\"")));
      EXPECT_EQ(e.why(), "it would be one document, with the texts of all rows");
      EXPECT_THAT(e.fix(), HasSubstr("--format json"));
    }
  }
  // The command that the error names.
  const std::string rows = "{\"version\": 1, \"data\": [{\"text\": \"a\"}, {\"text\": \"b\"}, {\"text\": \"c\"}]}";
  for (const auto& [content, key, is_packed] :
       {std::tuple(columns[0], "text", false), std::tuple(columns[0], "text", true),
        std::tuple(std::string("{\"id\": 7, \"text\": [\"a\", \"b\", \"c\"]}"), "text", false),
        std::tuple(rows, "data.text", false)}) {
    ReadRules rules;
    rules.text_keys = {key};
    Path path = scratch / "x.json";
    write_text(path, content);
    if (is_packed) {
      test::run_command("gzip --force " + path.string());
      path += ".gz";
    }
    const std::string fix = test::error_of([&] { recognise(path, rules, {.has_keys = true}); }).fix();
    const std::string command = fix.substr(fix.find(": ") + 2, fix.find("; or ") - fix.find(": ") - 2);
    ASSERT_EQ(test::run_command("cd " + folder + " && " + command).exit_code, 0) << command;
    EXPECT_EQ(texts_of(read_source(found_file(scratch / "x.jsonl"), rules)), (std::vector<std::string>{"a", "b", "c"}));
    remove_file(scratch / "x.jsonl");
  }
  // Rows further down have no such command.
  write_text(scratch / "x.json", "{\"all\": {\"text\": [\"a\", \"b\"]}}");
  ReadRules rules;
  rules.text_keys = {"all.text"};
  EXPECT_THAT(test::error_of([&] { recognise(scratch / "x.json", rules, {.has_keys = true}); }).fix(),
              Not(HasSubstr("python3")));
}

TEST(JsonFiles, ARecordMayHaveAListOfTexts) {
  const ScratchFolder scratch;
  const auto texts = [&](const std::string& name, const std::string& content, const ReadRules& rules = {}) {
    write_text(scratch / name, content);
    return texts_of(read_source(found_file(scratch / name, rules), rules));
  };
  const std::vector<std::string> joined = {"a\n\nb"};
  EXPECT_EQ(texts("array.json", "[{\"text\": [\"a\", \"b\"]}]"), joined);
  EXPECT_EQ(texts("line.jsonl", "{\"text\": [\"a\", \"b\"]}\n"), joined);
  EXPECT_EQ(texts("single.json", "{\"text\": [\"a\"]}"), std::vector<std::string>{"a"});
  EXPECT_EQ(texts("several.json", "{\n\"text\": [\"a\", \"b\"]}\n{\n\"text\": [\"c\"]}"),
            (std::vector<std::string>{"a\n\nb", "c"}));
  ReadRules rules;
  rules.format = "json";
  EXPECT_EQ(texts("named.json", "{\"text\": [\"a\", \"b\"]}", rules), joined);
  rules = {};
  rules.text_keys = {"files.text"};
  EXPECT_EQ(texts("below.jsonl", "{\"files\": [{\"text\": \"a\"}, {\"text\": \"b\"}]}", rules), joined);
}

}  // namespace
}  // namespace hearth::data
