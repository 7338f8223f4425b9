// SPDX-License-Identifier: Apache-2.0
// Ranks as threads, each with an emulated device of its own and NCCL between them (support/emulated_device.h).
#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "comm/nccl_group.h"
#include "comm/ranks.h"
#include "support/emulated_device.h"

namespace hearth::test {

struct EmulatedRanks {
  int64_t ranks = 2;
  uint64_t seed = 0;
  bool ordered = true;  // sums in pairs of ranks
  Fault fault = Fault::kNone;
};

// Runs `body` as each rank. Errors of NCCL's watch end the test's process.
inline void run_emulated_ranks(const EmulatedRanks& how,
                               const std::function<void(comm::Group& group, at::Device device)>& body) {
  const EmulatedDevice devices(how.seed, how.fault);
  comm::run_ranks(how.ranks, 600, [&](comm::Group& host) {
    const at::Device device = EmulatedDevice::of_rank(host.rank());
    const auto group = comm::nccl_group(host.control(), {.library = EmulatedDevice::nccl_library(),
                                                         .device = device,
                                                         .ordered = how.ordered,
                                                         .splits_apart = true,
                                                         .fail = [](const Error& error) {
                                                           std::fprintf(stderr, "%s\n", error.what());
                                                           std::abort();
                                                         }});
    body(*group, device);
  });
  EXPECT_EQ(EmulatedDevice::threads_on_several_devices(), 0);
}

// HEARTH_TEST_SEEDS says how many; 20 without it.
inline uint64_t num_seeds() {
  const char* const given = std::getenv("HEARTH_TEST_SEEDS");
  return given == nullptr ? 20 : std::strtoull(given, nullptr, 10);
}

// How many of the seeds 1 to `seeds` show that `passes` does not hold. For planted faults, so each runs in a process of
// its own: what is written to memory that was freed may end it, and that shows the fault, too.
inline int64_t seeds_that_show(uint64_t seeds, const std::function<bool(uint64_t seed)>& passes) {
  int64_t count = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (std::freopen("/dev/null", "w", stderr) == nullptr) ::_exit(2);
      at::set_num_threads(1);  // OpenMP's threads do not survive a fork
      ::_exit(passes(seed) ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    count += status == 0 ? 0 : 1;
  }
  return count;
}

}  // namespace hearth::test
