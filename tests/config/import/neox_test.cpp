// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX's files. The values are those of Llemma's; configs/ has them, too.
#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// As Llemma's files are written: JSON with comments, trailing commas, and names with - or _.
std::string llemma_text(const std::string& model, int64_t tensor, int64_t micro, int64_t accumulated,
                        const std::string& lr, int64_t steps, int64_t interval, int64_t eval_iters) {
  return fmt::format(R"({{
  # parallelism
  "pipe_parallel_size": 0, "model_parallel_size": {},
  "make_vocab_size_divisible_by": 1,
  {}
  "seq_length": 4096, "max_position_embeddings": 4096,
  "pos_emb": "rotary", "rotary_pct": 1,
  "no_weight_tying": true, "gpt_j_residual": false, "output_layer_parallelism": "column",
  "norm": "rmsnorm", "rms_norm_epsilon": 1.0e-5,
  "scaled_upper_triang_masked_softmax_fusion": true, "bias_gelu_fusion": false,
  "use_bias_in_norms": false, "use_bias_in_attn_linear": false, "mlp_type": "llama", "activation": "silu",
  "optimizer": {{"type": "Adam", "params": {{"lr": {}, "betas": [0.9, 0.95], "eps": 1.0e-8}}}},
  "zero_optimization": {{"stage": 1, "allgather_bucket_size": 1260000000, "overlap_comm": true, "cpu_offload": false}},
  "train_micro_batch_size_per_gpu": {}, "gradient_accumulation_steps": {}, "data_impl": "mmap",
  "checkpoint_activations": true, "checkpoint_num_layers": 1, "partition_activations": true,
  "gradient_clipping": 1.0, "weight_decay": 0.1, "hidden_dropout": 0, "attention_dropout": 0,
  "precision": "bfloat16", "fp32_allreduce": true, "bf16": {{"enabled": true}},
  "data_types": {{"grad_accum_dtype": "fp32"}},
  "train_iters": {}, "lr_decay_iters": {}, "distributed_backend": "nccl",
  "lr_decay_style": "cosine", "decay_lr_to": 0.033, "warmup_iters": 500,
  "checkpoint_factor": {}, "eval_interval": 250, "eval_iters": {},
  "log_interval": 1, "steps_per_print": 1, "wall_clock_breakdown": true,
  "tokenizer_type": "SPMTokenizer", "vocab-file": "codellama/tokenizer.model", # of Meta's download
  "save": "/fsx/saved/llemma", "load": "/fsx/codellama_mp",
  "finetune": true, "checkpoint_validation_with_forward_pass": true,
  "use_wandb": true, "wandb_project": "math-lm", "launcher": "slurm", "deepspeed_slurm": true,
}})",
                     tensor, model, lr, micro, accumulated, steps, steps, interval, eval_iters);
}

std::string llemma_7b() {
  return llemma_text(
      "\"num_layers\": 32, \"hidden_size\": 4096, \"num_attention_heads\": 32, \"rotary_emb_base\": 10000,\n"
      "\"attention_config\": [[[\"flash\"], 32]],",
      2, 4, 2, "0.0001", 48000, 500, 50);
}
std::string llemma_34b() {
  return llemma_text(
      "\"num_layers\": 48, \"hidden_size\": 8192, \"num_attention_heads\": 64, \"num_kv_heads\": 8,\n"
      "\"attention_type\": \"groupedquery\", \"rotary_emb_base\": 1000000, \"attention_config\": [[[\"flash\"], 48]],",
      8, 2, 16, "0.00005", 12000, 250, 25);
}

constexpr const char* kMixture =
    "{\n"
    "  \"train-data-paths\": [\"/d/train/arxiv/arxiv_text_document\", "
    "\"/d/train/open-web-math/open-web-math_text_document\",\n"
    "     \"/d/algebraic-stack_text_document\", \"/d/pile-sample_text_document\", "
    "\"/d/redpajama-github_text_document\"],\n"
    "  \"train-data-weights\": [2, 4, 1, 0.147368, 0.221053],\n"
    "  \"valid-data-paths\": [\"/d/validation/arxiv/arxiv_text_document\"],\n"
    "  \"test-data-paths\": [\"/d/test/arxiv/arxiv_text_document\"],\n"
    "}\n";

