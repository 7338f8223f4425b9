// SPDX-License-Identifier: Apache-2.0
// What a search in folders leaves out, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "data/corpus_folder.h"
#include "data/search_folder.h"
#include "data/source/beside_records.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;
using testing::Not;

using test::ScratchFolder;

constexpr const char* kLfs = "*.parquet filter=lfs diff=lfs merge=lfs -text\n";
constexpr const char* kRecord = "{\"text\": \"the only record\"}\n";

// As `git clone` leaves a dataset of the Hub.
void write_clone(const Path& clone) {
  write_text(clone / "data" / "train.jsonl", kRecord);
  write_text(clone / ".git" / "HEAD", "ref: refs/heads/main\n");
  write_text(clone / ".git" / "objects" / "ab" / "cdef", "\x78\x9c\x01\x02\x03");
  write_text(clone / ".gitattributes", kLfs);
  write_text(clone / "README.md", "# Card of the dataset\n");
  write_text(clone / "LICENSE", "Permission is hereby granted\n");
  write_text(clone / "dataset_infos.json", "{\"default\": {}}\n");
  write_text(clone / "clone.py", "import datasets\n");
}

TEST(Discover, OfACloneOnlyTheDataAreRead) {
  const ScratchFolder scratch;
  const Path clone = scratch / "clone";
  write_clone(clone);
  for (const bool has_keys : {false, true}) {
    const Discovery found = search(clone, has_keys);
    EXPECT_EQ(names_of(found, clone), "data/train.jsonl");
    EXPECT_EQ(describe_left_out(found.left_out),
              "2 hidden (.git, .gitattributes), 4 about the data (LICENSE, README.md, clone.py, dataset_infos.json)");
  }
  // Without the marks of git it is a folder with records, and the same.
  remove_tree(clone / ".git");
  remove_file(clone / ".gitattributes");
  EXPECT_EQ(names_of(search(clone), clone), "data/train.jsonl");
}

TEST(Discover, ADownloadOfTheHubsHasOnlyItsDataToo) {
  const ScratchFolder scratch;
  const Path folder = scratch / "download";
  write_text(folder / ".cache" / "huggingface" / "download" / "a.txt.metadata", "4d7a\n");
  write_text(folder / "a.txt", "plain words");
  write_text(folder / "b.txt.incomplete", "pla");
  write_text(folder / "a.txt.lock", "x");
  write_text(folder / "__pycache__" / "a.pyc", "\x01\x02");
  write_text(folder / "__MACOSX" / "a.txt", "\x01\x02");
  write_text(folder / "README.TXT", "words about it");
  EXPECT_EQ(names_of(search(folder), folder), "a.txt");

  // A card alone says what the folder is, and .gitattributes with large files.
  for (const std::string mark : {"card", "card with a mark", "attributes", "remote"}) {
    const Path other = scratch / mark;
    write_text(other / "a.txt", "words with a " + mark);
    write_text(other / "LICENSE.txt", "words of a licence");
    write_text(other / "README.md", mark == "card" ? kCard : "words about it");
    if (mark == "card with a mark") write_text(other / "README.md", "\xef\xbb\xbf" + std::string(kCard));
    if (mark == "attributes") write_text(other / ".gitattributes", kLfs);
    if (mark == "remote")
      write_text(other / ".git" / "config", "[remote]\n\turl = https://huggingface.co/datasets/a/b\n");
    EXPECT_EQ(names_of(search(other), other), "a.txt");
  }
}

TEST(Discover, ACacheOfTheHubIsReadThroughOneSnapshot) {
  const ScratchFolder scratch;
  const Path cache = scratch / "datasets--org--name", first = cache / "snapshots" / "4d7a";
  write_text(cache / "blobs" / "8f3c", "text,id\nwords,1\n");
  write_text(cache / "refs" / "main", "4d7a");
  make_folders(first);
  std::filesystem::create_symlink("../../blobs/8f3c", first / "train.csv");
  const Discovery found = search(cache);
  ASSERT_EQ(found.sources.size(), 1u);
  EXPECT_EQ(found.sources[0].format, Format::kCsv);  // by the link's name
  EXPECT_THAT(describe_left_out(found.left_out), HasSubstr("2 made by tools (blobs, refs)"));
  make_folders(cache / "snapshots" / "55aa");
  const Error e = error_of([&] { search(cache); });
  EXPECT_THAT(e.message(), HasSubstr("holds several commits of a dataset: 4d7a, 55aa"));
  EXPECT_THAT(e.fix(), HasSubstr(first.string()));
}

