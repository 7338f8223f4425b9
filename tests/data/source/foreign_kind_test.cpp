// SPDX-License-Identifier: Apache-2.0
// Files that are not text, written by the libraries of their kinds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "data/arrow_support.h"
#include "data/corpus_folder.h"
#include "data/read_source.h"
#include "data/source/foreign_kind.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;

struct KindFiles {
  ScratchFolder folder;
  KindFiles() { run_oracle("source/kinds_reference.py", folder.path().string()); }
};

const Path& kind_files() {
  static const KindFiles files;
  return files.folder.path();
}

struct Refusal {
  std::string file, name, fix;  // parts of the message and of the fix
};

TEST(ForeignKind, FilesThatAreNoTextAreRefusedByTheNameOfTheirKind) {
  HEARTH_NEEDS_ORACLE();
  const std::vector<Refusal> refusals = {
      {"corpus.tar", "is a tar archive", "tar --extract --file "},
      {"corpus.tar.gz", "is a tar archive, packed by gzip", "tar --extract --file "},
      {"corpus.tar.xz", "is a tar archive, packed by xz", "tar --extract --file "},
      {"corpus.tgz.txt", "is a tar archive, packed by gzip", "tar --extract --file "},
      {"corpus.zip", "is a zip archive", "unzip "},
      {"corpus.lzma", "is an LZMA file", "xz --format=lzma --decompress "},
      {"twice.jsonl.gz", "is a gzip file, packed by gzip", "unpack it once: gzip --decompress "},
      {"picture.png", "is a PNG picture", "--exclude '*.png'"},
      {"picture.txt", "is a PNG picture", "--exclude '*.txt'"},
      {"picture.png.gz", "is a PNG picture, packed by gzip", "--exclude '*.gz'"},
      {"text.docx", "is an Office document", "export its text first"},
      {"model.pt", "is a file of torch.save", "--exclude '*.pt'"},
      {"old.pt", "is a pickle of Python", "--exclude '*.pt'"},
      {"object.pkl", "is a pickle of Python", "--exclude '*.pkl'"},
      {"model.safetensors", "is a file of weights (safetensors)", "--exclude '*.safetensors'"},
      {"arrays.npz", "is a NumPy archive (.npz)", "--exclude '*.npz'"},
      {"array.npy.gz", "is a NumPy array, packed by gzip", "--exclude '*.gz'"},
      {"train.bin", "is not text", "put its index NAME.idx beside it"},
      {"noise", "is not text", "--exclude noise"},
      {"wide.txt", "is text in UTF-16LE", "iconv --from-code=UTF-16LE --to-code=UTF-8"},
      {"wide.jsonl", "is text in UTF-16", "iconv --from-code=UTF-16 --to-code=UTF-8"},
      {"wider.txt", "is text in UTF-32", "iconv --from-code=UTF-32 --to-code=UTF-8"},
      {"big.txt", "is text in UTF-16", "iconv --from-code=UTF-16 --to-code=UTF-8"},
      {"chinese.txt", "is text in GB18030", "iconv --from-code=GB18030 --to-code=UTF-8"},
      {"database", "is an SQLite database", "sqlite3 -json "},
      {"program", "is an ELF program or library", "--exclude program"}};
  for (const Refusal& refusal : refusals) {
    for (const bool has_keys : {false, true}) {
      const Path path = kind_files() / refusal.file;
      const Error e = test::error_of([&] { recognise(path, {}, {.has_keys = has_keys}); });
      EXPECT_EQ(e.code(), ExitCode::kUser);
      EXPECT_THAT(e.message(), HasSubstr(path.string() + " " + refusal.name));
      EXPECT_THAT(e.fix(), HasSubstr(refusal.fix)) << refusal.file;
      EXPECT_THAT(e.fix(), HasSubstr("read its bytes as they are with --as-text")) << refusal.file;
    }
    EXPECT_EQ(found_file(kind_files() / refusal.file, {}, {.as_text = true}).format, Format::kText) << refusal.file;
  }
  if (!path_exists(kind_files() / "corpus.lz4")) return;
  EXPECT_THAT(test::error_of([&] { recognise(kind_files() / "corpus.lz4", {}); }).fix(),
              HasSubstr("lz4 --decompress "));
}

// The advice holds whatever the file is called: a tool that is given a name wants its own ending.
TEST(ForeignKind, TheCommandOfTheAdviceUnpacksAFileOfAnyName) {
  const ScratchFolder scratch;
  const std::string text = "a text of a few words\n";
  write_text(scratch / "plain", text);
  for (const std::string tool : {"gzip", "xz", "xz --format=lzma", "bzip2", "zstd -q", "lz4 -q"}) {
    const std::string packed = (scratch / "a file.txt").string();
    const std::string pack = fmt::format("{} < {} > '{}'", tool, (scratch / "plain").string(), packed);
    if (test::run_command(pack).exit_code != 0) continue;  // the tool is not installed
    const auto kind = foreign_kind(read_file(packed), packed);
    ASSERT_TRUE(kind.has_value()) << tool;
    const std::string command = kind->fix.substr(kind->fix.find(": ") + 2);
    EXPECT_EQ(test::run_command(command).exit_code, 0) << command;
    EXPECT_EQ(read_file(packed + ".unpacked"), text) << command;
  }
}

