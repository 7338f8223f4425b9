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
      "num_layers: &a 2\noptimizer:\n  params: {lr: 1.0e-4, betas: [0.9, 0.95]}\n'data_path': |\n  a\n  b\n"};
}

}  // namespace hearth::fuzz
