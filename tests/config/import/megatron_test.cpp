// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's options, in a script of the kind of its examples, and alone.
#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::HasSubstr;
using testing::IsEmpty;

// The command of Megatron-LM's example for Llama 3, as bash prints it.
constexpr const char* kLlama =
    "+ torchrun --nproc_per_node 8 --nnodes 4 --master_addr localhost pretrain_gpt.py --use-mcore-models "
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --kv-channels 128 --seq-length 8192 --max-position-embeddings 8192 "
    "--position-embedding-type rope --rotary-base 500000 --attention-dropout 0.0 --hidden-dropout 0.0 --swiglu "
    "--normalization RMSNorm --init-method-std 0.0134 --attention-backend fused "
    "--untie-embeddings-and-output-weights --disable-bias-linear --micro-batch-size 1 --global-batch-size 128 "
    "--train-samples 1953125000 --lr-decay-samples 1949218748 --lr-warmup-samples 3906252 --lr 0.00015 "
    "--min-lr 0.00001 --lr-decay-style cosine --clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 "
    "--bf16 --calculate-per-token-loss --tensor-model-parallel-size 2 --sequence-parallel "
    "--use-distributed-optimizer --mock-data --vocab-size 128256 --split 99,1,0 --log-interval 1 --eval-iters 32 "
    "--eval-interval 100 --save-interval 1000 --ckpt-format torch_dist --distributed-timeout-minutes 60 "
    "--save checkpoints/llama3_8b --load checkpoints/llama3_8b\n";

TEST_F(ImportTest, TheCommandOfMegatronGivesItsRun) {
  const RunConfig c = import({{"trace.txt", kLlama}}).config;
  EXPECT_EQ(c.model.dim, 4096);
  EXPECT_EQ(c.model.n_layers, 32);
  EXPECT_EQ(c.model.n_heads, 32);
  EXPECT_EQ(c.model.n_kv_heads, 8);
  EXPECT_EQ(c.model.head_dim, 128);
  EXPECT_EQ(c.model.hidden_dim, 14336);
  EXPECT_EQ(c.model.rope_theta, 500000);
  EXPECT_EQ(c.model.rope_pairs, RopePairs::kHalves);
  EXPECT_EQ(c.model.norm_type, NormType::kRmsNorm);
  EXPECT_FALSE(c.model.enable_weight_tying);
  EXPECT_EQ(c.model.vocab_size, 128256);
  EXPECT_EQ(c.model.init, InitLaw::kNormal);
  EXPECT_EQ(c.model.output_init, InitLaw::kScaledNormal);
  EXPECT_EQ(c.model.init_std, 0.0134);
  EXPECT_EQ(c.training.seq_len, 8192);
  EXPECT_EQ(c.training.global_batch_size, 128);
  EXPECT_EQ(c.training.local_batch_size, 1);
  EXPECT_EQ(c.training.steps, 15258789);          // 1953125000 / 128 = 15258789.06
  EXPECT_EQ(c.lr_scheduler.end_step, 15228271);   // 1949218748 / 128 = 15228271.47
  EXPECT_EQ(c.lr_scheduler.warmup_steps, 30517);  // 3906252 / 128 = 30517.6
  EXPECT_DOUBLE_EQ(c.lr_scheduler.min_lr_factor, 1. / 15);
  EXPECT_EQ(c.lr_scheduler.decay_type, DecayType::kCosine);
  EXPECT_EQ(c.lr_scheduler.rule, ScheduleRule::kTransformers);
  EXPECT_EQ(c.optimizer.weight_decay, 0.1);
  EXPECT_EQ(c.optimizer.beta2, 0.95);
  EXPECT_EQ(c.training.mixed_precision_param, DType::kBFloat16);
  EXPECT_FALSE(c.numerics.fp8);
  EXPECT_EQ(c.parallelism.tensor_parallel_degree, 2);
  EXPECT_EQ(c.parallelism.data_parallel_shard_degree, 16);  // 32 GPUs
  EXPECT_EQ(c.checkpoint.interval, 1000);
  EXPECT_EQ(c.checkpoint.initial_load_path, "");  // --load is --save: to go on
  EXPECT_EQ(c.job.dump_folder, "runs/llama3_8b");
  EXPECT_EQ(c.validation.freq, 100);
  EXPECT_EQ(c.validation.steps, 32);
  EXPECT_EQ(c.comm.train_timeout_seconds, 3600);
  EXPECT_EQ(c.training.seed, 1234);
  EXPECT_THAT(import_text({{"trace.txt", kLlama}}), HasSubstr("# trace.txt:1 --ffn-hidden-size\n"));
  EXPECT_TRUE(import({{"trace.txt", kLlama}, {"more.txt", "--fp8-format hybrid --fp8-amax-history-len 1024\n"}})
                  .config.numerics.fp8);
  const auto recipe = [&](const std::string& more) {
    return import({{"trace.txt", kLlama}, {"more.txt", "--fp8-format hybrid " + more + "\n"}}).config.numerics.float8();
  };
  EXPECT_EQ(recipe(""), Fp8Recipe::kRowwise);
  EXPECT_EQ(recipe("--disable-fp8-wgrad false"), Fp8Recipe::kRowwise);
  for (const char* option : {"--disable-fp8-wgrad", "--no-fp8-wgrad"})
    EXPECT_EQ(recipe(option), Fp8Recipe::kRowwiseHpWgrad) << option;
}

