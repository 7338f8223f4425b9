// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX's rates, batches and pairs of keys: what it computes from several values, and what it refuses.
#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// A file of main.
constexpr const char* kWhole =
    "num_layers: 2\nhidden_size: 64\nintermediate_size: 256\nnum_attention_heads: 4\nseq_length: 64\n"
    "pos_emb: rotary\nno_weight_tying: true\nnorm: rmsnorm\nactivation: swiglu\n"
    "use_bias_in_attn_linear: false\nuse_bias_in_mlp: false\n"
    "optimizer: {type: Adam, params: {lr: 3.0e-4, betas: [0.9, 0.95]}}\n"
    "train_batch_size: 1024\ntrain_micro_batch_size_per_gpu: 4\ntrain_iters: 1000\n"
    "lr_decay_style: cosine\nmin_lr: 3.0e-5\nwarmup: 0.042\ndata_path: /d/books_text_document\n"
    "checkpoint_factor: 2\ncheckpoint_scale: log\n";

// A file of the branch of 2023.
constexpr const char* kBranch =
    "num_layers: 2\nhidden_size: 64\nnum_attention_heads: 8\nattention_type: groupedquery\nnum_kv_heads: 4\n"
    "seq_length: 64\npos_emb: rotary\nno_weight_tying: true\nnorm: rmsnorm\nmlp_type: llama\nactivation: silu\n"
    "use_bias_in_attn_linear: false\noptimizer: {type: Adam, params: {lr: 5.0e-5, betas: [0.9, 0.95]}}\n"
    "train_micro_batch_size_per_gpu: 4\ntrain_iters: 1000\nlr_decay_style: cosine\ndecay_lr_to: 0.033\n"
    "warmup_iters: 500\ndata_path: /d/books_text_document\n";

// The file of main with another text in place of one of its own.
std::string whole_with(const std::string& own, const std::string& other) {
  std::string text = kWhole;
  return text.replace(text.find(own), own.size(), other);
}
const std::string kSteps = "train_iters: 1000\n", kLogScale = "checkpoint_factor: 2\ncheckpoint_scale: log\n";

// update_iterations() counts the steps of train_epochs, get_learning_rate_scheduler() takes its shares of them.
TEST_F(ImportTest, SharesOfStepsThatEpochsDoNotSayAreKeptOrRefused) {
  const auto epochs = [](const std::string& more, const std::string& scale = "checkpoint_factor: 2\n") {
    std::string text = whole_with(kSteps, "train_epochs: 2\n" + more);
    return text.replace(text.find(kLogScale), kLogScale.size(), scale);
  };
  const auto schedule = [](const std::string& text) {
    return import({{"run.yml", text}}, {.ranks = 32}).config.lr_scheduler;
  };
  const LrScheduler plain = schedule(epochs(""));
  EXPECT_EQ(plain.warmup_fraction, 0.042);
  EXPECT_EQ(plain.warmup_steps, 0);
  EXPECT_EQ(plain.end_step, 0);
  EXPECT_EQ(schedule(epochs("lr_decay_fraction: 1\n")).warmup_fraction, 0.042);
  const LrScheduler steps = schedule(epochs("lr_decay_iters: 500\n"));
  EXPECT_EQ(steps.warmup_steps, 21);
  EXPECT_EQ(steps.end_step, 500);
  std::string cold = epochs("");
  cold.replace(cold.find("0.042"), 5, "0");
  EXPECT_EQ(schedule(cold).warmup_steps, 0);
  EXPECT_EQ(schedule(cold).warmup_fraction, 0);
  std::string untold = epochs("");
  untold.erase(untold.find("warmup: 0.042\n"), 14);
  EXPECT_EQ(schedule(untold).warmup_fraction, 0.01);

  const auto refused = [](const std::string& text) { return error({{"run.yml", text}}, {.ranks = 32}); };
  EXPECT_EQ(refused(epochs("lr_decay_fraction: 0.5\n")),
            "error: run.yml:16: lr_decay_fraction = 0.5: train_epochs does not say the number of steps\n"
            "  fix: give train_iters in place of train_epochs, or lr_decay_iters, or import the rest: --leave-out "
            "lr_decay_fraction");
  EXPECT_THAT(refused(epochs("", kLogScale)),
              HasSubstr("run.yml:21: checkpoint_scale = \"log\": train_epochs does not say the number of steps\n"
                        "  fix: give train_iters in place of train_epochs, or import the rest"));
  const LrScheduler half = schedule(whole_with(kSteps, kSteps + "lr_decay_fraction: 0.5\n"));
  EXPECT_EQ(half.end_step, 500);
  EXPECT_EQ(half.warmup_steps, 21);
  EXPECT_EQ(schedule(whole_with(kSteps, kSteps + "lr_decay_fraction: 0\n")).end_step, 1) << "max(1, 0)";
}

