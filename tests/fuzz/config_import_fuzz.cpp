// SPDX-License-Identifier: Apache-2.0
// Run files of other trainers: whatever is imported is a run file without errors.
#include "config/import/import.h"
#include "config/load.h"
#include "target.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  const Path file = write_scratch("run", input);
  for (const std::string& kind : config::dialect_names()) {
    config::Imported imported;
    if (!accepted([&] { imported = config::import_run({file}, kind, {.ranks = 8}, "hearth config import"); })) continue;
    const config::LoadResult run = config::read_run_text(imported.text, "imported", ".");
    require(run.problems.empty(), "an import has errors");
  }
}

std::vector<std::string> seeds() {
  return {
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nbatch_size = 2\nseq_len = 64\nwarmup_steps = 5\n"
      "steps = 100\ndataset = \"full\"\nvocab_size = 256\n[checkpoint]\nenable_checkpoint = true\ninterval = 10\n",
      "{\"num_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4, \"seq_length\": 64, \"pos_emb\": "
      "\"rotary\",\n"
      "\"norm\": \"rmsnorm\", \"use_bias_in_attn_linear\": false, \"mlp_type\": \"llama\", \"activation\": \"silu\",\n"
      "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 1e-4, \"betas\": [0.9, 0.95]}}, # a comment\n"
      "\"train_micro_batch_size_per_gpu\": 2, \"train_iters\": 100, \"train-data-paths\": [\"a_text_document\"],}\n",
      "+ LR=1e-4\n++ date\n+ srun torchrun --nproc_per_node 8 --nnodes=2 run_clm.py --bf16 --seed 1 --name 'a b' "
      "--lr_scheduler_kwargs '{\"power\": 2}' --max_steps 4 --learning_rate 1e-4 --block_size 8 "
      "$'x\\303\\t'\nprinted\n",
      "A=1 srun bash -c 'python -m torchtitan.train --job.config_file a.toml --training.steps=7 "
      "--checkpoint.no-enable' "
      "2>&1 | tee x\n--training.seq_len \\\n 64 # more\nNGPU=8\nexport LEARNING_RATE=\"1e-3\"\n",
      "#!/bin/bash\nLR=1e-4; A=(--bf16)\nif [ \"$LR\" = x ]; then B=2; fi\nrun_mlm.py ${A[@]} --learning_rate $LR "
      "<<END\n",
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --swiglu --disable-bias-linear \\\n"
      "--position-embedding-type rope --normalization RMSNorm --hidden-dropout 0 --attention-dropout 0 --lr 1e-3 \\\n"
      "--micro-batch-size 1 --train-iters 5 --data-path 1 a 2 b\nGBS=8\n",
      "GBS=8\nMBS=1\nTOTAL_STEPS=9\nLR=1e-4\nTP_DEGREE=8\n",
      "{\"output_dir\": \"x\", \"learning_rate\": 1e-4, \"save_strategy\": \"epoch\", \"lr_scheduler_type\": "
      "\"cosine\",\n\"fsdp\": \"full_shard\", \"model_name_or_path\": \"Qwen/Qwen3-0.6B\", \"warmup_ratio\": 0.1}\n",
      "{\"model_spec\": {\"name\": \"llama3\", \"model\": {\"dim\": 64, \"vocab_size\": 128, \"norm\": {\"eps\": "
      "1e-05}, "
      "\"layers\": [{\"attention\": {\"n_heads\": 4, \"rope\": {\"theta\": 10, \"scaling\": \"none\"}}, "
      "\"feed_forward\": {\"w1\": {\"out_features\": 96}}}]}},\n\"optimizer\": {\"param_groups\": [{\"pattern\": "
      "\"^a\\\\..*\", \"optimizer_kwargs\": {\"lr\": 0.1}}, {\"pattern\": \".*\", \"optimizer_kwargs\": {\"lr\": 0.2, "
      "\"betas\": [0.9, 0.95]}}]},\n\"training\": {\"num_tokens_per_microbatch_per_dp_rank\": 64, "
      "\"max_context_length\": "
      "32},\n\"dataloader\": {\"dataset\": {\"dataset\": {\"datasets\": [{\"dataset\": {\"source\": {\"path\": "
      "\"a\"}}, "
      "\"weight\": 2}]}}}}\n",
      "num_layers: &a 2\noptimizer:\n  params: {lr: 1.0e-4, betas: [0.9, 0.95]}\n'data_path': |\n  a\n  b\n"};
}

}  // namespace hearth::fuzz
