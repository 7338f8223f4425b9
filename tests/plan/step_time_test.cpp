// SPDX-License-Identifier: Apache-2.0
#include "plan/step_time.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "config/derived.h"
#include "config/load.h"
#include "plan/run_shape.h"

namespace hearth::plan {
namespace {

// Published trainings in bfloat16, of which the model, the mesh and what is recomputed are known. docs/decisions/
// planner_fit.md has their sources, and those that are left out.
enum class Software { kCompiled, kEager };
constexpr double kEagerEfficiency = 0.42;      // as Speed::kGpusEfficiency, of PyTorch without torch.compile
enum class Again { kNothing, kHalf, kBlock };  // kHalf: torchtitan's selective "op", half of the products
struct Published {
  const char* name;
  const char* device;
  Software software;
  Again again;
  double tokens_per_second;  // of a device
  std::vector<std::string> keys;
};

const std::string kShard = "parallelism.data_parallel_shard_degree=",
                  kReplicate = "parallelism.data_parallel_replicate_degree=",
                  kTensor = "parallelism.tensor_parallel_degree=", kBatch = "training.local_batch_size=",
                  kSeq = "training.seq_len=", kLlama8B = "model.flavor=8B", kLlama70B = "model.flavor=70B";

const std::vector<Published>& published() {
  using enum Software;
  using enum Again;
  // MPT has a feed-forward of two matrices of 4 D, which take as long as three of 8/3 D.
  const std::string kMpt = "model.hidden_dim=10923";
  static const std::vector<Published> rows = {
      {"8B, 8 H100", "H100", kEager, kHalf, 5762, {kLlama8B, kShard + "8", kBatch + "2", kSeq + "8192"}},
      {"8B, 8 H100, compiled", "H100", kCompiled, kHalf, 6667, {kLlama8B, kShard + "8", kBatch + "2", kSeq + "8192"}},
      {"8B, 64 H100, TP 8",
       "H100",
       kCompiled,
       kHalf,
       4378,
       {kLlama8B, kShard + "8", kTensor + "8", kBatch + "12", kSeq + "8192"}},
      {"8B, 128 H100", "H100", kEager, kHalf, 5605, {kLlama8B, kShard + "128", kBatch + "2", kSeq + "8192"}},
      {"8B, 128 H100, compiled",
       "H100",
       kCompiled,
       kHalf,
       6514,
       {kLlama8B, kShard + "128", kBatch + "2", kSeq + "8192"}},
      {"70B, 256 H100, TP 8",
       "H100",
       kCompiled,
       kBlock,
       597.3,
       {kLlama70B, kShard + "32", kTensor + "8", kBatch + "16", kSeq + "8192"}},
      {"8B, 64 MI250X GCD", "MI250X GCD", kEager, kHalf, 1333, {kLlama8B, kShard + "64", kBatch + "1", kSeq + "8192"}},
      {"8B, 5120 MI250X GCD, TP 8",
       "MI250X GCD",
       kCompiled,
       kBlock,
       597,
       {kLlama8B, kReplicate + "20", kShard + "32", kTensor + "8", kBatch + "21", kSeq + "8192"}},
      {"masked 1B, 512 MI250X GCD, TP 8",
       "MI250X GCD",
       kCompiled,
       kBlock,
       2060,
       {"model.name=llama3.2", "model.flavor=1B", "objective.kind=masked_lm", "objective.mlm_probability=0.3",
        kReplicate + "2", kShard + "32", kTensor + "8", kBatch + "12", kSeq + "16384"}},
      {"MPT-7B, 8 H100",
       "H100",
       kEager,
       kNothing,
       10643,
       {"model.name=llama2", "model.flavor=7B", kMpt, kShard + "8", kBatch + "4", kSeq + "2048"}},
      {"MPT-7B, 128 H100",
       "H100",
       kEager,
       kNothing,
       10475,
       {"model.name=llama2", "model.flavor=7B", kMpt, kShard + "128", kBatch + "4", kSeq + "2048"}},
      {"MPT-7B, 512 H100",
       "H100",
       kEager,
       kNothing,
       9670,
       {"model.name=llama2", "model.flavor=7B", kMpt, kShard + "512", kBatch + "4", kSeq + "2048"}},
  };
  return rows;
}

double predicted(const Published& row) {
  std::vector<std::string> keys = row.keys;
  keys.insert(keys.begin(), {"model.name=llama3", "model.vocab_size=128256", "parallelism.zero_stage=3",
                             "training.dtype=float32", "training.mixed_precision_param=bfloat16"});
  config::LoadResult loaded = config::read_run({}, keys);
  EXPECT_TRUE(loaded.problems.empty()) << row.name;
  config::compute_on_gpu(loaded);
  const config::RunConfig& c = loaded.config;
  const RunShape run = run_shape(c, {});
  const machine::Device& device = *machine::find_device(row.device);
  std::vector<Recompute> recompute(static_cast<size_t>(run.model.L()));
  const size_t again = row.again == Again::kNothing ? 0
                       : row.again == Again::kHalf  ? recompute.size() / 2
                                                    : recompute.size();
  std::fill_n(recompute.begin(), again, Recompute::kBlock);
  const double efficiency = row.software == Software::kCompiled ? Speed::kGpusEfficiency : kEagerEfficiency;
  const Speed speed = speed_of(device, device.gemm_flops(run.precision.compute), c.parallelism.ranks(), efficiency);
  const StepTime time = step_time(c, run.model, recompute, 1, speed);
  return time.tokens / time.step_s / static_cast<double>(speed.devices);
}

// The first three rows gave the three constants. HEARTH_SHOW_FIT=1 prints the table.
TEST(StepTime, IsWithin30PercentOfPublishedTrainings) {
  int64_t fitted = 3;
  for (const Published& row : published()) {
    const double rate = predicted(row);
    EXPECT_NEAR(rate / row.tokens_per_second, 1, fitted-- > 0 ? 0.02 : 0.3) << row.name;
    if (std::getenv("HEARTH_SHOW_FIT") != nullptr)
      fmt::print("| {} | {} | {:.0f} | {:.2f} |\n", row.name, row.tokens_per_second, rate,
                 rate / row.tokens_per_second);
  }
}

// Hearth's own steps (bench/results/gpu_20261126_h200.md). The first model gave the constant.
TEST(StepTime, IsWithin12PercentOfThreeModelsMeasuredOnOneGpu) {
  struct Measured {
    double tokens_per_second;
    std::vector<std::string> keys;
  };
  const std::string one = "training.global_batch_size=1", s8k = kSeq + "8192";
  const Measured rows[] = {
      {51127, {"model.name=llama3.2", "model.flavor=1B", "model.enable_weight_tying=false", s8k}},
      {55259, {"model.name=llama3", "model.flavor=8B", "model.n_layers=4", s8k}},
      {57804,
       {"model.dim=2048", "model.n_layers=16", "model.n_heads=16", "model.n_kv_heads=16", "model.hidden_dim=5632",
        "model.vocab_size=32000", kSeq + "16384"}},
  };
  for (const Measured& row : rows) {
    std::vector<std::string> keys = row.keys;
    keys.insert(keys.begin(), {"model.vocab_size=128256", "training.mixed_precision_param=bfloat16", one});
    config::LoadResult loaded = config::read_run({}, keys);
    ASSERT_TRUE(loaded.problems.empty()) << loaded.problems.front().what;
    config::compute_on_gpu(loaded);
    const RunShape run = run_shape(loaded.config, {});
    const machine::Device& device = *machine::find_device("H200");
    const Speed speed =
        speed_of(device, device.gemm_flops(run.precision.compute), 1, usual_efficiency(/*on_cpu=*/false, 1));
    const StepTime time = step_time(loaded.config, run.model, {}, 1, speed);
    EXPECT_NEAR(time.tokens / time.step_s / row.tokens_per_second, 1, 0.12) << row.keys.front();
  }
  EXPECT_EQ(usual_efficiency(/*on_cpu=*/false, 2), Speed::kGpusEfficiency) << "nothing is measured on several";
}

// 405B on 512 GPUs in float8, whose rates are not known: 100 tokens per second with 1F1B and 128 interleaved. 8B on 64
// or 128 GPUs is faster without tensor parallel, on both machines.
TEST(StepTime, OrdersLayoutsAsTheirPublishedSpeeds) {
  const auto rate_of = [](std::string_view name) {
    const auto found = std::ranges::find(published(), name, &Published::name);
    return predicted(*found);
  };
  EXPECT_GT(rate_of("8B, 128 H100, compiled"), rate_of("8B, 64 H100, TP 8"));
  EXPECT_GT(rate_of("8B, 64 MI250X GCD"), rate_of("8B, 5120 MI250X GCD, TP 8"));
  Published large = {"405B",
                     "H100",
                     Software::kCompiled,
                     Again::kBlock,
                     100,
                     {"model.flavor=405B", kShard + "8", kTensor + "8", "parallelism.pipeline_parallel_degree=8",
                      kBatch + "32", kSeq + "8192"}};
  const double plain = predicted(large);
  large.keys.insert(large.keys.end(), {"parallelism.pipeline_parallel_schedule=Interleaved1F1B"});
  EXPECT_GT(predicted(large), 1.05 * plain);
}

// A closed form: 8 ranks on 2 nodes of 4 with links of 8 and 2 bytes per second, of which half is reached.
TEST(StepTime, OfACollectiveIsThatOfItsSlowestLink) {
  const Speed speed{.gemm_flops = 1, .per_node = 4, .links = {16, 8, 2}, .link_efficiency = 0.5};
  EXPECT_DOUBLE_EQ(collective_seconds(12, 1, 1, 1, speed), 0);
  EXPECT_DOUBLE_EQ(collective_seconds(12, 1, 2, 1, speed), 12.0 / 8);  // one package
  EXPECT_DOUBLE_EQ(collective_seconds(12, 1, 2, 2, speed), 12.0 / 4);
  EXPECT_DOUBLE_EQ(collective_seconds(12, 1, 4, 1, speed), 12.0 / 4);
  EXPECT_DOUBLE_EQ(collective_seconds(12, 0, 8, 1, speed), 12.0 / 4);  // four share the network: 4 bytes per second
  EXPECT_DOUBLE_EQ(collective_seconds(12, 0, 2, 4, speed), 12.0 / 1);  // alone on its node
  EXPECT_DOUBLE_EQ(collective_seconds(12, 3, 2, 4, speed), 12.0 / 1 + 3 * 2e-5);
  EXPECT_DOUBLE_EQ(exchange_seconds(12, 8, 1, speed), 12.0 / 1);
  EXPECT_DOUBLE_EQ(collective_seconds(12, 1, 8, 1, {.gemm_flops = 1}), 0);  // links that are not known
}

}  // namespace
}  // namespace hearth::plan
