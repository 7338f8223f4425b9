// SPDX-License-Identifier: Apache-2.0
#include "config/check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "problems.h"

namespace hearth::config {
namespace {

TEST(Check, ACompleteConfigurationHasNoProblems) { EXPECT_EQ(problems({}), std::vector<std::string>{}); }

TEST(Check, ExactlyOneLengthIsGiven) {
  EXPECT_EQ(problems({"training.steps=0"}), one("the length of the training is not given"));
  EXPECT_EQ(problems({"training.tokens=1000"}),
            one("the length of the training is given two times: steps = 1000, tokens = 1000, epochs = 0"));
  EXPECT_EQ(problems({"training.tokens=1000", "training.epochs=0.5"}),
            one("the length of the training is given three times: steps = 1000, tokens = 1000, epochs = 0.5"));
  EXPECT_TRUE(problems({"training.steps=0", "training.epochs=0.5"}).empty());
}

TEST(Check, TheGlobalBatchIsAMultipleOfWhatAllRanksComputeAtOnce) {
  EXPECT_EQ(problems({"training.global_batch_size=30", "training.local_batch_size=4",
                      "parallelism.data_parallel_shard_degree=2"}),
            one("training.global_batch_size = 30 is not a multiple of 8 = local_batch_size 4 x data-parallel ranks 2"));
  EXPECT_EQ(problems({"training.global_batch_size=4"}),
            one("training.global_batch_size = 4 is not a multiple of 8 = local_batch_size 8 x data-parallel ranks 1"));
  EXPECT_TRUE(problems({"training.global_batch_size=32"}).empty());
}

TEST(Check, TokenWeightsAreThere) {
  const Path nowhere = std::filesystem::absolute("no weights.npy");
  EXPECT_EQ(problems({"training.token_weights=" + nowhere.string()}),
            one(fmt::format("training.token_weights = \"{0}\": {0} does not exist", nowhere.string())));
}

TEST(Check, HeadsDivideTheModel) {
  EXPECT_EQ(problems({"model.n_heads=3"}), one("model.n_heads = 3 does not divide model.dim = 256"));
  EXPECT_EQ(problems({"model.n_kv_heads=3"}), one("model.n_kv_heads = 3 does not divide model.n_heads = 4"));
  EXPECT_EQ(problems({"model.dim=12"}), one("the head width model.dim / model.n_heads = 12 / 4 = 3 is odd"));
  EXPECT_EQ(problems({"model.n_heads=3", "model.n_kv_heads=2"}).size(), 2u);
  EXPECT_TRUE(problems({"model.dim=1024", "model.n_heads=4"}).empty());
  EXPECT_EQ(problems({"model.dim=1032", "model.n_heads=4"}),
            one("the head width model.dim / model.n_heads = 1032 / 4 = 258 is larger than 256"));
}

TEST(Check, AGivenHeadWidthIsEvenAndNotTooLargeAndNeedNotDivideTheModel) {
  EXPECT_TRUE(problems({"model.n_heads=3", "model.n_kv_heads=1", "model.head_dim=128"}).empty());
  EXPECT_EQ(problems({"model.head_dim=65"}), one("model.head_dim = 65 is odd"));
  EXPECT_EQ(problems({"model.head_dim=258"}), one("model.head_dim = 258 is larger than 256"));
}

TEST(Check, ExpertsFitTheModelAndTheRun) {
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.end(), {"model.num_experts=4", "model.moe_top_k=2"});
    return problems(more);
  };
  EXPECT_TRUE(with({"model.moe_hidden_dim=64", "model.n_dense_layers=1", "model.route_norm=true"}).empty());
  EXPECT_EQ(problems({"model.num_experts=4", "model.moe_top_k=5"}),
            one("model.moe_top_k = 5 is more than model.num_experts = 4"));
  EXPECT_EQ(problems({"model.name=mixtral"}),
            one("model.name = \"mixtral\" is a family with experts, and model.num_experts = 0"));
  EXPECT_EQ(with({"model.n_dense_layers=4"}),
            one("model.n_dense_layers = 4 leaves no layer with experts of model.n_layers = 4"));
  EXPECT_EQ(with({"model.gated_ffn=false"}), one("experts are w2 (f(w1 x) * w3 x)"));
  EXPECT_EQ(with({"model.ffn_bias=true", "model.num_shared_experts=1"}), one("shared experts have no biases"));
  EXPECT_EQ(with({"training.cuda_graph=true", "training.device=cuda"}),
            one("a recorded step has the same numbers of rows each time, and experts have not"));
  EXPECT_TRUE(with({"model.expert_bias=true", "model.score_func=sigmoid", "model.num_expert_groups=2",
                    "model.num_limited_groups=1", "model.num_shared_experts=1", "model.load_balance_coeff=0.01"})
                  .empty());
  EXPECT_EQ(with({"model.score_func=sigmoid", "model.moe_z_loss_coeff=0.1"}),
            one("the z-loss is of the denominator of a softmax"));
  EXPECT_EQ(with({"model.expert_bias=true", "training.dtype=bfloat16", "training.mixed_precision_param=bfloat16"}),
            one("a bias moves by less than bfloat16 can tell apart"));
  EXPECT_EQ(with({"model.num_expert_groups=3"}),
            one("model.num_expert_groups = 3 does not divide model.num_experts = 4"));
  EXPECT_EQ(with({"model.num_expert_groups=4", "model.num_limited_groups=4"}),
            one("model.num_expert_groups = 4 leaves fewer than two experts in a group of model.num_experts = 4"));
  EXPECT_EQ(with({"model.num_expert_groups=2", "model.num_limited_groups=3"}),
            one("model.num_limited_groups = 3 is more than model.num_expert_groups = 2"));
  EXPECT_EQ(problems({"model.num_experts=4", "model.moe_top_k=3", "model.num_expert_groups=2"}),
            one("model.moe_top_k = 3, and 1 group of 2 experts have 2"));
  EXPECT_EQ(with({"model.load_balance_coeff=0.01"}),
            one("model.load_balance_coeff = 0.01 has no effect with model.expert_bias = false"));
}