TEST_F(ImportTest, SharesOfGptNeoxOutOfRangeAreRefused) {
  const auto refused = [](const std::string& text) { return error({{"run.yml", text}}, {.ranks = 32}); };
  for (const std::string share : {"-0.5", "1e30"})
    EXPECT_THAT(refused(whole_with(kSteps, kSteps + "lr_decay_fraction: " + share + "\n")),
                HasSubstr("run.yml:16: lr_decay_fraction = "))
        << share;
  EXPECT_THAT(refused(whole_with(kSteps, kSteps + "lr_decay_iters: 0\n")),
              HasSubstr("lr_decay_iters = 0: not a number of steps"));
  for (const std::string share : {"-0.5", "1.5"})
    EXPECT_THAT(refused(whole_with("0.042", share)),
                HasSubstr("run.yml:18: warmup = " + share + ": the warm-up is a share, from 0 to 1"));
  EXPECT_THAT(refused(whole_with("scale: log", "scale: cubic")),
              HasSubstr("checkpoint_scale = \"cubic\": the scale is linear or log"));
}

// GPT-NeoX reads one key of each pair, or refuses both.
TEST_F(ImportTest, ASecondKeyOfGptNeoxWithAnotherValueIsRefused) {
  const auto with = [](const std::string& more, const std::string& text = kWhole) {
    return error({{"run.yml", text + more}}, {.ranks = 32});
  };
  EXPECT_THAT(with("lr_decay_iters: 900\nlr_decay_fraction: 0.5\n"),
              HasSubstr("lr_decay_fraction = 0.5: lr_decay_iters of run.yml:22 is given, too, and both are one"));
  EXPECT_THAT(with("lr_decay_iters: 500\nlr_decay_fraction: 0.5\n"), StartsWith("imported:"));
  EXPECT_THAT(with("lr: 1\n"), HasSubstr("lr = 1: optimizer.params.lr of run.yml:12 is given, too, and both are one"));
  EXPECT_THAT(with("lr: 0.0003\n"), StartsWith("imported:"));
  EXPECT_THAT(with("batch_size: 8\n"), HasSubstr("batch_size = 8: train_micro_batch_size_per_gpu of run.yml:14 is"));
  EXPECT_THAT(with("expansion_factor: 2\n"), HasSubstr("expansion_factor = 2: intermediate_size is given, too"));
  EXPECT_THAT(with("train_data_paths: [/d/b]\n"),
              HasSubstr("data_path = \"/d/books_text_document\": train_data_paths"));
}

TEST_F(ImportTest, TheBranchOfLlemmaHasItsOwnRules) {
  const auto with = [](const std::string& more) { return error({{"run.yml", kBranch + more}}, {.ranks = 1}); };
  const auto replaced = [](const std::string& own, const std::string& other) {
    std::string text = kBranch;
    return error({{"run.yml", text.replace(text.find(own), own.size(), other)}}, {.ranks = 1});
  };
  EXPECT_THAT(with("warmup: 0.01\n"), HasSubstr("run.yml:20: warmup = 0.01: warmup_iters is given, too"));
  EXPECT_THAT(with("warmup: 0\n"), StartsWith("imported:"));
  EXPECT_THAT(with("min_lr: 2.0e-6\n"), HasSubstr("run.yml:20: min_lr = 2e-06: it cuts the decay to decay_lr_to"));
  EXPECT_THAT(with("min_lr: 1.0e-6\n"), StartsWith("imported:")) << "0.033 of 0.00005 is more";
  EXPECT_THAT(replaced("cosine", "linear"),
              HasSubstr("decay_lr_to = 0.033: lr_decay_style is linear, and GPT-NeoX has it for a cosine alone"));
  EXPECT_THAT(replaced("attention_type: groupedquery\n", ""),
              HasSubstr("num_kv_heads = 4: attention_type is multihead, which leaves it out"));
  EXPECT_THAT(replaced("num_kv_heads: 4\n", ""),
              HasSubstr("run.yml:4: attention_type = \"groupedquery\": num_kv_heads is not given"));
}