// The shape of Llama-2-7B and a schedule in iterations, as options alone.
constexpr const char* kOptions =
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --position-embedding-type rope\n"
    "--attention-dropout 0 --hidden-dropout 0 --swiglu --normalization RMSNorm --disable-bias-linear\n";

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text + "\n";
}

TEST_F(ImportTest, DefaultsOfMegatronAreWrittenOut) {
  const std::string options = one_line(
      std::string(kOptions) +
      "--micro-batch-size 2 --train-iters 1000 --lr 3e-4 --lr-warmup-fraction 0.01 --data-path 0.3 /d/a_text_document "
      "0.7 /d/b_text_document --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4 "
      "--recompute-granularity full --recompute-method uniform --global-batch-size 64 --finetune --load /x/base "
      "--vocab-size 32000 --save-retain-interval 500 --save-interval 100");
  const RunConfig c = import({{"options.txt", options}}, {.ranks = 8}).config;
  EXPECT_EQ(c.model.hidden_dim, 10880);  // int(4 * 4096 * 2 / 3 / 64) * 64
  EXPECT_EQ(c.model.vocab_size, 32000);
  EXPECT_TRUE(c.model.enable_weight_tying);
  EXPECT_EQ(c.lr_scheduler.warmup_steps, 10);
  EXPECT_EQ(c.lr_scheduler.decay_type, DecayType::kLinear);
  EXPECT_EQ(c.lr_scheduler.min_lr_factor, 0);
  EXPECT_EQ(c.optimizer.weight_decay, 0.01);
  EXPECT_EQ(c.optimizer.beta2, 0.999);
  EXPECT_EQ(c.training.mixed_precision_param, DType::kFloat32);
  EXPECT_EQ(c.memory.recompute, RecomputeChoice::kBlock);
  EXPECT_EQ(c.parallelism.pipeline_parallel_degree, 4);
  EXPECT_EQ(c.parallelism.pipeline_parallel_schedule, PipelineSchedule::kInterleaved1F1B);
  EXPECT_EQ(c.parallelism.pipeline_parallel_layers_per_stage, 4);
  EXPECT_EQ(c.parallelism.pipeline_parallel_microbatch_size, 2);
  EXPECT_EQ(c.training.local_batch_size, 32);  // 64 sequences on two ranks of data parallelism
  ASSERT_EQ(c.data.source.size(), 2u);
  EXPECT_EQ(c.data.source[0].path, "data/a");
  EXPECT_EQ(c.data.source[1].weight, 0.7);
  EXPECT_EQ(c.checkpoint.initial_load_path, "checkpoints/base");
  EXPECT_TRUE(c.checkpoint.initial_load_model_only);
  EXPECT_EQ(c.checkpoint.keep_latest_k, 1);
  EXPECT_EQ(c.checkpoint.keep_every, 500);
}

