// SPDX-License-Identifier: Apache-2.0
#include "emulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace hearth::emulator {
namespace {

using testing::HasSubstr;

TEST(Emulator, RunsEveryThreadOfEveryBlockOnce) {
  std::vector<int> seen(7 * 96);
  EXPECT_EQ(run(7, 96, [&] { ++seen[blockIdx.x * blockDim.x + threadIdx.x]; }), 0);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 7 * 96);
}

TEST(Emulator, BlocksAndThreadsComeInNoOrderToRelyOn) {
  std::vector<uint32_t> blocks, threads;
  run(50, 64, [&] {
    if (threadIdx.x == 0) blocks.push_back(blockIdx.x);
    if (blockIdx.x == 0) threads.push_back(threadIdx.x);
  });
  EXPECT_FALSE(std::is_sorted(blocks.begin(), blocks.end()));
  EXPECT_FALSE(std::is_sorted(threads.begin(), threads.end()));
}

TEST(Emulator, NobodyPassesABarrierBeforeAllAreThere) {
  int before = 0, fewest = 1000;
  EXPECT_EQ(run(1, 256,
                [&] {
                  ++before;
                  __syncthreads();
                  fewest = std::min(fewest, before);
                  __syncthreads();
                  ++before;
                }),
            0);
  EXPECT_EQ(fewest, 256);
  EXPECT_EQ(before, 512);
}

TEST(Emulator, LanesExchangeWithinTheirWarp) {
  for (const int warp : {32, 64}) {
    set_lanes(warp);
    std::vector<uint32_t> got(128);
    run(1, 128, [&] {
      uint32_t sum = threadIdx.x;
      for (int distance = 1; distance < warp; distance *= 2) sum += shuffle_xor(sum, distance);
      got[threadIdx.x] = sum;
    });
    for (size_t i = 0; i < got.size(); ++i) {
      const auto size = static_cast<uint32_t>(warp), first = static_cast<uint32_t>(i) / size * size;
      EXPECT_EQ(got[i], size * first + size * (size - 1) / 2) << i;
    }
  }
}

TEST(Emulator, ABarrierThatSomeThreadsMissIsAnErrorWithItsLine) {
  set_lanes(32);
  EXPECT_EQ(run(1, 64,
                [&] {
                  if (threadIdx.x < 40) __syncthreads(77);
                }),
            kDivergentBarrier);
  EXPECT_THAT(std::string(error_text()), HasSubstr("line 77")) << error_text();
  EXPECT_EQ(run(1, 64, [&] { threadIdx.x < 40 ? __syncthreads(1) : __syncthreads(2); }), kDivergentBarrier);
  EXPECT_EQ(run(1, 64,
                [&] {
                  if (threadIdx.x % 2 == 0) shuffle_xor(1, 2);
                }),
            kDivergentBarrier);
  EXPECT_EQ(run(1, 64, [&] { __syncthreads(); }), 0);  // the failed launch does not affect the next one
}

}  // namespace
}  // namespace hearth::emulator
