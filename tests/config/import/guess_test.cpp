// SPDX-License-Identifier: Apache-2.0
// The kind of a file, from what is in it.
#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(ImportTest, FilesOfProgramsThatHearthDoesNotImportAreNamed) {
  // The tables of NxD Training's examples/conf/hf_llama3_8B_config.yaml.
  EXPECT_THAT(
      error({{"conf.yaml",
              "name: hf_llama\nmodel_source: hf\nseed: 1234\ntrainer:\n  devices: 32\n  max_steps: 10000\n"
              "exp_manager:\n  name: hf_llama\ndistributed_strategy:\n  tensor_model_parallel_size: 32\n"
              "data:\n  micro_batch_size: 1\n  global_batch_size: 1024\nmodel:\n  num_layers: 32\n"
              "  optim:\n    lr: 1.5e-4\n"}},
            {.ranks = 128}),
      AllOf(HasSubstr("conf.yaml: this looks like a file of NeMo or NxD Training, which Hearth does not import"),
            HasSubstr("there is name, model_source, seed, trainer.devices")));
  EXPECT_THAT(
      error({{"sft.yaml",
              "model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: pt\ndo_train: true\nfinetuning_type: full\n"
              "template: llama3\ncutoff_len: 2048\ndataset: c4_demo\noutput_dir: saves\n"
              "per_device_train_batch_size: 1\nlearning_rate: 1.0e-4\nnum_train_epochs: 3.0\nbf16: true\n"}},
            {.ranks = 1}),
      HasSubstr("sft.yaml: this looks like a file of LLaMA-Factory, which Hearth does not import"));
  EXPECT_THAT(error({{"a.yml",
                      "base_model: NousResearch/Llama-2-7b\nsequence_len: 4096\nsample_packing: true\nseed: 3\n"
                      "micro_batch_size: 2\nnum_epochs: 4\nlearning_rate: 0.0002\n"}},
                    {.ranks = 1}),
              HasSubstr("a file of Axolotl"));
  EXPECT_THAT(error({{"config.json",
                      R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
"num_hidden_layers": 2, "vocab_size": 100, "torch_dtype": "bfloat16"})"}},
                    {.ranks = 1}),
              AllOf(HasSubstr("config.json: this looks like the config.json of a model of Transformers, which Hearth"),
                    HasSubstr("`hearth inspect --model .` prints its shape for a run file")));
  // --from reads it all the same, and names each key that the program does not have.
  EXPECT_THAT(error({{"sft.yaml", "stage: pt\ntemplate: x\nlearning_rate: 1.0e-4\nmax_steps: 3\n"}}, {.ranks = 1},
                    "transformers"),
              AllOf(HasSubstr("Transformers has no key stage"), HasSubstr("Transformers has no key template")));
}

TEST_F(ImportTest, TheFixForAModelsFileNamesItsFolder) {
  std::filesystem::create_directories("my models/llama");
  EXPECT_THAT(error({{"my models/llama/config.json",
                      R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
"num_hidden_layers": 2, "vocab_size": 100})"}},
                    {.ranks = 1}),
              HasSubstr("`hearth inspect --model 'my models/llama'` prints its shape"));
}

// GPT-NeoX has all these keys of DeepSpeed, but it is not what the command starts.
TEST_F(ImportTest, DeepSpeedsFileBesideACommandIsNamed) {
  const std::string file =
      R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1,
"optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}},
"bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "overlap_comm": true}, "gradient_clipping": 1.0,
"steps_per_print": 10, "wall_clock_breakdown": false})";
  for (const char* command : {"deepspeed run_clm.py --deepspeed ds.json\n",
                              "deepspeed --num_gpus 4 run_clm.py --learning_rate 1e-4 --deepspeed ds.json\n"})
    EXPECT_THAT(error({{"run.txt", command}, {"ds.json", file}}, {.ranks = 4}),
                AllOf(HasSubstr("ds.json: this looks like a file of DeepSpeed, which Hearth does not import"),
                      HasSubstr("there is train_batch_size,"),
                      HasSubstr("fix: give the trainer's own file or command without it")))
        << command;
}

// GPT-NeoX has all of its keys, but no training without a shape.
TEST_F(ImportTest, DeepSpeedsFileAloneIsNamed) {
  for (const char* file :
       {R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 2}})",
        R"({"train_batch_size": 8, "steps_per_print": 10, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}})",
        R"({"train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}})",
        R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2})",
        R"({"train_batch_size": 8, "bf16": {"enabled": true}})"})
    EXPECT_THAT(error({{"ds.json", file}}, {.ranks = 4}),
                HasSubstr("ds.json: this looks like a file of DeepSpeed, which Hearth does not import"));
  EXPECT_THAT(error({{"a.yml", "num_layers: 2\ntrain_micro_batch_size_per_gpu: 4\nzero_optimization:\n  stage: 1\n"}},
                    {.ranks = 4}),
              HasSubstr("a.yml (read as GPT-NeoX)"));
}

