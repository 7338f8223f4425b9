// Arcee's script for AWS Trainium.
#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// What its environment says, and how the program is started: tests on variables that Slurm or Neuron's compiler set.
constexpr const char* kEnvironment =
    "export NEURON_FUSE_SOFTMAX=1\nTP_DEGREE=8\n# 0: bf16; 1: mixed precision\nUSE_MIX_PRECISION=0\nUSE_ZERO_1=1\n"
    "GBS=2048\nMBS=1 # not more\nTOTAL_STEPS=31800\nWARMUP_STEPS=100\nLR=1.5e-4 # of the paper\n"
    "MODEL_PATH=$SCRIPT_DIR\nDATA_PATH=\"~/examples_datasets/medical\" # packed\nSEQ_LEN=4096\n";
constexpr const char* kLaunch = R"SH(export NUM_NEURONCORES=32
NODE_ID=0
WORLD_SIZE=1
DISTRIBUTED_ARGS="--nproc_per_node $NUM_NEURONCORES"
if [ ! -z "$SLURM_NTASKS" ]; then
    WORLD_SIZE=$SLURM_NTASKS
    NODE_ID=$SLURM_NODEID
    MASTER_ADDRESS=(`scontrol show hostnames $SLURM_JOB_NODELIST`)
    DISTRIBUTED_ARGS="--nproc_per_node $NUM_NEURONCORES --nnodes $WORLD_SIZE --node_rank $NODE_ID"
    if [ $NODE_ID -eq 0 ]; then
        echo "WORLD_SIZE=$WORLD_SIZE"
    fi
    export FI_PROVIDER=efa
fi
EXTRA_ARGS=" "
if [ $USE_MIX_PRECISION -gt 0 ]; then
    EXTRA_ARGS+=" --use_mix_precision"
fi
if [ $USE_ZERO_1 -gt 0 ]; then
    EXTRA_ARGS+=" --use_zero_1"
fi
DP=$(($NUM_NEURONCORES * $WORLD_SIZE / $TP_DEGREE))
ACC_STEPS=$(($GBS / $MBS / $DP))
if [ $NEURON_EXTRACT_GRAPHS_ONLY -gt 0 ]; then
    STEPS_THIS_RUN=2
else
    STEPS_THIS_RUN=-1
fi
echo EXTRA_ARGS=$EXTRA_ARGS
torchrun $DISTRIBUTED_ARGS \
    tp_zero1_llama2_7b_hf_pretrain.py \
    --model_path $MODEL_PATH \
    --data_dir $DATA_PATH \
    --tensor_parallel_size $TP_DEGREE \
    --batch_size $MBS \
    --steps_this_run $STEPS_THIS_RUN\
    --max_steps $TOTAL_STEPS \
    --warmup_steps $WARMUP_STEPS \
    --lr $LR \
    --grad_accum_usteps $ACC_STEPS \
    --seq_len $SEQ_LEN \
    --sequence_parallel_enabled \
    --selective_checkpoint_enabled \
    --logging_interval 10 \
    --checkpoint_dir "./checkpoints/full" \
    --checkpoint_freq 10600 \
    --num_kept_checkpoint 3 \
    --load_pretrained_checkpoint \
    --pretrained_checkpoint_dir "llama2-7b" \
    --separate_qkv \
    $EXTRA_ARGS |& tee $OUTPUT_LOG
)SH";

// What configs/ does otherwise: it shuffles, has Meta's pairs, and torchtitan's formula of the rate.
const std::vector<std::string> kTrainiumDifferences = {"job.*",
                                                       "data.order",
                                                       "data.path",
                                                       "model.rope_pairs",
                                                       "lr_scheduler.rule",
                                                       "checkpoint.initial_load_path",
                                                       "metrics.log_freq",
                                                       "training.seed"};

