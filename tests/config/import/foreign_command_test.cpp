// SPDX-License-Identifier: Apache-2.0
// Commands as keys: words keep their spelling, and the options of launchers say the ranks.
#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kMegatronOptions =
    "pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --swiglu "
    "--disable-bias-linear --position-embedding-type rope --normalization RMSNorm --hidden-dropout 0.0 "
    "--attention-dropout 0 --lr 1e-3 --micro-batch-size 1 --train-iters 5 --data-path 1 0123 2 on\n";

// The lines of a result below a title, up to the next empty line.
std::string below(const std::string& text, const std::string& title) {
  const size_t begin = text.find(title);
  return begin == std::string::npos ? "" : text.substr(begin, text.find("\n\n", begin) - begin);
}
const std::string kTogether = "# Read together", kIgnored = "# Without effect", kVariables = "# Variables";

TEST_F(ImportTest, AWordOfACommandKeepsItsSpelling) {
  const RunConfig titan =
      import({{"run.txt",
               "train.py --model.flavor 8B --training.steps 5 --training.dataset=0x10 --checkpoint.enable "
               "--checkpoint.initial_load_path=2024_01_15\n"}},
             {.ranks = 1})
          .config;
  EXPECT_EQ(titan.checkpoint.initial_load_path, "2024_01_15");
  EXPECT_EQ(titan.data.path, "data/0x10");
  for (const std::string word : {"2024_01_15", "on", "0123", "1e-4", "null", "Off"}) {
    const std::string options = "--max_steps 1_000 --output_dir " + word + " --train_file " + word + "\n";
    const RunConfig c = import({{"run.txt", "run_clm.py " + options}}, {.ranks = 1}).config;
    EXPECT_EQ(c.training.steps, 1000);
    EXPECT_EQ(c.job.dump_folder, "runs/" + word);
    EXPECT_EQ(c.data.path, "data/" + word);
    EXPECT_EQ(import({{"env", "MAX_STEPS=3\nOUTPUT_DIR=" + word + "\n"}}, {.ranks = 1}).config.job.dump_folder,
              "runs/" + word);
  }
  const RunConfig blend = import({{"run.txt", kMegatronOptions}}, {.ranks = 1}).config;
  ASSERT_EQ(blend.data.source.size(), 2u);
  EXPECT_EQ(blend.data.source[0].path, "data/0123");
  EXPECT_EQ(blend.data.source[1].path, "data/on");
}

TEST_F(ImportTest, TheResultShowsTheWordsOfTheCommand) {
  const std::string text =
      import_text({{"run.txt",
                    "run_clm.py --max_steps 3 --eval_strategy no --fp16 False --eval_delay 0.0 --data_seed 007 "
                    "--fsdp False --mixed_precision No\n"}},
                  {.ranks = 2});
  EXPECT_THAT(text, AllOf(HasSubstr("run.txt:1  --eval_strategy no\n"), HasSubstr("run.txt:1  --fp16 False: "),
                          HasSubstr("run.txt:1  --eval_delay 0.0: "), HasSubstr("run.txt:1  --data_seed 007: ")));
  EXPECT_EQ(read_run_text(text, "again.toml", ".").config.parallelism.zero_stage, 1);
}

TEST_F(ImportTest, OfALaunchersOptionsTheLastCounts) {
  const std::string program = " run_clm.py --max_steps 4 --per_device_train_batch_size 1\n";
  const auto ranks = [&](const std::string& launcher) {
    return import({{"run.txt", launcher + program}}).config.parallelism.data_parallel_shard_degree;
  };
  EXPECT_EQ(ranks("torchrun --nproc_per_node 4 --nproc_per_node 8"), 8);
  EXPECT_EQ(ranks("torchrun --nproc_per_node=4 --nproc-per-node 2 --nnodes 1 --nnodes=3"), 6);
  EXPECT_EQ(ranks("srun -n 3 --export ALL -n 5 python"), 5);
  EXPECT_EQ(ranks("srun --nodes 2 --ntasks-per-node 1 --export ALL torchrun --nnodes 2 --nproc_per_node 4"), 8);
  EXPECT_THAT(import_text({{"run.txt", "torchrun --nproc_per_node 4 --nproc_per_node 8" + program}}),
              Not(HasSubstr("--nproc_per_node 4")));
}

