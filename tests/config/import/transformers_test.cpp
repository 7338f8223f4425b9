// SPDX-License-Identifier: Apache-2.0
// Hugging Face's arguments, as JSON, as options and as accelerate's file; and the script of frontier-accelerate.
#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The command of frontier-accelerate's train.sh on 512 ranks, as bash prints it.
constexpr const char* kFrontier =
    "++ scontrol show hostnames 'node[1-64]'\n"
    "+ srun accelerate launch --num_processes 512 --num_machines 64 --main_process_ip 10.0.0.1 "
    "--main_process_port 3442 --machine_rank 0 --mixed_precision bf16 --use_fsdp --fsdp_sharding_strategy 1 "
    "/lustre/scratch/guide/train.py --model_name_or_path meta-llama/Meta-Llama-3.1-8B --per_device_train_batch_size 4 "
    "--gradient_accumulation_steps 1 --learning_rate 0.0001 --output_dir /lustre/scratch/guide/llama "
    "--num_train_epochs 20 --checkpointing_steps 100 --block_size 8192\n+ echo Done\n";

TEST_F(ImportTest, TheCommandOfFrontierAccelerateGivesItsConfig) {
  const LoadResult run = import({{"trace.txt", kFrontier}}, {.layout = false});
  // configs/ trains 1 T tokens where the script has 20 epochs of WikiText-103. Its formulas of the rate are
  // torchtitan's. The script's program recomputes every block without an option, and names its data in its code.
  EXPECT_THAT(differences_from("llama3_8b_wikitext.toml", run.config,
                               {"job.*", "training.steps", "training.epochs", "lr_scheduler.rule", "memory.recompute",
                                "data.path", "model.vocab_size", "checkpoint.keep_latest_k"}),
              IsEmpty());
  EXPECT_EQ(run.config.training.epochs, 20);
  EXPECT_EQ(run.config.lr_scheduler.rule, ScheduleRule::kTransformers);
  EXPECT_EQ(run.config.job.dump_folder, "runs/llama");
  const RunConfig whole = import({{"trace.txt", kFrontier}}).config;
  EXPECT_EQ(whole.parallelism.data_parallel_shard_degree, 512);
  EXPECT_EQ(whole.parallelism.zero_stage, 3);
  EXPECT_EQ(whole.training.local_batch_size, 4);
  EXPECT_EQ(whole.training.global_batch_size, 2048);

  const std::string text = import_text({{"trace.txt", kFrontier}});
  EXPECT_THAT(text, HasSubstr("# trace.txt:2 --learning_rate\n"));
  EXPECT_THAT(text, HasSubstr("trace.txt:2 --mixed_precision\n"));
}

TEST_F(ImportTest, FilesAndSettingsThatACommandNamesAreAskedFor) {
  // Files whose values matter, and are not there.
  EXPECT_THAT(error({{"run.txt", "accelerate launch --config_file a.yaml run_clm.py --max_steps 10\n"}}, {.ranks = 2}),
              HasSubstr("run.txt:1: --config_file \"a.yaml\": accelerate's file says ranks and precision, and is not "
                        "among the files\n  fix: give it, too"));
  EXPECT_THAT(error({{"run.txt", "run_clm.py --max_steps 10 --fsdp full_shard --fsdp_config f.json\n"}}, {.ranks = 2}),
              HasSubstr("--fsdp_config \"f.json\": its file is not read"));
  for (const std::string launch : {"--use_megatron_lm", "--parallelism_config_tp_size 2",
                                   "--zero_stage 3 "
                                   "--deepspeed_config_file x"})
    EXPECT_THAT(error({{"run.txt", "accelerate launch " + launch + " run_clm.py --max_steps 10\n"}}, {.ranks = 2}),
                HasSubstr("not read"));
  const std::string yaml = "distributed_type: NO\nmixed_precision: no\nnum_processes: 3\n";
  const RunConfig plain =
      import({{"a.yaml", yaml}, {"run.txt", "accelerate launch --config_file a.yaml run_clm.py --max_steps 10\n"}})
          .config;
  EXPECT_EQ(plain.training.mixed_precision_param, DType::kFloat32);
  EXPECT_EQ(plain.parallelism.data_parallel_shard_degree, 3);
}

