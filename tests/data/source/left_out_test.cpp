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

}  // namespace
}  // namespace hearth::data
