// SPDX-License-Identifier: Apache-2.0
// What other programs leave in folders: unfinished files, older copies and the files of version control. Splits in
// different folders of a repository.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/corpus_folder.h"
#include "data/search_folder.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;

// A record of its own in each file: equal files are read once.
void write_record(const Path& path) { write_text(path, "{\"text\": \"a record in " + path.string() + "\"}\n"); }

void write_records(const Path& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) write_record(folder / name);
}

// The reason and the names, where only a.jsonl is read.
std::string left_out_beside_one(const Path& folder) {
  const Discovery found = search(folder, /*has_keys=*/true);
  EXPECT_EQ(names_of(found, folder), "a.jsonl");
  return describe_left_out(found.left_out);
}

TEST(LeftOut, WhatOtherProgramsHaveNotFinishedIsNoData) {
  const ScratchFolder scratch;
  write_record(scratch / "a.jsonl");
  const std::vector<std::string> names = {"b.jsonl.tmp",       "c.jsonl.partial",  "d.jsonl.part",
                                          "e.crdownload",      "f.jsonl.filepart", "g.jsonl.opdownload",
                                          "h.jsonl._COPYING_", "#a.jsonl#",        "i.jsonl.inprogress"};
  for (const std::string& name : names) {
    write_record(scratch / name);
    EXPECT_EQ(left_out_beside_one(scratch.path()), "1 unfinished (" + name + ")");
    remove_file(scratch / name);
  }
  // aria2 makes the file at its full size, and its state beside it.
  write_records(scratch.path(), {"b.jsonl", "b.jsonl.aria2"});
  EXPECT_EQ(left_out_beside_one(scratch.path()), "2 unfinished (b.jsonl, b.jsonl.aria2)");
  // Parts of other names.
  write_records(scratch.path(), {"tmp", "partial.jsonl", "#c.jsonl", "aria2", "part"});
  EXPECT_EQ(names_of(search(scratch.path()), scratch.path()), "#c.jsonl a.jsonl aria2 part partial.jsonl tmp");
}

TEST(LeftOut, TheAttemptsOfSparkAreNoData) {
  const ScratchFolder scratch;
  write_record(scratch / "a.jsonl");
  write_record(scratch / "_temporary" / "0" / "task_1" / "part-00001.json");
  write_record(scratch / "year=2024" / "_temporary" / "0" / "part-00002.json");
  EXPECT_EQ(left_out_beside_one(scratch.path()), "2 unfinished (_temporary)");
  write_record(scratch / "temporary" / "b.jsonl");
  write_record(scratch / "c" / "_temporary");  // a file
  EXPECT_EQ(search(scratch.path(), true).sources.size(), 3u);
}

TEST(LeftOut, OlderCopiesAreNoData) {
  const ScratchFolder scratch;
  write_record(scratch / "a.jsonl");
  for (const std::string name : {"a.jsonl.bak", "a.jsonl.orig", "a.jsonl~", "a.jsonl.old", "b.jsonl.bak", "c.txt~"}) {
    write_record(scratch / name);
    EXPECT_EQ(left_out_beside_one(scratch.path()), "1 made by tools (" + name + ")");
    remove_file(scratch / name);
  }
  // Without an ending before it, and without the newer file, the name says nothing. A name that is given is read.
  write_records(scratch.path(), {"d.bak", "e~", "bak", ".orig"});
  EXPECT_EQ(names_of(search(scratch.path()), scratch.path()), "a.jsonl bak d.bak e~");
  write_record(scratch / "d");
  EXPECT_EQ(names_of(search(scratch.path()), scratch.path()), "a.jsonl bak d e~");
  EXPECT_EQ(names_of(search(scratch / "d.bak"), scratch.path()), "d.bak");
  write_records(scratch.path(), {"a.jsonl.bak", "#a.jsonl#"});
  EXPECT_EQ(names_of(search_patterns({scratch / "*.bak"}), scratch.path()), "a.jsonl.bak d.bak");
  EXPECT_EQ(names_of(search_patterns({scratch / "#*#"}), scratch.path()), "#a.jsonl#");
  EXPECT_EQ(names_of(search_patterns({scratch / "a*"}), scratch.path()), "a.jsonl");
}

