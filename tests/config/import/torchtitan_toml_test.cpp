// SPDX-License-Identifier: Apache-2.0
// torchtitan's files. The values are those of the projects that trained with its forks; configs/ has them, too.
#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A file of frontier-torchtitan, torchtitan-mlm, gpt-neuro or gpt-neuro-arch.
struct ForkFile {
  std::string model, training, checkpoint;
  std::string rate = "3e-4", log_freq = "100";
  std::string text() const {
    return "[job]\ndump_folder = \"./outputs\"\ndescription = \"a training\"\n"
           "[profiling]\nenable_profiling = false\nsave_traces_folder = \"profile_trace\"\nprofile_freq = 10\n"
           "[metrics]\nlog_freq = " +
           log_freq +
           "\nenable_tensorboard = false\nsave_tb_folder = \"tb\"\n"
           "[model]\nname = \"llama3\"\nnorm_type = \"rmsnorm\"\n" +
           model + "[optimizer]\nname = \"AdamW\"\nlr = " + rate +
           "\n"
           "[training]\nmax_norm = 1.0\n" +
           training +
           "[experimental]\npipeline_parallel_degree = 1\n"
           "[checkpoint]\nfolder = \"checkpoint\"\ninterval_type = \"steps\"\nmodel_weights_only = false\n"
           "export_dtype = \"bfloat16\"\n" +
           checkpoint +
           "[activation_checkpoint]\nmode = 'full'\nselective_ac_option = 'op'\n"
           "[float8]\nenable_float8_linear = false\n";
  }
};

constexpr const char* kFrontierRanks =
    "data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 32\ntensor_parallel_degree = 8\ncompile = true\n";
constexpr const char* kArchRanks =
    "data_parallel_replicate_degree = 1\ndata_parallel_shard_degree = -1\ntensor_parallel_degree = 1\ncompile = "
    "false\n";

// Keys of the file that configs/ leave to the reader, and what torchtitan's code has and no file says: the rates of its
// age, all checkpoints kept, and the tokenizer's vocabulary.
const std::vector<std::string> kForkDifferences = {"job.*",
                                                   "metrics.log_freq",
                                                   "checkpoint.folder",
                                                   "checkpoint.async_mode",
                                                   "checkpoint.keep_latest_k",
                                                   "lr_scheduler.rule",
                                                   "data.path",
                                                   "data.source.*"};