TEST(Check, HeadsAreNormedByAnRmsnormOnly) {
  EXPECT_TRUE(problems({"model.qk_norm=true", "model.qkv_bias=true"}).empty());
  EXPECT_TRUE(problems({"model.qk_norm=true", "model.norm_type=rmsnorm_1p"}).empty());
  for (const char* type : {"layernorm", "np_layernorm", "rmsnorm_neox"}) {
    EXPECT_EQ(problems({"model.qk_norm=true", fmt::format("model.norm_type={}", type)}),
              one(fmt::format("model.qk_norm does not go with model.norm_type = \"{}\"", type)));
  }
}

TEST(Check, ASequenceIsNotLongerThanTheModelsWindow) {
  EXPECT_TRUE(problems({"model.sliding_window=64", "training.seq_len=65"}).empty());
  EXPECT_TRUE(problems({"model.sliding_window=64", "model.full_attention_interval=2"}).empty());
  EXPECT_EQ(problems({"model.full_attention_interval=2"}),
            one("model.full_attention_interval = 2 has no effect with model.sliding_window = 0"));
  const std::string two = R"(model.layer_types=["sliding_attention","full_attention"])";
  EXPECT_TRUE(problems({"model.sliding_window=64", "model.n_layers=2", two}).empty());
  EXPECT_EQ(problems({"model.sliding_window=64", "model.n_layers=3", two}),
            one("model.layer_types has 2 layers, and model.n_layers = 3"));
  EXPECT_EQ(problems({"model.sliding_window=64", "model.n_layers=2", "model.full_attention_interval=2", two}),
            one("model.layer_types and model.full_attention_interval are both given"));
  EXPECT_EQ(problems({"model.sliding_window=64", "model.n_layers=1", R"(model.layer_types=["linear_attention"])"}),
            one("model.layer_types has \"linear_attention\""));
}

TEST(Check, AFlavorIsOneOfItsFamily) {
  EXPECT_TRUE(problems({"model.name=llama2", "model.flavor=13B"}).empty());
  EXPECT_EQ(problems({"model.name=llama3.2", "model.flavor=13B"}),
            one("model.name = \"llama3.2\" has no model.flavor = \"13B\""));
}