TEST_F(ImportTest, TheScriptForTrainiumGivesItsConfig) {
  const std::string script = std::string(kEnvironment) + kLaunch;
  const RunConfig c = import({{"pretrain.sh", script}}, {.layout = false}).config;
  EXPECT_THAT(differences_from("llama2_7b_medical.toml", c, kTrainiumDifferences), IsEmpty());
  EXPECT_EQ(c.data.order, DataOrder::kSequential);
  EXPECT_EQ(c.data.path, "data/medical");
  EXPECT_EQ(c.checkpoint.initial_load_path, "checkpoints/llama2-7b");
  EXPECT_EQ(c.training.seed, 12349);

  // 512 cores: data 64 x tensor 8.
  const RunConfig whole = import({{"pretrain.sh", script}}, {.ranks = 512}).config;
  EXPECT_EQ(whole.parallelism.data_parallel_shard_degree, 64);
  EXPECT_EQ(whole.parallelism.tensor_parallel_degree, 8);
  EXPECT_EQ(whole.training.local_batch_size, 1);
  EXPECT_THAT(import_text({{"pretrain.sh", script}}, {.ranks = 512}), HasSubstr("# pretrain.sh:52 --lr"));

  // AWS's script compiles first; and reckons with one node, whatever the number of nodes.
  std::string twice = script;
  twice.replace(twice.find("torchrun $DIST"), 8, "RUN=\"torchrun");
  twice.replace(twice.find("$EXTRA_ARGS |& tee $OUTPUT_LOG"), 30,
                "$EXTRA_ARGS\"\nneuron_parallel_compile $RUN --seed 1\n$RUN");
  twice.replace(twice.find("    WORLD_SIZE=$SLURM_NTASKS\n"), 29, "");
  const std::string aws = import_text({{"pretrain.sh", twice}}, {.ranks = 512});
  EXPECT_THAT(aws, HasSubstr("$GBS is 2048, but 1 sequence x 512 micro-batches x 64 data-parallel ranks are 32768"));
  EXPECT_THAT(import_text({{"pretrain.sh", script}}, {.ranks = 512}), Not(HasSubstr("reckons")));

  // The environment alone, and with mixed precision: float32 moments.
  const RunConfig few = import({{"environment", kEnvironment}}, {.ranks = 512}).config;
  EXPECT_EQ(few.training.steps, 31800);
  EXPECT_EQ(few.optimizer.lr, 1.5e-4);
  EXPECT_EQ(few.training.global_batch_size, 2048);
  EXPECT_EQ(few.optimizer.moments_dtype, DType::kBFloat16);
  EXPECT_THAT(import_text({{"environment", kEnvironment}}, {.ranks = 512}),
              HasSubstr("$USE_ZERO_1 = 1: ranks always share the moments, and results are the same"));
  std::string mixed = script;
  mixed.replace(mixed.find("USE_MIX_PRECISION=0"), 19, "USE_MIX_PRECISION=1");
  EXPECT_EQ(import({{"pretrain.sh", mixed}}, {.ranks = 512}).config.optimizer.moments_dtype, DType::kFloat32);
}

TEST_F(ImportTest, WhatTheScriptForTrainiumLeavesOpenIsAskedFor) {
  const std::string script = std::string(kEnvironment) + kLaunch;
  EXPECT_EQ(error({{"pretrain.sh", script}}),
            "error: the number of ranks is not in the file, and the layout needs it\n"
            "  fix: give it: --ranks N, the number of GPUs that the training ran on");
  // Without GBS the accumulation decides, which depends on Slurm.
  std::string open = script;
  open.replace(open.find("GBS=2048"), 8, "G_B_S=204");
  EXPECT_THAT(error({{"pretrain.sh", open}}, {.ranks = 512}),
              HasSubstr("--grad_accum_usteps: its value is not known: it depends on $GBS, which the script does not "
                        "set"));
  open = script;
  open.replace(open.find("LR=1.5e-4"), 9, "LR=$PEAK ");
  EXPECT_EQ(error({{"pretrain.sh", open}}, {.ranks = 512}),
            "error: pretrain.sh:10: $LR: its value is not known: it depends on $PEAK, which the script does not set\n"
            "  fix: write the value itself in a copy of the file");
}

}  // namespace
}  // namespace hearth::config