// DeepSpeed's check_batch_parameters().
TEST_F(ImportTest, ABatchOfGptNeoxIsTheProductOfItsParts) {
  const auto with = [](const std::string& batch, const ImportOptions& options) {
    const std::string own = "train_batch_size: 1024\ntrain_micro_batch_size_per_gpu: 4\n";
    return error({{"run.yml", whole_with(own, batch)}}, options);
  };
  const std::string given =
      "train_batch_size: 128\ntrain_micro_batch_size_per_gpu: 4\ngradient_accumulation_steps: 2\n";
  const std::string micro = "train_batch_size: 128\ngradient_accumulation_steps: 3\n";
  EXPECT_EQ(with(given, {.ranks = 8}),
            "error: run.yml:13: train_batch_size = 128: 4 x 2 accumulated x 8 data-parallel ranks are 64, and GPT-NeoX "
            "refuses another number\n"
            "  fix: mend one of the numbers in a copy of the file, or import the rest: --leave-out train_batch_size");
  EXPECT_THAT(with(given, {.ranks = 8, .layout = false}), HasSubstr("data-parallel ranks are 64"));
  EXPECT_THAT(with(given, {.ranks = 16}), StartsWith("imported:"));
  EXPECT_THAT(with(given, {.layout = false}), StartsWith("imported:")) << "with 16 ranks, it may be";
  EXPECT_THAT(with("train_batch_size: 129\n" + given.substr(given.find('\n') + 1), {.layout = false}),
              HasSubstr("4 x 2 accumulated are 8, and GPT-NeoX refuses another number"));
  EXPECT_THAT(with(micro, {.ranks = 8}), HasSubstr("128: not a multiple of 3 accumulated x 8 data-parallel ranks"));
  EXPECT_THAT(with("train_batch_size: 96\ngradient_accumulation_steps: 3\n", {.ranks = 8}), StartsWith("imported:"));
}

// SoftEmbedding freezes everything else; the layers of Transformer Engine have biases, whatever the other keys say.
TEST_F(ImportTest, OtherModelsOfGptNeoxAreRefusedWithTheirReasons) {
  const auto with = [](const std::string& more) { return error({{"run.yml", kWhole + more}}, {.ranks = 32}); };
  EXPECT_EQ(with("soft_prompt_tuning: {enabled: true, num_tokens: 10}\n"),
            "error: run.yml:22: soft_prompt_tuning.enabled = true: a training changes every weight, and there is no "
            "prompt to learn\n  fix: to import the rest: --leave-out soft_prompt_tuning.enabled");
  EXPECT_THAT(with("soft_prompt_tuning: {enabled: false, num_tokens: 10}\n"), StartsWith("imported:"));
  EXPECT_THAT(with("soft_prompt_tuning: {num_tokens: 10}\n"), StartsWith("imported:")) << "off by default";
  EXPECT_THAT(with("te_layernorm_mlp: true\n"), HasSubstr("te_layernorm_mlp = true: the feed-forward has no biases"));
  EXPECT_THAT(with("te_mha: true\n"), HasSubstr("te_mha = true: attention has no biases; Transformer Engine's has"));
  EXPECT_THAT(with("te_fp8_mha: true\n"), HasSubstr("te_fp8_mha = true: attention has no biases, and is not in"));
  EXPECT_THAT(with("te_columnparallel: true\nte_rowparallel: true\nte_layernorm_mlp: false\n"),
              AllOf(StartsWith("imported:"),
                    HasSubstr("te_rowparallel = true: it chooses between kernels with the same result")));
}

}  // namespace
}  // namespace hearth::config