TEST_F(ImportTest, TheRanksOfTheLauncherAreAmongTheKeysThatWereRead) {
  const std::string clm = "run_clm.py --max_steps 4\n", titan = "train.py --training.steps 5 --model.flavor 8B\n";
  const std::string trainium =
      "tp_zero1_llama2_7b_hf_pretrain.py --max_steps 10 --warmup_steps 1 --steps_this_run -1\n";
  for (const std::string& program : {clm, titan, trainium, std::string(kMegatronOptions)}) {
    const std::string text =
        import_text({{"run.txt", "torchrun --nproc_per_node 4 --nnodes 2 --node_rank 0 " + program}});
    EXPECT_THAT(below(text, kTogether), AllOf(HasSubstr("--nproc_per_node 4\n"), HasSubstr("--nnodes 2"))) << text;
    EXPECT_THAT(below(text, kIgnored),
                AllOf(HasSubstr("--node_rank 0: "), Not(HasSubstr("--nnodes")), Not(HasSubstr("--nproc_per_node"))));
    for (const std::string launcher : {"srun -n 8 ", "srun --nodes=2 --ntasks-per-node=4 ", "mpirun -np 8 ",
                                       "deepspeed --num_gpus 4 --num_nodes 2 "}) {
      const std::string other = import_text({{"run.txt", launcher + program}});
      EXPECT_THAT(below(other, kTogether), HasSubstr("run.txt:1  " + launcher.substr(launcher.find('-'), 4))) << other;
      EXPECT_THAT(below(other, kIgnored), Not(HasSubstr("starts processes"))) << other;
    }
  }
  const std::string slurm = import_text({{"run.txt", clm}, {"env", "SLURM_NTASKS=10\nSLURM_JOB_ID=3\n"}});
  EXPECT_THAT(below(slurm, kTogether), HasSubstr("env:1  SLURM_NTASKS = 10"));
  EXPECT_THAT(below(slurm, kVariables), AllOf(HasSubstr("SLURM_JOB_ID"), Not(HasSubstr("SLURM_NTASKS"))));
  // Such a variable alone is no training, and no key of the launcher is proposed for one of the program.
  EXPECT_THAT(error({{"env", "SLURM_NTASKS=10\n"}}), HasSubstr("no key is one of a trainer that Hearth imports from"));
  EXPECT_THAT(error({{"run.txt", "run_clm.py --max_steps 4 --num_node 3\n"}}, {.ranks = 1}),
              AllOf(HasSubstr("Transformers has no key --num_node"), Not(HasSubstr("launch."))));
}

TEST_F(ImportTest, NamesThatEachProcessExpandsMayStandInALaunchersOptions) {
  const RunConfig c =
      import({{"trace.txt",
               "++ hostname\n+ srun bash -c 'nvidia-smi; hostname'\n"
               "+ srun --nodes 2 bash -c 'accelerate launch --num_processes 16 --machine_rank $SLURM_PROCID "
               "--main_process_ip \"${HEAD}\" --rdzv_endpoint=$HEAD:29500 run_clm.py --max_steps 10'\n"}})
          .config;
  EXPECT_EQ(c.parallelism.data_parallel_shard_degree, 16);
  EXPECT_EQ(c.training.steps, 10);
  const std::string titan =
      "srun bash -c 'NODE_RANK=$SLURM_NODEID NGPU=4 ./run_train.sh --training.steps 5 --model.flavor 8B'\n";
  EXPECT_EQ(import({{"run.txt", titan}, {"l.toml", "[training]\nseq_len = 64\n"}})
                .config.parallelism.data_parallel_shard_degree,
            4);
}

TEST_F(ImportTest, OtherNamesInsideBashAreToBeWrittenOut) {
  for (const std::string begin : {"", "+ "}) {
    const std::string what = "only bash knows a part of this command: ";
    EXPECT_THAT(
        error({{"run.txt", begin + "srun bash -c 'python run_clm.py --max_steps $N'\n"}}),
        AllOf(HasSubstr("run.txt:1: " + what + "$N stands here, inside the command of `bash -c`"),
              HasSubstr("fix: write its value in place of $N in a copy of the command"), Not(HasSubstr("bash -x"))));
    EXPECT_THAT(
        error({{"run.txt",
                begin + "srun bash -c 'torchrun --node_rank=0 --nproc_per_node=\"${N}\" run_clm.py --max_steps 1'\n"}}),
        HasSubstr("${N} stands here"));
    EXPECT_THAT(error({{"run.txt", begin + "srun bash -c 'cd x; torchrun run_clm.py --max_steps 1'\n"}}),
                AllOf(HasSubstr("run.txt:1: " + what + "`;` stands here, inside the command of `bash -c`"),
                      HasSubstr("fix: give the command inside `bash -c` alone, with all values in their places"),
                      Not(HasSubstr("bash -x"))));
  }
}

TEST_F(ImportTest, AnOptionThatIsTurnedOffIsShownSo) {
  EXPECT_THAT(import_text({{"run.txt", "run_clm.py --max_steps 10 --no-bf16\n"}}, {.ranks = 1}),
              AllOf(HasSubstr("run.txt:1  --bf16 false\n"), Not(HasSubstr("no-bf16"))));
}

TEST_F(ImportTest, ACommandThatTrainsNothingIsRefused) {
  EXPECT_THAT(error({{"run.txt", "run_clm.py --do_train False --do_eval --max_steps 10\n"}}, {.ranks = 1}),
              HasSubstr("run.txt:1: --do_train False: the command trains nothing\n"
                        "  fix: give the command that trains, or import the rest: --leave-out do_train"));
  // Arguments that a program wrote have the default, false, also where it calls the Trainer itself.
  for (const char* value : {"true", "false"}) {
    const std::string text =
        import_text({{"a.json", fmt::format("{{\"max_steps\": 3, \"do_train\": {}}}", value)}}, {.ranks = 1});
    EXPECT_THAT(below(text, kTogether), HasSubstr(fmt::format("a.json:1  do_train = {}", value)));
    EXPECT_THAT(below(text, kIgnored), Not(HasSubstr("do_train")));
  }
}

}  // namespace
}  // namespace hearth::config
