// SPDX-License-Identifier: Apache-2.0
// The rules of the update, its precision and its device.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "problems.h"

namespace hearth::config {
namespace {

TEST(CheckOptimizer, ElementTypesGoTogetherOrAreRefused) {
  EXPECT_TRUE(problems({"training.mixed_precision_param=bfloat16", "optimizer.moments_dtype=bfloat16"}).empty());
  EXPECT_TRUE(problems({"training.dtype=bfloat16", "training.mixed_precision_param=bfloat16",
                        "numerics.stochastic_rounding=true"})
                  .empty());
  EXPECT_EQ(problems({"training.dtype=float64", "training.mixed_precision_param=bfloat16"}),
            one("training.mixed_precision_param = \"bfloat16\" does not go with training.dtype = \"float64\""));
  EXPECT_EQ(problems({"training.dtype=bfloat16"}),
            one("training.dtype = \"bfloat16\" needs training.mixed_precision_param = \"bfloat16\""));
  EXPECT_EQ(problems({"training.dtype=float64", "optimizer.moments_dtype=bfloat16"}),
            one("optimizer.moments_dtype = \"bfloat16\" does not go with training.dtype = \"float64\""));
  EXPECT_EQ(problems({"numerics.stochastic_rounding=true"}),
            one("numerics.stochastic_rounding = true has no effect with training.dtype = \"float32\""));
}

TEST(CheckOptimizer, AGpuComputesWhatItCanAndItsRanksTalkThroughNccl) {
  const std::string gpu = "training.device=cuda";
  for (const char* fits : {"numerics.fp8=true", "training.mixed_precision_param=float32"})
    EXPECT_TRUE(problems({gpu, fits}).empty());
  const auto no_float64 = one("training.dtype = \"float64\" does not go with training.device = \"cuda\"");
  EXPECT_EQ(problems({gpu, "training.dtype=float64"}), no_float64);
  EXPECT_TRUE(problems({gpu, "parallelism.data_parallel_shard_degree=2"}).empty());
  EXPECT_TRUE(problems({gpu, "comm.backend=nccl"}).empty());
  EXPECT_EQ(problems({gpu, "comm.backend=mpi"}),
            one("comm.backend = \"mpi\" does not go with training.device = \"cuda\""));
  EXPECT_EQ(problems({"comm.backend=nccl"}), one("comm.backend = \"nccl\" does not go with training.device = \"cpu\""));
  const auto no_fp8 = one("numerics.fp8 needs a GPU that computes in bfloat16");
  for (const char* type : {"float32", "bfloat16"})
    EXPECT_EQ(problems({fmt::format("training.mixed_precision_param={}", type), "numerics.fp8=true"}), no_fp8);
  EXPECT_EQ(problems({gpu, "training.mixed_precision_param=float32", "numerics.fp8=true"}), no_fp8);
}

TEST(CheckOptimizer, RanksThatShareLayersOrSequencesNeedEqualParts) {
  const std::string tensor = "parallelism.tensor_parallel_degree=", context = "parallelism.context_parallel_degree=";
  EXPECT_TRUE(problems({tensor + "4", context + "2", "training.seq_len=64"}).empty());
  EXPECT_EQ(problems({context + "3", "training.seq_len=64", "training.local_batch_size=3"}),
            one("parallelism.context_parallel_degree = 3 does not divide training.seq_len = 64"));
  EXPECT_EQ(problems({tensor + "3", "training.seq_len=64", "training.local_batch_size=1"}),
            one("parallelism.tensor_parallel_degree = 3 does not divide the 64 tokens of a rank's micro-batch"));
  EXPECT_TRUE(problems({tensor + "2", "optimizer.name=Muon"}).empty());
  EXPECT_TRUE(problems({context + "2", "optimizer.name=Muon"}).empty());
}

TEST(CheckOptimizer, APipelineNeedsEqualMicroBatchesAndZeroBubbleAPlaceForGradients) {
  const std::string ranks = "parallelism.pipeline_parallel_degree=2",
                    schedule = "parallelism.pipeline_parallel_schedule=";
  const std::string micro = "parallelism.pipeline_parallel_microbatch_size=", stage = "parallelism.zero_stage=";
  EXPECT_TRUE(problems({ranks, micro + "4", schedule + "GPipe", stage + "3"}).empty());
  EXPECT_TRUE(problems({ranks, schedule + "InterleavedZeroBubble"}).empty());
  EXPECT_EQ(problems({ranks, micro + "3"}),
            one("parallelism.pipeline_parallel_microbatch_size = 3 does not divide training.local_batch_size = 8"));
  EXPECT_EQ(problems({ranks, schedule + "InterleavedZeroBubble", stage + "2"}),
            one("parallelism.pipeline_parallel_schedule = \"InterleavedZeroBubble\" does not go with zero_stage = 2"));
  EXPECT_EQ(problems({schedule + "GPipe"}), one("parallelism.pipeline_parallel_schedule = \"GPipe\" has no effect with "
                                                "parallelism.pipeline_parallel_degree = 1"));
  EXPECT_THAT(problems({ranks, schedule + "DualPipeV"}), testing::ElementsAre(testing::HasSubstr("DualPipeV")));
}

TEST(CheckOptimizer, AGraphNeedsAGpuAndStepsOfOneShape) {
  const auto differ =
      one("training.cuda_graph needs steps of one shape: hidden tokens and documents differ from batch to batch");
  const std::string gpu = "training.device=cuda", graph = "training.cuda_graph=true";
  EXPECT_TRUE(problems({gpu, graph}).empty());
  EXPECT_TRUE(problems({gpu, graph, "parallelism.data_parallel_shard_degree=2"}).empty());
  for (const char* axis : {"tensor", "context", "pipeline"})
    EXPECT_EQ(problems({gpu, graph, fmt::format("parallelism.{}_parallel_degree=2", axis)}),
              one("training.cuda_graph records no communication inside a micro-batch"));
  EXPECT_EQ(problems({gpu, graph, "parallelism.zero_stage=2"}),
            one("training.cuda_graph needs weights and gradients that keep their places"));
  EXPECT_EQ(problems({"training.cuda_graph=true"}),
            one("training.cuda_graph = true has no effect with training.device = \"cpu\""));
  EXPECT_EQ(problems({gpu, graph, "model.attention_scope=document"}), differ);
  EXPECT_EQ(problems({gpu, graph, "objective.kind=masked_lm", "objective.mask_id=3"}), differ);
}

TEST(CheckOptimizer, PoliciesHaveTheirOwnKeysAndReproducibleItsRanks) {
  EXPECT_TRUE(problems({"numerics.nan_policy=skip", "numerics.skip_limit=3", "numerics.spike_policy=rewind",
                        "numerics.spike_window=64", "numerics.spike_deviations=4", "numerics.rewind_limit=1"})
                  .empty());
  EXPECT_EQ(problems({"numerics.spike_window=64"}),
            one("numerics.spike_window = 64 has no effect with numerics.spike_policy = \"off\""));
  EXPECT_EQ(problems({"numerics.skip_limit=3"}), one("numerics.skip_limit = 3 has no effect with numerics.nan_policy = "
                                                     "\"stop\" and numerics.spike_policy = \"off\""));
  EXPECT_EQ(problems({"numerics.rewind_limit=1", "numerics.nan_policy=skip"}),
            one("numerics.rewind_limit = 1 has no effect with numerics.nan_policy = \"skip\" and numerics.spike_policy "
                "= \"off\""));
  EXPECT_TRUE(problems({"numerics.reproducible=true", "training.threads=4", "parallelism.data_parallel_shard_degree=4",
                        "training.global_batch_size=32"})
                  .empty());
  EXPECT_EQ(problems({"numerics.reproducible=true"}), one("numerics.reproducible with training.threads = 0 on 1 rank"));
  EXPECT_EQ(problems({"numerics.reproducible=true", "training.threads=3", "parallelism.data_parallel_shard_degree=3",
                      "training.global_batch_size=24"}),
            one("numerics.reproducible does not go with 3 data-parallel ranks"));
  EXPECT_EQ(problems({"numerics.reproducible=true", "training.threads=2", "parallelism.zero_stage=3",
                      "parallelism.data_parallel_shard_degree=2", "parallelism.reduce_once_per_step=true"}),
            one("parallelism.reduce_once_per_step does not go with numerics.reproducible"));
  EXPECT_EQ(problems({"parallelism.zero_stage=2", "parallelism.reduce_once_per_step=true"}),
            one("parallelism.reduce_once_per_step = true has no effect with parallelism.zero_stage = 2"));
  const auto fix = [](std::vector<std::string> sets) {
    sets.emplace_back("numerics.reproducible=true");
    LoadResult result = read_run({}, sets);
    check(result, Purpose::kBench);
    EXPECT_EQ(result.problems.size(), 1u);
    return result.problems.front().fix.substr(0, result.problems.front().fix.find(':'));
  };
  EXPECT_EQ(fix({"training.threads=3", "parallelism.data_parallel_shard_degree=2"}), "give training.threads = 4");
  const std::string cores = test::run_command("nproc").output;
  EXPECT_EQ(fix({}), "give training.threads = " + cores.substr(0, cores.find('\n')));
}

TEST(CheckOptimizer, TheRulesOfTheLearningRateHaveTheirOwnKeys) {
  EXPECT_TRUE(problems({"lr_scheduler.rule=neox", "lr_scheduler.end_step=900"}).empty());
  EXPECT_EQ(problems({"lr_scheduler.end_step=900"}),
            one("lr_scheduler.end_step = 900 has no effect with lr_scheduler.rule = \"torchtitan\""));
  EXPECT_EQ(problems({"lr_scheduler.rule=neox_2023", "lr_scheduler.decay_ratio=0.2"}),
            one("lr_scheduler.decay_ratio = 0.2 has no effect with lr_scheduler.rule = \"neox_2023\""));
  EXPECT_EQ(problems({"lr_scheduler.rule=neox", "lr_scheduler.decay_type=sqrt"}),
            one("lr_scheduler.decay_type = \"sqrt\" does not go with lr_scheduler.rule = \"neox\""));
  EXPECT_EQ(problems({"lr_scheduler.rule=transformers", "lr_scheduler.decay_type=exponential"}),
            one("lr_scheduler.decay_type = \"exponential\" does not go with lr_scheduler.rule = \"transformers\""));
  EXPECT_EQ(problems({"lr_scheduler.rule=neox_2023", "lr_scheduler.decay_type=polynomial", "lr_scheduler.power=2"}),
            one("lr_scheduler.decay_type = \"polynomial\" does not go with lr_scheduler.rule = \"neox_2023\""));
  EXPECT_EQ(problems({"lr_scheduler.rule=transformers", "lr_scheduler.decay_type=linear", "lr_scheduler.power=2"}),
            one("lr_scheduler.power = 2.0 has no effect with lr_scheduler.decay_type = \"linear\""));
  EXPECT_TRUE(problems({"lr_scheduler.rule=torchtitan_2025", "lr_scheduler.decay_ratio=0.2",
                        "lr_scheduler.decay_type=sqrt", "lr_scheduler.warmup_steps=2000"})
                  .empty());
  EXPECT_EQ(problems({"lr_scheduler.rule=torchtitan_2024", "lr_scheduler.decay_type=cosine"}),
            one("lr_scheduler.decay_type = \"cosine\" does not go with lr_scheduler.rule = \"torchtitan_2024\""));
  EXPECT_EQ(problems({"lr_scheduler.rule=torchtitan_2024", "lr_scheduler.decay_ratio=0.2"}),
            one("lr_scheduler.decay_ratio = 0.2 has no effect with lr_scheduler.rule = \"torchtitan_2024\""));
  EXPECT_TRUE(
      problems({"lr_scheduler.rule=transformers", "lr_scheduler.decay_ratio=0.2", "lr_scheduler.decay_type=sqrt"})
          .empty());
  EXPECT_EQ(problems({"lr_scheduler.rule=transformers", "lr_scheduler.decay_type=sqrt"}),
            one("lr_scheduler.decay_type = \"sqrt\" does not go with lr_scheduler.rule = \"transformers\""));
  EXPECT_EQ(problems({"memory.margin=much"}), one("memory.margin = \"much\" is not an amount of memory"));
  EXPECT_EQ(problems({"lr_scheduler.decay_type=exponential"}),
            one("lr_scheduler.decay_type = \"exponential\" does not go with lr_scheduler.rule = \"torchtitan\""));
}

TEST(CheckOptimizer, GroupsOfTheOptimizerHaveAPatternAndChangeSomething) {
  const auto group = [](const std::string& text) {
    const test::ScratchFolder folder;
    write_file_atomic(folder / "run.toml", "[[optimizer.group]]\n" + text);
    LoadResult run = read_run(folder / "run.toml", {"data.path=" + dataset(), "training.steps=1000"});
    check(run, Purpose::kTrain);
    std::vector<std::string> texts;
    for (const Problem& problem : run.problems) texts.push_back(problem.what);
    return texts;
  };
  EXPECT_TRUE(group("pattern = \"*norm*\"\nlr_factor = 2\n").empty());
  EXPECT_EQ(group("lr_factor = 2\n"), one("optimizer.group.0.pattern is not given"));
  EXPECT_EQ(group("pattern = \"*norm*\"\n"), one("optimizer.group.0 changes nothing"));
  EXPECT_EQ(problems({"optimizer.name=Adam", "optimizer.form=transformers"}),
            one("optimizer.form = \"transformers\" has no effect with optimizer.name = \"Adam\""));
}

TEST(CheckOptimizer, MuonsKeysAreForMuonAloneAndMuonIsForACpu) {
  const std::pair<const char*, const char*> keys[] = {{"optimizer.muon_momentum", "0.9"},
                                                      {"optimizer.muon_nesterov", "false"},
                                                      {"optimizer.muon_ns_steps", "6"},
                                                      {"optimizer.muon_adjust_lr_fn", "original"}};
  for (const auto& [key, value] : keys) {
    const std::string set = fmt::format("{}={}", key, value);
    const std::vector<std::string> without = problems({set});
    ASSERT_EQ(without.size(), 1U) << key;
    EXPECT_TRUE(without[0].starts_with(key)) << without[0];
    EXPECT_TRUE(without[0].ends_with("has no effect with optimizer.name = \"AdamW\"")) << without[0];
    EXPECT_EQ(problems({"optimizer.name=Muon", set}), std::vector<std::string>{});
  }
  EXPECT_EQ(problems({"optimizer.name=Muon", "optimizer.form=transformers"}), std::vector<std::string>{});
  EXPECT_EQ(problems({"optimizer.name=Muon", "training.device=cuda"}),
            one("optimizer.name = \"Muon\" does not go with training.device = \"cuda\": its kernels are for a CPU"));
  EXPECT_EQ(problems({"optimizer.name=Muon", "numerics.stochastic_rounding=true", "training.dtype=bfloat16",
                      "training.mixed_precision_param=bfloat16"}),
            one("numerics.stochastic_rounding does not go with optimizer.name = \"Muon\": its update of a matrix is "
                "rounded to nearest"));
  for (const char* wrong : {"optimizer.muon_momentum=1", "optimizer.muon_ns_steps=0", "optimizer.muon_ns_steps=100",
                            "optimizer.muon_adjust_lr_fn=none"}) {
    EXPECT_EQ(problems({"optimizer.name=Muon", wrong}).size(), 1U) << wrong;
  }
}

}  // namespace
}  // namespace hearth::config
