// SPDX-License-Identifier: Apache-2.0
// Every command of `hearth`, one function each: commands/data/build.cpp has data_build. Users only have the commands of
// the table (commands.cpp). The files of commands include this, and with it what they all need: the command line,
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
CommandBody inspect, verify, checkpoints_list, checkpoints_prune, copy, fetch;
CommandBody config_show, config_check, config_import, config_diff, config_docs;

// These need LibTorch, `convert` and `push` for --verify alone: they check their options and become `hearth-train`. The
// others that need it have nothing else to do (check_and_become).
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