TEST(Check, TheFactorsOfARotaryScalingStandInOrder) {
  EXPECT_EQ(problems({"model.rope_low_freq_factor=4", "model.rope_scaling_factor=8"}),
            one("model.rope_high_freq_factor = 4 is not above model.rope_low_freq_factor = 4"));
}

TEST(Check, TheFeedForwardWidthIsGivenOnce) {
  EXPECT_EQ(problems({"model.hidden_dim=64", "model.ffn_dim_multiplier=1.5"}),
            one("model.hidden_dim and model.ffn_dim_multiplier are both given"));
}

TEST(Check, TheWarmUpIsGivenOnceAndFitsIn) {
  EXPECT_EQ(problems({"lr_scheduler.warmup_steps=5", "lr_scheduler.warmup_fraction=0.1"}),
            one("lr_scheduler.warmup_steps and lr_scheduler.warmup_fraction are both given"));
  EXPECT_EQ(problems({"lr_scheduler.warmup_steps=1001"}),
            one("lr_scheduler.warmup_steps = 1001 is more than training.steps = 1000"));
  EXPECT_TRUE(problems({"training.steps=100"}).empty());  // nobody asked for the default of 200
  EXPECT_TRUE(problems({"training.steps=100", "lr_scheduler.warmup_fraction=0.1"}).empty());
  EXPECT_TRUE(problems({"lr_scheduler.warmup_steps=1000"}).empty());  // all of it
}

TEST(Check, CheckpointsAreKeptByRulesThatApply) {
  EXPECT_TRUE(problems({"checkpoint.extra_steps=[1, 250]", "checkpoint.keep_every=1000"}).empty());
  EXPECT_EQ(problems({"checkpoint.extra_steps=[1, 2.5]"}), one("checkpoint.extra_steps has 2.5"));
  EXPECT_EQ(problems({"checkpoint.extra_steps=[0]"}), one("checkpoint.extra_steps has 0"));
  EXPECT_EQ(problems({"checkpoint.keep_every=10", "checkpoint.keep_latest_k=0"}),
            one("checkpoint.keep_every = 10 has no effect with checkpoint.keep_latest_k = 0"));
  EXPECT_EQ(problems({"checkpoint.keep_best=1", "validation.freq=0"}),
            one("checkpoint.keep_best = 1 has no effect with validation.freq = 0"));
}

TEST(Check, TensorboardsFolderIsItsOwn) {
  const std::string on = "metrics.enable_tensorboard=true";
  EXPECT_TRUE(problems({on}).empty());
  EXPECT_TRUE(problems({on, "metrics.save_tb_folder=logs/board"}).empty());
  for (const char* folder : {"", ".", "checkpoints/"})
    EXPECT_EQ(problems({on, fmt::format("metrics.save_tb_folder={}", folder)}),
              one(fmt::format("metrics.save_tb_folder = \"{}\" is a folder with other files of the run", folder)));
  EXPECT_EQ(problems({on, "metrics.save_tb_folder=s3://bucket/tb"}),
            one("metrics.save_tb_folder = \"s3://bucket/tb\" is in a store"));
}

// The key that it depends on holds several texts.
TEST(Check, TheLengthOfSamplesAppliesWithPromptsAlone) {
  const std::string tokens = "validation.generate_tokens=40";
  EXPECT_TRUE(problems({"validation.freq=5", "validation.generate=[\"a\"]", tokens}).empty());
  EXPECT_EQ(problems({"validation.freq=5", tokens}),
            one("validation.generate_tokens = 40 has no effect without validation.generate"));
}

