// SPDX-License-Identifier: Apache-2.0
// What a shell and a launcher pass on to a program, and what they do not.
#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kTorchrunClm = "torchrun --nproc_per_node 8 run_clm.py --max_steps 100\n";

TEST_F(ImportTest, VariablesOfACommandAreNoOptionsOfItsProgram) {
  const std::string names =
      "export SEED=7\nWEIGHT_DECAY=0.1\nexport BF16=1\nexport GRADIENT_ACCUMULATION_STEPS=16\nmax_stepz=3\n";
  for (const std::string& text : {names + kTorchrunClm, kTorchrunClm + names}) {
    const RunConfig c = import({{"run.txt", text}}).config;
    EXPECT_EQ(c.training.seed, 42);
    EXPECT_EQ(c.optimizer.weight_decay, 0);
    EXPECT_EQ(c.training.mixed_precision_param, DType::kFloat32);
    EXPECT_EQ(c.training.global_batch_size, 64);
    EXPECT_THAT(import_text({{"run.txt", text}}),
                AllOf(HasSubstr("# Variables of the environment, which are not read:\n"), HasSubstr("  SEED = 7\n")));
  }
  // Nor do they say which trainer a command is of, and a file with nothing else is of no use beside one.
  EXPECT_THAT(error({{"run.txt", "export TENSOR_MODEL_PARALLEL_SIZE=2\nexport NUM_LAYERS=2\nrun_clm.py --seed 3\n"}},
                    {.ranks = 1}),
              HasSubstr("the files say nothing of a training with Transformers"));
  EXPECT_THAT(error({{"run.txt", kTorchrunClm}, {"env", "SEED=7\nBF16=1\n"}}),
              HasSubstr("env: no key of Transformers is in this file"));
}

constexpr const char* kLaunchedTitan = "[model]\nflavor = \"8B\"\n[training]\nsteps = 10\nlocal_batch_size = 1\n";

TEST_F(ImportTest, ExportedVariablesOfTorchtitansScriptAreRead) {
  const std::string ranks = "export NGPU=8\n", file = "export CONFIG_FILE=\"./llama.toml\"\n",
                    script = "./run_train.sh --training.steps 77\n";
  const RunConfig c = import({{"run.txt", ranks + file + script}, {"llama.toml", kLaunchedTitan}}).config;
  EXPECT_EQ(c.training.steps, 77);
  EXPECT_EQ(c.training.global_batch_size, 8);
  EXPECT_THAT(error({{"run.txt", ranks + file + script}}),
              HasSubstr("run.txt:2: CONFIG_FILE = \"./llama.toml\": the training's keys are in this file, which is not "
                        "given\n  fix: give it, too: several files are read as one, or import the rest: --leave-out "
                        "CONFIG_FILE"));
  // What stands in front of the command wins, and the command's own option over both.
  EXPECT_EQ(import({{"run.txt", ranks + file + "NGPU=2 " + script}, {"llama.toml", kLaunchedTitan}})
                .config.training.global_batch_size,
            2);
  const std::string other = "export CONFIG_FILE=other.toml\n";
  EXPECT_EQ(import({{"run.txt", ranks + other + "CONFIG_FILE=llama.toml " + script}, {"llama.toml", kLaunchedTitan}})
                .config.training.steps,
            77);
  EXPECT_EQ(import({{"run.txt", ranks + other + "./run_train.sh --training.steps 77 --job.config_file llama.toml\n"},
                    {"llama.toml", kLaunchedTitan}})
                .config.training.steps,
            77);
  // The program itself reads neither.
  const std::string program = "torchrun --nproc_per_node 4 train.py --training.steps 77\n";
  EXPECT_EQ(
      import({{"run.txt", ranks + other + program}, {"llama.toml", kLaunchedTitan}}).config.training.global_batch_size,
      4);
}