TEST(Discover, ABareRepositoryOfGitIsNoData) {
  const ScratchFolder scratch;
  write_text(scratch / "train.jsonl", kRecord);
  write_text(scratch / "dataset-metadata.json", "{\"title\": \"a card of Kaggle\"}");
  ASSERT_EQ(test::run_command("git init --quiet --bare " + (scratch / "ds.git").string()).exit_code, 0);
  const Discovery found = search(scratch.path());
  EXPECT_EQ(names_of(found, scratch.path()), "train.jsonl");
  EXPECT_EQ(describe_left_out(found.left_out), "1 made by tools (ds.git), 1 about the data (dataset-metadata.json)");
}

TEST(Discover, AFolderOfDocumentationIsReadWhole) {
  const ScratchFolder scratch;
  const Path docs = scratch / "docs";
  write_text(docs / "README.md", "---\ntitle: The manual\nsidebar: left\n---\n# The manual\n");
  write_text(docs / "LICENSE", "words of a licence");
  write_text(docs / "guide" / "README.md", "# A guide\n");
  write_text(docs / "guide" / "install.rst", "Install\n=======\n");
  write_text(docs / "src" / "main.py", "print('a')\n");
  write_text(docs / "CHANGELOG", "all changes\n");
  write_text(docs / ".gitattributes", "* text=auto\n");
  EXPECT_EQ(names_of(search(docs), docs), "CHANGELOG LICENSE README.md guide/README.md guide/install.rst src/main.py");
  // Records below one of its folders: only what lies beside or above them is about them.
  write_text(docs / "src" / "data" / "train.jsonl", kRecord);
  write_text(docs / "src" / "README.md", "# About the records\n");
  EXPECT_EQ(names_of(search(docs), docs), "guide/README.md guide/install.rst src/data/train.jsonl src/main.py");
}

TEST(Discover, OfSourceCodeTheTestsAndTheVersionsOfPackagesAreRead) {
  const ScratchFolder scratch;
  const Path code = scratch / "code";
  for (const std::string name : {"__fixtures__", "__mocks__", "__tests__", "__x"})
    write_text(code / name / "a.js", "words of " + name);
  for (const std::string name : {"Cargo.lock", "Gemfile", "Gemfile.lock", "poetry.lock", "yarn.lock"})
    write_text(code / name, "words of " + name);
  EXPECT_EQ(names_of(search(code), code),
            "Cargo.lock Gemfile Gemfile.lock __fixtures__/a.js __mocks__/a.js __tests__/a.js __x/a.js poetry.lock "
            "yarn.lock");
  // The lock of a download.
  write_text(code / "train.txt", "words of a text");
  write_text(code / "train.txt.lock", "4711");
  const Path cache = scratch / ".cache" / "huggingface" / "datasets";
  write_text(cache / "json.txt", "words of a cache");
  write_text(cache / "json_builder.lock", "4711");
  EXPECT_EQ(describe_left_out(search(code).left_out), "1 unfinished (train.txt.lock)");
  EXPECT_EQ(describe_left_out(search(cache).left_out), "1 unfinished (json_builder.lock)");
}

// What lies beside the data in clones of the Hub. Each has a content of its own.
void write_pages(const Path& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) write_text(folder / name, "words of " + name);
}