// What only the file says (save, log, validation), and what only configs/ say: the flavor's name, folders beside
// configs/, Meta's pairs, the vocabulary, and ten checkpoints. 7B has n_kv_heads = 0, which stands for n_heads.
const std::vector<std::string> kLlemmaDifferences = {"model.n_kv_heads",
                                                     "job.*",
                                                     "model.name",
                                                     "model.flavor",
                                                     "model.rope_pairs",
                                                     "model.vocab_size",
                                                     "checkpoint.initial_load_path",
                                                     "checkpoint.keep_latest_k",
                                                     "validation.*",
                                                     "metrics.log_freq",
                                                     "data.source.0.path",
                                                     "data.source.1.path",
                                                     "data.source.2.path",
                                                     "data.source.3.path",
                                                     "data.source.4.path"};

TEST_F(ImportTest, LlemmasFilesGiveTheirConfigs) {
  const ImportTest::Files small = {{"7b.yml", llemma_7b()}, {"mixture.yml", kMixture}};
  const ImportTest::Files large = {{"34b.yml", llemma_34b()}, {"mixture.yml", kMixture}};
  EXPECT_THAT(
      differences_from("llemma_7b.toml", import(small, {.ranks = 256, .layout = false}).config, kLlemmaDifferences),
      IsEmpty());
  const RunConfig c = import(large, {.ranks = 256, .layout = false}).config;
  EXPECT_THAT(differences_from("llemma_34b.toml", c, kLlemmaDifferences), IsEmpty());
  EXPECT_EQ(c.model.rope_pairs, RopePairs::kHalves);
  EXPECT_EQ(c.data.source[0].path, "data/arxiv");
  EXPECT_EQ(c.data.source[1].path, "data/open-web-math");
  EXPECT_EQ(c.validation.freq, 250);
  EXPECT_EQ(c.validation.steps, 25);
  EXPECT_EQ(c.validation.set.at(0).path, "data/arxiv-valid");
  EXPECT_EQ(c.checkpoint.initial_load_path, "checkpoints/codellama_mp");
  EXPECT_EQ(c.job.dump_folder, "runs/llemma");

  // The layouts: data 128 x tensor 2, and 32 x 8, each with 1024 sequences a step.
  const RunConfig seven = import(small, {.ranks = 256}).config, thirty_four = import(large, {.ranks = 256}).config;
  EXPECT_EQ(seven.parallelism.data_parallel_shard_degree, 128);
  EXPECT_EQ(seven.parallelism.tensor_parallel_degree, 2);
  EXPECT_EQ(seven.training.local_batch_size, 4);
  EXPECT_EQ(seven.training.global_batch_size, 1024);
  EXPECT_EQ(seven.parallelism.zero_stage, 1);
  EXPECT_EQ(thirty_four.parallelism.data_parallel_shard_degree, 32);
  EXPECT_EQ(thirty_four.parallelism.tensor_parallel_degree, 8);
  EXPECT_EQ(thirty_four.training.local_batch_size, 2);
  EXPECT_EQ(thirty_four.training.global_batch_size, 1024);
  EXPECT_EQ(error(large),
            "error: the number of ranks is not in the file, and the global batch needs it\n"
            "  fix: give it: --ranks N, the number of GPUs that the training ran on");
  EXPECT_EQ(error(large, {.ranks = 12}),
            "error: 12 ranks are not a multiple of 8, the product of the degrees in the file\n"
            "  fix: give the number of GPUs that the training ran on");
}

// A file of main, as block YAML.
constexpr const char* kMain =
    "num-layers: 32\nhidden-size: 4096\nintermediate-size: 32768\nnum-attention-heads: 32\nseq-length: 4096\n"
    "pos-emb: rotary\nno-weight-tying: true\nnorm: rmsnorm\nrms_norm_epsilon: 1.0e-5\n"
    "use_bias_in_attn_linear: false\nuse_bias_in_mlp: false\nactivation: swiglu\nmlp_multiple_of: 256\n"
    "optimizer:\n  type: Adam\n  params:\n    lr: 3.0e-4\n    betas: [0.9, 0.95]\n"
    "train_batch_size: 1024\ntrain_micro_batch_size_per_gpu: 4\ntrain_iters: 1000\n"
    "lr_decay_style: cosine\nmin_lr: 3.0e-5\nwarmup: 0.042\nprecision: bfloat16\n"
    "data_path: /d/books_text_document\nsplit: \"969, 30, 1\"\n"
    "checkpoint_factor: 2\ncheckpoint_scale: log\nextra_save_iters: [0, 3]\n"
    "tensorboard_dir: tb\nuse_wandb: true\n";

