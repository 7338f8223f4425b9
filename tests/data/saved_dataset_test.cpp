// Folders of save_to_disk, against Hugging Face's `datasets`.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "arrow_support.h"
#include "corpus_folder.h"

namespace hearth::data {
namespace {

using nlohmann::json;
using test::ScratchFolder;

// As the reference writes them.
std::string document(int i) {
  std::string text = fmt::format("document {} ", i);
  for (int k = 0; k < i % 17; ++k) text += "word ";
  return text;
}

struct Folders {
  ScratchFolder folder;
  Folders() { run_oracle("saved_dataset_reference.py", "write " + folder.path().string()); }
};

// The documents of split "train" of a build of bytes.
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

  // Another order, through links whose targets sort otherwise.
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
  EXPECT_NE(e.message().find("holds several splits: train, test"), std::string::npos) << e.what();
  EXPECT_NE(e.fix().find((dict / "train").string()), std::string::npos) << e.what();
  build(out / "named", {dict / "train", dict / "test"});
  EXPECT_EQ(documents_in(out / "named").size(), 30U);

  write_text(dict / "dataset_dict.json", R"({"splits": ["train", "validation"]})");
  const Error missing = error_of([&] { build(out / "dict", {dict}); });
  EXPECT_EQ(missing.code(), ExitCode::kDamaged);
  EXPECT_NE(missing.message().find("lists the split validation, which is not there"), std::string::npos);
  write_text(dict / "dataset_dict.json", R"({"splits": ["../one"]})");
  EXPECT_EQ(error_of([&] { build(out / "dict", {dict}); }).code(), ExitCode::kDamaged);
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
                     "is no name of a file beside it"));
  EXPECT_TRUE(says(message(R"({"_data_files": [{"filename": 1}]})", ExitCode::kDamaged), "a name is no string"));
  EXPECT_TRUE(says(message(R"({"_data_files": [{"filename": "b.arrow"}]})", ExitCode::kDamaged),
                   "lists b.arrow, which is not there"));
  EXPECT_TRUE(says(message(R"({"_data_files": [{"name": 1}]})", ExitCode::kDamaged), "has no \"filename\""));
  EXPECT_TRUE(says(message(R"({"_data_files": "data.arrow"})", ExitCode::kDamaged), "\"_data_files\" is no list"));
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