std::vector<std::string> with_others(std::vector<std::string> keys, const std::vector<std::string>& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

TEST_F(ImportTest, TheFileOfFrontierTorchtitanGivesItsConfig) {
  const ForkFile file{
      "flavor = \"8B\"\ntokenizer_path = \"./tokenizer.model\"\n",
      std::string("batch_size = 21\nseq_len = 8192\nwarmup_steps = 500\nsteps = 500000\ndataset = \"full\"\n") +
          kFrontierRanks,
      "enable_checkpoint = true\ninterval = 100\nasync_mode = \"async\"\n", "3e-5"};
  const LoadResult run = import({{"run.toml", file.text()}}, {.layout = false});
  // The fork trained Llama 3.1's weights without their scaling of angles, from a checkpoint in its own folder.
  EXPECT_THAT(differences_from("llama3_8b_text.toml", run.config,
                               with_others(kForkDifferences, {"model.name", "model.rope_scaling_factor",
                                                              "model.vocab_size", "checkpoint.initial_load_path"})),
              IsEmpty());
  EXPECT_EQ(run.config.lr_scheduler.warmup_steps, 500);
  EXPECT_EQ(run.config.lr_scheduler.rule, ScheduleRule::kTorchtitan2024);
  ASSERT_EQ(run.config.data.source.size(), 6u);
  const double weights[] = {0.40, 0.44, 0.03, 0.02, 0.10, 0.01};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(run.config.data.source[i].weight, weights[i]);

  // Its layout: replicate 2 x shard 32 x tensor 8, with sharded weights.
  const RunConfig whole = import({{"run.toml", file.text()}}).config;
  EXPECT_EQ(whole.training.local_batch_size, 21);
  EXPECT_EQ(whole.training.global_batch_size, 1344);
  EXPECT_EQ(whole.parallelism.ranks(), 512);
  EXPECT_EQ(whole.parallelism.data_parallel_replicate_degree, 2);
  EXPECT_EQ(whole.parallelism.data_parallel_shard_degree, 32);
  EXPECT_EQ(whole.parallelism.tensor_parallel_degree, 8);
  EXPECT_EQ(whole.parallelism.zero_stage, 3);
}

TEST_F(ImportTest, TheFilesForMaskedModelsAndRecordingsGiveTheirConfigs) {
  const ForkFile masked{"flavor = \"1B\"\nmask_token = \"<|reserved_special_token_100|>\"\n",
                        std::string("batch_size = 12\nseq_len = 16384\nmlm_probability = 0.3\nwarmup_steps = 2000\n"
                                    "steps = 500000\ndataset = \"full\"\n") +
                            kFrontierRanks,
                        "enable_checkpoint = false\ninterval = 500\nasync_mode = \"async\"\n"};
  EXPECT_THAT(differences_from("mlm_1b.toml", import({{"a.toml", masked.text()}}, {.layout = false}).config,
                               with_others(kForkDifferences, {"model.vocab_size"})),
              IsEmpty());
  const ForkFile rodent{"flavor = \"8B\"\n",
                        std::string("batch_size = 4\nseq_len = 131072\nvocab_size = 256\nwarmup_steps = 1000\n"
                                    "steps = 50000\ndataset = \"rodent\"\n") +
                            kFrontierRanks,
                        "enable_checkpoint = true\ninterval = 90\nasync_mode = \"async\"\n", "3e-4", "90"};
  const RunConfig spikes = import({{"b.toml", rodent.text()}}, {.layout = false}).config;
  EXPECT_THAT(differences_from("neural_pile_rodent_8b.toml", spikes, kForkDifferences), IsEmpty());
  EXPECT_EQ(spikes.data.path, "data/rodent");
  const ForkFile arch{"flavor = \"2B\"\nrope_theta = 10000\ntokenizer_path = \"primate.pkl\"\n",
                      std::string("batch_size = 16\nseq_len = 8192\nvocab_size = 32000\nwarmup_steps = 1000\n"
                                  "steps = 20000\ndataset = \"primate\"\nn_fixed = 256\n") +
                          kArchRanks,
                      "enable_checkpoint = true\ninterval = 1000\nasync_mode = \"disabled\"\n", "3e-4", "1000"};
  EXPECT_THAT(
      differences_from("arch_primate_2b.toml", import({{"c.toml", arch.text()}}, {.ranks = 32, .layout = false}).config,
                       kForkDifferences),
      IsEmpty());
  EXPECT_THAT(import_text({{"c.toml", arch.text()}}, {.ranks = 32}), HasSubstr("to be built with --n-fixed 256."));
  EXPECT_EQ(error({{"c.toml", arch.text()}}),
            "error: the number of ranks is not in the file, and the global batch needs it\n"
            "  fix: give it: --ranks N, the number of GPUs that the training ran on");
  ForkFile one = arch;
  one.training += "source_dataset = \"willett\"\n";
  one.rate = "3e-5";
  const std::string text = import_text({{"d.toml", one.text()}}, {.ranks = 32});
  EXPECT_THAT(text, HasSubstr("--n-fixed 256 --source-dataset willett."));
  EXPECT_THAT(text, HasSubstr("path = \"data/primate-willett\""));
}

// A file of 2025, whose sections are ours.
constexpr const char* k2025 =
    "[model]\nname = \"llama3\"\nflavor = \"8B_flex\"\nconverters = []\n"
    "[optimizer]\nlr = 3e-4\neps = 1e-8\n"
    "[lr_scheduler]\nwarmup_steps = 200\ndecay_ratio = 0.5\ndecay_type = \"sqrt\"\nmin_lr_factor = 0.1\n"
    "[training]\nlocal_batch_size = 2\nglobal_batch_size = 64\nseq_len = 4096\nsteps = 1000\ndataset = \"c4\"\n"
    "[parallelism]\ndata_parallel_shard_degree = -1\ntensor_parallel_degree = 2\npipeline_parallel_degree = 2\n"
    "pipeline_parallel_schedule = \"Interleaved1F1B\"\nfsdp_reshard_after_forward = \"never\"\n"
    "[checkpoint]\nenable = true\ninterval = 100\nexport_dtype = \"bfloat16\"\nlast_save_in_hf = true\n"
    "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n"
    "[metrics]\nenable_tensorboard = true\nsave_tb_folder = \"board\"\nenable_wandb = true\n"
    "[validation]\nenable = true\nfreq = 50\nsteps = 12\ndataset = \"c4_validation\"\n";

TEST_F(ImportTest, AFileOf2025KeepsItsKeys) {
  const RunConfig c = import({{"run.toml", k2025}}, {.ranks = 16}).config;
  EXPECT_EQ(c.model.dim, 4096);
  EXPECT_EQ(c.model.rope_theta, 500000);
  EXPECT_EQ(c.model.attention_scope, AttentionScope::kDocument);
  EXPECT_EQ(c.lr_scheduler.warmup_steps, 200);
  EXPECT_EQ(c.lr_scheduler.decay_ratio, 0.5);
  EXPECT_EQ(c.lr_scheduler.decay_type, DecayType::kSqrt);
  EXPECT_EQ(c.lr_scheduler.min_lr_factor, 0.1);
  EXPECT_EQ(c.training.global_batch_size, 64);
  EXPECT_EQ(c.training.local_batch_size, 2);
  EXPECT_EQ(c.parallelism.data_parallel_shard_degree, 4);
  EXPECT_EQ(c.parallelism.pipeline_parallel_schedule, PipelineSchedule::kInterleaved1F1B);
  EXPECT_EQ(c.parallelism.zero_stage, 2);
  EXPECT_EQ(c.training.mixed_precision_param, DType::kBFloat16);
  EXPECT_EQ(c.optimizer.weight_decay_on, WeightDecayOn::kAll);
  EXPECT_TRUE(c.checkpoint.last_save_model_only);
  EXPECT_TRUE(c.checkpoint.last_save_in_hf);
  EXPECT_EQ(c.checkpoint.export_dtype, DType::kBFloat16);
  EXPECT_EQ(c.checkpoint.keep_latest_k, 10);
  EXPECT_EQ(c.memory.recompute, RecomputeChoice::kNorms);
  EXPECT_EQ(c.validation.freq, 50);
  EXPECT_EQ(c.validation.steps, 12);
  EXPECT_TRUE(c.metrics.enable_tensorboard);
  EXPECT_EQ(c.metrics.save_tb_folder, "board");
  EXPECT_EQ(c.data.path, "data/c4");
}

TEST_F(ImportTest, ProfilingIsTakenWhereItIsOn) {
  const std::string section =
      "[profiling]\nenable_profiling = true\nsave_traces_folder = \"traces\"\nprofile_freq = 20\n"
      "profiler_active = 3\nprofiler_warmup = 2\nenable_memory_snapshot = ";
  const std::string folder = "\nsave_memory_snapshot_folder = \"memory\"\n";
  const Profiling both = import({{"run.toml", k2025 + section + "true" + folder}}, {.ranks = 16}).config.profiling;
  EXPECT_TRUE(both.enable_profiling);
  EXPECT_EQ(both.save_traces_folder, "traces");
  EXPECT_EQ(both.profile_freq, 20);
  EXPECT_EQ(both.profiler_active, 3);
  EXPECT_TRUE(both.enable_memory_snapshot);
  EXPECT_EQ(both.save_memory_snapshot_folder, "memory");
  const Profiling traces = import({{"run.toml", k2025 + section + "false" + folder}}, {.ranks = 16}).config.profiling;
  EXPECT_TRUE(traces.enable_profiling);
  EXPECT_FALSE(traces.enable_memory_snapshot);
  EXPECT_EQ(traces.save_memory_snapshot_folder, "memory_snapshot") << "it would have no effect";
}

TEST_F(ImportTest, WrongKeysOfTorchtitanAreNamedByLineAllAtOnce) {
  EXPECT_EQ(
      error({{"run.toml",
              "[model]\nname = \"llama3\"\nflavor = \"9B\"\n[training]\nlocal_bath_size = 4\n"
              "steps = \"many\"\nseq_len = 0\n[parallelism]\nexpert_parallel_degree = 8\n"
              "tensor_parallel_degree = 0\n[optimizer]\nname = \"Lion\"\n"
              "[model.more]\na = 1\n"}},
            {.ranks = 8}),
      "error: run.toml (read as torchtitan) has 8 errors\n"
      "  run.toml:3: model.flavor = \"9B\": llama3 has the flavors debugmodel, 250M, 870M, 1B, 2B, 3B, 5B, 7B, 8B, "
      "70B, 405B\n"
      "      fix: write the keys of [model] by hand, or import the rest: --leave-out model.flavor\n"
      "  run.toml:5: torchtitan has no key training.local_bath_size\n"
      "      fix: did you mean training.local_batch_size? Or leave it out: --leave-out training.local_bath_size\n"
      "  run.toml:6: training.steps = \"many\": not a whole number\n"
      "  run.toml:7: training.seq_len = 0: training.seq_len would be 0\n"
      "      fix: training.seq_len is at least 1, at most 16777216\n"
      "  run.toml:9: parallelism.expert_parallel_degree = 8: the model has no experts\n"
      "      fix: to import the rest: --leave-out parallelism.expert_parallel_degree\n"
      "  run.toml:10: parallelism.tensor_parallel_degree = 0: not a degree of parallelism\n"
      "      fix: to import the rest: --leave-out parallelism.tensor_parallel_degree\n"
      "  run.toml:12: optimizer.name = \"Lion\": optimizer.name would be \"Lion\"\n"
      "      fix: optimizer.name is one of \"AdamW\", \"Adam\", \"Muon\"\n"
      "  run.toml:13: torchtitan has no key model.more\n"
      "      fix: did you mean model.name? Or leave it out: --leave-out model.more");
  EXPECT_THAT(error({{"run.toml", "[training]\nsteps = \n"}}), HasSubstr("run.toml:2: this is not TOML"));
  EXPECT_THAT(error({{"run.toml", "[training]\nsteps = 1\nsteps = 2\n"}}), HasSubstr("run.toml:3: this is not TOML"));
  // A rule between our keys has the place of the foreign one.
  EXPECT_EQ(
      error({{"run.toml", "[training]\nsteps = 10\nlocal_batch_size = 4\nglobal_batch_size = 10\n"}}, {.ranks = 2}),
      "error: run.toml:4: training.global_batch_size = 10 is not a multiple of 8 = local_batch_size 4 x "
      "data-parallel ranks 2\n  fix: give 8 or 16, or another local_batch_size");
}

// Keys that torchtitan had for some weeks, each with the dates of its own history.
TEST_F(ImportTest, FilesOfEveryYearAreUnderstood) {
  // June 2025, as NousResearch's fork has them.
  const std::string june =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[optimizer]\nlr = 3e-4\n[lr_scheduler]\nwarmup_steps = 200\n"
      "[training]\nlocal_batch_size = 1\nseq_len = 8192\nsteps = 1000\n[checkpoint]\nenable_checkpoint = true\n"
      "interval = 500\ninitial_load_path = \"base\"\n";
  const RunConfig weights = import({{"a.toml", june + "last_save_model_weights_only = false\n"
                                                      "initial_load_model_weights_only = false\n"}},
                                   {.ranks = 64})
                                .config;
  EXPECT_FALSE(weights.checkpoint.last_save_model_only);
  EXPECT_FALSE(weights.checkpoint.initial_load_model_only);
  EXPECT_EQ(weights.checkpoint.keep_latest_k, 10);
  EXPECT_EQ(weights.lr_scheduler.rule, ScheduleRule::kTorchtitan);
  const RunConfig july = import({{"a.toml", june + "last_save_model_weights_only = true\n"
                                                   "last_save_in_safetensors_format = true\n"}},
                                {.ranks = 64})
                             .config;
  EXPECT_TRUE(july.checkpoint.last_save_model_only);
  EXPECT_TRUE(july.checkpoint.last_save_in_hf);
  EXPECT_TRUE(july.checkpoint.initial_load_model_only);
  // The default changed on 25 June 2025. Names that were there before and after do not say which one held.
  const std::string open = "until 25 June 2025";
  const std::string either =
      import_text({{"a.toml", june + "initial_load_model_weights_only = true\n"}}, {.ranks = 64});
  EXPECT_THAT(either, HasSubstr(open));
  EXPECT_FALSE(read_run_text(either, "either.toml", ".").config.checkpoint.last_save_model_only);
  for (const std::string later : {"last_save_in_safetensors_format = true", "initial_load_model_only = true"}) {
    const std::string text = import_text({{"a.toml", june + later + "\n"}}, {.ranks = 64});
    EXPECT_THAT(text, Not(HasSubstr(open)));
    EXPECT_TRUE(read_run_text(text, "later.toml", ".").config.checkpoint.last_save_model_only);
  }

  // Spring 2025: the schedule has its section, and the batch its old name.
  const RunConfig spring = import({{"a.toml",
                                    "[model]\nflavor = \"8B\"\n[lr_scheduler]\nwarmup_steps = 20\ndecay_ratio = "
                                    "0.5\nlr_min = 0.1\n[training]\nbatch_size = 2\nsteps = 100\n"}},
                                  {.ranks = 2})
                               .config;
  EXPECT_EQ(spring.lr_scheduler.rule, ScheduleRule::kTorchtitan2025);
  EXPECT_EQ(spring.lr_scheduler.min_lr_factor, 0.1);
  EXPECT_THAT(import_text({{"a.toml", "[training]\nbatch_size = 2\nsteps = 100\n"}}, {.ranks = 2}),
              AllOf(HasSubstr("rule = \"torchtitan_2025\""), HasSubstr("No key shows whether the file is older")));
  // Since then a warm-up that is longer than the training is cut, with a warning (components/lr_scheduler.py).
  const RunConfig cut =
      import({{"a.toml", june}, {"run.txt", "train.py --job.config_file a.toml --training.steps 77\n"}}, {.ranks = 64})
          .config;
  EXPECT_EQ(cut.training.steps, 77);
  EXPECT_EQ(cut.lr_scheduler.warmup_steps, 77);

  // Summer 2024: one degree, of FSDP or of DDP, and float8 in [training].
  const std::string summer =
      "[model]\nflavor = \"8B\"\n[training]\nbatch_size = 2\nwarmup_steps = 5\nsteps = 100\ntensor_parallel_degree = "
      "2\n"
      "data_parallel_degree = -1\n";
  EXPECT_EQ(import({{"a.toml", summer}}, {.ranks = 8}).config.parallelism.data_parallel_shard_degree, 4);
  const RunConfig ddp = import({{"a.toml", summer.substr(0, summer.find("data_parallel_degree")) +
                                               "data_parallel_degree = 4\ndata_parallel_type = \"ddp\"\n"}},
                               {.ranks = 8})
                            .config;
  EXPECT_EQ(ddp.parallelism.data_parallel_replicate_degree, 4);
  EXPECT_EQ(ddp.parallelism.data_parallel_shard_degree, 1);
  EXPECT_TRUE(import({{"a.toml", summer + "fp8_linear = \"dynamic\"\n"}}, {.ranks = 8}).config.numerics.fp8);
  EXPECT_FALSE(import({{"a.toml", summer + "fp8_linear = \"\"\n"}}, {.ranks = 8}).config.numerics.fp8);
  // Since 2025 a recipe has a name; all of them but one multiply the weight's gradient in float8, too.
  const auto recipe = [&](const std::string& section) {
    return import({{"a.toml", "[model]\nflavor = \"8B\"\nconverters = [\"float8\"]\n" + section}}, {.ranks = 8})
        .config.numerics.float8();
  };
  EXPECT_EQ(recipe(""), Fp8Recipe::kRowwise);
  EXPECT_EQ(recipe("[float8]\nrecipe_name = \"rowwise\"\n"), Fp8Recipe::kRowwise);
  EXPECT_EQ(recipe("[float8]\nrecipe_name = \"rowwise_with_gw_hp\"\n"), Fp8Recipe::kRowwiseHpWgrad);
  for (const char* name : {"rowwise", "rowwise_with_gw_hp"})  // a table within a table is not read
    EXPECT_EQ(recipe(fmt::format("[quantize.linear.float8]\nrecipe_name = \"{}\"\n", name)),
              Fp8Recipe::kRowwiseHpWgrad);
  EXPECT_EQ(import({{"a.toml", summer + "fsdp_reshard_after_forward = \"never\"\n"}}, {.ranks = 8})
                .config.parallelism.zero_stage,
            2);
  // 2026: a schedule of another length than the training.
  EXPECT_THAT(error({{"a.toml", "[lr_scheduler]\ntotal_steps = 50\n[training]\nsteps = 100\n"}}, {.ranks = 1}),
              HasSubstr("a.toml:2: lr_scheduler.total_steps = 50: the schedule has the length of the training"));
}

TEST_F(ImportTest, OptionsOfTorchtitansCommandWinOverItsFile) {
  const std::string file =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[optimizer]\nlr = 3e-4\n[training]\nlocal_batch_size = 1\n"
      "seq_len = 8192\nsteps = 1000\n[checkpoint]\nenable = true\n";
  const auto imported = [&](const std::string& command, const ImportOptions& options = {}) {
    return import({{"run.txt", command + "\n"}, {"llama.toml", file}}, options).config;
  };
  const std::string torchrun = "torchrun --nnodes 8 --nproc_per_node 8 ";
  const RunConfig c =
      imported(torchrun + "./train.py --job.config_file ./llama.toml --training.steps 77 --optimizer.lr=9e-4");
  EXPECT_EQ(c.training.steps, 77);
  EXPECT_EQ(c.optimizer.lr, 9e-4);
  EXPECT_EQ(c.training.seq_len, 8192);
  EXPECT_EQ(c.parallelism.data_parallel_shard_degree, 64);
  EXPECT_EQ(c.training.global_batch_size, 64);
  const std::string text = import_text(
      {{"run.txt", torchrun + "train.py --job.config_file a/llama.toml --training.steps 77\n"}, {"llama.toml", file}});
  EXPECT_THAT(text, HasSubstr("--training.steps 77 of run.txt:1 takes the place of training.steps = 1000 of"));
  EXPECT_THAT(text, HasSubstr("# run.txt:1 --training.steps\n"));
  // As a module, with a comma between converters, flags, and dashes in names.
  const RunConfig module = imported(
      "+ torchrun --nproc_per_node=2 --role rank --tee 3 -m torchtitan.train --job.config-file llama.toml "
      "--training.local-batch-size 4 --validation.enable --validation.freq 7 --metrics.enable_tensorboard");
  EXPECT_EQ(module.training.local_batch_size, 4);
  EXPECT_EQ(module.training.global_batch_size, 8);
  EXPECT_EQ(module.validation.freq, 7);
  EXPECT_TRUE(module.metrics.enable_tensorboard);
  EXPECT_THAT(import_text({{"run.txt",
                            "+ torchrun -m torchtitan.train --job.config_file llama.toml "
                            "--checkpoint.no-enable\n"},
                           {"llama.toml", file}},
                          {.ranks = 1}),
              HasSubstr("The file turns checkpoints off."));
  // torchtitan's own script, with variables in front.
  EXPECT_EQ(imported("NGPU=4 CONFIG_FILE=./llama.toml ./run_train.sh --training.steps 5").training.steps, 5);
  EXPECT_EQ(imported("NGPU=4 CONFIG_FILE=./llama.toml ./run_train.sh --training.steps 5")
                .parallelism.data_parallel_shard_degree,
            4);
  // A file that the command names must be there; an option that torchtitan does not have is an error.
  EXPECT_THAT(
      error({{"run.txt", "train.py --job.config_file other.toml --training.steps 5\n"}, {"llama.toml", file}},
            {.ranks = 1}),
      HasSubstr("run.txt:1: --job.config_file \"other.toml\": the training's keys are in this file, which is not "
                "given"));
  EXPECT_THAT(error({{"run.txt", "train.py --job.config_file llama.toml --training.stepz 5 --training.steps 5\n"},
                     {"llama.toml", file}},
                    {.ranks = 1}),
              HasSubstr("run.txt:1: torchtitan has no key --training.stepz"));
}

TEST_F(ImportTest, AModelThatIsNotGivenIsTorchtitansOwn) {
  EXPECT_THAT(import_text({{"run.toml", "[training]\nsteps = 10\n"}}, {.ranks = 1}),
              HasSubstr("flavor = \"debugmodel\""));
  EXPECT_THAT(error({{"run.toml", "[model]\nname = \"mamba\"\n[training]\nsteps = 10\n"}}, {.ranks = 1}),
              HasSubstr("run.toml:2: model.name = \"mamba\": Hearth has no family mamba"));
}

TEST_F(ImportTest, ATomlFileWithoutItsEndingOrBlanksIsNoScript) {
  EXPECT_EQ(import({{"run", "[training]\nsteps=10\nseq_len=64\n[model]\nname=\"llama3\"\n"}}, {.ranks = 1})
                .config.training.steps,
            10);
  EXPECT_EQ(import({{"run", "[ training ] # a comment\nsteps=10\n[\tmodel]\nname=\"llama3\"\n"}}, {.ranks = 1})
                .config.training.steps,
            10);
}

TEST_F(ImportTest, ATestOfBashIsNoHeading) {
  EXPECT_THAT(error({{"run", "[ -f data ]\nrun_clm.py --max_steps 3\n"}}, {.ranks = 1}),
              HasSubstr("run:1: this is a script, and scripts are not run here: `[` stands here"));
}

TEST_F(ImportTest, AKeyMayBeLeftOutAndTheResultSaysSo) {
  const ImportTest::Files files = {{"run.toml", "[training]\nsteps = 10\n[parallelism]\nexpert_parallel_degree = 8\n"}};
  EXPECT_THAT(error(files, {.ranks = 8}), HasSubstr("--leave-out parallelism.expert_parallel_degree"));
  const std::string text = import_text(files, {.ranks = 8, .leave_out = {"parallelism.expert_parallel_degree"}});
  EXPECT_THAT(text,
              HasSubstr("# Left out with --leave-out:\n#   run.toml:4  parallelism.expert_parallel_degree = 8\n"));
  EXPECT_EQ(error(files, {.ranks = 8, .leave_out = {"parallelism.expert_parallel_degree", "steps"}}),
            "error: --leave-out: no file has a key steps\n  fix: give a key's name as its file has it");
}

TEST_F(ImportTest, NoCommentOfAFileEndsInTheResult) {
  const std::string text =
      import_text({{"run.toml",
                    "[job]\ndescription = \"a\\nb\"\n[metrics]\nsave_tb_folder = \"x\\n[training]\\nsteps = 3\"\n"
                    "[training]\nsteps = 10\n"}},
                  {.ranks = 1});
  const LoadResult run = read_run_text(text, "again.toml", ".");
  EXPECT_TRUE(run.problems.empty());
  EXPECT_EQ(run.config.training.steps, 10);
  EXPECT_EQ(run.config.job.description, "a\nb");
}

}  // namespace
}  // namespace hearth::config
