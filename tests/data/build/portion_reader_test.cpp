// SPDX-License-Identifier: Apache-2.0
// A source that changes after it was found and before it is read would give documents that were never hashed.
#include "data/build/portion_reader.h"

#include <gtest/gtest.h>

#include "data/corpus_folder.h"
#include "data/label_weights_support.h"
#include "data/source/discover.h"

namespace hearth::data {
namespace {

class ChangingSource : public testing::Test {
 protected:
  // `count` JSON lines, found and planned as one portion.
  void make(int count) {
    std::string lines;
    for (int i = 0; i < count; ++i) lines += fmt::format("{{\"text\": \"{}\"}}\n", i);
    write_text(path_, lines);
    DiscoverOptions options;
    options.paths = {path_};
    HashProgress progress;
    found_ = discover(options, progress);
    portions_ = plan_portions(found_.sources, 1 << 20);
  }
  void set_time(int seconds) const {
    std::filesystem::last_write_time(path_, std::filesystem::last_write_time(path_) + std::chrono::seconds(seconds));
  }
  void append() const { write_text(path_, read_file(path_) + "{\"text\": \"more\"}\n"); }
  void expect_told(const std::function<void()>& body) const {
    const Error error = error_of(body);
    EXPECT_EQ(error.code(), ExitCode::kUser);
    EXPECT_EQ(error.message(), path_.string() + " changed while it was read");
  }

  test::ScratchFolder scratch_;
  const Path path_ = scratch_ / "lines.jsonl";
  const BuildRules rules_{};
  Discovery found_;
  std::vector<Portion> portions_;
};

TEST_F(ChangingSource, OfAnotherSizeOrTimeIsToldBeforeItsFirstDocument) {
  make(3);
  Document document;
  EXPECT_TRUE(PortionReader(found_.sources, portions_[0], rules_).next(document));
  set_time(10);
  expect_told([&] { PortionReader(found_.sources, portions_[0], rules_).next(document); });
  make(3);
  const auto time = std::filesystem::last_write_time(path_);
  append();
  std::filesystem::last_write_time(path_, time);
  expect_told([&] { PortionReader(found_.sources, portions_[0], rules_).next(document); });
}

TEST_F(ChangingSource, WhileItIsReadIsToldAtItsEnd) {
  make(3);
  PortionReader records(found_.sources, portions_[0], rules_);
  Document document;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(records.next(document));
  set_time(10);
  expect_told([&] { records.next(document); });
}

TEST_F(ChangingSource, WhileItIsHashedIsTold) {
  make(3);
  HashProgress progress;
  std::vector<SourceFile> sources = found_.sources;
  sources[0].hash.clear();
  hash_sources(sources, {0}, 1, progress);
  EXPECT_EQ(sources[0].hash, xxh3_128_hex(read_file(path_)));
  sources[0].hash.clear();
  append();
  expect_told([&] { hash_sources(sources, {0}, 1, progress); });
}

TEST(ChangingTokenFile, ItsIndexAndItsLabelsMayNotChangeEither) {
  HEARTH_NEEDS_ARROW();
  const std::string bin = "gold_text_document.bin", label_bin = "gold_text_label_document.bin";
  const std::string index = "gold_text_document.idx", label_index = "gold_text_label_document.idx";
  const test::ScratchFolder scratch;
  for (const std::string& file : {bin, index, label_bin, label_index})
    std::filesystem::copy_file(weight_rows().folder / file, scratch / file);
  for (const std::string& changing : {index, label_bin, label_index}) {
    DiscoverOptions options;
    options.paths = {scratch / bin};
    options.labels = {scratch / label_bin};
    HashProgress progress;
    const Discovery found = discover(options, progress);
    check_unchanged(found.sources.at(0));
    const Path file = std::filesystem::canonical(scratch / changing);
    std::filesystem::last_write_time(file, std::filesystem::last_write_time(file) + std::chrono::seconds(10));
    const Error error = error_of([&] { check_unchanged(found.sources[0]); });
    EXPECT_EQ(error.message(), file.string() + " changed while it was read");
  }
}

}  // namespace
}  // namespace hearth::data