TEST_F(ImportTest, AHearthRunFileNeedsNoImport) {
  const std::string why = "run.toml: this is a run file of Hearth already";
  EXPECT_THAT(error({{"run.toml",
                      "[job]\ndump_folder = \"r\"\n[model]\nname = \"llama3\"\nflavor = \"\"\ndim = 32\n[data]\n"
                      "path = \"d\"\n"}}),
              AllOf(HasSubstr(why), HasSubstr("fix: give it to `hearth train` as it is")));
  EXPECT_THAT(
      error({{"run.toml", "[training]\nsteps = 3\n[[data.source]]\npath = \"a\"\n[[data.source]]\npath = \"b\"\n"}}),
      HasSubstr(why));
  // So is what an import wrote. A file of another trainer with a key of ours stays that trainer's.
  EXPECT_THAT(error({{"run.toml", import_text({{"a.toml", "[training]\nsteps = 3\n"}}, {.ranks = 1})}}),
              HasSubstr(why));
  EXPECT_THAT(error({{"run.toml", "[training]\nsteps = 3\nbatch_size = 1\n[model]\ndim = 32\n"}}, {.ranks = 1}),
              HasSubstr("torchtitan has no key model.dim"));
  EXPECT_THAT(error({{"run.yaml", "model:\n  dim: 32\n  n_layers: 2\nsteps: 3\n"}}), Not(HasSubstr("Hearth already")));
}

TEST_F(ImportTest, AProgramInPythonIsNoScriptOfBash) {
  for (const ImportTest::Files::value_type& file :
       {ImportTest::Files::value_type{"t", "#!/usr/bin/env python\nargs = TrainingArguments(learning_rate=1e-4)\n"},
        ImportTest::Files::value_type{"t.py", "from transformers import Trainer\n"}})
    EXPECT_THAT(error({file}), AllOf(HasSubstr("this is a program in Python, and programs are not run here"),
                                     HasSubstr("fix: give the command that starts it"), Not(HasSubstr("bash -x"))));
}

TEST_F(ImportTest, OtherProgramsWithKeysOfTorchtitanAreNamed) {
  EXPECT_THAT(error({{"tune.yaml",
                      "tokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\nseed: 1\nmodel:\n"
                      "  _component_: torchtune.models.llama3.llama3_8b\noptimizer:\n  lr: 2e-5\nepochs: 1\n"}},
                    {.ranks = 1}),
              HasSubstr("tune.yaml: this looks like a file of torchtune"));
  EXPECT_THAT(error({{"mpt.yaml",
                      "max_seq_len: 2048\nglobal_seed: 17\nmodel:\n  name: mpt_causal_lm\ntrain_loader:\n"
                      "  name: text\noptimizer:\n  lr: 2e-4\nmax_duration: 4800ba\n"}},
                    {.ranks = 1}),
              HasSubstr("mpt.yaml: this looks like a file of MosaicML's LLM Foundry"));
}

TEST_F(ImportTest, TheStateOfATrainerIsNotItsArguments) {
  EXPECT_THAT(error({{"trainer_state.json",
                      R"({"best_metric": null, "epoch": 1.0, "global_step": 500, "log_history": [{"loss": 1.0,
"learning_rate": 1e-4, "step": 10}], "max_steps": 1000, "num_train_epochs": 3, "train_batch_size": 4})"}},
                    {.ranks = 1}),
              AllOf(HasSubstr("trainer_state.json: this looks like the trainer_state.json of a checkpoint"),
                    HasSubstr("fix: give the TrainingArguments")));
}

TEST_F(ImportTest, AGuessNeedsHalfOfTheKeys) {
  EXPECT_THAT(error({{"a.yml", "seed: 1\nfirst: 2\nsecond: 3\nthird: 4\n"}}, {.ranks = 1}),
              AllOf(HasSubstr("has 1 of its 4 keys, and no other trainer has more"),
                    HasSubstr("there is seed, first, second, third"), HasSubstr("learning_rate"),
                    HasSubstr("fix: write a run file by hand")));
  EXPECT_THAT(error({{"a.yml", ""}}, {.ranks = 1}), HasSubstr("there is nothing"));
}

TEST_F(ImportTest, ErrorsSayAsWhatTheFilesWereRead) {
  EXPECT_THAT(error({{"a.json", R"({"learning_rate": 1, "max_steps": 2, "foo": 3, "bar": 4})"}}, {.ranks = 1}),
              HasSubstr("error: a.json (read as Transformers) has 2 errors"));
}

}  // namespace
}  // namespace hearth::config