TEST_F(ImportTest, AFileThatTorchtitansCommandDoesNotNameIsNoted) {
  const std::string script = "NGPU=8 ./run_train.sh --training.steps 7\n", file = "CONFIG_FILE=llama.toml ",
                    note = "The command does not name llama.toml.";
  const ImportTest::Files::value_type llama = {"llama.toml", kLaunchedTitan};
  // The script has a file of its own, so torchtitan's defaults are not what ran.
  EXPECT_THAT(error({{"run.txt", script}}),
              AllOf(HasSubstr("run_train.sh reads a file of keys even where no CONFIG_FILE is given"),
                    HasSubstr("fix: give the script's own file beside the command")));
  EXPECT_THAT(import_text({{"run.txt", script}, llama}), AllOf(HasSubstr(note), HasSubstr("steps = 7 ")));
  EXPECT_THAT(import_text({{"run.txt", file + script}, llama}), Not(HasSubstr(note)));
  EXPECT_THAT(import_text({{"run.txt", file + script}, llama, {"more.toml", "[optimizer]\nlr = 1e-4\n"}}),
              AllOf(HasSubstr("The command does not name more.toml."), Not(HasSubstr(note))));
  EXPECT_THAT(import_text({{"run.txt", file + script}}, {.leave_out = {"CONFIG_FILE"}}), HasSubstr("steps = 7 "));
  // The program itself reads no file then.
  const std::string program = "torchrun --nproc_per_node 4 train.py --training.steps 77";
  EXPECT_THAT(import_text({{"run.txt", program + "\n"}, llama}), HasSubstr(note));
  EXPECT_THAT(import_text({{"run.txt", program + "\n"}}), HasSubstr("steps = 77 "));
  EXPECT_THAT(import_text({{"run.txt", program + " --job.config_file llama.toml\n"}, llama}), Not(HasSubstr(note)));
  EXPECT_THAT(import_text({llama}, {.ranks = 1}), Not(HasSubstr("does not name")));
}

TEST_F(ImportTest, OptionsBehindACommandsEndAreRefused) {
  const std::string end = "stands behind the command's end, and bash does not pass it on";
  EXPECT_THAT(error({{"run.txt", "run_clm.py --max_steps 3 \\\n  # it was 5 \\\n  --warmup_steps 10\n"}}, {.ranks = 1}),
              AllOf(HasSubstr("run.txt:3: this is not a command: `--warmup_steps` " + end +
                              " (a comment or a line without \\ ends it)"),
                    HasSubstr("fix: write \\ at the end of the line before it, or remove it")));
  EXPECT_THAT(error({{"run.txt", "run_clm.py --max_steps 3\n--seed=7\n"}}, {.ranks = 1}),
              HasSubstr("run.txt:2: this is not a command: `--seed` " + end));
  EXPECT_THAT(error({{"run.txt", "run_clm.py --max_steps 3 --block_size 512 \\ \n  --seed 7\n"}}, {.ranks = 1}),
              AllOf(HasSubstr("run.txt:1: this is not a command: a blank follows \\, so bash ends the line here"),
                    HasSubstr("fix: remove the blank")));
  EXPECT_EQ(import({{"run.txt", "--max_steps 3\n# a comment\n--seed 7\n"}}, {.ranks = 1}).config.training.seed, 7);
  EXPECT_EQ(import({{"run.txt", "run_clm.py --max_steps 3\\\r\n --seed 7\r\n"}}, {.ranks = 1}).config.training.seed, 7);
}

TEST_F(ImportTest, AShellWithFlagsRunsTheScriptBehindThem) {
  for (const std::string shell : {"sh -x", "bash -e -x", "/bin/bash -ex"}) {
    const RunConfig c =
        import({{"run.txt", "CONFIG_FILE=l.toml NGPU=2 " + shell + " ./run_train.sh --training.steps=77\n"},
                {"l.toml", kLaunchedTitan}})
            .config;
    EXPECT_EQ(c.training.steps, 77);
    EXPECT_EQ(c.training.global_batch_size, 2);
  }
}

