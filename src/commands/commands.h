// Every command of `hearth`, one file each: commands/data/build.cpp has data_build. Users only have the commands of the
// table (commands.cpp).
#pragma once

#include <span>
#include <vector>

#include "commands/command_line.h"

namespace hearth::commands {

int data_build(CommandLine& line);
int data_inspect(CommandLine& line);
int data_verify(CommandLine& line);
int tokenizer_train(CommandLine& line);
int data_sample(CommandLine& line);
int data_merge(CommandLine& line);
int data_export(CommandLine& line);
int data_pack(CommandLine& line);
int data_stats(CommandLine& line);
int data_synthetic(CommandLine& line);
int bench_data(CommandLine& line);

int tokenizer_encode(CommandLine& line);
int tokenizer_decode(CommandLine& line);
int tokenizer_info(CommandLine& line);
int tokenizer_compare(CommandLine& line);
int tokenizer_import(CommandLine& line);

int plan(CommandLine& line);
int report(CommandLine& line);
int compare(CommandLine& line);
int inspect_trace(CommandLine& line);

// These need LibTorch: they check their options and become `hearth-train`.
int train(CommandLine& line);
int preflight(CommandLine& line);
int eval(CommandLine& line);
int score(CommandLine& line);
int generate(CommandLine& line);
int bench_step(CommandLine& line);
int bench_ops(CommandLine& line);
int bench_gemm(CommandLine& line);
int bench_comm(CommandLine& line);
int bench_ranks(CommandLine& line);

int bench_tokenizer(CommandLine& line);

int inspect(CommandLine& line);
int verify(CommandLine& line);
int checkpoints_list(CommandLine& line);
int checkpoints_prune(CommandLine& line);
int convert(CommandLine& line);
int copy(CommandLine& line);

int submit(CommandLine& line);
int status(CommandLine& line);
int top(CommandLine& line);
int stop(CommandLine& line);
int logs(CommandLine& line);
int job(CommandLine& line);

int fetch(CommandLine& line);
int push(CommandLine& line);

int config_show(CommandLine& line);
int config_check(CommandLine& line);
int config_diff(CommandLine& line);
int config_docs(CommandLine& line);
int config_import(CommandLine& line);

// The functions of hearth-train, one for each command that needs LibTorch.
struct TorchCommands {
  int (*train)(CommandLine& line);
  int (*preflight)(CommandLine& line);
  int (*eval)(CommandLine& line);
  int (*score)(CommandLine& line);
  int (*generate)(CommandLine& line);
  int (*bench_step)(CommandLine& line);
  int (*bench_ops)(CommandLine& line);
  int (*bench_gemm)(CommandLine& line);
  int (*bench_comm)(CommandLine& line);
  int (*bench_ranks)(CommandLine& line);
  int (*convert)(CommandLine& line);  // with --verify
  int (*push)(CommandLine& line);     // with --verify
};

std::span<const Command> all_commands();
// The table's rows for hearth-train, with its functions. Each member of `functions` has a row.
std::vector<Command> torch_commands(const TorchCommands& functions);

}  // namespace hearth::commands