TEST(LeftOut, OtherVersionControlIsNoData) {
  const ScratchFolder scratch;
  write_record(scratch / "a.jsonl");
  write_text(scratch / "CVS" / "Entries", "/a.jsonl/1.1//\n");
  write_text(scratch / "CVS" / "Root", ":pserver:\n");
  write_text(scratch / "_darcs" / "format", "hashed|darcs-2\n");
  write_text(scratch / "RCS" / "a.jsonl,v", "head 1.1;\n");
  write_text(scratch / "a.jsonl.dvc", "outs:\n- md5: 0123\n  path: a.jsonl\n");
  EXPECT_EQ(left_out_beside_one(scratch.path()), "4 made by tools (CVS, a.jsonl,v, _darcs, a.jsonl.dvc)");
  write_record(scratch / "cvs" / "CVS" / "b.jsonl");  // has neither of CVS's files
  EXPECT_EQ(search(scratch.path(), true).sources.size(), 2u);
}

TEST(LeftOut, APointerOfDvcWithoutItsDataIsRefused) {
  const ScratchFolder scratch;
  write_text(scratch / "a.txt", "plain words");
  for (const std::string text : {"outs:\n- md5: 0123\n  path: b.txt\n", "md5: 45\nouts:\n- path: b.txt\n"}) {
    write_text(scratch / "b.txt.dvc", text);
    const Error e = error_of([&] { search(scratch.path()); });
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_EQ(e.message(), (scratch / "b.txt.dvc").string() + " is a pointer of DVC, without the data");
    EXPECT_THAT(e.fix(), HasSubstr("dvc pull " + (scratch / "b.txt.dvc").string()));
  }
  write_text(scratch / "b.txt", "more words");
  EXPECT_EQ(names_of(search(scratch.path()), scratch.path()), "a.txt b.txt");
  EXPECT_THAT(error_of([&] { search(scratch / "b.txt.dvc"); }).message(), HasSubstr("is a pointer of DVC"));
  write_text(scratch / "yaml.txt", "the outs:\n- of a text\n");
  EXPECT_EQ(search(scratch.path()).sources.size(), 3u);
}

struct SplitPair {
  std::string train, held_out;  // files
  std::string train_split;      // what the error names
  std::string held_out_split;
};

TEST(LeftOut, SplitsInDifferentFoldersOfARepositoryAreNotJoined) {
  const std::vector<SplitPair> pairs = {
      {"data/train.jsonl", "test.jsonl", "data/train.jsonl", "test.jsonl"},
      {"train/0.jsonl", "extra/test.jsonl", "train", "extra/test.jsonl"},
      {"en/train.jsonl", "de/test.jsonl", "en/train.jsonl", "de/test.jsonl"},
      {"subset_a/train/0.jsonl", "subset_b/test/0.jsonl", "subset_a/train", "subset_b/test"},
      {"train/0.jsonl", "train/dev.jsonl", "train", "train/dev.jsonl"},
      {"a/b/train-0.jsonl", "a/c/d/validation/e/0.jsonl", "a/b/train-0.jsonl", "a/c/d/validation"}};
  for (const SplitPair& pair : pairs) {
    const ScratchFolder scratch;
    const Path clone = scratch / "clone";
    write_text(clone / "README.md", kCard);
    write_records(clone, {pair.train, pair.held_out});
    const Error e = error_of([&] { search(clone, true); });
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_EQ(e.message(), clone.string() + " holds several splits: " + (clone / pair.train_split).string() + ", " +
                               (clone / pair.held_out_split).string());
    const bool is_folder = !pair.train_split.ends_with(".jsonl");
    EXPECT_THAT(e.fix(), HasSubstr(is_folder ? (clone / pair.train_split).string() : "--include 'train*'"));
    EXPECT_EQ(search(clone, true, {"*"}).sources.size(), 2u);
    EXPECT_EQ(names_of(search(clone / pair.train, true), clone), pair.train);
    // The folder above has no card: the repository in it is refused all the same.
    EXPECT_THAT(error_of([&] { search(scratch.path(), true); }).message(), HasSubstr("holds several splits: "));
    remove_file(clone / "README.md");
    EXPECT_EQ(search(clone, true).sources.size(), 2u);
  }
}

