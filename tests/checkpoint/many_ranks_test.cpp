// Checkpoints of more ranks than a process can have files open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <set>
#include <vector>

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
    for (size_t free = 0; free < more; ++few.rlim_cur)
      free += used.contains(std::to_string(few.rlim_cur)) ? 0 : 1;
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

}  // namespace
}  // namespace hearth::checkpoint