TEST(Discover, OfFilesAboutDataTheNameMayGoOn) {
  const ScratchFolder scratch;
  const Path folder = scratch / "folder";
  write_text(folder / "train.jsonl", kRecord);
  const std::vector<std::string> about = {
      "README_zh.md",    "README_EN.md",  "README (1).md", "LICENSE_MIT.txt", "MIT-LICENSE",     "UNLICENSE",
      "DATASET_CARD.md", "datacard.md",   "TERMS.md",      "HISTORY.md",      "CHANGES",         "usage.rst",
      "SHA256SUMS",      "sha256sum.txt", "md5sum.txt",    "MD5SUMS",         "requirements.txt"};
  write_pages(folder, about);
  for (const bool has_keys : {false, true}) {
    const Discovery found = search(folder, has_keys);
    EXPECT_EQ(names_of(found, folder), "train.jsonl");
    EXPECT_EQ(found.left_out.size(), about.size());
    EXPECT_TRUE(found.texts_beside.empty());
  }
  // In other folders than repositories of the Hub, other texts are read, and named.
  write_pages(folder, {"history_of_rome.txt", "READMES.txt", "setup.py", "Makefile", "terms and more.txt"});
  const Discovery found = search(folder);
  EXPECT_EQ(names_of(found, folder),
            "Makefile READMES.txt history_of_rome.txt setup.py terms and more.txt train.jsonl");
  EXPECT_EQ(describe_texts_beside(found.texts_beside),
            "read whole as texts beside records: 5 (Makefile, READMES.txt, history_of_rome.txt, setup.py and 1 more)");
  // Texts alone.
  remove_file(folder / "train.jsonl");
  const Discovery texts = search(folder);
  EXPECT_EQ(texts.sources.size(), about.size() + 5);
  EXPECT_TRUE(texts.texts_beside.empty());
  EXPECT_TRUE(found.texts_about.empty());
  EXPECT_EQ(texts.texts_about.size(), about.size());
  EXPECT_EQ(describe_texts_about({"x/LICENSE", "x/README.md"}),
            "read as texts, although their names say that they are about the data: 2 (LICENSE, README.md); --exclude "
            "leaves them out");
}

TEST(Discover, OfARepositoryOfTheHubProgramsAndSettingsBesideRecordsAreLeftOut) {
  const ScratchFolder scratch;
  const Path clone = scratch / "clone";
  const std::vector<std::string> pages = {"Makefile", "notes.ipynb",     "setup.py",
                                          "dvc.yaml", "scripts/make.sh", "data/about.html"};
  write_text(clone / ".gitattributes", kLfs);
  write_pages(clone, pages);
  write_text(clone / "stats.json", "{\"rows\": 1}");
  EXPECT_EQ(search(clone).sources.size(), pages.size() + 1);  // code alone
  write_text(clone / "data" / "train.jsonl", kRecord);
  write_text(clone / "data" / "rows.json", "{\"text\": \"a record\"}");
  for (const bool has_keys : {false, true}) {
    const Discovery found = search(clone, has_keys);
    EXPECT_EQ(names_of(found, clone), "data/rows.json data/train.jsonl");
    EXPECT_THAT(describe_left_out(found.left_out), HasSubstr("7 about the data ("));
  }
  EXPECT_EQ(names_of(search(clone, false, {"setup.py"}), clone), "setup.py");
  EXPECT_EQ(names_of(search(clone / "setup.py"), clone), "setup.py");
  // A plain text may be data.
  write_text(clone / "data" / "more.txt", "plain words");
  EXPECT_EQ(names_of(search(clone), clone), "data/more.txt data/rows.json data/train.jsonl");
  EXPECT_EQ(describe_texts_beside(search(clone).texts_beside), "read whole as texts beside records: 1 (more.txt)");
  EXPECT_THAT(error_of([&] { search(clone, true); }).message(), HasSubstr("more.txt is plain text"));
  // Another repository in the same search has texts alone.
  write_text(scratch / "other" / ".gitattributes", kLfs);
  write_text(scratch / "other" / "guide.md", "words of a guide");
  EXPECT_THAT(names_of(search(scratch.path()), scratch.path()), HasSubstr("other/guide.md"));
}

TEST(Discover, WhatToolsWriteBesideDataIsNoData) {
  const ScratchFolder scratch;
  write_text(scratch / "train.txt", "words of a text");
  write_pages(scratch.path(), {"train.txt~", "desktop.ini", "Thumbs.db", "_SUCCESS", "_metadata", "_common_metadata",
                               "_committed_4711", "_started_4711"});
  write_pages(scratch.path(), {"_started_early.txt", "a~", "_success"});
  EXPECT_EQ(names_of(search(scratch.path()), scratch.path()), "_started_early.txt _success a~ train.txt");
}

