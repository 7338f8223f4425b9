// SPDX-License-Identifier: Apache-2.0
// Folders of save_to_disk, compared with Hugging Face's `datasets`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "data/arrow_support.h"
#include "data/corpus_folder.h"
#include "data/export/export.h"
#include "support/failpoint.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using nlohmann::json;
using test::ScratchFolder;

// The reference's documents.
std::string document(int i) {
  std::string text = fmt::format("document {} ", i);
  for (int k = 0; k < i % 17; ++k) text += "word ";
  return text;
}

struct Folders {
  ScratchFolder folder;
  Folders() { run_oracle("formats/saved_dataset_reference.py", "write " + folder.path().string()); }
};

// The documents of split "train" in a build with the tokenizer of bytes.
std::vector<std::string> documents_in(const Path& out) {
  const Dataset dataset = Dataset::open(out);
  const Split& split = dataset.split("train");
  const auto tokens = all_tokens(split);
  std::vector<std::string> texts;
  for (int64_t i = 0; i < split.documents(); ++i) {
    std::string& text = texts.emplace_back();
    for (int64_t t = split.document_begin(i); t + 1 < split.document_begin(i + 1); ++t)
      text += static_cast<char>(tokens[static_cast<size_t>(t)]);
  }
  return texts;
}

std::vector<std::string> documents(int first, int end) {
  std::vector<std::string> texts;
  for (int i = first; i < end; ++i) texts.push_back(document(i));
  return texts;
}

void replace_in(const Path& path, const std::string& from, const std::string& to) {
  std::string text = read_file(path);
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos);
  write_text(path, text.replace(at, from.size(), to));
}

TEST(SavedDataset, TheFilesThatItListsAreReadInTheirOrderAndNothingElse) {
  HEARTH_NEEDS_ARROW();
  const Folders written;
  const ScratchFolder out;
  const Path many = written.folder / "many";
  write_text(many / "cache-0123.arrow", "no Arrow");
  write_text(many / "notes.txt", "not part of the dataset");
  build(out / "many", {many});
  EXPECT_EQ(documents_in(out / "many"), documents(0, 2500));

  // Another order, through links to targets that sort differently.
  rename_path(many / "data-00002-of-00003.arrow", written.folder / "a.arrow");
  std::filesystem::create_symlink(written.folder / "a.arrow", many / "data-00002-of-00003.arrow");
  build(out / "linked", {many});
  EXPECT_EQ(documents_in(out / "linked"), documents(0, 2500));
  replace_in(many / "state.json", "data-00000-of-00003", "x");
  replace_in(many / "state.json", "data-00001-of-00003", "data-00000-of-00003");
  replace_in(many / "state.json", "\"x", "\"data-00001-of-00003");
  auto expected = documents(834, 1667);
  const auto first = documents(0, 834), last = documents(1667, 2500);
  expected.insert(expected.end(), first.begin(), first.end());
  expected.insert(expected.end(), last.begin(), last.end());
  for (const auto& paths : {std::vector<Path>{many}, {many / "data-00000-of-00003.arrow", many}}) {
    build(out / "other", paths, {}, 2, true);
    EXPECT_EQ(documents_in(out / "other"), expected);
  }

  BuildRules ids;
  ids.tokenizer = "ids:64";
  ids.read.text_keys = {"input_ids"};
  build(out / "tokens", {written.folder / "tokens"}, ids);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 20; ++i) tokens.insert(tokens.end(), {i, i + 1});
  EXPECT_EQ(all_tokens(Dataset::open(out / "tokens").split("train")), tokens);
  build(out / "selected", {written.folder / "selected"});
  EXPECT_EQ(documents_in(out / "selected"), (std::vector<std::string>{document(9), document(5), document(7)}));
}