TEST(LeftOut, WhatIsNoSplitOfTheSameRepositoryIsJoined) {
  const ScratchFolder scratch;
  const Path clone = scratch / "clone";
  write_text(clone / "README.md", kCard);
  write_records(clone, {"test.jsonl", "data/more.jsonl", "data/test/a.jsonl"});  // nothing is for training
  EXPECT_EQ(search(clone, true).sources.size(), 3u);
  // One split below a folder of that name, and a folder that has both.
  const Path both = scratch / "both";
  write_text(both / "README.md", kCard);
  write_records(both, {"dev/train/0.jsonl", "dev/train/1.jsonl"});
  EXPECT_EQ(search(both, true).sources.size(), 2u);
  // Splits of two repositories, in folders that are named for other things.
  for (const std::string name : {"train-clone", "test-clone"}) {
    const Path other = scratch / "two" / name;
    write_text(other / "README.md", kCard);
    write_record(other / "a.jsonl");
  }
  write_record(scratch / "two" / "train-clone" / "train.jsonl");
  write_record(scratch / "two" / "test-clone" / "test.jsonl");
  EXPECT_EQ(search(scratch / "two", true).sources.size(), 4u);
  // Two folders of one repository that are searched at once.
  write_records(clone, {"en/train.jsonl"});
  EXPECT_THAT(error_of([&] { search_patterns({clone / "*" / "*"}); }).message(), HasSubstr("several splits"));
}

TEST(LeftOut, OptionsThatNoFileUsesAreRefused) {
  const ScratchFolder scratch;
  write_text(scratch / "a.txt", "plain words");
  write_text(scratch / "b.csv", "text,n\nwords,1\n");
  write_record(scratch / "c.jsonl");
  const auto error_with = [&](const std::string& name, const ReadRules& rules) {
    DiscoverOptions options;
    options.paths = {scratch / name};
    options.read = rules;
    HashProgress progress;
    try {
      discover(options, progress);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kUser);
      EXPECT_EQ(e.fix(), "remove it");
      return e.message();
    }
    return std::string();
  };
  ReadRules join, first, dialect, most, two_keys;
  join.text_join = two_keys.text_join = " ";
  two_keys.text_keys = {"text", "n"};
  first.join_first = true;
  dialect.dialect = "neox";
  most.max_record_bytes = 10000;
  EXPECT_EQ(error_with("a.txt", join), "--text-join has no effect");
  EXPECT_EQ(error_with("a.txt", first), "--join-first has no effect");
  EXPECT_EQ(error_with("a.txt", dialect), "--dialect has no effect");
  EXPECT_EQ(error_with("a.txt", most), "--max-record-bytes has no effect");
  EXPECT_EQ(error_with("b.csv", join), "--text-join has no effect");
  EXPECT_EQ(error_with("c.jsonl", dialect), "--dialect has no effect");
  EXPECT_EQ(error_with("a.txt", {}), "");
  EXPECT_EQ(error_with("b.csv", two_keys), "");
  for (const ReadRules& rules : {first, most}) EXPECT_EQ(error_with("b.csv", rules), "");
  for (const ReadRules& rules : {join, first, most}) {
    EXPECT_EQ(error_with("c.jsonl", rules), "");
    EXPECT_EQ(error_with("", rules), "");  // one file of the folder uses it
  }
}

}  // namespace
}  // namespace hearth::data