TEST(Discover, FilesOfAPatternAreLikeFilesOfAFolder) {
  const ScratchFolder scratch;
  const Path clone = scratch / "clone";
  write_clone(clone);
  write_pages(clone, {"setup.py", "train.txt.part"});
  write_text(clone / "notes.txt", "plain words");
  const auto names = [&](const std::vector<Path>& paths, std::vector<std::string> exclude = {}) {
    return names_of(search_patterns(paths, std::move(exclude)), clone);
  };
  EXPECT_EQ(names({clone / "*"}), "data/train.jsonl notes.txt");
  EXPECT_EQ(names({clone / "*"}, {"*.txt"}), "data/train.jsonl");
  EXPECT_EQ(names({clone / "*" / "*"}), "data/train.jsonl");
  EXPECT_THAT(describe_left_out(search_patterns({clone / "*"}).left_out), HasSubstr("about the data (LICENSE, README"));
  // A name that the pattern spells, or that is named too.
  EXPECT_EQ(names({clone / "README*"}), "README.md");
  EXPECT_EQ(names({scratch / "c*" / "LICENSE"}), "LICENSE");
  EXPECT_EQ(names({clone / "*.part"}), "train.txt.part");
  EXPECT_EQ(names({clone / ".git*"}, {".git"}), ".gitattributes");
  EXPECT_EQ(names({clone / "*.py", clone / "data" / "*"}), "data/train.jsonl setup.py");
  EXPECT_EQ(names({clone / "*", clone / "README.md"}), "README.md data/train.jsonl notes.txt");
}

TEST(Discover, APatternDoesNotLeaveItsFolder) {
  const ScratchFolder scratch;
  const Path folder = scratch / "h";
  write_text(scratch / "outside.txt", "words outside");
  write_text(folder / "inside.txt", "words inside");
  EXPECT_EQ(error_of([&] { expand_patterns({folder / ".*"}); }).message(),
            "nothing matches " + (folder / ".*").string());
  write_text(folder / ".hidden.txt", "hidden words");
  EXPECT_EQ(expand_patterns({folder / ".*"}).paths, std::vector<Path>{folder / ".hidden.txt"});
  EXPECT_EQ(expand_patterns({folder / ".." / "o*"}).paths, std::vector<Path>{folder / ".." / "outside.txt"});
  EXPECT_THROW(expand_patterns({folder / ".?" / "outside.txt"}), Error);
}

TEST(Discover, SplitsOfARepositoryOfTheHubAreNotJoined) {
  const ScratchFolder scratch;
  const Path clone = scratch / "clone", data = clone / "data";
  write_text(clone / ".gitattributes", kLfs);
  write_text(data / "train-00000-of-00001.jsonl", kRecord);
  write_text(data / "tests.jsonl", "{\"text\": \"not a split\"}\n");
  write_text(clone / "test.py", "words of a program");
  EXPECT_EQ(search(clone).sources.size(), 2u);
  for (const std::string name : {"test-00000-of-00001.jsonl", "validation.jsonl", "dev_1.jsonl", "eval.jsonl"}) {
    write_text(data / name, "{\"text\": \"held out in " + name + "\"}\n");
    const Error e = error_of([&] { search(clone); });
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_EQ(e.message(), data.string() + " holds several splits: train-00000-of-00001.jsonl, " + name);
    EXPECT_EQ(e.why(), "training on all of them would include the documents meant for tests");
    EXPECT_THAT(e.fix(), HasSubstr("--include 'train*'"));
    EXPECT_EQ(search(clone, false, {"train*"}).sources.size(), 1u);
    EXPECT_EQ(search(clone, false, {"*.jsonl"}).sources.size(), 3u);
    remove_file(data / name);
  }
  write_text(clone / "sets" / "train" / "a.jsonl", "{\"text\": \"learned\"}\n");
  write_text(clone / "sets" / "test" / "a.jsonl", "{\"text\": \"held out\"}\n");
  const Error e = error_of([&] { search(clone); });
  EXPECT_EQ(e.message(), (clone / "sets").string() + " holds several splits: train, test");
  EXPECT_THAT(e.fix(), HasSubstr((clone / "sets" / "train").string()));
  // In other folders the names are the user's, also below a home folder.
  remove_file(clone / ".gitattributes");
  write_text(scratch / ".cache" / "huggingface" / "hub" / "version.txt", "1");
  EXPECT_EQ(search(clone).sources.size(), 5u);
}