TEST(SavedDataset, ADictOfOneSplitIsReadAndOneOfSeveralIsRefusedByName) {
  HEARTH_NEEDS_ARROW();
  const Folders written;
  const ScratchFolder out;
  build(out / "one", {written.folder / "one"});
  EXPECT_EQ(documents_in(out / "one"), documents(0, 20));
  const Path dict = written.folder / "dict";
  const Error e = error_of([&] { build(out / "dict", {dict}); });
  EXPECT_EQ(e.code(), ExitCode::kUser);
  EXPECT_THAT(e.message(), HasSubstr("holds several splits: train, test")) << e.what();
  EXPECT_THAT(e.fix(), HasSubstr((dict / "train").string())) << e.what();
  build(out / "named", {dict / "train", dict / "test"});
  EXPECT_EQ(documents_in(out / "named").size(), 30U);

  write_text(dict / "dataset_dict.json", R"({"splits": ["train", "validation"]})");
  const Error missing = error_of([&] { build(out / "dict", {dict}); });
  EXPECT_EQ(missing.code(), ExitCode::kDamaged);
  EXPECT_THAT(missing.message(), HasSubstr("lists the split validation, which is missing"));
  write_text(dict / "dataset_dict.json", R"({"splits": ["../one"]})");
  EXPECT_EQ(error_of([&] { build(out / "dict", {dict}); }).code(), ExitCode::kDamaged);
}

// The folder as `datasets` reads it, and whether it would write the same lists.
TEST(SavedDataset, AnExportIsWhatLoadFromDiskReadsAndWhatSaveToDiskWouldWrite) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  std::string lines;
  for (int i = 0; i < 1200; ++i) lines += json{{"text", document(i)}}.dump() + "\n";
  write_text(scratch / "x.jsonl", lines + "{\"text\": \"\"}\n{\"text\": \"\u00e9\"}\n");
  BuildRules rules;
  rules.bos = true;
  build(scratch / "data", {scratch / "x.jsonl"}, rules);
  const Dataset dataset = Dataset::open(scratch / "data");
  const Split& split = dataset.split("train");
  const Path out = scratch / "saved";
  write_text(out / "state.json", "of an export before");
  const ExportResult result = export_saved(dataset, split, {"input_ids", "text"}, out);
  EXPECT_EQ(result.documents, 1202);
  EXPECT_EQ(result.tokens, split.tokens());

  const json read = json::parse(run_oracle("formats/saved_dataset_reference.py", "read " + out.string()));
  EXPECT_EQ(read["same_lists"], true) << read["lists"];
  EXPECT_EQ(read["batches"], (std::vector<int>{1000, 202}));
  EXPECT_EQ(read["types"], "input_ids: list<item: int32>, text: string");
  auto texts = documents(0, 1200);
  texts.insert(texts.end(), {"", "\u00e9"});
  EXPECT_EQ(read["rows"]["text"], json(texts));
  const auto tokens = all_tokens(split);
  for (int64_t i = 0; i < split.documents(); ++i) {
    const std::vector<int32_t> ids(tokens.begin() + split.document_begin(i),
                                   tokens.begin() + split.document_begin(i + 1));
    ASSERT_EQ(read["rows"]["input_ids"][static_cast<size_t>(i)], json(ids)) << i;
  }

  // And back, from each column.
  build(scratch / "again", {out}, rules);
  EXPECT_EQ(Dataset::open(scratch / "again").manifest().identity, dataset.manifest().identity);
  BuildRules ids;
  ids.tokenizer = "ids:258";
  ids.read.text_keys = {"input_ids"};
  build(scratch / "ids", {out}, ids);
  EXPECT_EQ(all_tokens(Dataset::open(scratch / "ids").split("train")), tokens);
  EXPECT_THAT(error_of([&] { export_saved(Dataset::open(scratch / "ids"), split, {"text"}, out); }).message(),
              HasSubstr("no text"));
}

TEST(SavedDataset, AFullDiskAnywhereInAnExportNeverLeavesHalfAFolder) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  write_text(scratch / "x.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  build(scratch / "data", {scratch / "x.jsonl"});
  const Dataset dataset = Dataset::open(scratch / "data");
  const Split& split = dataset.split("train");
  const Path out = scratch / "saved";
  export_saved(dataset, split, {"input_ids"}, out);
  const std::string before = folder_content(out);
  export_saved(dataset, split, {"text"}, out);
  const std::string after = folder_content(out);
  ASSERT_NE(before, after);
  bool done = false;
  int failures = 0;
  for (int64_t call = 1; !done; ++call) {
    export_saved(dataset, split, {"input_ids"}, out);
    failpoint::arm(call, ENOSPC);
    try {
      export_saved(dataset, split, {"text"}, out);
      done = true;
    } catch (const Error& e) {
      ++failures;
      EXPECT_EQ(e.code(), ExitCode::kHardware) << e.what();
    }
    failpoint::disarm();
    // After the old one's end and before the new one's name neither may exist; half of one never may.
    if (path_exists(out)) {
      const std::string now = folder_content(out);
      EXPECT_TRUE(now == before || now == after) << "call " << call;
    }
  }
  EXPECT_GT(failures, 10);
}