TEST(Check, AKeyThatWouldHaveNoEffectIsAnError) {
  EXPECT_EQ(problems({"lr_scheduler.decay_type=constant", "lr_scheduler.decay_ratio=0.2"}),
            one("lr_scheduler.decay_ratio = 0.2 has no effect with lr_scheduler.decay_type = \"constant\""));
  EXPECT_EQ(problems({"lr_scheduler.decay_type=constant", "lr_scheduler.min_lr_factor=0.2"}),
            one("lr_scheduler.min_lr_factor = 0.2 has no effect with lr_scheduler.decay_type = \"constant\""));
  EXPECT_EQ(problems({"model.rope_low_freq_factor=2"}),
            one("model.rope_low_freq_factor = 2.0 has no effect with model.rope_scaling_factor = 1.0"));
  EXPECT_EQ(problems({"model.rope_high_freq_factor=8", "model.rope_original_seq_len=4096"}).size(), 2u);
  EXPECT_TRUE(problems({"model.rope_original_seq_len=4096", "model.rope_scaling_factor=2"}).empty());
  EXPECT_EQ(problems({"memory.recompute_layers=3"}),
            one("memory.recompute_layers = 3 has no effect with memory.recompute = \"none\""));
  EXPECT_EQ(problems({"memory.recompute=auto", "memory.recompute_layers=3"}),
            one("memory.recompute_layers = 3 has no effect with memory.recompute = \"auto\""));
  EXPECT_TRUE(problems({"memory.recompute=block", "memory.recompute_layers=3"}).empty());
  EXPECT_EQ(problems({"memory.limit=much"}), one("memory.limit = \"much\" is not an amount of memory"));
  EXPECT_EQ(problems({"model.init_std=0.1"}),
            one("model.init_std = 0.1 has no effect with model.init = \"torchtitan\""));
  EXPECT_EQ(
      problems({"model.init=small_init", "model.output_init=wang_init", "model.init_std=0.1"}),
      one("model.init_std = 0.1 has no effect with model.init = \"small_init\" and model.output_init = \"wang_init\""));
  EXPECT_EQ(problems({"model.output_init=wang_init"}),
            one("model.output_init = \"wang_init\" has no effect with model.init = \"torchtitan\""));
  EXPECT_EQ(problems({"model.init=normal", "model.depth_init=false"}),
            one("model.depth_init = false has no effect with model.init = \"normal\""));
  EXPECT_TRUE(problems({"model.init=small_init", "model.init_std=0.1"}).empty());  // wo and w2 use it
  EXPECT_EQ(problems({"validation.steps=3"}), one("validation.steps = 3 has no effect with validation.freq = 0"));
  EXPECT_EQ(problems({"checkpoint.initial_load_model_only=false"}),
            one("checkpoint.initial_load_model_only = false has no effect without checkpoint.initial_load_path"));
}

TEST(Check, DataIsGivenAndADataset) {
  EXPECT_EQ(problems({"data.path="}), one("data.path is not given"));
  const test::ScratchFolder folder;
  const std::string nowhere = (folder / "nowhere").string(), text = folder.path().string();
  for (const auto purpose : {Purpose::kTrain, Purpose::kBench}) {
    EXPECT_EQ(problems({"data.path=" + nowhere}, purpose),
              one(fmt::format("data.path = \"{0}\": {0} does not exist", nowhere)));
    EXPECT_EQ(problems({"data.path=" + text}, purpose),
              one(fmt::format("data.path = \"{0}\": {0} holds no dataset", text)));
  }
}

TEST(Check, DataIsOnePathOrSeveralSourcesThatAreRead) {
  const std::vector<std::string> two = {"data.path=", "data.source.0.path=" + dataset(),
                                        "data.source.1.path=" + dataset()};
  const auto with = [&two](std::vector<std::string> sets) {
    sets.insert(sets.begin(), two.begin(), two.end());
    return problems(sets);
  };
  EXPECT_EQ(with({}), std::vector<std::string>{});
  EXPECT_EQ(problems({"data.source.0.path=" + dataset()}), one("data.path and [[data.source]] are both given"));
  EXPECT_EQ(with({"data.source.2.weight=1"}), one("data.source.2.path is not given"));
  EXPECT_EQ(with({"data.source.0.weight=0", "data.source.1.weight=0"}),
            one("the weights of data.source are all 0: nothing would be read"));
  EXPECT_EQ(problems({"data.weight_unit=documents"}),
            one("data.weight_unit = \"documents\" has no effect without [[data.source]]"));
}