TEST_F(ImportTest, AnOptionInFrontOfTheProgramDoesNotReachIt) {
  const std::string why = "it stands before the program, which does not get it\n  fix: move it behind the program";
  EXPECT_THAT(error({{"run.txt", "torchrun --learning_rate 3 run_clm.py --max_steps 3\n"}}, {.ranks = 1}),
              HasSubstr("run.txt:1: --learning_rate 3: " + why));
  EXPECT_THAT(error({{"run.txt", "accelerate launch --fp16 run_clm.py --max_steps 3\n"}}, {.ranks = 1}),
              HasSubstr("run.txt:1: --fp16: " + why));
  EXPECT_THAT(error({{"run.txt", "torchrun --training.steps 3 train.py --optimizer.lr 1\n"}}, {.ranks = 1}),
              HasSubstr("run.txt:1: --training.steps 3: " + why));
  EXPECT_EQ(import({{"run.txt",
                     "accelerate launch --mixed_precision bf16 --num_processes 2 --num_machines 1 --machine_rank 0 "
                     "--dynamo_backend no --gpu_ids all run_clm.py --max_steps 3\n"}})
                .config.training.mixed_precision_param,
            DType::kBFloat16);
}

TEST_F(ImportTest, VariablesOfAccelerateAreRead) {
  const auto with = [](const std::string& names, const std::string& command = kTorchrunClm) {
    return import({{"run.txt", names + command}}, {.ranks = 8}).config;
  };
  EXPECT_EQ(with("ACCELERATE_MIXED_PRECISION=bf16 ").training.mixed_precision_param, DType::kBFloat16);
  EXPECT_EQ(with("export ACCELERATE_MIXED_PRECISION=bf16\n").training.mixed_precision_param, DType::kBFloat16);
  EXPECT_EQ(with("ACCELERATE_MIXED_PRECISION=no ").training.mixed_precision_param, DType::kFloat32);
  const std::string launched = "accelerate launch run_clm.py --max_steps 3\n";
  EXPECT_EQ(with("ACCELERATE_MIXED_PRECISION=bf16 ", launched).training.mixed_precision_param, DType::kFloat32)
      << "accelerate gives its processes another value";
  const RunConfig fsdp = with(
      "ACCELERATE_USE_FSDP=true FSDP_SHARDING_STRATEGY=SHARD_GRAD_OP FSDP_ACTIVATION_CHECKPOINTING=true "
      "FSDP_OFFLOAD_PARAMS=false ");
  EXPECT_EQ(fsdp.parallelism.zero_stage, 2);
  EXPECT_EQ(fsdp.memory.recompute, RecomputeChoice::kBlock);
  EXPECT_EQ(with("export ACCELERATE_USE_FSDP=true\n").parallelism.zero_stage, 3);
  EXPECT_EQ(with("export FSDP_SHARDING_STRATEGY=FULL_SHARD\n").parallelism.zero_stage, 1) << "FSDP is off";
  const auto refused = [](const std::string& names, const std::string& command = kTorchrunClm) {
    return error({{"run.txt", names + command}}, {.ranks = 8});
  };
  EXPECT_THAT(refused("ACCELERATE_MIXED_PRECISION=fp16 "),
              HasSubstr("run.txt:1: ACCELERATE_MIXED_PRECISION = \"fp16\": numbers are float32 or bfloat16"));
  for (const std::string name :
       {"ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_MEGATRON_LM", "ACCELERATE_USE_PARALLELISM_CONFIG"}) {
    EXPECT_THAT(refused(name + "=true "), AllOf(HasSubstr("run.txt:1: " + name), HasSubstr("not read")));
    EXPECT_THAT(refused("export " + name + "=true\n"), HasSubstr("run.txt:1: " + name));
    EXPECT_THAT(refused(name + "=False "), Not(HasSubstr("error")));
  }
  // Accelerator() takes the variable's number for the script's. The Trainer counts for itself.
  const std::string steps = "ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4 ",
                    alone = "run_clm_no_trainer.py --max_train_steps 3 --gradient_accumulation_steps ";
  EXPECT_THAT(refused(steps, alone + "2\n"),
              HasSubstr("run.txt:1: ACCELERATE_GRADIENT_ACCUMULATION_STEPS = 4: accelerate takes it in place of the "
                        "script's 2"));
  EXPECT_EQ(with(steps, alone + "4\n").training.global_batch_size, 8 * 8 * 4);
  EXPECT_EQ(with(steps).training.global_batch_size, 64);
  EXPECT_THAT(import_text({{"run.txt", steps + kTorchrunClm}}),
              HasSubstr("ACCELERATE_GRADIENT_ACCUMULATION_STEPS = 4 is not read by the Trainer"));
}

