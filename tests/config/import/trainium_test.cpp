// SPDX-License-Identifier: Apache-2.0
// Arcee's program for AWS Trainium: its command, and the variables of its script.
#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The variables of its script, and its command as bash prints it on 16 nodes of 32 cores.
constexpr const char* kEnvironment =
    "export NEURON_FUSE_SOFTMAX=1\nTP_DEGREE=8\n# 0: bf16; 1: mixed precision\nUSE_MIX_PRECISION=0\nUSE_ZERO_1=1\n"
    "GBS=2048\nMBS=1 # not more\nTOTAL_STEPS=31800\nWARMUP_STEPS=100\nLR=1.5e-4 # of the paper\n"
    "DATA_PATH=\"~/examples_datasets/medical\" # packed\nSEQ_LEN=4096\n";
constexpr const char* kCommand =
    "+ torchrun --nproc_per_node 32 --nnodes 16 --node_rank 0 --master_addr 10.0.0.1 --master_port 44000 "
    "tp_zero1_llama2_7b_hf_pretrain.py --model_path /home/ubuntu/llama --data_dir '~/examples_datasets/medical' "
    "--tensor_parallel_size 8 --batch_size 1 --steps_this_run -1 --max_steps 31800 --warmup_steps 100 --lr 1.5e-4 "
    "--grad_accum_usteps 32 --seq_len 4096 --sequence_parallel_enabled --selective_checkpoint_enabled "
    "--logging_interval 10 --checkpoint_dir ./checkpoints/full --checkpoint_freq 10600 --num_kept_checkpoint 3 "
    "--load_pretrained_checkpoint --pretrained_checkpoint_dir llama2-7b --separate_qkv --use_zero_1\n";

// What configs/ does otherwise: it shuffles, has Meta's pairs, and torchtitan's formula of the rate.
const std::vector<std::string> kTrainiumDifferences = {"job.*",
                                                       "data.order",
                                                       "data.path",
                                                       "model.rope_pairs",
                                                       "lr_scheduler.rule",
                                                       "checkpoint.initial_load_path",
                                                       "metrics.log_freq",
                                                       "training.seed"};

TEST_F(ImportTest, TheCommandForTrainiumGivesItsConfig) {
  const RunConfig c = import({{"trace.txt", kCommand}}).config;
  std::vector<std::string> differences = kTrainiumDifferences;
  for (const char* of_ranks : {"parallelism.data_parallel_shard_degree", "parallelism.tensor_parallel_degree"})
    differences.emplace_back(of_ranks);
  EXPECT_THAT(differences_from("llama2_7b_medical.toml", c, differences), IsEmpty());
  EXPECT_EQ(c.data.order, DataOrder::kSequential);
  EXPECT_EQ(c.data.path, "data/medical");
  EXPECT_EQ(c.checkpoint.initial_load_path, "checkpoints/llama2-7b");
  EXPECT_EQ(c.training.seed, 12349);
  EXPECT_EQ(c.parallelism.data_parallel_shard_degree, 64);  // 512 cores: data 64 x tensor 8
  EXPECT_EQ(c.parallelism.tensor_parallel_degree, 8);
  EXPECT_EQ(c.training.local_batch_size, 1);
  EXPECT_EQ(c.training.global_batch_size, 2048);
  EXPECT_THAT(import_text({{"trace.txt", kCommand}}), HasSubstr("# trace.txt:1 --lr"));

  // AWS's script compiles first; and divides by the cores of one node, whatever the number of nodes.
  std::string aws = kCommand;
  aws.replace(aws.find("usteps 32"), 9, "usteps 512");
  aws = "+ neuron_parallel_compile" + aws.substr(1) + aws;
  const std::string both = import_text({{"trace.txt", aws}, {"names", kEnvironment}});
  EXPECT_THAT(both, HasSubstr("GBS is 2048, but 1 sequence x 512 micro-batches x 64 data-parallel ranks are 32768"));
  EXPECT_THAT(both, HasSubstr("global_batch_size = 32768"));
  EXPECT_THAT(import_text({{"trace.txt", kCommand}, {"names", kEnvironment}}), Not(HasSubstr("reckons")));
}

TEST_F(ImportTest, TheVariablesOfTheScriptForTrainiumAreEnough) {
  // Without mixed precision the moments are bfloat16.
  const RunConfig few = import({{"environment", kEnvironment}}, {.ranks = 512}).config;
  EXPECT_EQ(few.training.steps, 31800);
  EXPECT_EQ(few.optimizer.lr, 1.5e-4);
  EXPECT_EQ(few.training.global_batch_size, 2048);
  EXPECT_EQ(few.optimizer.moments_dtype, DType::kBFloat16);
  const std::string text = import_text({{"environment", kEnvironment}}, {.ranks = 512});
  EXPECT_THAT(text, HasSubstr("USE_ZERO_1 = 1: ranks always share the moments, and results are the same"));
  EXPECT_THAT(text, HasSubstr("environment:1  NEURON_FUSE_SOFTMAX = 1"));
  std::string mixed = kEnvironment;
  mixed.replace(mixed.find("USE_MIX_PRECISION=0"), 19, "USE_MIX_PRECISION=1");
  EXPECT_EQ(import({{"environment", mixed}}, {.ranks = 512}).config.optimizer.moments_dtype, DType::kFloat32);
  EXPECT_EQ(error({{"environment", kEnvironment}}),
            "error: the number of ranks is not in the file, and the layout needs it\n"
            "  fix: give it: --ranks N, the number of GPUs that the training ran on");
}

}  // namespace
}  // namespace hearth::config
