// SPDX-License-Identifier: Apache-2.0
// Every command of `hearth`, one function each: commands/data/build.cpp has data_build. The table in commands.cpp is
// what users see. Every command's file includes this header, and through it what all of them need: the command line,
// errors and files, fmt, numbers and text for people.
#pragma once

#include "base/quantity.h"
#include "base/text.h"
#include "commands/command_line.h"

namespace hearth::commands {

CommandBody data_build, data_merge, data_export, data_pack, data_inspect, data_verify, data_stats, data_sample;
CommandBody data_synthetic, bench_data, bench_tokenizer;
CommandBody tokenizer_train, tokenizer_import, tokenizer_encode, tokenizer_decode, tokenizer_info, tokenizer_compare;
CommandBody plan, report, compare, inspect_trace;
CommandBody submit, status, top, stop, logs, job;
CommandBody inspect, verify, checkpoints_list, checkpoints_prune, checkpoints_average, copy, fetch;
CommandBody config_show, config_check, config_import, config_diff, config_docs;

// These check their options and become `hearth-train`, because they need LibTorch (`convert` and `push` only for
// --verify). The other commands that need it are not here, because they do nothing else (check_and_become).
CommandBody train, convert, push;

// The functions of hearth-train, one for each command that needs LibTorch.
struct TorchCommands {
  CommandBody *train, *preflight, *eval, *score, *generate;
  CommandBody *bench_step, *bench_ops, *bench_gemm, *bench_comm, *bench_ranks;
  CommandBody *convert, *push;  // with --verify
};

std::span<const Command> all_commands();
// The table's rows for hearth-train, with its functions. Each member of `functions` has a row.
std::vector<Command> torch_commands(const TorchCommands& functions);

}  // namespace hearth::commands