TEST_F(ImportTest, AFileOfMainHasItsOwnFormulas) {
  const std::string text = import_text({{"run.yml", kMain}}, {.ranks = 32});
  const RunConfig c = read_run_text(text, "imported.toml", ".").config;
  EXPECT_EQ(c.model.hidden_dim, 11008);  // Llama 2's 7B: a third of 32768, rounded up to 256
  EXPECT_EQ(c.model.norm_type, NormType::kRmsNorm);
  EXPECT_FALSE(c.model.enable_weight_tying);
  EXPECT_EQ(c.lr_scheduler.rule, ScheduleRule::kNeox);
  EXPECT_EQ(c.lr_scheduler.warmup_steps, 42);
  EXPECT_EQ(c.lr_scheduler.min_lr_factor, 0.1);
  EXPECT_EQ(c.training.global_batch_size, 1024);
  EXPECT_EQ(c.training.local_batch_size, 4);
  EXPECT_EQ(c.training.max_norm, 1);
  EXPECT_EQ(c.training.seed, 1234);
  EXPECT_EQ(c.model.init, InitLaw::kNormal);
  EXPECT_EQ(c.data.path, "data/books");
  EXPECT_EQ(c.data.order, DataOrder::kNeox);
  EXPECT_EQ(c.checkpoint.interval, 0);
  EXPECT_EQ(c.checkpoint.extra_steps, (std::vector<double>{1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512}));
  EXPECT_TRUE(c.metrics.enable_tensorboard);
  EXPECT_THAT(text, HasSubstr("use_wandb = true: `scripts/wandb_sync.py` sends a run's metrics to W&B"));
  EXPECT_THAT(text, HasSubstr("hearth data build --split 969, 30, 1"));
  EXPECT_THAT(text, HasSubstr("hearth data build --out data/books /d/books_text_document.bin\n"));
  // 4 times the width where no size is given: 4 * 4096 * 2 / 3 / 2 = 5461, and 5632 as a multiple of 256.
  std::string unsized = kMain;
  unsized.erase(unsized.find("intermediate-size"), std::string("intermediate-size: 32768\n").size());
  EXPECT_EQ(import({{"run.yml", unsized}}, {.ranks = 32}).config.model.hidden_dim, 5632);
}

TEST_F(ImportTest, WhatGptNeoxHasAndHearthDoesNotIsRefusedByLine) {
  EXPECT_EQ(error({{"pythia.yml",
                    "num_layers: 16\nhidden_size: 2048\nnum_attention_heads: 8\nseq_length: 2048\n"
                    "rotary_pct: 0.25\ngpt_j_residual: true\nfp16: {enabled: true, loss_scale: 0}\n"
                    "optimizer: {params: {lr: 1e-4}}\ntrain_batch_size: 8\ntrain_iters: 10\nnum_layer: 3\n"
                    "train_data_paths: [a, b]\ntrain_data_weights: [1]\nsave_iters: 5\n"}},
                  {.ranks = 1}),
            "error: pythia.yml (read as GPT-NeoX) has 11 errors\n"
            "  pythia.yml:5: rotary_pct = 0.25: a part is not imported: set model.partial_rotary_factor\n"
            "      fix: to import the rest: --leave-out rotary_pct\n"
            "  pythia.yml:6: gpt_j_residual = true: attention and feed-forward follow each other\n"
            "      fix: to import the rest: --leave-out gpt_j_residual\n"
            "  pythia.yml:7: fp16.enabled = true: numbers in float16 are not there\n"
            "      fix: to import the rest: --leave-out fp16.enabled\n"
            "  pythia.yml:11: GPT-NeoX has no key num_layer\n"
            "      fix: did you mean num_layers? Or leave it out: --leave-out num_layer\n"
            "  pythia.yml:13: train_data_weights = [1]: 1 numbers for 2 paths\n"
            "      fix: to import the rest: --leave-out train_data_weights\n"
            "  pythia.yml:14: GPT-NeoX has no key save_iters\n"
            "      fix: did you mean eval_iters? Or leave it out: --leave-out save_iters\n"
            "  activation is not given, and GPT-NeoX's default is gelu: the feed-forward is SwiGLU\n"
            "      fix: if the training had it, give a further file with activation: swiglu\n"
            "  use_bias_in_mlp is not given, and GPT-NeoX's default is true: the feed-forward has no biases\n"
            "      fix: if the training had it, give a further file with use_bias_in_mlp: false\n"
            "  pos_emb is not given, and GPT-NeoX's default is learned: positions are rotary\n"
            "      fix: if the training had it, give a further file with pos_emb: rotary\n"
            "  use_bias_in_attn_linear is not given, and GPT-NeoX's default is true: attention has no biases\n"
            "      fix: if the training had it, give a further file with use_bias_in_attn_linear: false\n"
            "  use_bias_in_norms is not given, and GPT-NeoX's default is true: norms have no biases\n"
            "      fix: if the training had it, give a further file with use_bias_in_norms: false");
}