TEST(Check, SegmentsHaveAWeightForEachSourceAndFollowEachOther) {
  const auto with = [](std::vector<std::string> sets) {
    const std::vector<std::string> two = {"data.path=", "data.source.0.path=" + dataset(),
                                          "data.source.1.path=" + dataset()};
    sets.insert(sets.begin(), two.begin(), two.end());
    return problems(sets);
  };
  EXPECT_EQ(with({"data.segment.0.weights=[1,1]"}), std::vector<std::string>{});
  EXPECT_EQ(with({"data.segment.0.from_tokens=5"}), one("data.segment.0.weights has 0 numbers for 2 sources"));
  EXPECT_EQ(with({"data.segment.0.weights=[0,0]"}), one("data.segment.0.weights are all 0: nothing would be read"));
  EXPECT_EQ(with({"data.segment.0.weights=[0,1]", "data.segment.1.weights=[1,1]"}),
            one("data.segment.1.from_tokens = 1 does not follow 1"));
  EXPECT_EQ(problems({"data.segment.0.weights=[1]"}), one("[[data.segment]] has no effect without [[data.source]]"));
}

TEST(Check, OrderPackingAndWeightRuleGoTogetherOrAreRefused) {
  const std::vector<std::string> neox = {"data.order=neox", "data.stride=neox"};
  const auto with = [](std::vector<std::string> sets, const std::vector<std::string>& more) {
    sets.insert(sets.end(), more.begin(), more.end());
    return problems(sets);
  };
  const std::vector<std::string> two = {"data.path=", "data.source.0.path=" + dataset(),
                                        "data.source.1.path=" + dataset()};
  const std::vector<std::string> none;
  EXPECT_EQ(problems(neox), none);
  EXPECT_EQ(problems({"data.order=neox"}), one("data.order = \"neox\" does not go with data.stride = \"exact\""));
  EXPECT_EQ(with(neox, {"data.packing=best_fit"}).front(),
            "data.order = \"neox\" does not go with data.packing = \"best_fit\"");
  EXPECT_EQ(problems({"data.packing=best_fit"}), none);
  EXPECT_EQ(problems({"data.packing=best_fit", "data.stride=torchtitan"}),
            one("data.packing = \"best_fit\" does not go with data.stride = \"torchtitan\""));
  EXPECT_EQ(with(neox, two), one("data.order = \"neox\" with several sources needs data.weight_rule = \"neox\""));
  EXPECT_EQ(with(neox, {"training.seed=4294967295"}), none);
  EXPECT_EQ(with(neox, {"training.seed=4294967296"}),
            one("training.seed = 4294967296 is too large for data.order = \"neox\""));
  EXPECT_EQ(problems({"data.packing=best_fit", "training.seq_len=1048575"}), none);
  EXPECT_EQ(problems({"data.packing=best_fit", "training.seq_len=1048576"}),
            one("training.seq_len = 1048576 is too long for a table of sequences"));

  EXPECT_EQ(problems({"data.weight_rule=neox"}),
            one("data.weight_rule = \"neox\" has no effect without [[data.source]]"));
  const auto ruled = [&](const std::vector<std::string>& more) {
    std::vector<std::string> sets = two;
    sets.push_back("data.weight_rule=neox");
    return with(sets, more);
  };
  EXPECT_EQ(ruled({}), none);
  EXPECT_EQ(ruled(neox), none);
  EXPECT_EQ(ruled({"data.segment.0.weights=[1,2]"}),
            one("data.weight_rule = \"neox\" does not go with [[data.segment]]"));
  EXPECT_EQ(ruled({"data.weight_unit=documents"}),
            one("data.weight_rule = \"neox\" does not go with data.weight_unit = \"documents\""));
  EXPECT_EQ(ruled({"data.source.1.weight=0"}),
            one("data.source.1.weight = 0 does not go with data.weight_rule = \"neox\""));
  std::vector<std::string> many = {"data.weight_rule=neox", "data.path="};
  for (int i = 0; i < 255; ++i) many.push_back(fmt::format("data.source.{}.path={}", i, dataset()));
  EXPECT_EQ(problems(many), one("data.weight_rule = \"neox\" with 255 sources"));
  many.pop_back();
  EXPECT_EQ(problems(many), none);
}