TEST(Discover, ASplitIsAWordAnywhereInAName) {
  const ScratchFolder scratch;
  const std::vector<std::pair<std::string, std::string>> splits = {{"my_train.jsonl", "my_test.jsonl"},
                                                                   {"en.train.jsonl", "en.valid.jsonl"},
                                                                   {"train-en/a.jsonl", "en dev/a.jsonl"},
                                                                   {"train(1).jsonl", "latest-test.jsonl"}};
  const auto write = [&](const Path& clone, const std::string& train, const std::string& held_out) {
    write_text(clone / "README.md", kCard);
    write_text(clone / train, kRecord);
    write_text(clone / held_out, "{\"text\": \"held out\"}\n");
  };
  for (const auto& [train, held_out] : splits) {
    const Path clone = scratch / train.substr(0, 5) / held_out.substr(0, 5);
    write(clone, train, held_out);
    const Error e = error_of([&] { search(clone); });
    EXPECT_THAT(e.message(), HasSubstr("holds several splits: ")) << train;
    EXPECT_THAT(e.fix(), HasSubstr(train == "my_train.jsonl" ? "--include '*train*'" : "train"));
  }
  // Parts of other words.
  write(scratch / "words", "constrained.jsonl", "latest.jsonl");
  write(scratch / "more", "train.jsonl", "medi\xc3\xa9val.jsonl");
  for (const char* name : {"words", "more"}) EXPECT_EQ(search(scratch / name).sources.size(), 2u);
}

TEST(Discover, APartOfARepositoryOfTheHubIsTreatedAsThatRepository) {
  const ScratchFolder scratch;
  const Path clone = scratch / "clone", part = clone / "data" / "en";
  write_text(clone / ".gitattributes", kLfs);
  write_text(part / "train.jsonl", kRecord);
  write_text(part / "NOTES.md", "about the records");
  EXPECT_EQ(names_of(search(part), clone), "data/en/train.jsonl");
  write_text(part / "test.jsonl", kRecord);
  for (const Path& folder : {part, part.parent_path()})
    EXPECT_EQ(error_of([&] { search(folder); }).message(),
              part.string() + " holds several splits: train.jsonl, test.jsonl");
  // The same where the shell stands in the repository.
  const Path before = std::filesystem::current_path();
  std::filesystem::current_path(clone);
  EXPECT_EQ(error_of([&] { search("data"); }).message(), "data/en holds several splits: train.jsonl, test.jsonl");
  std::filesystem::current_path(before);
}

TEST(Discover, AFileThatIsNamedIsReadAndPatternsDecide) {
  const ScratchFolder scratch;
  const Path clone = scratch / "clone";
  write_clone(clone);
  EXPECT_EQ(names_of(search(clone / "README.md"), clone), "README.md");
  EXPECT_EQ(names_of(search(clone / ".gitattributes"), clone), ".gitattributes");
  EXPECT_EQ(names_of(search(clone, false, {"README.md"}), clone), "README.md");
  EXPECT_EQ(names_of(search(clone, false, {".git*"}), clone), ".gitattributes");
  write_text(clone / "data" / "notes.txt", "plain words");
  EXPECT_EQ(names_of(search(clone, true, {}, {"*.txt"}), clone), "data/train.jsonl");
  const Error e = error_of([&] { search(clone, true, {}, {"data"}); });
  EXPECT_EQ(e.message(), "there is no text to build from");
  EXPECT_THAT(e.why(), HasSubstr("1 excluded (data)"));
  EXPECT_THAT(error_of([&] { search(clone, true, {"*.parquet"}); }).why(), HasSubstr("that no --include matches"));
}

TEST(Discover, AllFilesThatCannotBeReadAreCounted) {
  const ScratchFolder scratch;
  write_text(scratch / "a.jsonl", kRecord);
  write_text(scratch / "b.png", "\x89PNG\r\n\x1a\n");
  write_text(scratch / "c\n.txt", "plain words");
  write_text(scratch / "d.txt", "more plain words");
  const Error e = error_of([&] { search(scratch, true); });
  EXPECT_THAT(e.message(), HasSubstr("b.png is a PNG picture"));
  EXPECT_THAT(e.why(), HasSubstr("2 more files cannot be read either: "));
  EXPECT_THAT(e.why(), HasSubstr("c\\n.txt"));
  EXPECT_THAT(e.why(), Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace hearth::data