// GPT-NeoX gives weight_decay to the optimizer beside its params, and clips by the one that its engine reads.
TEST_F(ImportTest, TwoKeysOfOneSettingWithTwoValuesAreRefused) {
  const std::string file =
      "num_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\nseq_length: 64\ntrain_iters: 10\npos_emb: rotary\n"
      "norm: rmsnorm\nactivation: swiglu\nuse_bias_in_mlp: false\nuse_bias_in_attn_linear: false\n"
      "train_micro_batch_size_per_gpu: 1\nweight_decay: 0.1\ngradient_clipping: 1.0\ndata_path: d\n";
  EXPECT_THAT(
      error({{"a.yml", file + "optimizer: {params: {lr: 1e-4, weight_decay: 0.3}}\nclip_grad: 2\n"}}, {.ranks = 1}),
      AllOf(HasSubstr("a.yml (read as GPT-NeoX) has 2 errors\n"),
            HasSubstr("a.yml:15: optimizer.params.weight_decay = 0.3: weight_decay of a.yml:12 is given, too, and "
                      "both are one setting\n      fix: keep one of the two, or import the rest: "),
            HasSubstr("a.yml:16: clip_grad = 2: gradient_clipping of a.yml:13 is given, too")));
  EXPECT_THAT(error({{"a.yml", file + "optimizer: {params: {lr: 1e-4}}\nprecision: fp32\nbf16: {enabled: true}\n"}},
                    {.ranks = 1}),
              HasSubstr("a.yml:17: bf16.enabled = true: precision is fp32, and GPT-NeoX refuses both"));
  EXPECT_EQ(
      import({{"a.yml", file + "optimizer: {params: {lr: 1e-4, weight_decay: 0.1}}\nclip_grad: 1\n"}}, {.ranks = 1})
          .config.optimizer.weight_decay,
      0.1)
      << "both say the same";
}

TEST_F(ImportTest, AValueThatHearthDoesNotHaveIsNamedWithTheOneThatItHas) {
  std::string gelu = kMain;
  gelu.replace(gelu.find("swiglu"), 6, "gelu");
  EXPECT_EQ(error({{"run.yml", gelu}, {"more.yml", "rotary_pct: 0.25\n"}}, {.ranks = 32}),
            "error: the import of run.yml and more.yml (read as GPT-NeoX) has 2 errors\n"
            "  more.yml:1: rotary_pct = 0.25: a part is not imported: set model.partial_rotary_factor\n"
            "      fix: to import the rest: --leave-out rotary_pct\n"
            "  run.yml:12: activation = \"gelu\": the feed-forward is SwiGLU (activation: swiglu)\n"
            "      fix: to import the rest: --leave-out activation");
}

