// What a search in folders leaves out, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "data/corpus_folder.h"
#include "data/source/discover.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;
using testing::Not;

using test::ScratchFolder;

constexpr const char* kLfs = "*.parquet filter=lfs diff=lfs merge=lfs -text\n";
constexpr const char* kRecord = "{\"text\": \"the only record\"}\n";
constexpr const char* kCard = "---\nlicense: mit\ntask_categories:\n- text-generation\n---\n# A dataset\n";

Discovery search(const Path& folder, bool has_keys = false, std::vector<std::string> include = {},
                 std::vector<std::string> exclude = {}) {
  DiscoverOptions options;
  options.paths = {folder};
  options.kinds.has_keys = has_keys;
  options.include = std::move(include);
  options.exclude = std::move(exclude);
  HashProgress progress;
  return discover(options, progress);
}

// The names of the files that are read, relative to the folder.
std::string names_of(const Discovery& found, const Path& folder) {
  std::vector<std::string> names;
  for (const SourceFile& source : found.sources) names.push_back(Path(source.path).lexically_relative(folder).string());
  return join(names, " ");
}

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
  for (const std::string mark : {"card", "attributes", "remote"}) {
    const Path other = scratch / mark;
    write_text(other / "a.txt", "words with a " + mark);
    write_text(other / "LICENSE.txt", "words of a licence");
    write_text(other / "README.md", mark == "card" ? kCard : "words about it");
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
