// SPDX-License-Identifier: Apache-2.0
// Groups on a device that works late and in any order (support/emulated_device.h): what NCCL's path does with streams
// and events, with several ranks and without a GPU.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "comm/device_order.h"
#include "comm/nccl_watch.h"
#include "group_suite.h"
#include "launch/local_ranks.h"
#include "ops/gpu/gpu.h"
#include "ops/readback.h"
#include "ops/tensor.h"
#include "support/emulated/queues.h"
#include "support/emulated_ranks.h"
#include "support/environment.h"
#include "trace/flight_recorder.h"

namespace hearth::comm {
namespace {

using test::EmulatedDevice;
using test::EmulatedRanks;
using test::Fault;

void on_device(const EmulatedRanks& how, const std::function<void(Group&)>& body) {
  test::run_emulated_ranks(how, [&](Group& group, at::Device device) {
    tensors_device = device;
    body(group);
  });
}

// Once for each seed, with two ranks and with three.
void on_each_seed(const std::function<void(Group&)>& body) {
  for (uint64_t seed = 0; seed < test::num_seeds() && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    on_device({.ranks = seed % 2 == 0 ? 3 : 2, .seed = seed}, body);
  }
}

TEST(EmulatedGroups, EqualDirectSumsAndCopies) {
  on_device({.ranks = 4}, check_collectives);
  on_each_seed([](Group& group) { check_random_calls(group, 60); });
}
TEST(EmulatedGroups, ThatWereSplitConcernTheirRanksOnly) {
  on_each_seed([](Group& all) { check_split_groups(all, 6); });
}
TEST(EmulatedGroups, GoOnWhileTheCallerComputes) { on_each_seed(check_started_calls); }
TEST(EmulatedGroups, OfTheirOwnStreamRunBesideThoseOfOthers) { on_each_seed(check_group_apart); }

// NCCL's own sums, of numbers that every order adds to the same bits.
TEST(EmulatedGroups, AddInNcclToo) {
  for (uint64_t seed = 0; seed < test::num_seeds(); ++seed) {
    on_device({.ranks = 3, .seed = seed, .ordered = false}, [](Group& group) {
      const auto rank = static_cast<double>(group.rank());
      for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
        const at::Tensor full = (at::arange(12, type) + rank).to(tensors_device);
        const at::Tensor shard = full.narrow(0, 0, 4).clone();
        group.reduce_scatter(shard, full);  // the sum over ranks of 4 rank + i + r is 3 (4 rank + i) + 3
        EXPECT_TRUE(shard.cpu().equal(3 * (at::arange(4, type) + 4 * rank) + 3));
        group.all_reduce(full);
        EXPECT_TRUE(full.cpu().equal(3 * at::arange(12, type) + 3));
      }
    });
  }
}

// A training's pattern: gathers ahead, reductions beside the computation, buffers in turn. Says whether the results
// were right on every rank. It begins again every few steps, while the numbers are exact. With one such round a planted
// fault shows in few orders of some machines' threads.
bool steps_are_right(const EmulatedRanks& how) {
  std::atomic<bool> right = true;
  test::run_emulated_ranks(how, [&](Group& group, at::Device device) {
    constexpr int64_t n = 64, kRound = 6, kSteps = 4 * kRound;
    const int64_t R = group.size();
    const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
    const at::Tensor master = at::empty({n}, options);
    const at::Tensor slots[] = {at::empty({R * n}, options), at::empty({R * n}, options)};
    Work gathering[2], reducing;
    const at::Tensor total = at::zeros({n}, options), sum = at::empty({n}, options),
                     whole = at::empty({R * n}, options);
    for (int64_t step = 0; step < kSteps; ++step) {
      const at::Tensor& slot = slots[step % 2];
      if (step % kRound == 0) master.fill_(static_cast<double>(group.rank()));
      master.add_(1);
      gathering[step % 2] = group.start([&group, slot, master] { group.all_gather(slot, master); });
      reducing.wait();
      gathering[step % 2].wait();
      if (step % kRound > 0) master.add_(sum, 0.25);
      whole.copy_(slot);
      whole.mul_(2);
      reducing = group.start([&group, sum, whole] { group.reduce_scatter(sum, whole); });
      if (step % 2 == 1) reducing.wait();
      if (step % kRound == kRound - 1) total.add_(sum);
    }
    const at::Tensor seen = total.cpu();
    // The same on one rank's host.
    double expected = 0;
    std::vector<double> masters(static_cast<size_t>(R)), sums(static_cast<size_t>(R));
    for (int64_t step = 0; step < kSteps; ++step) {
      if (step % kRound == 0) std::iota(masters.begin(), masters.end(), 0.0);
      for (double& m : masters) m += 1;
      const std::vector<double> gathered = masters;
      for (size_t r = 0; r < masters.size(); ++r)
        if (step % kRound > 0) masters[r] += 0.25 * sums[r];
      for (size_t r = 0; r < masters.size(); ++r) sums[r] = 2 * static_cast<double>(R) * gathered[r];
      if (step % kRound == kRound - 1) expected += sums[static_cast<size_t>(group.rank())];
    }
    if (!seen.equal(at::full({n}, expected, at::kFloat))) right = false;
  });
  return right;
}

TEST(EmulatedGroups, TakeBuffersInTurnAsATrainingDoes) {
  for (uint64_t seed = 0; seed < test::num_seeds(); ++seed)
    EXPECT_TRUE(steps_are_right({.ranks = 2 + static_cast<int64_t>(seed % 2), .seed = seed})) << seed;
}

// Each fault is one that the program could have. Some seeds must show it, and none does without it.
TEST(PlantedFaults, OfADeviceAreFound) {
  for (const Fault fault : {Fault::kNoWaitForTheCaller, Fault::kNoWaitForTheTransfer, Fault::kMarkOfTheWrongStream,
                            Fault::kFreedForAnotherStream, Fault::kNoSynchronize}) {
    const int64_t shown =
        test::seeds_that_show(20, [&](uint64_t seed) { return steps_are_right({.seed = seed, .fault = fault}); });
    EXPECT_GE(shown, 5) << "fault " << static_cast<int>(fault) << ", of 20 seeds";
  }
}

// The stream gives a call's tensors back when it has enqueued them. One that the caller's stream allocated serves the
// caller again at once, and so it must live until the call's end was waited for.
TEST(PlantedFaults, ABufferThatIsGivenBackBeforeItsCallEndsIsFound) {
  for (const bool kept : {true, false}) {
    const int64_t shown = test::seeds_that_show(20, [&](uint64_t seed) {
      std::atomic<bool> right = true;
      on_device({.seed = seed}, [&](Group& group) {
        const at::Tensor whole = tensor_of<float>(2 * 256);
        at::Tensor buffer = at::full({256}, 7.0, whole.options());
        const Work work = group.start([&group, whole, buffer] { group.all_gather(whole, buffer); });
        if (!kept) buffer.reset();
        while (!work.done()) std::this_thread::yield();
        tensor_of<float>(256).fill_(8);
        work.wait();
        if (!whole.cpu().eq(7).all().item<bool>()) right = false;
      });
      return right.load();
    });
    if (kept) {
      EXPECT_EQ(shown, 0);
    } else {
      EXPECT_GE(shown, 5);
    }
  }
}

// What a rank's process would have on a GPU that is not its own: a context of some 500 MiB.
TEST(EmulatedDevices, AThreadThatSetsNoneOfItsOwnTouchesAnotherOne) {
  const EmulatedDevice devices(1);
  const auto look_at_a_mark = [](bool sets_its_own) {
    EmulatedDevice::of_rank(2);
    const DeviceOrder order({at::kPrivateUse1, 2});
    StreamMark mark = order.mark();
    std::thread([&] {
      if (sets_its_own) order.set_device();
      while (!mark->query()) std::this_thread::yield();
      mark.reset();
    }).join();
    return EmulatedDevice::threads_on_several_devices();
  };
  EXPECT_EQ(look_at_a_mark(true), 0);
  EXPECT_EQ(look_at_a_mark(false), 1);
  EmulatedDevice::of_rank(0);
}

TEST(EmulatedDevices, MemoryIsThatOfTheDeviceThatIsAsked) {
  const EmulatedDevice devices(1);
  const int64_t before = ops::gpu_memory({at::kPrivateUse1, 3}).allocated_bytes;
  const at::Tensor there = ops::empty({1000}, DType::kFloat64, EmulatedDevice::of_rank(3));
  EXPECT_EQ(ops::gpu_memory({at::kPrivateUse1, 3}).allocated_bytes - before, 8192);
  EXPECT_EQ(ops::gpu_memory({at::kPrivateUse1, 4}).allocated_bytes, 0);
  EmulatedDevice::of_rank(0);
}

// The host's copy must be there when the host asks for it, and not before.
TEST(EmulatedDevices, AReadbackWaits) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const EmulatedDevice devices(seed);
    const at::Tensor value = at::full({3}, 5.0, at::TensorOptions().device(EmulatedDevice::of_rank(0)));
    ops::Readback copy(value);
    value.fill_(6);
    EXPECT_TRUE(copy.wait().eq(5).all().item<bool>()) << seed;
  }
}

