// SPDX-License-Identifier: Apache-2.0
#include "plan/layouts/search.h"

#include <gmock/gmock.h>

#include <set>

#include "config/check.h"
#include "config/derived.h"
#include "config/load.h"
#include "plan/layouts/memory.h"
#include "support/errors.h"

namespace hearth::plan {
namespace {

config::LoadResult loaded(std::vector<std::string> keys) {
  keys.insert(keys.begin(), {"model.name=llama3", "model.vocab_size=128256", "training.dtype=float32",
                             "training.mixed_precision_param=bfloat16", "training.seq_len=8192"});
  config::LoadResult result = config::read_run({}, keys);
  EXPECT_TRUE(result.problems.empty());
  config::compute_on_gpu(result);
  return result;
}

Speed speed_of_device(const char* name, int64_t devices) {
  const machine::Device& device = *machine::find_device(name);
  return speed_of(device, device.gemm_flops(DType::kBFloat16), devices, Speed::kGpusEfficiency);
}

std::vector<Layout> searched(const config::RunConfig& c, const char* device, int64_t devices, int64_t count) {
  return search_layouts(c, run_shape(c, {}), machine::find_device(device)->memory_bytes, 1,
                        speed_of_device(device, devices), count);
}

// Every layout is one that a training accepts, fits in the exact plan, has the global batch and all devices.
TEST(LayoutSearch, ListsWhatATrainingAccepts) {
  const struct {
    const char *flavor, *device;
    int64_t devices, batch;
  } cases[] = {{"8B", "MI250X", 64, 64}, {"8B", "H100", 24, 48}, {"70B", "H100", 64, 256}, {"405B", "H200", 512, 512}};
  for (const auto& [flavor, device, devices, batch] : cases) {
    SCOPED_TRACE(fmt::format("{} on {} {}", flavor, devices, device));
    const config::LoadResult run =
        loaded({fmt::format("model.flavor={}", flavor), fmt::format("training.global_batch_size={}", batch)});
    const std::vector<Layout> layouts = searched(run.config, device, devices, 6);
    ASSERT_GE(layouts.size(), 3U);
    double before = 0;
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(format_mesh(layout.config.parallelism));
      config::LoadResult checked = run;
      checked.config = layout.config;
      config::check(checked, config::Purpose::kPlan);
      for (const config::Problem& problem : checked.problems) ADD_FAILURE() << problem.what;
      EXPECT_EQ(layout.config.parallelism.ranks(), devices);
      EXPECT_EQ(config::global_batch_size(layout.config), batch);
      EXPECT_EQ(config::accumulation_steps(layout.config) * config::micro_batch_size(layout.config) *
                    layout.config.parallelism.data_ranks(),
                batch);
      const int64_t memory_bytes = machine::find_device(device)->memory_bytes;
      EXPECT_TRUE(layout.memory.fits());
      // What the training plans by itself recomputes no more.
      const MemoryPlan planned = memory_plan(layout.config, run_shape(layout.config, {}), memory_bytes);
      EXPECT_TRUE(planned.fits());
      const auto flops = [&](const MemoryPlan& m) {
        return recompute_flops_per_token(run_shape(layout.config, {}).model, 8192, m.recompute);
      };
      EXPECT_EQ(flops(planned), flops(layout.memory));
      EXPECT_EQ(planned.total_bytes, layout.memory.total_bytes);
      EXPECT_GE(layout.time.step_s, 0.98 * before);  // of equal ones, those that send less come first
      before = layout.time.step_s;
    }
  }
}

// Against all layouts of a small world, each with its exact memory.
TEST(LayoutSearch, FindsTheFastest) {
  const config::RunConfig c = loaded({"model.flavor=8B", "model.n_layers=8", "training.global_batch_size=16"}).config;
  const RunShape run = run_shape(c, {});
  const int64_t devices = 8;
  const Speed speed = speed_of_device("MI250X", devices);
  const int64_t memory_bytes = int64_t{20} << 30;
  double fastest = 1e9;
  for (const int64_t tp : {1, 2, 4, 8}) {
    for (const int64_t cp : {1, 2, 4, 8}) {
      for (const int64_t pp : {1, 2, 4, 8}) {
        for (const int64_t shard : {1, 2, 4, 8}) {
          if (devices % (tp * cp * pp * shard) != 0) continue;
          for (const auto& [stage, once] : {std::pair(1, false), {2, false}, {3, false}, {3, true}}) {
            for (const int64_t batch : {1, 2, 4, 8, 16}) {
              for (const auto schedule : {config::PipelineSchedule::k1F1B, config::PipelineSchedule::kInterleaved1F1B,
                                          config::PipelineSchedule::kInterleavedZeroBubble}) {
                config::RunConfig candidate = c;
                config::Parallelism& p = candidate.parallelism;
                p.tensor_parallel_degree = tp, p.context_parallel_degree = cp, p.pipeline_parallel_degree = pp;
                p.data_parallel_shard_degree = shard;
                p.data_parallel_replicate_degree = devices / (tp * cp * pp * shard);
                p.zero_stage = stage;
                p.reduce_once_per_step = once;
                p.pipeline_parallel_schedule = schedule;
                candidate.training.local_batch_size = batch;
                candidate.memory.recompute = config::RecomputeChoice::kAuto;
                const bool zero_bubble = schedule == config::PipelineSchedule::kInterleavedZeroBubble;
                if (16 % (batch * p.data_ranks()) != 0 || (pp > 1 && (batch < pp || (zero_bubble && stage > 1))) ||
                    (pp == 1 && schedule != config::PipelineSchedule::k1F1B) ||
                    (pp == 8 && schedule != config::PipelineSchedule::k1F1B))
                  continue;
                const MemoryPlan memory = memory_plan(candidate, run, memory_bytes);
                if (!memory.fits()) continue;
                fastest = std::min(fastest, step_time(candidate, run.model, memory.recompute, 1, speed).step_s);
              }
            }
          }
        }
      }
    }
  }
  const std::vector<Layout> layouts = search_layouts(c, run, memory_bytes, 1, speed, 1);
  ASSERT_EQ(layouts.size(), 1U);
  EXPECT_LE(layouts.front().time.step_s, 1.01 * fastest);
}

// The estimate of a search next to the exact plan, where every third layer is four times as wide.
TEST(LayoutMemory, CountsLayersOfEachWidth) {
  config::RunConfig c = loaded({"model.flavor=8B", "model.n_layers=12", "training.global_batch_size=16"}).config;
  RunShape run = run_shape(c, {});
  for (size_t layer = 2; layer < 12; layer += 3) run.model.layers[layer].F *= 4;
  run.parameters = parameter_plan(run.model);
  for (const int64_t stages : {1, 2}) {
    c.parallelism.pipeline_parallel_degree = stages;
    c.training.local_batch_size = stages;
    c.memory.recompute = config::RecomputeChoice::kBlock;
    const MemoryPlan exact = memory_plan(c, run, int64_t{1} << 40);
    const double least = LayoutMemory(run).least(c, pipeline_plan(c, run.model.L()));
    EXPECT_NEAR(least / static_cast<double>(exact.total_bytes), 1, 0.03) << stages;
  }
}

TEST(LayoutSearch, Finds5120RanksTheirLayouts) {
  const config::RunConfig c = loaded({"model.flavor=8B", "training.global_batch_size=10240"}).config;
  EXPECT_EQ(searched(c, "MI250X", 5120, 10).size(), 10U);
}

// Ranks on a CPU share its memory.
TEST(LayoutSearch, OfRanksOnACpuFitsItsMemory) {
  config::LoadResult run =
      config::read_run({}, {"model.dim=256", "model.n_layers=4", "model.n_heads=8", "model.vocab_size=257",
                            "training.seq_len=256", "training.global_batch_size=8"});
  const RunShape shape = run_shape(run.config, {});
  const Speed speed{.gemm_flops = 1, .devices = 4, .per_node = 4};
  const std::vector<Layout> layouts = search_layouts(run.config, shape, 150 << 20, 1, speed, 3);
  ASSERT_FALSE(layouts.empty());
  for (const Layout& layout : layouts) EXPECT_LE(4 * layout.memory.total_bytes, 150 << 20);
  EXPECT_THAT(list_layouts(layouts), testing::HasSubstr(" with zero_stage = "));
}

TEST(LayoutSearch, LeavesOutWhatTheNumericsForbid) {
  const std::vector<std::string> keys = {"model.flavor=8B", "training.global_batch_size=48"};
  const auto with = [&](const std::string& key) {
    std::vector<std::string> all = keys;
    all.push_back(key);
    return searched(loaded(all).config, "H100", 24, 20);
  };
  for (const Layout& layout : with("numerics.reproducible=true")) {
    const config::Parallelism& p = layout.config.parallelism;
    EXPECT_NE((p.data_ranks() * p.context_parallel_degree) % 3, 0) << format_mesh(p);
    EXPECT_FALSE(p.reduce_once_per_step) << format_mesh(p);
  }
  const std::vector<Layout> graphs = with("training.cuda_graph=true");
  EXPECT_FALSE(graphs.empty());
  for (const Layout& layout : graphs) {
    const config::Parallelism& p = layout.config.parallelism;
    EXPECT_EQ(std::tuple(p.data_ranks(), p.zero_stage), std::tuple(24, 1)) << format_mesh(p);
  }
}

TEST(LayoutSearch, FindsNothingWhereNothingFits) {
  EXPECT_TRUE(searched(loaded({"model.flavor=405B"}).config, "H100", 8, 10).empty());
}

}  // namespace
}  // namespace hearth::plan
