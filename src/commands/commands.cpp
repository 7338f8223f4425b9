// SPDX-License-Identifier: Apache-2.0
#include "commands/commands.h"

#include "commands/hearth_train.h"
#include "commands/torch_options.h"

namespace hearth::commands {
namespace {

// In the order of the list of commands; a group's rows follow each other.
constexpr Command kCommands[] = {
    {"Data", "data build", "turn text, token files or recordings into shards",
     "data build --out data/books --validation 0.05 books/\n"
     "data build --out data/spikes --tokenizer spikes --n-fixed 256 --validation 0.01 recordings/",
     data_build},
    {"Data", "data merge", "merge the parts of a build, or several datasets, into one",
     "data merge data/web\n"
     "data merge --out data/both data/books data/web",
     data_merge},
    {"Data", "data export", "write a dataset in another program's format",
     "data export --to bin-idx --out books_text_document data/books", data_export},
    {"Data", "data pack", "write a dataset as rows of one length, for other trainers",
     "data pack --length 4096 --to save-to-disk --out packed_4096 data/books", data_pack},
    {"Data", "data inspect", "show what a dataset holds", "data inspect data/books", data_inspect},
    {"Data", "data verify", "check every block of a dataset", "data verify data/books", data_verify},
    {"Data", "data stats", "count lengths, frequent tokens and duplicates", "data stats data/books", data_stats},
    {"Data", "data sample", "print samples, with where they come from", "data sample run.toml --step 100", data_sample},
    {"Data", "data synthetic", "make synthetic recordings of spikes", "data synthetic --rows 100 --out recordings",
     data_synthetic},
    {"Data", "bench data", "time the order of samples, opening and reading", "bench data --shards 1000", bench_data},
    {"Data", "bench tokenizer", "time a tokenizer on this machine", "bench tokenizer --tokenizer bytes books/",
     bench_tokenizer},

    {"Tokenizers", "tokenizer train", "learn a vocabulary from text, or from recordings",
     "tokenizer train --vocab-size 32000 --out tokenizer.json books/\n"
     "tokenizer train --kind patches --patch 1x15 --vocab-size 32000 --out tokenizer.patches recordings/",
     tokenizer_train},
    {"Tokenizers", "tokenizer import", "turn a pickled patch tokenizer into a tokenizer.patches",
     "tokenizer import --out tokenizer.patches primate.pkl", tokenizer_import},
    {"Tokenizers", "tokenizer encode", "text to token ids", "tokenizer encode --tokenizer tokenizer.json books/one.txt",
     tokenizer_encode},
    {"Tokenizers", "tokenizer decode", "token ids to text", "tokenizer decode --tokenizer tokenizer.json ids.txt",
     tokenizer_decode},
    {"Tokenizers", "tokenizer info", "show kind, size, BOS, EOS and special tokens",
     "tokenizer info --tokenizer tokenizer.json", tokenizer_info},
    {"Tokenizers", "tokenizer compare", "show the differences of two tokenizers",
     "tokenizer compare tokenizer.json data/books/tokenizer.json books/one.txt", tokenizer_compare},

    {"Training", "plan", "estimate FLOPs, memory and time of a run on any machine",
     "plan run.toml\n"
     "plan run.toml --device H200 --set memory.recompute=auto",
     plan},
    {"Training", "train", "train a model, or go on training it", "train run.toml --set training.steps=2000", train,
     &TorchCommands::train},
    {"Training", "eval", "measure a checkpoint on held-out text",
     "eval --checkpoint checkpoints/step-00002000 --ngram 4", check_and_become<eval_options>, &TorchCommands::eval},
    {"Training", "score", "measure the checkpoints of a run, for its report",
     "score runs/mine --every 1000 --task arc_easy.jsonl", check_and_become<score_options>, &TorchCommands::score},
    {"Training", "generate", "let a checkpoint write",
     "generate --checkpoint checkpoints/step-00002000 --prompt \"Once\" --max-tokens 200 --temperature 0.8",
     check_and_become<generate_options>, &TorchCommands::generate},
    {"Training", "report", "show trainings on a page, a picture or in TensorBoard",
     "report runs/quickstart --out report.html\n"
     "report runs/quickstart --serve\n"
     "report runs/one runs/two --tensorboard board",
     report},
    {"Training", "compare", "say where two trainings differ, and from which step on", "compare runs/one runs/two",
     compare},
    {"Training", "inspect trace", "show the largest costs of a trace, exposed communication",
     "inspect trace runs/quickstart/profile_traces/iteration_10", inspect_trace},
    {"Training", "bench step", "time the training step of a shape on this machine",
     "bench step --dim 512 --n-layers 8 --n-heads 8 --n-kv-heads 4 --hidden-dim 1408 --seq-len 1024 --local-batch-size "
     "4",
     check_and_become<bench_step_options>, &TorchCommands::bench_step},
    {"Training", "bench ops", "time each kernel of a training step on this machine",
     "bench ops --dim 512 --n-heads 8 --n-kv-heads 4 --seq-len 1024 --local-batch-size 4",
     check_and_become<bench_ops_options>, &TorchCommands::bench_ops},
    {"Training", "bench gemm", "measure the speed of matrix products on this machine", "bench gemm --dtype bfloat16",
     check_and_become<bench_gemm_options>, &TorchCommands::bench_gemm},
    {"Training", "bench comm", "measure how fast ranks talk to each other", "bench comm --ranks 4",
     check_and_become<bench_comm_options>, &TorchCommands::bench_comm},
    {"Training", "bench ranks", "try thousands of ranks without tensors on this host", "bench ranks --ranks 5120",
     check_and_become<bench_ranks_options>, &TorchCommands::bench_ranks},

    {"Clusters", "submit", "train on a cluster or this host, in jobs, until done",
     "submit run.toml --cluster frontier --account ABC123 --nodes 64\n"
     "submit run.toml --cluster mycluster.toml --dry-run",
     submit},
    {"Clusters", "status", "show state, step, loss, speed and jobs of one or all runs",
     "status runs/quickstart\n"
     "status --all runs",
     status},
    {"Clusters", "top", "follow a run in the terminal: loss, speed, memory, ranks", "top runs/quickstart", top},
    {"Clusters", "stop", "end a run's job: it saves, and nothing goes on", "stop runs/quickstart", stop},
    {"Clusters", "logs", "print the output of a run's newest job, or of one rank", "logs runs/quickstart --follow",
     logs},
    {"Clusters", "preflight", "check the nodes of an allocation, or this host",
     "preflight run.toml --ranks 4\n"
     "preflight --cluster frontier",
     check_and_become<preflight_options>, &TorchCommands::preflight},
    {"Clusters", "job", "what a job's script calls", "job before runs/quickstart --job 12", job, nullptr, true},

    {"Checkpoints", "inspect", "show what a checkpoint holds and where it came from",
     "inspect runs/quickstart/checkpoints/step-00000100", inspect},
    {"Checkpoints", "verify", "check every byte of a checkpoint", "verify runs/quickstart/checkpoints/step-00000100",
     verify},
    {"Checkpoints", "checkpoints list", "list a run's checkpoints with their losses",
     "checkpoints list runs/quickstart", checkpoints_list},
    {"Checkpoints", "checkpoints prune", "delete a run's checkpoints that its rules do not keep",
     "checkpoints prune runs/quickstart --keep-latest 2 --keep-best 1", checkpoints_prune},
    {"Checkpoints", "checkpoints average", "write the mean of several checkpoints",
     "checkpoints average --out checkpoints/mean runs/quickstart/checkpoints/step-00000900 "
     "runs/quickstart/checkpoints/step-00001000",
     checkpoints_average},
    {"Checkpoints", "convert", "convert weights from and to the formats of other programs",
     "convert --to native SmolLM2-135M checkpoints/smollm2\n"
     "convert --to hf --verify runs/quickstart exported\n"
     "convert --to torchtitan --resume runs/quickstart dump/checkpoint/step-1000",
     convert, &TorchCommands::convert},
    {"Checkpoints", "copy", "copy a folder to or from a store (s3://), and check it",
     "copy data/books s3://bucket/data/books\n"
     "copy s3://bucket/runs/books/checkpoints/step-00000100 step-00000100",
     copy},

    {"Hugging Face Hub", "fetch", "download a model or dataset, and check the Hub's hashes",
     "fetch smollm2-135m\n"
     "fetch hf:datasets/HuggingFaceTB/finemath --include \"finemath-4plus/*\" --out finemath\n"
     "fetch --list",
     fetch},
    {"Hugging Face Hub", "push", "upload a checkpoint with a card, and check what arrived",
     "push runs/quickstart --to me/quickstart --private --license apache-2.0 --verify", push, &TorchCommands::push},

    {"Configuration", "config show", "print a run file's keys, and where each value comes from",
     "config show run.toml --set training.seq_len=512", config_show},
    {"Configuration", "config check", "find all errors of a run file", "config check run.toml", config_check},
    {"Configuration", "config import", "turn a run file of another program into one of Hearth",
     "config import llemma_7b.yml data_mixture.yml --ranks 256 --out llemma_7b.toml\n"
     "config import llama3_8b.toml --no-layout",
     config_import},
    {"Configuration", "config diff", "show the keys in which two run files differ",
     "config diff run.toml runs/mine/config.toml", config_diff},
    {"Configuration", "config docs", "print the keys of a section, or the manual of run files",
     "config docs optimizer\n"
     "config docs > docs/config.md",
     config_docs},
};

}  // namespace

std::span<const Command> all_commands() { return kCommands; }

std::vector<Command> torch_commands(const TorchCommands& functions) {
  std::vector<Command> commands;
  for (const Command& row : kCommands) {
    if (row.torch == nullptr) continue;
    commands.push_back(row);
    commands.back().run = functions.*row.torch;
    HEARTH_CHECK(commands.back().run != nullptr, "hearth-train has no function for \"{}\"", row.name);
  }
  HEARTH_CHECK(commands.size() * sizeof(functions.train) == sizeof functions, "a function of hearth-train has no row");
  return commands;
}

}  // namespace hearth::commands