TEST_F(ImportTest, RanksThatTheUserGivesInPlaceOfTheLaunchersAreNoted) {
  const std::string note = "The command starts 8 ranks; --ranks 4 counts instead.";
  const std::string same = "and --ranks 8 takes";
  for (const char* launcher : {"torchrun --nproc_per_node 8", "accelerate launch --num_processes 8"}) {
    const std::string command = fmt::format("{} run_clm.py --max_steps 100\n", launcher);
    EXPECT_THAT(import_text({{"run.txt", command}}, {.ranks = 4}), HasSubstr(note)) << launcher;
    EXPECT_THAT(import_text({{"run.txt", command}}, {.ranks = 8}), Not(HasSubstr(same))) << launcher;
    EXPECT_THAT(import_text({{"run.txt", command}}), Not(HasSubstr("counts instead"))) << launcher;
  }
}

// A script's JSON file as its only argument.
TEST_F(ImportTest, AFileThatTheProgramReadsIsItsKeys) {
  const std::string command = "python run_clm.py args.json\n";
  EXPECT_THAT(error({{"run.txt", command}}, {.ranks = 1}),
              HasSubstr("run.txt:1: the training also reads args.json\n  fix: give it, too"));
  EXPECT_EQ(import({{"run.txt", command}, {"args.json", "{\"max_steps\": 7}"}}, {.ranks = 1}).config.training.steps, 7);
}

TEST_F(ImportTest, TwoYearsNamesOfOneSettingAreRefused) {
  const std::string file = "[training]\nsteps = 10\nlocal_batch_size = 1\n";
  EXPECT_THAT(error({{"run.txt", "train.py --job.config_file l.toml --training.batch_size 4\n"}, {"l.toml", file}},
                    {.ranks = 1}),
              HasSubstr("run.txt:1: --training.batch_size 4: training.local_batch_size is given, too: two years' names "
                        "of one setting\n  fix: keep one"));
  EXPECT_EQ(import({{"run.txt", "train.py --training.batch_size 1\n"}, {"l.toml", file}}, {.ranks = 1})
                .config.training.local_batch_size,
            1)
      << "both say the same";
  const std::string both =
      "[lr_scheduler]\nwarmup_steps = 1\nmin_lr_factor = 0.1\nlr_min = 0.2\n[training]\nwarmup_steps = 2\nseed = 1\n"
      "tensor_parallel_degree = 2\n[debug]\nseed = 2\n[checkpoint]\nenable = true\nenable_checkpoint = false\n"
      "last_save_model_only = false\nlast_save_model_weights_only = true\nmodel_weights_only = true\n"
      "[parallelism]\ntensor_parallel_degree = 4\npipeline_parallel_degree = 1\n[experimental]\n"
      "pipeline_parallel_degree = 2\n";
  const std::string message = error({{"l.toml", both}}, {.ranks = 8});
  for (const std::string name : {"lr_scheduler.warmup_steps", "lr_scheduler.min_lr_factor", "debug.seed",
                                 "checkpoint.enable", "checkpoint.last_save_model_only",
                                 "parallelism.tensor_parallel_degree", "parallelism.pipeline_parallel_degree"})
    EXPECT_THAT(message, HasSubstr(": " + name + " is given, too: two years' names of one setting"));
  EXPECT_THAT(message, AllOf(HasSubstr("l.toml:15: checkpoint.last_save_model_weights_only = true: "),
                             HasSubstr("l.toml:16: checkpoint.model_weights_only = true: ")));
}

}  // namespace
}  // namespace hearth::config