TEST_F(ImportTest, EachFaultOfYamlIsOneError) {
  const auto yaml = [this](const std::string& text) { return error({{"a.yml", text}}); };
  EXPECT_THAT(yaml("num_layers: 2\nnum_layers: 3\n"), AllOf(HasSubstr("a.yml:2: num_layers"), HasSubstr("twice")));
  EXPECT_THAT(yaml("optimizer: {type: Adam, type: SGD}\n"), AllOf(HasSubstr("a.yml:1: type"), HasSubstr("twice")));
  EXPECT_THAT(yaml("num_layers: &n 2\n"), AllOf(HasSubstr("a.yml:1: "), HasSubstr("anchor")));
  EXPECT_THAT(yaml("num_layers: &n 2\nhidden_size: *n\n"),
              HasSubstr("a.yml:2: an alias (*name) stands here\n      fix: write the value itself"));
  EXPECT_THAT(yaml("num_layers: 2\n<<: {a: 1}\n"), AllOf(HasSubstr("a.yml:2: "), HasSubstr("merge (<<)")));
  EXPECT_THAT(yaml("num_layers: !!python/object:os.system 2\n"),
              AllOf(HasSubstr("a.yml:1: "), HasSubstr("tag:yaml.org,2002:python/object:os.system")));
  EXPECT_THAT(yaml("num_layers: 2\n---\nnum_layers: 3\n"), AllOf(HasSubstr("a.yml:2: "), HasSubstr("second document")));
  EXPECT_THAT(yaml("[1, 2]\n"), AllOf(HasSubstr("a.yml:1: "), HasSubstr("a list")));
  EXPECT_THAT(yaml("words and words\n"), AllOf(HasSubstr("a.yml:1: "), HasSubstr("a single value"),
                                               HasSubstr("fix: give the file that has the trainer's keys")));
  EXPECT_THAT(yaml("num_layers: [1\n"), AllOf(HasSubstr("a.yml:2: "), HasSubstr("neither YAML nor JSON")));
  EXPECT_THAT(yaml(std::string(100000, '[')), HasSubstr("a.yml:1: "));
  EXPECT_THAT(yaml(std::string("a: \0", 4)), AllOf(HasSubstr("a.yml: "), HasSubstr("TOML, YAML")));
  EXPECT_THAT(yaml(""), HasSubstr("no key is one of a trainer that Hearth imports from"));
  EXPECT_THAT(error({{"a.yml", "num_layers: 2\n"}, {"a.yml", "num_layers: 2\n"}}), HasSubstr("a.yml is given twice"));
  EXPECT_THAT(yaml(std::string((16 << 20) + 1, ' ')), HasSubstr("of at most 16 MiB"));
  try {
    import_run({"/dev/zero"}, {}, {}, "");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("/dev/zero: this is not a text with a run's keys"));
  }
  // Twice in two files, with another sign.
  EXPECT_THAT(error({{"a.yml", llemma_7b()}, {"b.yml", kMixture}, {"c.yml", "seq-length: 5\n"}}, {.ranks = 256}),
              AllOf(HasSubstr("c.yml:1: seq-length"), HasSubstr("a.yml:7")));
}

TEST_F(ImportTest, AFileInAnotherEncodingIsRefusedByLine) {
  EXPECT_THAT(error({{"run.yml",
                      "num_layers: 2\nsave: \"k\xFC"
                      "che\"\n"}}),
              AllOf(HasSubstr("run.yml:2: "), HasSubstr("UTF-8")));
  for (const std::string wrong : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\x80"})
    EXPECT_THAT(error({{"run.yml", "save: " + wrong}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(error({{"run.yml", "save: x\nsav: \xE2\x82\xAC\xC3\xBC\n"}}, {}, "neox"), HasSubstr("has no key sav"));
}

// GPT-NeoX main has such a file, configs/llemma/7B.yml, which neither of the two programs runs.
TEST_F(ImportTest, TheFeedForwardSaysWhichProgramAFileIsFor) {
  std::string mixed = llemma_7b();
  const std::string branch = "\"mlp_type\": \"llama\", \"activation\": \"silu\"";
  mixed.replace(mixed.find(branch), branch.size(),
                "\"activation\": \"swiglu\", \"use_bias_in_mlp\": false, \"mlp_multiple_of\": 256");
  const ImportTest::Files files = {{"7b.yml", mixed}, {"mixture.yml", kMixture}};
  EXPECT_THAT(
      error(files, {.ranks = 256}),
      testing::AllOf(HasSubstr("decay_lr_to = 0.033: the file is one of GPT-NeoX's main, by its feed-forward, and "
                               "main has no such key\n      fix: write min_lr"),
                     HasSubstr("warmup_iters = 500: the file is one of GPT-NeoX's main"),
                     testing::Not(HasSubstr("the feed-forward is SwiGLU"))));
  const RunConfig c =
      import(files,
             {.ranks = 256, .leave_out = {"decay_lr_to", "warmup_iters", "checkpoint_validation_with_forward_pass"}})
          .config;
  EXPECT_EQ(c.lr_scheduler.rule, ScheduleRule::kNeox);
  EXPECT_EQ(c.model.hidden_dim, 5632);  // of 4 * 4096: two thirds, half of them, up to a multiple of 256
}

TEST_F(ImportTest, TheShapeOfAModelOfGptNeoxIsNeeded) {
  EXPECT_THAT(error({{"a.yml", "optimizer: {type: Adam, params: {lr: 1.0e-4}}\ntrain_batch_size: 8\nhidden_size: 8\n"}},
                    {.ranks = 1}),
              testing::AllOf(HasSubstr("num_layers is not given, and GPT-NeoX has no default for it"),
                             HasSubstr("train_iters is not given")));
}

}  // namespace
}  // namespace hearth::config