TEST_F(ImportTest, AScriptForMaskedModelsHasItsDefaultShare) {
  const std::string options = " --max_steps 10 --per_device_train_batch_size 1\n";
  const RunConfig c = import({{"run.txt", "run_mlm.py" + options}}, {.ranks = 1}).config;
  EXPECT_EQ(c.objective.kind, ObjectiveKind::kMaskedLm);
  EXPECT_EQ(c.objective.mlm_probability, 0.15);
  EXPECT_EQ(import({{"run.txt", "run_clm.py" + options}}, {.ranks = 1}).config.objective.kind,
            ObjectiveKind::kCausalLm);
  EXPECT_THAT(import_text({{"run.txt", "train_mem.py" + options}}, {.ranks = 1}),
              HasSubstr("train_mem.py is read as Transformers' run_clm.py"));
}

// Transformers 4.57 and 5.23 write these after their own reading of fsdp="full_shard auto_wrap".
TEST_F(ImportTest, FsdpOfBothVersionsIsUnderstood) {
  const auto stage = [](const std::string& keys) {
    return import({{"a.json", "{\"max_steps\": 4, " + keys + "}"}}, {.ranks = 2}).config.parallelism.zero_stage;
  };
  EXPECT_EQ(stage(R"("fsdp": [], "fsdp_config": {"min_num_params": 0, "xla": false, "xla_fsdp_v2": false})"), 1);
  EXPECT_EQ(stage(R"("fsdp": ["full_shard", "auto_wrap"], "fsdp_config": {"min_num_params": 0, "xla": false})"), 3);
  EXPECT_EQ(stage(R"("fsdp": ["shard_grad_op", "auto_wrap"])"), 2);
  EXPECT_EQ(stage(R"("fsdp": true, "fsdp_config": {"reshard_after_forward": true, "cpu_offload": true})"), 3);
  EXPECT_EQ(stage(R"("fsdp": true, "fsdp_config": {"reshard_after_forward": false})"), 2);
  EXPECT_EQ(stage(R"("fsdp": null, "fsdp_config": {"reshard_after_forward": true})"), 1);
  EXPECT_EQ(stage(R"("fsdp": "")"), 1);
  EXPECT_EQ(stage(R"("distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": "NO_SHARD"})"), 1);
  EXPECT_EQ(stage(R"("distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": 5})"), 2);
  EXPECT_THAT(error({{"a.json", R"({"max_steps": 4, "fsdp_config": {"nonsense": 1}})"}}, {.ranks = 2}),
              HasSubstr("a.json:1: Transformers has no key fsdp_config.nonsense"));
  EXPECT_THAT(error({{"a.yml", "max_steps: 3\ndistributed_type: FSDP\nfsdp_config: {fsdp_offload_parms: true}\n"}},
                    {.ranks = 2}),
              HasSubstr("did you mean fsdp_config.fsdp_offload_params?"));
}

TEST_F(ImportTest, ASettingThatAScheduleDoesNotHaveIsRefused) {
  const auto text = [](const std::string& type, const std::string& settings) {
    return error(
        {{"a.json", fmt::format(R"({{"max_steps": 4, "lr_scheduler_type": "{}", "lr_scheduler_kwargs": {{{}}}}})", type,
                                settings)}},
        {.ranks = 2});
  };
  EXPECT_THAT(text("cosine_with_min_lr", R"("min_lr": 1e-5, "num_cycles": 2)"),
              HasSubstr("a.json:1: lr_scheduler_kwargs.num_cycles = 2: a cosine goes down once"));
  EXPECT_THAT(text("linear", R"("power": 2)"),
              HasSubstr("a.json:1: lr_scheduler_kwargs.power = 2: the schedule linear has no such setting"));
  EXPECT_THAT(text("cosine", R"("foo": 2)"), HasSubstr("a.json:1: Transformers has no key lr_scheduler_kwargs.foo"));
  EXPECT_THAT(text("polynomial", R"("power": 2, "lr_end": 0)"), HasSubstr("imported"));
}