TEST(Check, ValidationSetsHaveNamesThatCanBePartOfAKey) {
  const std::vector<std::string> set = {"validation.freq=5", "validation.set.0.name=web",
                                        "validation.set.0.path=" + dataset()};
  const auto with = [&set](std::vector<std::string> sets) {
    sets.insert(sets.begin(), set.begin(), set.end());
    return problems(sets);
  };
  EXPECT_EQ(with({}), std::vector<std::string>{});
  EXPECT_EQ(with({"validation.freq=0"}), one("[[validation.set]] has no effect with validation.freq = 0"));
  EXPECT_EQ(with({"validation.set.0.name=a b"}),
            one("validation.set.0.name = \"a b\" cannot be part of a key in the log"));
  EXPECT_EQ(with({"validation.set.1.path=" + dataset()}), one("validation.set.1.name is not given"));
  EXPECT_EQ(with({"validation.set.1.path=" + dataset(), "validation.set.1.name=web"}),
            one("two sets of [[validation.set]] are called \"web\""));
  EXPECT_EQ(with({"validation.set.0.path="}), one("validation.set.0.path is not given"));
}

TEST(Check, ABenchmarkNeedsNeitherDataNorALengthButAShape) {
  EXPECT_TRUE(problems({"data.path=", "training.steps=0"}, Purpose::kBench).empty());
  EXPECT_EQ(problems({"model.n_heads=3"}, Purpose::kBench), one("model.n_heads = 3 does not divide model.dim = 256"));
}

TEST(Check, ARuleIsSilentAboutAKeyThatIsWrongInItself) {
  EXPECT_EQ(problems({"model.n_heads=0"}), one("model.n_heads = 0 is out of range"));
  EXPECT_EQ(problems({"training.local_batch_size=no", "training.global_batch_size=3"}),
            one("training.local_batch_size = no: not a whole number"));
}

TEST(Check, AProblemNamesTheLineOfAKeyThatIsInTheFile) {
  const test::ScratchFolder folder;
  write_file_atomic(folder / "run.toml",
                    "[training]\nsteps = 5\n\n[lr_scheduler]\nwarmup_fraction = 0.5\n[model]\ndim = 30\n"
                    "[data]\npath = \"gone\"\n");
  LoadResult run = read_run(folder / "run.toml", {"training.global_batch_size=3"});
  check(run, Purpose::kTrain);
  ASSERT_EQ(run.problems.size(), 3u);
  EXPECT_EQ(run.problems[0].where, (folder / "run.toml").string() + ":7");
  EXPECT_EQ(run.problems[0].what, "model.n_heads = 4 does not divide model.dim = 30");
  EXPECT_EQ(run.problems[1].where, "--set");
  EXPECT_EQ(run.problems[2].where, (folder / "run.toml").string() + ":9");
  EXPECT_EQ(run.problems[2].what, fmt::format("data.path = \"gone\": {} does not exist", (folder / "gone").string()));
}

TEST(Check, WhatAnObjectiveDoesNotReadIsAnError) {
  EXPECT_EQ(problems({"objective.mlm_probability=0.15"}),
            one("objective.mlm_probability = 0.15 has no effect with objective.kind = \"causal_lm\""));
  EXPECT_EQ(problems({"objective.kind=masked_lm", "objective.count_bos=false"}),
            one("objective.count_bos = false has no effect with objective.kind = \"masked_lm\""));
  for (const std::string key : {"mask_token=<mask>", "mask_id=3", "mask_replace_prob=0.8", "random_replace_prob=0.1",
                                "mask_special_tokens=true", "at_least_one_mask=false"}) {
    EXPECT_EQ(problems({"objective.kind=spike_lm", "objective." + key}).size(), 1u) << key;
    const bool together = key.starts_with("random");  // the default mask_replace_prob is 1
    EXPECT_EQ(problems({"objective.kind=masked_lm", "objective." + key}).size(), together ? 1u : 0u) << key;
  }
}

