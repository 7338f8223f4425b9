// Options of the commands that need LibTorch, declared once. `hearth` checks them (and answers --help) in milliseconds.
// Then `hearth-train` reads the same words again and obeys them.
//
// Each function declares, parses and checks its options; empty if --help was printed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "commands/command_line.h"
#include "config/bench_options.h"
#include "config/options.h"

namespace hearth::commands {

std::optional<config::TrainOptions> train_options(CommandLine& line);
std::optional<config::PreflightOptions> preflight_options(CommandLine& line);
// On rank 0, after the checks: writes the names of bad nodes and hands them to Slurm, as the options say.
void hand_on_bad_nodes(const config::PreflightOptions& options, const std::vector<std::string>& nodes);
std::optional<config::EvalOptions> eval_options(CommandLine& line);
std::optional<config::ScoreOptions> score_options(CommandLine& line);
// The options about examples before a question, for eval and score, and their checks after line.parse().
void add_shots(CommandLine& line, config::EvalOptions& options);
void check_shots(const CommandLine& line, const config::EvalOptions& options);
std::optional<config::GenerateOptions> generate_options(CommandLine& line);
std::optional<config::BenchStepOptions> bench_step_options(CommandLine& line);
std::optional<config::BenchStepOptions> bench_ops_options(CommandLine& line);
std::optional<config::BenchGemmOptions> bench_gemm_options(CommandLine& line);
std::optional<config::BenchCommOptions> bench_comm_options(CommandLine& line);
std::optional<config::BenchRanksOptions> bench_ranks_options(CommandLine& line);

}  // namespace hearth::commands