TEST_F(ImportTest, NumbersOfRanksOutOfRangeAreRefusedByLine) {
  const auto text = [](const std::string& ranks, const std::string& local) {
    return error({{"a.json", "{\"max_steps\": 4,\n\"num_processes\": " + ranks + ", \"per_device_train_batch_size\": " +
                                 local + ", \"gradient_accumulation_steps\": 1048576}"}});
  };
  EXPECT_THAT(text("-4", "1"), HasSubstr("a.json:2: num_processes = -4: not a number of ranks"));
  EXPECT_THAT(text("-1", "1"),  // as accelerate writes for "not given"
              testing::StartsWith("error: the number of ranks is not in the file"));
  EXPECT_THAT(text("9000000000000", "1"), HasSubstr("num_processes = 9000000000000: not a number of ranks"));
  EXPECT_THAT(text("16777216", "1048576"), HasSubstr("training.global_batch_size would be 4611686018427387904"));
}

TEST_F(ImportTest, JsonIsReadAsPythonWritesIt) {
  const std::string text = import_text(
      {{"a.json", R"({"max_steps": 4, "run_name": "a \ud83d\ude00 b", "output_dir": "x\\ud83d\/y"})"}}, {.ranks = 1});
  EXPECT_THAT(text, HasSubstr("a \U0001F600 b"));
  EXPECT_THAT(import_text({{"a.json", R"({"max_steps": 4, "logging_steps": 0.25})"}}, {.ranks = 1}),
              HasSubstr("logging_steps = 0.25 is a share of the steps: metrics.log_freq is the usual one"));
  EXPECT_THAT(error({{"a.json", "{\"max_steps\": 4,\n\"run_name\": \"\\ud83d\"}"}}, {.ranks = 1}),
              HasSubstr("a.json:2: this is neither YAML nor JSON"));
  EXPECT_THAT(error({{"a.json", "{\"max_steps\": 4,\n\"seed"}}, {.ranks = 1}), HasSubstr("a.json:2: "));
}

// The installed libraries say their own fields and defaults: one run of Python, which takes seconds to import them.
TEST_F(ImportTest, EveryFieldOfTheInstalledLibrariesIsKnownAndDefaultsAreTheirOwn) {
  HEARTH_NEEDS_ORACLE();
  const test::CommandResult written = test::run_command(
      test::oracle_python() +
      " -c \"import json, transformers as t\n"
      "json.dump(t.TrainingArguments(output_dir='out', use_cpu=True).to_dict(), open('full.json', 'w'))\n"
      "from accelerate.commands.config.config_args import ClusterConfig\n"
      "ClusterConfig(compute_environment='LOCAL_MACHINE', distributed_type='FSDP', mixed_precision='bf16',\n"
      "  use_cpu=False, debug=False, num_processes=32, num_machines=4, fsdp_config={'fsdp_version': 2,\n"
      "  'fsdp_reshard_after_forward': True, 'fsdp_cpu_ram_efficient_loading': "
      "True}).to_yaml_file('accelerate.yaml')\"");
  ASSERT_EQ(written.exit_code, 0) << written.output;
  const auto spelled_out = values(import({{"full.json", read_file("full.json")}}, {.ranks = 2}).config);
  const auto by_default =
      values(import({{"few.json", R"({"output_dir": "out", "do_train": true})"}}, {.ranks = 2}).config);
  EXPECT_EQ(spelled_out, by_default);
  EXPECT_EQ(by_default.at("training.epochs"), "3.0");
  EXPECT_EQ(by_default.at("optimizer.lr"), "5e-05");

  const RunConfig c =
      import({{"accelerate.yaml", read_file("accelerate.yaml")},
              {"run.txt", "run_clm.py --learning_rate 1e-3 --max_steps 10 --per_device_train_batch_size 2\n"}})
          .config;
  EXPECT_EQ(c.parallelism.data_parallel_shard_degree, 32);
  EXPECT_EQ(c.parallelism.zero_stage, 3);
  EXPECT_EQ(c.training.global_batch_size, 64);
  EXPECT_EQ(c.training.mixed_precision_param, DType::kBFloat16);
}