// nanoGPT's train.bin of a text's characters: ids below 65, of two bytes each.
TEST(ForeignKind, SmallIdsOfTokensAreNoWideText) {
  std::string ids, letters;
  for (int i = 0; i < 50'000; ++i) {
    const char id = static_cast<char>((i * 7919) % 65);
    ids += {id, '\0'};
    letters += {static_cast<char>('a' + id % 26), '\0'};
  }
  EXPECT_EQ(foreign_kind(ids, "train.bin").value_or(ForeignKind{}).name, "not text");
  EXPECT_THAT(foreign_kind(ids, "train.bin").value_or(ForeignKind{}).fix, HasSubstr("NAME.idx"));
  EXPECT_EQ(foreign_kind(letters, "wide.txt").value_or(ForeignKind{}).name, "text in UTF-16LE");
}

TEST(ForeignKind, EncryptedParquetIsRefusedAsSuch) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  run_oracle("source/encrypted_reference.py", scratch.path().string());
  const auto check = [](const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_THAT(e.message(), HasSubstr(".parquet is an encrypted Parquet file"));
    EXPECT_THAT(e.fix(), HasSubstr("decrypt it first"));
  };
  const Path footer = scratch / "footer.parquet";
  for (const bool has_keys : {false, true})
    check(test::error_of([&] { recognise(footer, {}, {.has_keys = has_keys}); }));
  ReadRules parquet;
  parquet.format = "parquet";
  check(test::error_of([&] { recognise(footer, parquet); }));
  check(test::error_of([&] { read_source(found_file(scratch / "text.parquet")); }));
  EXPECT_EQ(texts_of(read_source(found_file(scratch / "other.parquet"))),
            (std::vector<std::string>{"a text", "another"}));
  // The name of the mark may begin a text.
  write_text(scratch / "a.txt", "PARENTS AND CHILDREN\n");
  EXPECT_EQ(kind_of(scratch / "a.txt"), "text none");
}

TEST(ForeignKind, APackedTextIsUnpackedWholeWhateverItsStreams) {
  HEARTH_NEEDS_ORACLE();
  const std::string text = read_file(kind_files() / "good.txt");
  for (const std::string name : {"good.txt.xz", "good.txt.bz2"}) {
    const Path path = kind_files() / name;
    EXPECT_EQ(texts_of(read_source(found_file(path))), std::vector<std::string>{text}) << name;
    // Cut, flipped, and with something after it.
    const std::string whole = read_file(path);
    std::string flipped = whole;
    flipped[whole.size() / 4] = static_cast<char>(flipped[whole.size() / 4] ^ 0x10);
    const ScratchFolder scratch;
    for (const std::string& bad :
         {whole.substr(0, whole.size() - 1), whole.substr(0, whole.size() / 3), flipped, whole + "rubbish after it"}) {
      write_text(scratch / name, bad);
      const auto records = read_source(found_file(scratch / name));
      ASSERT_EQ(records.size(), 1u) << name;
      EXPECT_EQ(records[0].problem, RecordProblem::kUnreadable) << name;
      EXPECT_FALSE(records[0].why.empty());
    }
  }
}

TEST(ForeignKind, TextsThatLookOddAreTexts) {
  const ScratchFolder scratch;
  const std::vector<std::string> texts = {"x",
                                          "PK is no zip file",
                                          "GIF89a is a format of pictures",
                                          "BZh9 is how a file of bzip2 begins",
                                          "MZ, RIFF and OggS are marks, too",
                                          "%!PS-Adobe-3.0\n%%Title: figure\n",
                                          "caf\xE9 na\xEFve, in Latin-1",
                                          "\x1b[31mred\x1b[0m of a terminal\f\n",
                                          "a line that ends with CR\ranother\r",
                                          std::string(5000, 'a') + '\0' + std::string(5000, 'b'),  // one stray zero
                                          "\xe6\xb5\xb7\xe5\xbe\x88\xe5\xae\xbd",
                                          "[link](https://example.org) begins a page\n",
                                          "{ int x; }\n",
                                          "<?xml version=\"1.0\"?>\n<a/>\n",
                                          "---\ntitle: a page\n---\n",
                                          "070701 is a number\n"};
  for (size_t i = 0; i < texts.size(); ++i) {
    const Path path = scratch / fmt::format("{}.txt", i);
    write_text(path, texts[i]);
    EXPECT_FALSE(foreign_kind(texts[i], path)) << texts[i];
    EXPECT_EQ(kind_of(path), "text none") << texts[i];
    EXPECT_EQ(texts_of(read_source(found_file(path))), std::vector<std::string>{texts[i]});
  }
}

