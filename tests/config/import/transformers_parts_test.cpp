// SPDX-License-Identifier: Apache-2.0
// Values of Transformers that another key, or the kind of program, would lose.
#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::HasSubstr;
using testing::StartsWith;

// The scripts build the model of config_name, and load model_name_or_path into it.
TEST_F(ImportTest, AConfigNameOfAnotherModelIsRefused) {
  const auto with = [](const std::string& names) {
    return error({{"run.txt", "run_clm.py --max_steps 10 --model_name_or_path meta-llama/Llama-3.2-1B" + names + "\n"}},
                 {.ranks = 1});
  };
  EXPECT_EQ(with(" --config_name Qwen/Qwen3-0.6B"),
            "error: run.txt:1: --config_name \"Qwen/Qwen3-0.6B\": the model has this shape, and --model_name_or_path "
            "\"meta-llama/Llama-3.2-1B\" is another one\n"
            "  fix: keep one of the two, or import the rest: --leave-out config_name");
  EXPECT_THAT(with(" --config_name ./my_shape"), HasSubstr("--config_name \"./my_shape\": the model has this shape"));
  EXPECT_THAT(with(" --config_name meta-llama/Llama-3.2-1B"), StartsWith("imported:"));
  EXPECT_THAT(with(" --config_name meta-llama/Llama-3.2-1B-Instruct"), StartsWith("imported:")) << "the same shape";
}

TEST_F(ImportTest, OptionsOfTheTrainerAreRefusedInAProgramWithoutIt) {
  const auto with = [](const std::string& options) {
    return error({{"run.txt", "run_clm_no_trainer.py --max_train_steps 10" + options + "\n"}}, {.ranks = 1});
  };
  EXPECT_EQ(with(" --max_steps 20"),
            "error: run.txt:1: --max_steps 20: it is an option of the Trainer, and this program has a loop of its own\n"
            "  fix: write max_train_steps, or import the rest: --leave-out max_steps");
  for (const std::string option :
       {"--warmup_steps 5", "--max_grad_norm 2", "--save_steps 5", "--save_strategy epoch", "--save_total_limit 3"})
    EXPECT_THAT(with(" " + option), HasSubstr("it is an option of the Trainer")) << option;
  for (const std::string option : {"--max_steps -1", "--warmup_steps 0", "--max_grad_norm 0", "--save_strategy no"})
    EXPECT_THAT(with(" " + option), StartsWith("imported:")) << option;
}

TEST_F(ImportTest, SettingsThatTransformersRefusesAreRefused) {
  const auto with = [](const std::string& keys) {
    return error({{"a.json", "{\"max_steps\": 100,\n" + keys + "}"}}, {.ranks = 1});
  };
  for (const std::string ratio : {"1.5", "-0.5"})
    EXPECT_THAT(with("\"warmup_ratio\": " + ratio),
                HasSubstr("a.json:2: warmup_ratio = " + ratio + ": the warm-up is a share of the steps, from 0 to 1"));
  EXPECT_THAT(with(R"("lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr": 1e-5, "min_lr_rate":
0.5})"),
              HasSubstr("lr_scheduler_kwargs.min_lr = 1e-05: min_lr_rate is given, too: Transformers refuses both"));
}

// The scripts load train_file only where there is no dataset_name, and each has one of the two lengths.
TEST_F(ImportTest, ASecondKeyOfTransformersScriptsIsRefused) {
  const auto with = [](const std::string& options) {
    return error({{"run.txt", "run_clm.py --max_steps 10 " + options + "\n"}}, {.ranks = 1});
  };
  EXPECT_EQ(with("--train_file a.txt --dataset_name b"),
            "error: run.txt:1: --train_file \"a.txt\": dataset_name is given, too, and Transformers' scripts read that "
            "alone\n  fix: keep one of the two, or import the rest: --leave-out train_file");
  EXPECT_THAT(with("--block_size 64 --max_seq_length 128"),
              HasSubstr("--max_seq_length 128: --block_size of run.txt:1 is given, too, and both are one setting"));
  EXPECT_THAT(with("--block_size 64 --max_seq_length 64"), StartsWith("imported:"));
}

// TrainingArguments.__post_init__: eval_steps of 0 or none are logging_steps.
TEST_F(ImportTest, StepsOfValidationFollowThoseOfTheLog) {
  const auto text = [](const std::string& keys) {
    return error({{"a.json", "{\"max_steps\": 100, \"eval_strategy\": \"steps\", " + keys + "}"}}, {.ranks = 1});
  };
  for (const std::string none : {"", "\"eval_steps\": 0, "})
    EXPECT_THAT(text(none + "\"logging_steps\": 20"), HasSubstr("\nfreq = 20 ")) << none;
  EXPECT_THAT(text("\"logging_steps\": 0.25"),
              HasSubstr("a.json:1: logging_steps = 0.25: it says eval_steps, too, and validation.freq is a number of "
                        "steps\n  fix: give eval_steps"));
  EXPECT_THAT(text("\"logging_steps\": 0.25, \"eval_steps\": 10"), HasSubstr("\nfreq = 10 "));
}

// Version 4 clips only where max_grad_norm is not None, and more than 0.
TEST_F(ImportTest, ANormOfNullClipsNothing) {
  const auto norm = [](const std::string& value) {
    return import({{"a.json", "{\"max_steps\": 100, \"max_grad_norm\": " + value + "}"}}, {.ranks = 1})
        .config.training.max_norm;
  };
  EXPECT_EQ(norm("null"), 0);
  EXPECT_EQ(norm("0"), 0);
  EXPECT_EQ(norm("2"), 2);
}

}  // namespace
}  // namespace hearth::config