TEST_F(ImportTest, ArgumentsAsJsonAndAsOptionsAreTheSameRun) {
  const std::string json = R"({
  "output_dir": "out/small", "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
  "learning_rate": 2e-4, "lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr_rate": 0.1},
  "warmup_ratio": 0.03, "max_steps": 1001, "bf16": true, "weight_decay": 0.1, "adam_beta2": 0.95,
  "save_strategy": "epoch", "save_total_limit": 3, "seed": 7, "max_grad_norm": 0.5,
  "model_name_or_path": "Qwen/Qwen3-0.6B", "block_size": 2048, "dataset_name": "allenai/c4",
  "fsdp": "shard_grad_op auto_wrap", "gradient_checkpointing": true, "logging_steps": 5,
  "eval_strategy": "steps", "eval_steps": 50, "report_to": ["tensorboard"]
})";
  const std::string options =
      "torchrun --nproc_per_node=8 --nnodes 2 run_clm.py --do_train --output_dir out/small \\\n"
      "  --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --learning_rate 2e-4 \\\n"
      "  --lr_scheduler_type cosine_with_min_lr --lr_scheduler_kwargs '{\"min_lr_rate\": 0.1}' --warmup_ratio 0.03 \\\n"
      "  --max_steps 1001 --bf16 --weight_decay 0.1 --adam_beta2 0.95 --save_strategy epoch --save_total_limit 3 \\\n"
      "  --seed 7 --max_grad_norm=0.5 --model_name_or_path Qwen/Qwen3-0.6B --block_size 2048 \\\n"
      "  --dataset_name allenai/c4 --fsdp \"shard_grad_op auto_wrap\" --gradient_checkpointing True \\\n"
      "  --logging_steps 5 --eval_strategy steps --eval_steps 50 --report_to tensorboard\n";
  const RunConfig c = import({{"args.json", json}}, {.ranks = 16}).config;
  EXPECT_EQ(values(c), values(import({{"run.txt", options}}).config));
  EXPECT_EQ(c.model.flavor, "0.6B");
  EXPECT_EQ(c.checkpoint.initial_load_path, "hf:Qwen/Qwen3-0.6B");
  EXPECT_EQ(c.model.rope_pairs, RopePairs::kHalves);
  EXPECT_EQ(c.training.global_batch_size, 128);
  EXPECT_EQ(c.training.max_norm, 0.5);
  EXPECT_EQ(c.lr_scheduler.warmup_steps, 31);  // 30.03 rounded up, as the library does
  EXPECT_EQ(c.lr_scheduler.min_lr_factor, 0.1);
  EXPECT_EQ(c.lr_scheduler.decay_type, DecayType::kCosine);
  EXPECT_EQ(c.checkpoint.interval, 0);
  EXPECT_EQ(c.checkpoint.interval_epochs, 1);
  EXPECT_EQ(c.checkpoint.keep_latest_k, 3);
  EXPECT_EQ(c.parallelism.zero_stage, 2);
  EXPECT_EQ(c.memory.recompute, RecomputeChoice::kBlock);
  EXPECT_EQ(c.validation.freq, 50);
  EXPECT_EQ(c.optimizer.beta2, 0.95);
  EXPECT_EQ(c.optimizer.weight_decay_on, WeightDecayOn::kMatrices);
  EXPECT_EQ(c.training.seed, 7);
  EXPECT_EQ(c.data.path, "data/c4");
}

TEST_F(ImportTest, TheLauncherSaysTheRanksUnlessTheUserDoes) {
  const std::string program = " run_clm.py --max_steps 4 --per_device_train_batch_size 1\n";
  const auto ranks = [&](const std::string& launcher, int64_t given = 0) {
    return import({{"run.txt", launcher + program}}, {.ranks = given}).config.parallelism.data_parallel_shard_degree;
  };
  EXPECT_EQ(ranks("torchrun --nproc-per-node=8 --nnodes 2"), 16);
  EXPECT_EQ(ranks("torchrun --standalone --nproc_per_node 4"), 4);
  EXPECT_EQ(ranks("mpirun -np 6 python"), 6);
  EXPECT_EQ(ranks("srun -n 12 python"), 12);
  EXPECT_EQ(ranks("srun -N 3 --ntasks-per-node=4 python"), 12);
  EXPECT_EQ(ranks("SLURM_NTASKS=10\npython"), 10);
  EXPECT_EQ(ranks("deepspeed --num_gpus 8 --num_nodes 4"), 32);
  EXPECT_EQ(ranks("accelerate launch --num_processes 24 --num_machines 3"), 24);
  EXPECT_EQ(ranks("accelerate launch", 7), 7);
  EXPECT_THAT(error({{"run.txt", "torchrun --nproc_per_node gpu --nnodes 2" + program}}),
              HasSubstr("give it: --ranks N"));
}

