// SPDX-License-Identifier: Apache-2.0
#include "plan/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/quantity.h"
#include "config/families.h"
#include "config/load.h"
#include "machine/device.h"
#include "plan/run_shape.h"
#include "plan/scratch.h"
#include "support/errors.h"

namespace hearth::plan {
namespace {

using testing::HasSubstr;

using test::error_of;

constexpr int64_t kGiB = int64_t{1} << 30;

// NEURO's 1B: 873.5 million parameters, windows of 131,072 tokens, in bfloat16.
config::RunConfig neuro_1b() {
  config::RunConfig c;
  c.model = config::model_of(*config::find_flavor("llama3", "1B"));
  c.model.vocab_size = 256;
  c.training.seq_len = 131072;
  c.training.local_batch_size = 1;
  return c;
}

const Precision kMixed(DType::kFloat32, DType::kBFloat16, DType::kFloat32, DType::kFloat32);

MemoryPlan planned(const config::RunConfig& c, int64_t memory_bytes, int64_t ranks_here = 1) {
  const ModelShape shape = model_shape(c, DataFacts{});
  return memory_plan(c, shape, parameter_plan(shape), kMixed, memory_bytes, ranks_here, /*cpu_threads=*/0);
}

TEST(Memory, WeightsGradientsAndMomentsTakeWhatTheirTypesSay) {
  const ModelShape shape = model_shape(neuro_1b(), DataFacts{});
  const ParameterPlan parameters = parameter_plan(shape);
  const auto N = static_cast<double>(parameters.num_parameters);
  EXPECT_NEAR(N, 873.5e6, 0.1e6);
  const auto gib = [&](int64_t ranks) {
    double bytes = 0;
    for (const MemoryItem& item : weights_memory(parameters, kMixed, ranks)) bytes += static_cast<double>(item.bytes);
    return bytes;
  };
  // bfloat16 weights, float32 masters, gradients and two moments.
  EXPECT_NEAR(gib(1) / ((2 + 4 + 4 + 8) * N), 1, 1e-4);
  EXPECT_NEAR(gib(8) / ((2 + 4.0 / 8 + 4 + 8.0 / 8) * N), 1, 1e-3);
}

TEST(Memory, WhatTheRunFileFreezesHasNoMoments) {
  config::RunConfig c = neuro_1b();
  const int64_t all = planned(c, kGiB).weights_bytes;
  c.checkpoint.freeze = {"layers.3", "output"};
  int64_t frozen = 0;
  for (const Parameter& p : parameter_plan(model_shape(c, DataFacts{})).parameters)
    if (p.name.starts_with("layers.3.") || p.name == "output.weight") frozen += p.numel;
  EXPECT_EQ(all - planned(c, kGiB).weights_bytes, 8 * frozen);
}

TEST(Memory, WindowsOf131072TokensOf1BFitAnH200ButNotAnA100OnlyWithRecomputation) {
  config::RunConfig c = neuro_1b();
  const int64_t h200 = machine::find_device("h200")->memory_bytes, a100 = machine::find_device("A100")->memory_bytes;
  EXPECT_FALSE(planned(c, h200).fits());  // with nothing computed again
  c.memory.recompute = config::RecomputeChoice::kAuto;
  const MemoryPlan on_h200 = planned(c, h200), on_a100 = planned(c, a100);
  EXPECT_TRUE(on_h200.fits());
  EXPECT_TRUE(on_a100.fits());
  EXPECT_LT(recompute_flops_per_token(model_shape(c, DataFacts{}), 131072, on_h200.recompute),
            recompute_flops_per_token(model_shape(c, DataFacts{}), 131072, on_a100.recompute));
}

// No plan that recomputes fewer layers, or less of a layer, fits: each is tried.
TEST(Memory, AutoTakesTheCheapestThatFits) {
  config::RunConfig c;
  c.model.dim = 64, c.model.n_layers = 6, c.model.n_heads = 4, c.model.hidden_dim = 96, c.model.vocab_size = 64;
  c.training.seq_len = 256, c.training.local_batch_size = 2;
  const ModelShape shape = model_shape(c, DataFacts{});
  const ParameterPlan parameters = parameter_plan(shape);
  const auto of_keys = [&](config::RecomputeChoice level, int64_t layers) {
    config::RunConfig other = c;
    other.memory.recompute = level;
    other.memory.recompute_layers = layers;
    return planned(other, kGiB);
  };
  const int64_t none = of_keys(config::RecomputeChoice::kNone, -1).total_bytes;
  int64_t least = none;
  for (const auto level :
       {config::RecomputeChoice::kNorms, config::RecomputeChoice::kAttention, config::RecomputeChoice::kBlock})
    for (int64_t layers = 0; layers <= 6; ++layers) least = std::min(least, of_keys(level, layers).total_bytes);
  c.memory.recompute = config::RecomputeChoice::kAuto;
  for (int64_t limit = least; limit <= none; limit += (none - least) / 7) {
    const MemoryPlan best = planned(c, limit);
    ASSERT_TRUE(best.fits()) << limit;
    const double cost = recompute_flops_per_token(shape, 256, best.recompute);
    for (const auto level : {config::RecomputeChoice::kNone, config::RecomputeChoice::kNorms,
                             config::RecomputeChoice::kAttention, config::RecomputeChoice::kBlock}) {
      for (int64_t layers = 0; layers <= 6; ++layers) {
        const MemoryPlan p = of_keys(level, layers);
        if (p.total_bytes > limit) continue;
        EXPECT_LE(cost, recompute_flops_per_token(shape, 256, p.recompute)) << name_of(level) << layers;
      }
    }
  }
  EXPECT_EQ(describe(planned(c, none).recompute), "none");
  EXPECT_FALSE(planned(c, least / 2).fits());
}

TEST(Memory, RanksOfOneMachineShareItsMemoryAndTheLimit) {
  config::RunConfig c = neuro_1b();
  c.parallelism.data_parallel_shard_degree = 2;
  const MemoryPlan one = planned(c, 200 * kGiB), two = planned(c, 200 * kGiB, 2);
  EXPECT_TRUE(one.fits());
  EXPECT_FALSE(two.fits());
  EXPECT_EQ(one.total_bytes, two.total_bytes);
  c.memory.limit = "100 GiB";
  EXPECT_EQ(planned(c, 300 * kGiB).limit_bytes, 100 * kGiB);
  EXPECT_EQ(planned(c, 80 * kGiB).limit_bytes, 80 * kGiB);
}

TEST(Memory, MoreThanThereIsIsAnErrorThatSaysWhatCouldBeChanged) {
  config::RunConfig c = neuro_1b();
  EXPECT_STREQ(error_of([&] { require_fits(planned(c, 64 * kGiB)); }).what(),
               "error: the training needs 153.2 GiB of memory, and there are 64.0 GiB\n"
               "  why: weights, gradients and moments take 14.6 GiB, activations 138.5 GiB with recomputation of none\n"
               "  fix: set memory.recompute = \"auto\", or lower training.local_batch_size");
  c.memory.recompute = config::RecomputeChoice::kAuto;
  const std::string error = error_of([&] { require_fits(planned(c, 16 * kGiB)); }).what();
  EXPECT_THAT(error, HasSubstr("fix: lower training.local_batch_size, training.seq_len")) << error;
}

TEST(Memory, WeightsThatDoNotFitNeedMoreDevices) {
  config::RunConfig c = neuro_1b();
  c.parallelism.zero_stage = 3;
  c.memory.recompute = config::RecomputeChoice::kBlock;
  EXPECT_EQ(error_of([&] { require_fits(planned(c, 4 * kGiB)); }).fix(),
            "no recomputation helps: take more devices with parallelism.zero_stage = 3, a smaller model, "
            "optimizer.moments_dtype = \"bfloat16\", or more memory");
}

TEST(Memory, LayoutsThatFitAreNamedWhereThereAreAny) {
  const std::string fix = error_of([&] { require_fits(planned(neuro_1b(), 64 * kGiB), "tp 4"); }).fix();
  EXPECT_EQ(fix, "take a layout that fits these ranks, with memory.recompute = \"auto\": tp 4");
}

TEST(Memory, ATrainingThatAlmostFitsSaysByHowMuchItDoesNot) {
  MemoryPlan plan = planned(neuro_1b(), kGiB);
  plan.ranks_here = 1;
  plan.limit_bytes = kGiB;
  plan.total_bytes = kGiB + (kGiB >> 8);  // 1/256 more: 0.0039
  EXPECT_EQ(error_of([&] { require_fits(plan); }).message(),
            "the training needs 1.004 GiB of memory, and there are 1.000 GiB");
  EXPECT_TRUE(format_memory(plan).starts_with("  memory       1.004 GiB of tensors, of 1.000 GiB\n"))
      << format_memory(plan);
}

// Attention over a long window needs as much memory as a small model's weights.
TEST(Memory, WhatKernelsWorkInIsNamedWhereItMatters) {
  config::RunConfig c;
  c.model.dim = 64, c.model.n_heads = 4, c.model.n_layers = 1, c.model.vocab_size = 64;
  c.training.seq_len = 65536, c.training.local_batch_size = 1;
  const ModelShape shape = model_shape(c, DataFacts{});
  const MemoryPlan plan = memory_plan(c, shape, parameter_plan(shape), DType::kFloat32, kGiB / 4, 1, 2);
  int64_t work = plan.table_bytes;
  for (const MemoryItem& item : plan.work) work += item.bytes;
  const std::string why = error_of([&] { require_fits(plan); }).why();
  EXPECT_THAT(why, HasSubstr(fmt::format(", and kernels work in {}", format_bytes(work)))) << why;
}

TEST(Memory, LevelsAreDescribedByLayers) {
  using enum Recompute;
  EXPECT_EQ(describe(std::vector<Recompute>{kNorms, kNorms}), "norms");
  EXPECT_EQ(describe(std::vector<Recompute>{kBlock, kBlock, kNorms}), "block in 2 of 3 layers, norms in the others");
}

TEST(Memory, AmountsAreReadAsPeopleWriteThem) {
  EXPECT_EQ(parse_bytes("48 GiB"), 48 * kGiB);
  EXPECT_EQ(parse_bytes("1.5GB"), 1'500'000'000);
  EXPECT_EQ(parse_bytes("1024 B"), 1024);
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("2 kB"), 2000);
  for (const char* wrong : {"", "GiB", "48 gigs", "-1 GiB", "48 GiB more", "1e30 TB", "nan GB", "4 8 GB"})
    EXPECT_FALSE(parse_bytes(wrong).has_value()) << wrong;
}

TEST(Devices, AreFoundByNameAndThisMachineHasMemory) {
  EXPECT_EQ(machine::device_names(), "A100, H100, H200, MI250X GCD, MI300X");
  for (const char* name : {"mi250x", "MI250X GCD", "MI250X-GCD", "mi250x_gcd", "AMD Instinct MI250X"})
    EXPECT_EQ(machine::find_device(name), machine::find_device("MI250X GCD")) << name;
  for (const char* name : {"h100", "H100-SXM", "NVIDIA H100 80GB HBM3", "nvidia h100", "H100 SXM5"})
    EXPECT_EQ(machine::find_device(name), machine::find_device("H100")) << name;
  EXPECT_EQ(machine::find_device("NVIDIA A100-SXM4-80GB"), machine::find_device("A100"));
  EXPECT_EQ(machine::find_device("MI250X GCD")->memory_bytes, 64 * kGiB);
  // Other machines: half of the memory, fewer units, slower memory, nothing at all.
  for (const char* name : {"A100-SXM4-40GB", "MI250", "H100 PCIe", "GH200", "", "nvidia"})
    EXPECT_EQ(machine::find_device(name), nullptr) << name;
  for (const char* name : {"cpu", "CPU", "this CPU"}) EXPECT_TRUE(machine::names_this_machine(name)) << name;
  EXPECT_FALSE(machine::names_this_machine("H100"));
  EXPECT_GT(machine::this_machine().memory_bytes, kGiB / 4);
}

TEST(Devices, TheOneThatWasMeantIsSuggested) {
  EXPECT_EQ(machine::nearest_device("H20"), "H200");
  EXPECT_EQ(machine::nearest_device("MI250"), "MI250X GCD");
  EXPECT_EQ(machine::nearest_device("MI-30X"), "MI300X");
  EXPECT_EQ(machine::nearest_device("TPU v5"), "");
}

// Four MiB and 384 KiB hold packed rows of products; with windows of 131,072 tokens four copies of a head's keys are
// more.
TEST(MemoryPlan, ACpusKernelsWorkInMemoryOfAllAndOfEachThread) {
  config::RunConfig c;
  c.model.dim = 64, c.model.n_heads = 4, c.model.n_kv_heads = 4, c.model.vocab_size = 64;
  c.training.seq_len = 32, c.training.local_batch_size = 4;
  const ModelShape shape = model_shape(c, DataFacts{});
  const auto total = [&](int64_t ranks, int64_t threads) {
    return memory_plan(c, shape, parameter_plan(shape), DType::kFloat32, int64_t{1} << 40, ranks, threads).total_bytes;
  };
  const int64_t shared = (4 << 20) + 8 * 4 * 32, each = scratch_plan(shape, 4, 32, DType::kFloat32).task_bytes;
  EXPECT_GE(each, 384 << 10);
  EXPECT_LT(each, 1 << 20);
  EXPECT_EQ(total(1, 1) - total(1, 0), shared + each);
  EXPECT_EQ(total(1, 6) - total(1, 0), shared + 6 * each);
  EXPECT_EQ(total(2, 6) - total(2, 0), shared + 3 * each) << "a rank has three of them";
  EXPECT_GT(scratch_plan(shape, 1, 131072, DType::kFloat32).task_bytes, 4 * 4 * 131072 * 16);
  EXPECT_LT(scratch_plan(shape, 1, 131072, DType::kFloat32).task_bytes, 4 * 4 * 131072 * 16 + (1 << 20));
}

// They are made beside the training's own activations.
TEST(MemoryPlan, TextsOfValidationTakeTheActivationsOfTheirSequences) {
  config::RunConfig c;
  c.model.dim = 64, c.model.n_heads = 4, c.model.n_kv_heads = 4, c.model.vocab_size = 64;
  c.training.seq_len = 100, c.training.local_batch_size = 2;
  c.validation.freq = 10;
  const auto samples = [&]() -> int64_t {
    const RunShape run = run_shape(c, DataFacts{});
    const MemoryPlan plan = memory_plan(c, run, int64_t{1} << 40);
    for (const MemoryItem& item : plan.work)
      if (item.name == "texts of validation.generate") {
        EXPECT_GE(plan.work_bytes, item.bytes);
        return item.bytes;
      }
    return 0;
  };
  const auto whole = [&](int64_t B, int64_t S) {
    ModelShape shape = model_shape(c, DataFacts{});
    shape.sparse_labels = true;
    return activation_plan(shape, B, S, DType::kFloat32, 64, Backward::kNone).total_bytes;
  };
  // A cache of keys and values of 64 numbers for each layer and position, a row alone, and a token of each row.
  const auto cached = [&](int64_t B, int64_t S) {
    const ModelShape shape = model_shape(c, DataFacts{});
    const auto forward = [&](int64_t tokens, int64_t logits) {
      return activation_plan(shape, 1, tokens, DType::kFloat32, logits, Backward::kNone).total_bytes;
    };
    return B * S * 2 * 64 * 4 * shape.L() + forward(S, 1) + B * forward(B, B);
  };
  EXPECT_EQ(samples(), 0);
  c.validation.generate = {"seven b"};
  c.validation.generate_tokens = 20;  // 7 + 3 + 20 are 30
  EXPECT_EQ(samples(), cached(1, 32));
  c.validation.generate = {"a", "b", "c"};  // in micro-batches
  c.validation.generate_tokens = 29;        // 33
  EXPECT_EQ(samples(), cached(2, 48));
  c.validation.generate_tokens = 1000;  // no more than a window
  EXPECT_EQ(samples(), cached(2, 112));
  c.validation.generate = {"a.npy", "b.npy", "c.npy"};  // may fill it
  c.validation.generate_tokens = 1;
  EXPECT_EQ(samples(), cached(2, 112));
  c.objective.kind = config::ObjectiveKind::kMaskedLm;  // the whole text in each step
  c.validation.generate = {std::string(30, 'a'), "b"};
  EXPECT_EQ(samples(), whole(2, 48));
  c.objective.kind = config::ObjectiveKind::kCausalLm;
  c.validation.generate_tokens = 1000;
  c.parallelism.tensor_parallel_degree = 2;  // multiples of 32
  EXPECT_LT(samples(), whole(2, 128));
  EXPECT_EQ(samples(), whole(2, 128) / 2);  // here all is shared
  c.validation.freq = 0;
  EXPECT_EQ(samples(), 0);
}

// By hand: T = 96, H = 4, G = 2, K = 16, D = 64, F = 80.
TEST(MemoryPlan, AGpusKernelsTakeTheTensorsThatAttentionReturns) {
  config::Model m;
  m.dim = 64, m.n_heads = 4, m.n_kv_heads = 2, m.hidden_dim = 80, m.n_layers = 2;
  const ModelShape shape = model_shape(m, 100);
  const Precision bfloat16(DType::kFloat32, DType::kBFloat16, DType::kFloat32, DType::kFloat32);
  const int64_t q = 96 * 64, kv = 96 * 32, lse = 96 * 4 * 4;
  EXPECT_EQ(gpu_workspace_bytes(shape, 96, DType::kFloat32, {}), lse);
  EXPECT_EQ(gpu_workspace_bytes(shape, 96, bfloat16, {}), 2 * (q + 2 * kv + 2 * q) + 4 * q + lse);
  const auto with = [&](int64_t T, config::Fp8Recipe recipe) {
    return gpu_workspace_bytes(shape, T, bfloat16, recipe) - gpu_workspace_bytes(shape, T, bfloat16, {});
  };
  using enum config::Fp8Recipe;
  EXPECT_EQ(with(1, kRowwiseHpWgrad), (1 + 64) * 160) << "and a weight in float8, and a row";
  EXPECT_EQ(with(1, kRowwise), (2 + 64) * 160 + kFloat8SumsBytes) << "the output's gradient by rows and by columns";
  EXPECT_EQ(with(1000, kRowwise), 1000 * (2 * 160 + 64) + kFloat8SumsBytes) << "and columns of the input";
  config::RunConfig c;
  c.model = m;
  c.training.seq_len = 48;
  c.training.local_batch_size = 2;
  const auto total = [&](config::DeviceKind device) {
    c.training.device = device;
    return memory_plan(c, shape, parameter_plan(shape), bfloat16, int64_t{1} << 40, 1, /*cpu_threads=*/0).total_bytes;
  };
  const int64_t on_gpu = total(config::DeviceKind::kCuda), workspace = on_gpu - total(config::DeviceKind::kCpu);
  EXPECT_EQ(workspace, 2 * (q + 2 * kv + 2 * q) + 4 * q + lse);
  c.training.cuda_graph = true;
  EXPECT_EQ(total(config::DeviceKind::kCuda) - on_gpu, workspace) << "the graph's own";
}

// As comm::MeshGroups and parallel::ShardedWeights split the ranks.
TEST(Memory, EachDimensionOfTheMeshHasACommunicator) {
  const auto count = [](const std::vector<std::string>& keys, const std::string& name = "llama3",
                        const std::string& flavor = "8B") {
    std::vector<std::string> all = {"model.name=" + name, "model.flavor=" + flavor, "model.vocab_size=128256",
                                    "training.seq_len=8192"};
    for (const std::string& key : keys) all.push_back("parallelism." + key);
    config::LoadResult run = config::read_run({}, all);
    EXPECT_TRUE(run.problems.empty());
    config::compute_on_gpu(run);
    const ModelShape whole = run_shape(run.config, {}).model;
    const config::Parallelism& p = run.config.parallelism;
    return num_communicators(run.config, model_part(whole, {0, p.tensor_parallel_degree}, p.context_parallel_degree));
  };
  EXPECT_EQ(count({}), 0);
  EXPECT_EQ(count({"data_parallel_shard_degree=8"}), 1);
  EXPECT_EQ(count({"data_parallel_shard_degree=4", "tensor_parallel_degree=2"}), 3);  // all, losses, layers
  EXPECT_EQ(count({"data_parallel_shard_degree=4", "context_parallel_degree=2"}), 2);
  EXPECT_EQ(count({"data_parallel_shard_degree=4", "pipeline_parallel_degree=2"}), 3);
  EXPECT_EQ(count({"data_parallel_shard_degree=4", "data_parallel_replicate_degree=2"}), 3);
  EXPECT_EQ(count({"data_parallel_replicate_degree=2", "data_parallel_shard_degree=1"}), 2);
  EXPECT_EQ(count({"data_parallel_shard_degree=2", "data_parallel_replicate_degree=2", "tensor_parallel_degree=2",
                   "context_parallel_degree=2", "pipeline_parallel_degree=2"}),
            7);
  const auto sparse = [&](const std::vector<std::string>& keys) { return count(keys, "qwen3_moe", "30B-A3B"); };
  EXPECT_EQ(sparse({"data_parallel_shard_degree=8"}), 1);
  EXPECT_EQ(sparse({"data_parallel_shard_degree=8", "expert_parallel_degree=8"}), 2);
  EXPECT_EQ(sparse({"data_parallel_shard_degree=8", "expert_parallel_degree=4"}), 3);
  EXPECT_EQ(sparse({"data_parallel_replicate_degree=2", "data_parallel_shard_degree=4", "expert_parallel_degree=2"}),
            7);
}

TEST(Memory, TheMarginOfAGpuIsAKeyOrFollowsTheRanks) {
  config::LoadResult run = config::read_run({}, {"model.vocab_size=1000"});
  config::RunConfig& c = run.config;
  const auto margin = [&c](int64_t ranks) {
    c.parallelism.data_parallel_shard_degree = ranks;
    return margin_bytes(c);
  };
  EXPECT_EQ(margin(1), kGiB / 2);
  EXPECT_EQ(margin(8), 2 * kGiB);
  EXPECT_EQ(margin(9), 4 * kGiB);
  c.memory.margin = "3 GiB";
  EXPECT_EQ(margin(64), 3 * kGiB);
  const ModelShape shape = run_shape(c, {}).model;
  EXPECT_TRUE(beside_tensors(c, shape).empty()) << "a CPU has none";
  config::compute_on_gpu(run);
  const std::vector<MemoryItem> items = beside_tensors(c, shape);
  ASSERT_EQ(items.size(), 4U);
  EXPECT_EQ(items[2].name, "1 communicator");
  EXPECT_EQ(items[3].bytes, 3 * kGiB);
  const MemoryPlan plan = memory_plan(c, run_shape(c, {}), 80 * kGiB);
  EXPECT_EQ(plan.limit_bytes, (80 - 1 - 3) * kGiB - kCommunicatorBytes);
  EXPECT_THAT(format_memory(plan),
              testing::HasSubstr("  beside them  4.39 GiB of the GPU: context 512.0 MiB, libraries "
                                 "512.0 MiB, 1 communicator 400.0 MiB, margin 3.00 GiB\n"));
}

TEST(Memory, SumsInOrderOnAGpuArePlanned) {
  config::LoadResult run = config::read_run({}, {"model.vocab_size=1000", "parallelism.data_parallel_shard_degree=4"});
  config::compute_on_gpu(run);
  config::RunConfig c = run.config;
  const MemoryPlan without = memory_plan(c, run_shape(c, {}), 80 * kGiB);
  c.numerics.reproducible = true;
  const MemoryPlan with = memory_plan(c, run_shape(c, {}), 80 * kGiB);
  const auto sums = [](const MemoryPlan& plan) {
    return std::count_if(plan.work.begin(), plan.work.end(),
                         [](const MemoryItem& item) { return item.name == "sums of gradients in order"; });
  };
  EXPECT_EQ(sums(without), 0);
  EXPECT_EQ(sums(with), 1);
  EXPECT_GT(with.total_bytes, without.total_bytes);
}

}  // namespace
}  // namespace hearth::plan
