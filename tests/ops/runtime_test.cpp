// SPDX-License-Identifier: Apache-2.0
#include "ops/runtime.h"

#include <sys/resource.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "compare.h"
#include "ops/access.h"

namespace hearth::ops::test {
namespace {

// Ids of the threads in a parallel region of `n` long items.
std::set<std::thread::id> threads_of_a_region(int64_t n) {
  std::set<std::thread::id> ids;
  std::mutex mutex;
  parallel(n, 1 << 20, [&](int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  return ids;
}

class Runtime : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const bool once = (prepare_process(2), true);
    static_cast<void>(once);
  }
};

TEST_F(Runtime, ParallelRegionsReallyUseTheThreadsAskedFor) {
  EXPECT_EQ(num_threads(), 2);
  EXPECT_EQ(threads_of_a_region(8).size(), 2u);
  EXPECT_EQ(at::get_num_interop_threads(), 1);
}

TEST_F(Runtime, DenormalsAreFlushedInEveryThread) {
  const at::Tensor tiny = at::full({1 << 20}, 2e-38f);
  EXPECT_EQ((tiny * 0.1).abs().max().item<float>(), 0);  // both threads' halves, by ATen
  std::atomic<int> kept = 0;
  volatile float value = 2e-38f;
  parallel(8, 1 << 20, [&](int64_t, int64_t) {
    if (value * 0.1f != 0) ++kept;
  });
  EXPECT_EQ(kept, 0);
}

TEST_F(Runtime, ARankThreadHasAPoolOfItsOwn) {
  int64_t inside = 0;
  size_t used = 0;
  float product = 1;
  std::thread rank([&] {
    prepare_thread(1);
    inside = num_threads();
    used = threads_of_a_region(8).size();
    volatile float value = 2e-38f;
    product = value * 0.1f;
  });
  rank.join();
  EXPECT_EQ(inside, 1);
  EXPECT_EQ(used, 1u);
  EXPECT_EQ(product, 0);
  prepare_thread(2);
  EXPECT_EQ(threads_of_a_region(8).size(), 2u);
}

TEST_F(Runtime, LargeBlocksAreNotFaultedInAgain) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer brings its own malloc, which glibc's settings do not reach";
#endif
  constexpr size_t kSize = 24 << 20;
  const auto touch = [] {  // several at a time: glibc adapts to a single block by itself
    std::array<void*, 4> blocks;
    for (void*& block : blocks) std::memset(block = std::malloc(kSize), 1, kSize);
    for (void* block : blocks) std::free(block);
  };
  const auto faults = [] {
    rusage usage;
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  touch();
  const long before = faults();
  for (int i = 0; i < 10; ++i) touch();
  EXPECT_LT(faults() - before, 200);  // 245,760 pages if every round returned its blocks
}

TEST_F(Runtime, TheGemmRateIsPlausible) {
  const double flops = measure_gemm_flops(at::kCPU, DType::kFloat32);
  EXPECT_GT(flops, 1e9);
  EXPECT_LT(flops, 1e14);
}

}  // namespace
}  // namespace hearth::ops::test