// The flight recorder's calls end when the device is through with them, and not when they were enqueued. In a process
// of its own, which has one recorder.
TEST(EmulatedGroups, RecordTheEndOfACallOnTheDevice) {
  const test::ScratchFolder scratch;
  const launch::LocalEnd end = launch::run_local_ranks(1, [&](const launch::LaunchedRank&) {
    at::set_num_threads(1);
    trace::start_flight(scratch, 0, 2);
    const auto calls = [&] { return trace::read_flight(trace::flight_file(scratch, 0)).calls; };
    on_device({.ranks = 2, .seed = 3}, [&](Group& group) {
      const at::Tensor values = filled<float>(1, group.rank(), 100);
      Work work;
      if (group.rank() == 0) {
        work = group.start([&group, values] { group.all_reduce(values); });
        while (!work.done()) std::this_thread::yield();
        EXPECT_EQ(calls().size(), 1U);
        EXPECT_TRUE(calls().front().under_way()) << "rank 1 has not come";
      }
      group.control().barrier("rank 0 has enqueued its call");
      if (group.rank() == 1) work = group.start([&group, values] { group.all_reduce(values); });
      work.wait();
      expect_elements<float>(values, [](int64_t i) { return sum_at<float>(1, 2, i); });
    });
    EXPECT_EQ(calls().size(), 2U);
    for (const trace::FlightCall& call : calls()) EXPECT_FALSE(call.under_way());
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(end.code, 0);
}

// A call whose turn comes late is not a slow call. The first one ends after most of the limit, and the second takes as
// long from there on. A trial in which the machine stopped us for too long says nothing, and is made again.
TEST(EmulatedDevices, ACallsTimeBeginsWithItsTurn) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kLimit = std::chrono::milliseconds(1000), kEach = std::chrono::milliseconds(600);
  for (int trial = 0; trial < 20; ++trial) {
    const EmulatedDevice devices(3);
    const auto order = std::make_shared<DeviceOrder>(EmulatedDevice::of_rank(0));
    const NcclLibrary library{EmulatedDevice::nccl_library()};
    std::atomic<int> failures = 0, open_gates = 0, ended = 0;
    Clock::time_point begun = Clock::now(), turn;
    {
      NcclWatch watch(library, 0, order, {[] { return 1.0; }, 30}, [&](const Error&) { ++failures; });
      for (int i = 0; i < 2; ++i)
        watch.watched("all_reduce", 1, [&, i] {
          auto* const queue = static_cast<test::emulated::Queue*>(order->native_stream());
          test::emulated::Queues::all().enqueue(
              queue, {.run = [&] { ++ended; }, .may_run = [&, i] { return open_gates > i; }});
          return nccl::kSuccess;
        });
      std::this_thread::sleep_until(begun + kEach);
      open_gates = 1;
      test::emulated::Queues::all().run_until([&] { return ended >= 1; });
      turn = Clock::now();
      std::this_thread::sleep_until(turn + kEach);
      open_gates = 2;
      test::emulated::Queues::all().run_until([&] { return ended >= 2; });
    }
    if (turn - begun > kLimit * 9 / 10 || Clock::now() - turn > kLimit * 9 / 10) continue;
    EXPECT_EQ(failures, 0);
    return;
  }
  GTEST_SKIP() << "this machine stops its processes for too long";
}

}  // namespace
}  // namespace hearth::comm