TEST(Check, WhatIsTakenFromACheckpointNeedsOne) {
  for (const std::string key : {"fresh", "drop"}) {
    EXPECT_EQ(problems({"checkpoint." + key + "=[output]"}),
              one("checkpoint." + key + " = [\"output\"] has no effect without checkpoint.initial_load_path"));
    EXPECT_TRUE(problems({"checkpoint." + key + "=[\"output\", layers.0]", "checkpoint.initial_load_path=."}).empty());
  }
  EXPECT_EQ(problems({"checkpoint.exclude_from_loading=[optimizer]", "checkpoint.initial_load_path=."}),
            one("checkpoint.exclude_from_loading = [\"optimizer\"] has no effect with "
                "checkpoint.initial_load_model_only = true"));
  EXPECT_EQ(problems({"checkpoint.exclude_from_loading=[\"weights\"]"}),
            one("checkpoint.exclude_from_loading = [\"weights\"] is not a choice"));
}

TEST(Check, MasksThatCannotBe) {
  const char* const kind = "objective.kind=masked_lm";
  EXPECT_TRUE(problems({kind, "objective.mask_replace_prob=0.8", "objective.random_replace_prob=0.2"}).empty());
  EXPECT_EQ(problems({kind, "objective.mask_replace_prob=0.8", "objective.random_replace_prob=0.3"}),
            one("objective.mask_replace_prob = 0.8 and objective.random_replace_prob = 0.3 are more than 1"));
  EXPECT_EQ(problems({kind, "objective.mask_token=<mask>", "objective.mask_id=3"}),
            one("objective.mask_token and objective.mask_id are both given"));
  EXPECT_EQ(problems({kind, "objective.mask_id=300", "model.vocab_size=300"}),
            one("objective.mask_id = 300 is outside model.vocab_size = 300"));
  EXPECT_EQ(problems({kind, "data.stride=torchtitan"}),
            one("data.stride = \"torchtitan\" does not go with objective.kind = \"masked_lm\""));
  EXPECT_EQ(problems({kind, "objective.mlm_probability=0"}), one("objective.mlm_probability = 0 is out of range"));
}

TEST(Check, MaskedDiffusionTakesItsOwnKeysAndTheMask) {
  const char* const kind = "objective.kind=masked_diffusion";
  for (const std::string key : {"diffusion_eps=0.01", "random_length_prob=0", "shift_logits=true", "mask_id=3"})
    EXPECT_TRUE(problems({kind, "objective." + key}).empty()) << key;
  for (const std::string key : {"mlm_probability=0.15", "mask_replace_prob=0.8", "random_replace_prob=0.1",
                                "mask_special_tokens=true", "at_least_one_mask=false", "count_bos=false"})
    EXPECT_EQ(problems({kind, "objective." + key}).size(), key.starts_with("random") ? 2u : 1u) << key;
  for (const std::string key : {"diffusion_eps=0.01", "random_length_prob=0", "shift_logits=true"})
    EXPECT_EQ(problems({"objective.kind=masked_lm", "objective." + key}).size(), 1u) << key;
  EXPECT_TRUE(problems({kind, "validation.freq=10", "validation.mc_num=4"}).empty());
  EXPECT_EQ(problems({"validation.freq=10", "validation.mc_num=4"}),
            one("validation.mc_num = 4 has no effect with objective.kind = \"causal_lm\""));
  EXPECT_EQ(problems({kind, "validation.freq=10", "validation.generate=[\"a\"]"}),
            one("validation.generate = [\"a\"] does not go with objective.kind = \"masked_diffusion\""));
  EXPECT_EQ(problems({kind, "data.stride=torchtitan"}),
            one("data.stride = \"torchtitan\" does not go with objective.kind = \"masked_diffusion\""));
  EXPECT_EQ(problems({kind, "objective.diffusion_eps=0"}), one("objective.diffusion_eps = 0 is out of range"));
  EXPECT_EQ(problems({kind, "training.cuda_graph=true", "training.device=cuda"}).size(), 1u);
}

TEST(Check, WhatGoesWithAListOfPromptsNeedsOne) {
  const std::vector<std::string> tokens = {"validation.freq=10", "validation.generate_tokens=5"};
  EXPECT_EQ(problems(tokens), one("validation.generate_tokens = 5 has no effect without validation.generate"));
  std::vector<std::string> both = tokens;
  both.emplace_back("validation.generate=[\"a\"]");
  EXPECT_TRUE(problems(both).empty());
}

}  // namespace
}  // namespace hearth::config