TEST_F(ImportTest, AcceleratesFileGivesRanksAndPrecisionToAScriptWithoutTrainer) {
  const std::string file =
      "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n"
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_activation_checkpointing: true\n"
      "machine_rank: 0\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 16\n";
  const std::string options =
      "--model_name_or_path meta-llama/Llama-3.2-1B --train_file corpus/text.jsonl --block_size 1024\n"
      "--max_train_steps 2000 --num_warmup_steps 50 --lr_scheduler_type polynomial --learning_rate 1e-3\n"
      "--weight_decay 0.01 --checkpointing_steps epoch --per_device_train_batch_size 2 --seed 3\n";
  const ImportTest::Files files = {{"accelerate.yaml", file}, {"options", "run_clm_no_trainer.py \\\n" + [&] {
                                                                 std::string joined = options;
                                                                 std::replace(joined.begin(), joined.end(), '\n', ' ');
                                                                 return joined;
                                                               }()}};
  const RunConfig c = import(files).config;
  EXPECT_EQ(c.training.global_batch_size, 32);
  EXPECT_EQ(c.parallelism.data_parallel_shard_degree, 16);
  EXPECT_EQ(c.parallelism.zero_stage, 3);
  EXPECT_EQ(c.memory.recompute, RecomputeChoice::kBlock);
  EXPECT_EQ(c.training.mixed_precision_param, DType::kBFloat16);
  EXPECT_EQ(c.lr_scheduler.warmup_steps, 50);
  EXPECT_EQ(c.lr_scheduler.decay_type, DecayType::kPolynomial);
  EXPECT_DOUBLE_EQ(c.lr_scheduler.min_lr_factor, 1e-4);
  EXPECT_EQ(c.training.max_norm, 0);
  EXPECT_EQ(c.optimizer.weight_decay_on, WeightDecayOn::kAll);
  EXPECT_EQ(c.checkpoint.interval_epochs, 1);
  EXPECT_EQ(c.checkpoint.initial_load_path, "hf:meta-llama/Llama-3.2-1B");
  EXPECT_EQ(c.data.path, "data/text");
}

TEST_F(ImportTest, OptionsThatHearthDoesNotHaveAreRefusedByLine) {
  EXPECT_EQ(
      error({{"run.txt",
              "torchrun --nproc_per_node 2 run_clm.py --learning_rate 1e-3 \\\n"
              "  --optim lion --fp16 --max_stepz 3 --lr_scheduler_type inverse_sqrt --save_strategy best \\\n"
              "  --model_name_or_path some/thing --deepspeed ds.json\n"}}),
      "error: run.txt (read as Transformers) has 7 errors\n"
      "  run.txt:2: --fp16: numbers in float16 are not there\n"
      "      fix: to import the rest: --leave-out fp16\n"
      "  run.txt:2: Transformers has no key --max_stepz\n"
      "      fix: did you mean max_steps? Or leave it out: --leave-out max_stepz\n"
      "  run.txt:2: --lr_scheduler_type \"inverse_sqrt\": the decay is linear, cosine, cosine_with_restarts, "
      "cosine_with_min_lr, polynomial, warmup_stable_decay or constant\n"
      "      fix: to import the rest: --leave-out lr_scheduler_type\n"
      "  run.txt:2: --optim \"lion\": the optimizer is AdamW\n"
      "      fix: to import the rest: --leave-out optim\n"
      "  run.txt:2: --save_strategy \"best\": checkpoints come after numbers of steps or epochs\n"
      "      fix: see checkpoint.keep_best, or import the rest: --leave-out save_strategy\n"
      "  run.txt:3: --deepspeed \"ds.json\": DeepSpeed's own files are not read\n"
      "      fix: to import the rest: --leave-out deepspeed\n"
      "  run.txt:3: --model_name_or_path \"some/thing\": its shape is not known here\n"
      "      fix: `hearth inspect --model hf:some/thing` prints the section [model], checkpoint.initial_load_path "
      "takes the weights, or import the rest: --leave-out model_name_or_path");
  EXPECT_THAT(error({{"run.txt", "run_clm.py --learning_rate 1 --learning-rate 2\n"}}, {.ranks = 1}),
              HasSubstr("run.txt:1: --learning-rate is given again; the first is in run.txt:1"));
  EXPECT_THAT(error({{"run.txt", "run_clm.py fast --learning_rate 1\n"}}, {.ranks = 1}),
              HasSubstr("\"fast\" stands where an option is expected"));
}

