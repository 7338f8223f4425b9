// SPDX-License-Identifier: Apache-2.0
// Checkpoints of more ranks than a process can have files open, and their check by several ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <set>
#include <vector>

#include "base/error.h"
#include "checkpoint/item_files.h"
#include "checkpoint/load.h"
#include "checkpoint/retain.h"
#include "checkpoint/verify.h"
#include "example.h"
#include "support/environment.h"
#include "support/errors.h"

namespace hearth::checkpoint {
namespace {

using test::error_of;
using testing::HasSubstr;

// While it lives, the process can open `more` files than now.
class FewFiles {
 public:
  explicit FewFiles(size_t more) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    std::set<std::string> used;
    for (const std::string& name : list_folder("/proc/self/fd")) used.insert(name);
    rlimit few = before_;
    few.rlim_cur = 0;
    // The limit is that of the numbers, which need not follow each other. The list's own is free again.
    for (size_t free = 0; free < more; ++few.rlim_cur) free += used.contains(std::to_string(few.rlim_cur)) ? 0 : 1;
    --few.rlim_cur;
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewFiles(const FewFiles&) = delete;

 private:
  rlimit before_{};
};

constexpr int64_t kRanks = 91;  // each has a row of the first tensor

TEST(ManyRanks, AreSavedReadAndVerifiedWithFewOpenFiles) {
  const test::ScratchFolder scratch;
  const std::vector<ExampleTensor> tensors = example_tensors();
  const FewFiles few(ItemFiles::kMostOpen + 8);
  const Error too_many = error_of([] {
    std::vector<File> all;
    for (size_t i = 0; i < ItemFiles::kMostOpen + 9; ++i) all.push_back(File::open_read("/proc/self/stat"));
  });
  EXPECT_THAT(too_many.what(), HasSubstr("Too many open files")) << "the limit holds";
  const Path folder = save_example(scratch, tensors, 100, kRanks);
  EXPECT_GT(std::ssize(list_folder(folder)), kRanks - 5);
  {
    Reader reader = Reader::open(folder);
    for (int i = 0; i < 2; ++i)
      for (const ExampleTensor& tensor : tensors) EXPECT_EQ(read_whole(reader, tensor), tensor.bytes);
  }
  EXPECT_TRUE(verify_checkpoint(folder).problems.empty());
  EXPECT_EQ(newest_good(scratch).step, 100);
}

TEST(ManyRanks, FilesOfOthersAreCheckedWhenTheyAreOpened) {
  const test::ScratchFolder scratch;
  const std::vector<ExampleTensor> tensors = example_tensors();
  const Path folder = save_example(scratch, tensors, 100, 3);
  remove_file(folder / "__R_2.distcp");
  EXPECT_THAT(error_of([&] { Reader::open(folder); }).message(), HasSubstr("__R_2.distcp is missing"));
  Reader later = Reader::open(folder, FileSizes::kWhenOpened);
  const Error missing = error_of([&] { read_whole(later, tensors.front()); });
  EXPECT_EQ(missing.code(), ExitCode::kDamaged);
  EXPECT_THAT(missing.message(), HasSubstr("__R_2.distcp is missing"));

  const Path cut = folder / "__R_1.distcp";
  const std::string content = read_file(cut);
  write_file_atomic(cut, content.substr(0, content.size() - 1));
  Reader again = Reader::open(folder, FileSizes::kWhenOpened);
  EXPECT_THAT(error_of([&] { read_whole(again, tensors.front()); }).message(), HasSubstr("is cut short"));
  write_file_atomic(cut, content + "x");
  Reader longer = Reader::open(folder, FileSizes::kWhenOpened);
  EXPECT_THAT(error_of([&] { read_whole(longer, tensors.front()); }).why(),
              HasSubstr(fmt::format("{} bytes, expected {}", content.size() + 1, content.size())));
}

std::set<size_t> bits_of(const std::string& bytes) {
  std::set<size_t> set;
  for (size_t i = 0; i < 8 * bytes.size(); ++i)
    if ((static_cast<unsigned char>(bytes[i / 8]) >> (i % 8) & 1) != 0) set.insert(i);
  return set;
}

// The first tensor is loaded by all, the rest is checked once, by one rank or another.
TEST(ManyRanks, CheckEachItemThatNobodyLoadsOnce) {
  const test::ScratchFolder scratch;
  const std::vector<ExampleTensor> tensors = example_tensors();
  const Path folder = save_example(scratch, tensors, 100, 5);
  size_t items = 0;
  {
    const Reader reader = Reader::open(folder);
    for (const formats::StoredTensor& tensor : reader.metadata().tensors) items += tensor.items.size();
  }
  for (const int64_t ranks : {1, 2, 3, 7, 100}) {
    std::vector<Reader> readers;
    for (int64_t r = 0; r < ranks; ++r) {
      readers.push_back(Reader::open(folder, FileSizes::kWhenOpened));
      read_whole(readers.back(), tensors.front());
    }
    const std::string loaded = checked_items(readers.front());
    const size_t num_loaded = bits_of(loaded).size();
    EXPECT_GT(num_loaded, 4U);
    std::set<size_t> all = bits_of(loaded);
    size_t sum = 0, most = 0;
    for (int64_t r = 0; r < ranks; ++r) {
      Reader& reader = readers[static_cast<size_t>(r)];
      check_rest(reader, loaded, r, ranks);
      const std::set<size_t> now = bits_of(checked_items(reader));
      sum += now.size() - num_loaded;
      most = std::max(most, now.size() - num_loaded);
      all.insert(now.begin(), now.end());
    }
    EXPECT_EQ(all.size(), items) << ranks;
    EXPECT_EQ(sum, items - num_loaded) << ranks;
    EXPECT_LE(most, (items - num_loaded) / static_cast<size_t>(ranks) + 6) << ranks;
  }
}

TEST(ManyRanks, FindDamageInTheShareOfOneOfThem) {
  const test::ScratchFolder scratch;
  const std::vector<ExampleTensor> tensors = example_tensors();
  const Path folder = save_example(scratch, tensors, 100, 5);
  const Reader whole = Reader::open(folder);
  const formats::Item damaged_item = whole.metadata().tensors.back().items.front();
  overwrite(folder / damaged_item.file, static_cast<size_t>(damaged_item.offset + damaged_item.length / 2), "#");
  int found = 0;
  for (int64_t r = 0; r < 4; ++r) {
    Reader reader = Reader::open(folder, FileSizes::kWhenOpened);
    try {
      check_rest(reader, checked_items(reader), r, 4);
    } catch (const Error& error) {
      ++found;
      EXPECT_EQ(error.code(), ExitCode::kDamaged);
      EXPECT_THAT(error.message(), HasSubstr(damaged_item.name));
      EXPECT_THAT(error.message(), HasSubstr(fmt::format("{}, bytes {}", damaged_item.file, damaged_item.offset)));
    }
  }
  EXPECT_EQ(found, 1);
  EXPECT_TRUE(verify_frame(folder).problems.empty()) << "does not read items";
}

}  // namespace
}  // namespace hearth::checkpoint