TEST_F(ImportTest, WhatHearthDoesNotHaveOfMegatronIsRefusedByLine) {
  const std::string options =
      "pretrain_gpt.py --num-layers 2 --hidden-size 64 \\\n --num-attention-heads 4 --seq-length 32 \\\n"
      " --mtp-num-layers 1 --moe-router-topk 2 \\\n --lr 1e-3 --lr-decay-style WSD --train-iters 10 \\\n"
      " --micro-batch-size 1 --rampup-batch-size 16 16 1000 --nonsense 3 --mock-data\n";
  EXPECT_EQ(
      error({{"run.txt", options}}, {.ranks = 1}),
      "error: run.txt (read as Megatron-LM) has 10 errors\n"
      "  run.txt:3: --mtp-num-layers 1: only the next token is predicted\n"
      "      fix: to import the rest: --leave-out mtp_num_layers\n"
      "  run.txt:4: --lr-decay-style \"WSD\": the decay is linear, cosine or constant\n"
      "      fix: for WSD see lr_scheduler.decay_ratio, or import the rest: --leave-out lr_decay_style\n"
      "  run.txt:5: --rampup-batch-size [16, 16, 1000]: every step has training.global_batch_size sequences\n"
      "      fix: to import the rest: --leave-out rampup_batch_size\n"
      "  run.txt:5: Megatron-LM has no key --nonsense\n"
      "      fix: leave it out: --leave-out nonsense\n"
      "  --swiglu is not given, and Megatron-LM's default is false: the feed-forward is SwiGLU\n"
      "      fix: if the training had it, give a further file with --swiglu\n"
      "  --disable-bias-linear is not given, and Megatron-LM's default is false: linear layers have no biases\n"
      "      fix: if the training had it, give a further file with --disable-bias-linear\n"
      "  --position-embedding-type is not given, and Megatron-LM's default is learned_absolute: positions are "
      "rotary\n"
      "      fix: if the training had it, give a further file with --position-embedding-type rope\n"
      "  --normalization is not given, and Megatron-LM's default is LayerNorm: norms are RMSNorm, without biases\n"
      "      fix: if the training had it, give a further file with --normalization RMSNorm\n"
      "  --hidden-dropout is not given, and Megatron-LM's default is 0.1: there is no dropout\n"
      "      fix: if the training had it, give a further file with --hidden-dropout 0\n"
      "  --attention-dropout is not given, and Megatron-LM's default is 0.1: there is no dropout\n"
      "      fix: if the training had it, give a further file with --attention-dropout 0");
  EXPECT_THAT(
      error({{"options.txt", one_line(std::string(kOptions) + "--lr 1 --train-iters 2 --data-path a_document")}},
            {.ranks = 1}),
      HasSubstr("--micro-batch-size is not given"));
}

// The assertions of its validate_args().
TEST_F(ImportTest, IterationsAndSamplesOfMegatronAreRefusedTogether) {
  const std::string samples(kLlama);
  const auto with = [&](const std::string& more) {
    return error({{"trace.txt", samples.substr(0, samples.size() - 1) + more + "\n"}});
  };
  for (const std::string name : {"lr-decay-iters", "lr-warmup-iters"})
    EXPECT_THAT(
        with(" --" + name + " 10"),
        HasSubstr(fmt::format("trace.txt:1: --{} 10: --train-samples is given, too, and Megatron-LM refuses both\n"
                              "  fix: keep one of the two",
                              name)));
  EXPECT_THAT(with(" --lr-warmup-fraction 0.1"),
              HasSubstr("--lr-warmup-samples 3906252: --lr-warmup-fraction is given, too"));
  EXPECT_THAT(with(" --train-iters 10"), testing::AllOf(HasSubstr("--train-samples 1953125000: --train-iters is given"),
                                                        HasSubstr("--lr-decay-samples 1949218748: --train-iters is"),
                                                        HasSubstr("--lr-warmup-samples 3906252: --train-iters is")));
  EXPECT_THAT(with(" --lr-warmup-iters 0"), testing::StartsWith("imported:"));
}