// What Transformers' own Trainer does with these settings.
TEST_F(ImportTest, NestedSettingsOfAccelerateCountForTheBatch) {
  const auto batch = [](const std::string& keys) {
    const RunConfig c =
        import({{"a.json", "{\"max_steps\": 4, \"per_device_train_batch_size\": 16, " + keys + "}"}}, {.ranks = 8})
            .config;
    return std::pair(c.training.global_batch_size, c.training.local_batch_size);
  };
  using testing::Pair;
  EXPECT_THAT(batch(R"("accelerator_config": {"gradient_accumulation_kwargs": {"num_steps": 4}})"), Pair(512, 16));
  EXPECT_THAT(batch(R"("accelerator_config": {"gradient_accumulation_kwargs": null})"), Pair(128, 16));
  EXPECT_THAT(batch(R"("accelerator_config": {"split_batches": true})"), Pair(16, 2));
  EXPECT_THAT(batch(R"("accelerator_config": "{\"split_batches\": true}")"), Pair(16, 2)) << "JSON in a text";
  EXPECT_THAT(batch(R"("split_batches": true, "gradient_accumulation_steps": 3)"), Pair(48, 2));
  EXPECT_THAT(batch(R"("accelerator_config": {"dispatch_batches": true, "even_batches": false})"), Pair(128, 16));
  EXPECT_THAT(batch(R"("per_gpu_train_batch_size": 2)"), Pair(16, 2));
  const auto refused = [](const std::string& keys) {
    return error({{"a.json", "{\"max_steps\": 4, \"per_device_train_batch_size\": 2, " + keys + "}"}}, {.ranks = 8});
  };
  EXPECT_THAT(refused(R"("gradient_accumulation_steps": 2,
"accelerator_config": {"gradient_accumulation_kwargs": {"num_steps": 4}})"),
              HasSubstr("a.json:2: accelerator_config.gradient_accumulation_kwargs.num_steps = 4: "
                        "gradient_accumulation_steps is given, too: Transformers refuses both"));
  EXPECT_THAT(refused(R"("accelerator_config": {"split_batches": true})"),
              HasSubstr("8 ranks cannot split 2 sequences evenly"));
  EXPECT_THAT(refused(R"("accelerator_config": {"nonsense": true})"),
              HasSubstr("Transformers has no key accelerator_config.nonsense"));
  EXPECT_THAT(refused(R"("accelerator_config": "{\"nonsense\": true}")"),
              HasSubstr("Transformers has no key accelerator_config.nonsense"));
  EXPECT_THAT(refused(R"("accelerator_config": "a/file.json")"), HasSubstr("its file is not read: give its keys"));
  const RunConfig option = import({{"run.txt",
                                    "run_clm.py --max_steps 4 --per_device_train_batch_size 2 --accelerator_config "
                                    "'{\"gradient_accumulation_kwargs\": {\"num_steps\": 4}}'\n"}},
                                  {.ranks = 8})
                               .config;
  EXPECT_EQ(option.training.global_batch_size, 64);
}

TEST_F(ImportTest, TheTrainerItselfTakesNumStepsOfAccelerate) {
  HEARTH_NEEDS_ORACLE();
  const test::CommandResult trainer = test::run_command(
      test::oracle_python() +
      " -c \"import torch, transformers as t\n"
      "a = t.TrainingArguments('out', use_cpu=True, accelerator_config={'gradient_accumulation_kwargs': {'num_steps': "
      "4}})\n"
      "t.Trainer(torch.nn.Linear(1, 1), a)\nprint('accumulates', a.gradient_accumulation_steps)\"");
  EXPECT_THAT(trainer.output, HasSubstr("accumulates 4"));
}

TEST_F(ImportTest, TheStableScheduleKeepsItsSettings) {
  const auto schedule = [](const std::string& settings) {
    return import({{"a.json",
                    "{\"max_steps\": 1000, \"warmup_steps\": 100, \"lr_scheduler_type\": "
                    "\"warmup_stable_decay\", \"lr_scheduler_kwargs\": {" +
                        settings + "}}"}},
                  {.ranks = 1})
        .config.lr_scheduler;
  };
  const LrScheduler plain = schedule(R"("num_decay_steps": 200)");
  EXPECT_EQ(plain.rule, ScheduleRule::kTransformers);
  EXPECT_EQ(plain.decay_ratio, 0.2);
  EXPECT_EQ(plain.warmup_steps, 100);
  EXPECT_EQ(plain.decay_type, DecayType::kCosine);
  EXPECT_EQ(plain.end_step, 0);
  const LrScheduler full =
      schedule(R"("num_decay_steps": 300, "num_stable_steps": 500, "decay_type": "1-sqrt", "min_lr_ratio": 0.1)");
  EXPECT_EQ(full.decay_ratio, 0.3);
  EXPECT_EQ(full.end_step, 900);
  EXPECT_EQ(full.decay_type, DecayType::kSqrt);
  EXPECT_EQ(full.min_lr_factor, 0.1);
  const auto refused = [](const std::string& settings) {
    return error({{"a.json",
                   "{\"max_steps\": 1000, \"lr_scheduler_type\": \"warmup_stable_decay\", "
                   "\"lr_scheduler_kwargs\": {" +
                       settings + "}}"}},
                 {.ranks = 1});
  };
  EXPECT_THAT(refused(""), HasSubstr("it needs lr_scheduler_kwargs with num_decay_steps"));
  EXPECT_THAT(refused(R"("num_decay_steps": 2000)"), HasSubstr("not a number of the training's steps"));
  EXPECT_THAT(refused(R"("num_decay_steps": 2, "warmup_type": "cosine")"), HasSubstr("the warm-up is linear"));
  EXPECT_THAT(refused(R"("num_decay_steps": 2, "num_cycles": 2)"), HasSubstr("a cosine goes down once"));
  EXPECT_THAT(refused(R"("num_decay_steps": 2, "power": 2)"),
              HasSubstr("the schedule warmup_stable_decay has no such setting"));
  EXPECT_THAT(error({{"a.json", R"({"num_train_epochs": 1, "lr_scheduler_type": "warmup_stable_decay",
"lr_scheduler_kwargs": {"num_decay_steps": 2}})"}},
                    {.ranks = 1}),
              HasSubstr("give max_steps"));
}

TEST_F(ImportTest, AFileThatSaysNothingOfATrainingIsRefused) {
  EXPECT_THAT(error({{"a.yaml", "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n"}}),
              testing::AllOf(HasSubstr("the files say nothing of a training with Transformers"),
                             HasSubstr("none of learning_rate, max_steps,"),
                             HasSubstr("there is distributed_type, mixed_precision, num_processes")));
  EXPECT_THAT(
      error({{"a.json", R"({"foo": 1, "bar": 2})"}}, {.ranks = 1}, "transformers"),
      testing::AllOf(HasSubstr("a.json: no key of Transformers is in this file"), HasSubstr("there is foo, bar")));
  EXPECT_THAT(error({{"a.json", R"({"foo": 1, "bar": 2})"}}, {.ranks = 1}),
              testing::AllOf(HasSubstr("no key is one of a trainer that Hearth imports from"),
                             HasSubstr("there is foo, bar"), HasSubstr("learning_rate")));
  EXPECT_THAT(error({{"a.json", R"({"max_steps": 1})"}, {"b.json", R"({"foo": 1})"}}, {.ranks = 1}),
              HasSubstr("b.json: no key of Transformers is in this file"));
  EXPECT_THAT(error({{"cmd.txt", "srun ls --color -l\n"}}, {.ranks = 1}, "transformers"),
              testing::AllOf(HasSubstr("cmd.txt:1: no option of this command is one of a trainer"),
                             HasSubstr("there is --color, -l")));
}

}  // namespace
}  // namespace hearth::config