TEST(ForeignKind, ATextIsLookedAtBehindItsBeginningToo) {
  const ScratchFolder scratch;
  const Path path = scratch / "a.txt";
  const std::string text = words(7, 400'000), zeros(200'000, '\0');
  std::string wide;
  for (const char c : text.substr(0, 100'000)) wide += {c, '\0'};
  struct Case {
    std::string content, part;
  };
  for (const Case& bad :
       {Case{text + zeros, "at byte 450000"}, Case{text + wide, "at byte 450001"},
        Case{text + zeros + text, "at byte 500000"}, Case{text + zeros.substr(0, 9000), "at byte 400000"}}) {
    write_text(path, bad.content);
    const Error e = error_of([&] { recognise(path, {}); });
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_THAT(e.message(), HasSubstr("a.txt is not text " + bad.part));
    EXPECT_THAT(e.why(), HasSubstr("are control characters, "));
    EXPECT_THAT(e.fix(), HasSubstr("--as-text"));
    ReadRules named;
    named.format = "text";
    EXPECT_THAT(error_of([&] { recognise(path, named); }).message(), HasSubstr("is not text"));
    EXPECT_EQ(texts_of(read_source(found_file(path, {}, {.as_text = true}))), std::vector<std::string>{bad.content});
    // The first MiB of a packed text is looked at.
    ASSERT_EQ(test::run_command("gzip --force --keep " + path.string()).exit_code, 0);
    EXPECT_THAT(error_of([&] { recognise(scratch / "a.txt.gz", {}); }).message(), HasSubstr("packed by gzip"));
  }
  // Behind that, its source finds them.
  const Path packed = scratch / "long.txt.gz";
  const std::string whole = words(7, 3'000'000) + zeros;
  write_text(scratch / "long.txt", whole);
  ASSERT_EQ(test::run_command("gzip " + (scratch / "long.txt").string()).exit_code, 0);
  const auto records = read_source(found_file(packed));
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].problem, RecordProblem::kUnreadable);
  EXPECT_THAT(records[0].why, HasSubstr("it is not text at byte 3"));
  EXPECT_EQ(texts_of(read_source(found_file(packed, {}, {.as_text = true}))), std::vector<std::string>{whole});
  std::string stray = text;
  stray[200'000] = stray[399'999] = '\0';
  write_text(path, stray);
  EXPECT_EQ(kind_of(path), "text none");
}

TEST(ForeignKind, APointerWithoutItsDataSaysHowToGetThem) {
  const ScratchFolder scratch;
  for (const std::string name : {"train.parquet", "train.jsonl", "train"}) {
    write_text(scratch / name, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
    const Error e = test::error_of([&] { recognise(scratch / name, {}); });
    EXPECT_THAT(e.message(), HasSubstr("is a pointer of git-lfs, without the data"));
    EXPECT_THAT(e.fix(), HasSubstr("git lfs pull"));
  }
}

TEST(ForeignKind, AByteOrderMarkIsNoPartOfAText) {
  const ScratchFolder scratch;
  const std::string mark = "\xef\xbb\xbf";
  write_text(scratch / "a.txt", mark + "words");
  write_text(scratch / "empty.txt", mark);
  const auto records = read_source(found_file(scratch / "a.txt"));
  EXPECT_EQ(texts_of(records), std::vector<std::string>{"words"});
  EXPECT_EQ(records[0].position, 3);
  EXPECT_TRUE(read_source(found_file(scratch / "empty.txt")).empty());
  for (const std::string name : {"a.jsonl", "a.json", "a.txt", "a"}) {
    write_text(scratch / name, mark + "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
    EXPECT_EQ(kind_of(scratch / name), "jsonl none") << name;
    EXPECT_EQ(texts_of(read_source(found_file(scratch / name))), (std::vector<std::string>{"one", "two"})) << name;
  }
  write_text(scratch / "array", mark + "[{\"text\": \"one\"},\n{\"text\": \"two\"}]");
  EXPECT_EQ(texts_of(read_source(found_file(scratch / "array"))), (std::vector<std::string>{"one", "two"}));
  write_text(scratch / "table.csv", mark + "text,id\none,1\n");
  EXPECT_EQ(texts_of(read_source(found_file(scratch / "table.csv"))), std::vector<std::string>{"one"});
}

TEST(ForeignKind, NamesAreShownOnOneLineAndAsWordsOfTheShell) {
  EXPECT_EQ(printable("a\nb\tc\x1b[1m\x7f"), "a\\nb\\tc\\x1b[1m\\x7f");
  const std::string name = "it's a\nname\\ $x";
  for (const std::string& word : {std::string("a b"), std::string("it's"), std::string("plain/name-1.txt")})
    EXPECT_EQ(test::run_command("printf %s " + shell_word(word)).output, word);
  EXPECT_EQ(shell_word("plain/name-1.txt"), "plain/name-1.txt");
  EXPECT_EQ(test::run_command("bash -c " + test::shell_quoted("printf %s " + shell_word(name))).output, name);
  EXPECT_EQ(user_error("a\nb \x1b[1m").message(), "a\\nb \\x1b[1m");
  EXPECT_EQ(user_error("a list:\n    row").message(), "a list:\n    row");
}

}  // namespace
}  // namespace hearth::data