TEST(SavedDataset, ALargeExportIsCutIntoFilesWhoseRowsDifferByOneAtMost) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  std::string lines;
  for (int i = 0; i < 11; ++i) lines += json{{"text", document(i)}}.dump() + "\n";
  write_text(scratch / "x.jsonl", lines);
  build(scratch / "data", {scratch / "x.jsonl"});
  const Dataset dataset = Dataset::open(scratch / "data");
  const Split& split = dataset.split("train");
  // Four bytes a token and an offset a document. A file has a little less than a third of all bytes: four files.
  const int64_t bytes = 4 * (split.tokens() + split.documents());
  export_saved(dataset, split, {"input_ids"}, scratch / "saved", bytes / 3 - 1);
  std::vector<int64_t> rows;
  for (int f = 0; f < 4; ++f) {
    SourceFile file;
    file.real_path = (scratch / "saved" / fmt::format("data-{:05}-of-00004.arrow", f)).string();
    file.path = file.real_path;
    file.size_bytes = static_cast<int64_t>(std::filesystem::file_size(file.path));
    file.format = Format::kArrow;
    ReadRules rules;
    rules.text_keys = {"input_ids"};
    const auto reader = open_source(file, rules);
    int64_t& count = rows.emplace_back();
    for (Record record; reader->next(record); ++count) EXPECT_EQ(record.problem, RecordProblem::kNone);
  }
  EXPECT_EQ(rows, (std::vector<int64_t>{3, 3, 3, 2}));
  build(scratch / "again", {scratch / "saved"}, [] {
    BuildRules rules;
    rules.tokenizer = "ids:258";
    rules.read.text_keys = {"input_ids"};
    return rules;
  }());
  EXPECT_EQ(all_tokens(Dataset::open(scratch / "again").split("train")), all_tokens(split));
}

TEST(SavedDataset, ListsThatMakeNoSenseAndIndicesAreNamed) {
  const ScratchFolder scratch;
  const Path folder = scratch / "saved";
  write_text(folder / "dataset_info.json", "{}");
  write_text(folder / "data.arrow", "never opened");
  const auto message = [&](const std::string& state, ExitCode code) {
    write_text(folder / "state.json", state);
    const Error e = error_of([&] { build(scratch / "x", {folder}); });
    EXPECT_EQ(e.code(), code) << e.what();
    return e.message() + "; " + e.why();
  };
  const auto says = [](const std::string& text, const char* words) { return text.find(words) != std::string::npos; };
  EXPECT_TRUE(says(message(R"({"_data_files": [{"fil)", ExitCode::kDamaged), "state.json is not JSON"));
  for (const char* name : {"../secret", "/etc/passwd", "", "..", "sub/data.arrow"})
    EXPECT_TRUE(says(message(json{{"_data_files", {{{"filename", name}}}}}.dump(), ExitCode::kDamaged),
                     "is not the name of a file in its folder"));
  EXPECT_TRUE(says(message(R"({"_data_files": [{"filename": 1}]})", ExitCode::kDamaged), "a name is not a string"));
  EXPECT_TRUE(says(message(R"({"_data_files": [{"filename": "b.arrow"}]})", ExitCode::kDamaged),
                   "lists b.arrow, which is missing"));
  EXPECT_TRUE(says(message(R"({"_data_files": [{"name": 1}]})", ExitCode::kDamaged), "has no \"filename\""));
  EXPECT_TRUE(says(message(R"({"_data_files": "data.arrow"})", ExitCode::kDamaged), "\"_data_files\" is not a list"));
  EXPECT_TRUE(says(message(R"({"_data_files": [{"filename": "data.arrow"}], "_indices_files": [{"filename": "i"}]})",
                           ExitCode::kUser),
                   "indices.arrow"));
  write_text(folder / "indices.arrow", "");
  EXPECT_TRUE(says(message(R"({"_data_files": [{"filename": "data.arrow"}]})", ExitCode::kUser), "indices.arrow"));

  // Not a dataset: a folder like any other.
  for (const char* name : {"data.arrow", "indices.arrow", "dataset_info.json"}) remove_file(folder / name);
  write_text(folder / "state.json", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  build(scratch / "x", {folder});
  EXPECT_EQ(documents_in(scratch / "x"), (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace hearth::data