TEST_F(ImportTest, DatasetsOfMegatronWithOneNameKeepApartAndWeightsAreNoSets) {
  const std::string base = std::string(kOptions) + "--micro-batch-size 1 --train-iters 1000 --lr 1e-3 ";
  const RunConfig c =
      import({{"options.txt",
               one_line(base + "--train-data-path /a/text_document /b/text_document --eval-interval 10 "
                               "--valid-data-path 0.3 /c/v 0.7 /d/v --lr-decay-iters 100 --lr-warmup-fraction "
                               "0.333")}},
             {.ranks = 1})
          .config;
  ASSERT_EQ(c.data.source.size(), 2u);
  EXPECT_EQ(c.data.source[0].path, "data/text");
  EXPECT_EQ(c.data.source[1].path, "data/text-2");
  ASSERT_EQ(c.validation.set.size(), 2u);
  EXPECT_EQ(c.validation.set[0].name, "v");
  EXPECT_EQ(c.validation.set[1].name, "v-2");
  EXPECT_EQ(c.validation.set[1].path, "data/v-2-valid");
  EXPECT_EQ(c.lr_scheduler.warmup_steps, 33);  // of the 100 steps of the decay, not of all 1000
  EXPECT_EQ(c.lr_scheduler.warmup_fraction, 0);
  const auto vocabulary = [&](const std::string& options) {
    return import({{"options.txt", one_line(base + "--data-path a " + options)}}, {.ranks = 1}).config.model.vocab_size;
  };
  EXPECT_EQ(vocabulary("--vocab-size 1000"), 1024);
  EXPECT_EQ(vocabulary("--vocab-size 1000 --no-pad-vocab-size"), 1000);
  EXPECT_THAT(error({{"options.txt", one_line(base + "--data-path 0.3 a x b")}}, {.ranks = 1}),
              HasSubstr("weights and paths do not take turns"));
}

// OptimizerParamScheduler: lr_warmup_steps < lr_decay_steps. get_blend_and_blend_per_split() reads --data-path first.
TEST_F(ImportTest, WhatMegatronRefusesOrDoesNotReadIsNotLostInSilence) {
  const auto with = [](const std::string& more) {
    return error({{"options.txt", one_line(std::string(kOptions) +
                                           "--micro-batch-size 1 --train-iters 1000 --lr 1e-3 --data-path a " + more)}},
                 {.ranks = 1});
  };
  for (const std::string share : {"1.5", "1", "-0.5"})
    EXPECT_THAT(with("--lr-warmup-fraction " + share),
                HasSubstr("options.txt:1: --lr-warmup-fraction " + share +
                          ": the warm-up is a share of the steps to the decay's end, from 0 to below 1\n"
                          "  fix: give the share of the training that ran: Megatron-LM refuses this one"));
  EXPECT_THAT(with("--lr-warmup-fraction 0"), HasSubstr("\nwarmup_steps = 0 "));
  EXPECT_THAT(with("--lr-warmup-fraction 0 --lr-warmup-iters 10"),
              HasSubstr("--lr-warmup-iters 10: --lr-warmup-fraction is given, too, and Megatron-LM refuses both"));
  for (const std::string name : {"train", "valid"})
    EXPECT_THAT(with("--" + name + "-data-path b"),
                HasSubstr("--" + name + "-data-path \"b\": --data-path is given, too, and Megatron-LM reads that"));
  EXPECT_THAT(with("--num-query-groups 8"),
              HasSubstr("Without --group-query-attention Megatron-LM does not read --num-query-groups."));
}

TEST_F(ImportTest, MegatronsLengthOfASequenceIsNeeded) {
  std::string options = std::string(kOptions) + "--micro-batch-size 1 --train-iters 10 --lr 1e-3 --data-path a ";
  const size_t length = options.find("--seq-length 4096 ");
  EXPECT_THAT(error({{"options.txt", one_line(std::string(options).erase(length, 18))}}, {.ranks = 1}),
              HasSubstr("--seq-length is not given"));
  EXPECT_EQ(import({{"options.txt", one_line(options + "--save a/b --load a/b")}}, {.ranks = 1})
                .config.checkpoint.initial_load_path,
            "");
}

}  // namespace
}  // namespace hearth::config
