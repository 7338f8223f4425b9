// SPDX-License-Identifier: Apache-2.0
// Sharded weights on a device that works late and in any order (support/emulated_device.h), compared to the bit with
// the same steps in the host's memory.
#include <ATen/ops/arange.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <mutex>

#include "ops/tensor.h"
#include "parallel/sharded_weights.h"
#include "support/emulated_ranks.h"
#include "support/small_plan.h"

namespace hearth::parallel {
namespace {

using test::Fault;

struct Case {
  const char* name;
  int64_t ranks;
  plan::Sharding sharding;
  plan::Precision precision = DType::kFloat32;
  bool writes_copies = false;  // as an optimizer does, in place of a cast at the next gather
};

const std::vector<Case>& cases() {
  static const plan::Precision mixed{DType::kFloat32, DType::kBFloat16, DType::kFloat32, DType::kFloat32};
  static const std::vector<Case> all = {{"zero1", 2, {.zero_stage = 1}},
                                        {"zero1_mixed", 3, {.zero_stage = 1}, mixed},
                                        {"zero1_mixed_copies", 3, {.zero_stage = 1}, mixed, true},
                                        {"zero2_mixed_copies", 2, {.zero_stage = 2}, mixed, true},
                                        {"zero2", 3, {.zero_stage = 2}},
                                        {"zero3", 2, {.zero_stage = 3}},
                                        {"zero3_mixed", 2, {.zero_stage = 3}, mixed},
                                        {"zero3_once", 2, {.zero_stage = 3, .once = true}},
                                        {"zero3_reproducible", 2, {.zero_stage = 3, .reproducible = true}},
                                        {"hsdp_zero3", 4, {.replicas = 2, .zero_stage = 3}}};
  return all;
}

// The masters of all ranks, one after the other.
using Masters = std::vector<std::vector<double>>;

// Passes as model/stage.cpp makes them: the gradient of a unit is made of its weights, the rank and the micro-batch.
void micro_batch(ShardedWeights& weights, double number) {
  const int64_t units = weights.num_units();
  for (int64_t u = 0; u < units; ++u) {
    weights.gather(u);
    if (u + 1 < units) weights.prefetch(u + 1);
    weights.release(u);
  }
  for (int64_t u = units - 1; u >= 0; --u) {
    const at::Tensor w = weights.gather(u);
    if (u > 0) weights.prefetch(u - 1);
    const at::Tensor g = weights.gradient(u);
    g.add_(w.to(g.scalar_type()), 0.5).add_(number);
    weights.release(u);
    weights.gradient_ready(u);
  }
}

std::vector<double> steps_of(comm::Group& group, const Case& of, at::Device device) {
  const c10::InferenceMode no_gradients;
  const plan::ParameterPlan plan = test::small_plan();
  ShardedWeights weights(plan, of.precision, group, ShardedWeights::Mode::kTraining, {}, of.sharding, device);
  for (int64_t u = 0; u < weights.num_units(); ++u) {
    const plan::Slice slice = weights.slice(u);
    weights.master(u).copy_(at::arange(slice.begin, slice.end, at::kFloat).mul_(1.0 / 7).add_(static_cast<double>(u)));
  }
  weights.masters_changed();
  for (int64_t step = 1; step <= 2; ++step) {
    weights.begin_step(2);
    for (int64_t micro = 0; micro < 2; ++micro)
      micro_batch(weights, 0.1 * static_cast<double>(step + 2 * micro + 4 * group.rank()));
    weights.finish_gradients();
    for (int64_t u = 0; u < weights.num_units(); ++u) weights.master(u).sub_(weights.gradient_shard(u), 0.01);
    if (of.writes_copies) {
      for (size_t p = 0; p < plan.parameters.size(); ++p) {
        const auto owned = weights.owned(static_cast<int64_t>(p));
        owned.copy.copy_(owned.master);
      }
      weights.copies_written();
    }
    weights.end_step();
  }
  std::vector<double> masters;
  for (int64_t u = 0; u < weights.num_units(); ++u) {
    const std::vector<double> values = ops::to_doubles(weights.master(u));
    masters.insert(masters.end(), values.begin(), values.end());
  }
  return masters;
}

Masters in_host_memory(const Case& of) {
  Masters masters(static_cast<size_t>(of.ranks));
  comm::run_ranks(of.ranks, 60, [&](comm::Group& group) {
    masters[static_cast<size_t>(group.rank())] = steps_of(group, of, at::kCPU);
  });
  return masters;
}

Masters on_devices(const Case& of, uint64_t seed, Fault fault = Fault::kNone) {
  Masters masters(static_cast<size_t>(of.ranks));
  test::run_emulated_ranks({.ranks = of.ranks, .seed = seed, .fault = fault},
                           [&](comm::Group& group, at::Device device) {
                             masters[static_cast<size_t>(group.rank())] = steps_of(group, of, device);
                           });
  return masters;
}

TEST(EmulatedWeights, TrainToTheBitsOfTheHostsMemory) {
  for (const Case& of : cases()) {
    const Masters expected = in_host_memory(of);
    for (uint64_t seed = 0; seed < test::num_seeds(); ++seed)
      ASSERT_EQ(on_devices(of, seed), expected) << of.name << ", seed " << seed;
  }
}

TEST(PlantedFaults, OfADeviceAreFoundByShardedWeights) {
  const Case of = {"zero3", 2, {.zero_stage = 3}};
  const Masters expected = in_host_memory(of);
  for (const Fault fault : {Fault::kNoWaitForTheCaller, Fault::kNoWaitForTheTransfer, Fault::kMarkOfTheWrongStream,
                            Fault::kFreedForAnotherStream, Fault::kNoSynchronize}) {
    const int64_t shown =
        test::seeds_that_show(20, [&](uint64_t seed) { return on_devices(of, seed, fault) == expected; });
    EXPECT_GE(shown, 5) << "fault " << static_cast<int>(fault) << ", of 20 seeds";
  }
}

}  // namespace
}  // namespace hearth::parallel
