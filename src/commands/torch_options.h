// SPDX-License-Identifier: Apache-2.0
// The options of commands that exist in both programs, declared once. `hearth` checks them (and answers --help) in
// milliseconds. Then `hearth-train`, which has LibTorch, reads the same words again and obeys them.
//
// Each function declares, parses and checks its options; empty if --help was printed.
#pragma once

#include <functional>

#include "checkpoint/manifest.h"
#include "commands/command_line.h"
#include "config/options.h"
#include "convert/convert.h"
#include "hub/push.h"

namespace hearth::commands {

std::optional<config::TrainOptions> train_options(CommandLine& line);
std::optional<config::PreflightOptions> preflight_options(CommandLine& line);
// On rank 0, after the checks: writes the names of bad nodes and hands them to Slurm, as the options say.
void hand_on_bad_nodes(const config::PreflightOptions& options, const std::vector<std::string>& nodes);
std::optional<config::EvalOptions> eval_options(CommandLine& line);
std::optional<config::ScoreOptions> score_options(CommandLine& line);
std::optional<config::GenerateOptions> generate_options(CommandLine& line);
std::optional<config::BenchStepOptions> bench_step_options(CommandLine& line);
std::optional<config::BenchStepOptions> bench_ops_options(CommandLine& line);
std::optional<config::BenchGemmOptions> bench_gemm_options(CommandLine& line);
std::optional<config::BenchCommOptions> bench_comm_options(CommandLine& line);
std::optional<config::BenchRanksOptions> bench_ranks_options(CommandLine& line);

// `hearth convert` and `hearth push` need LibTorch only for --verify. Without it `hearth` does the work itself.

struct ConvertOptions {
  convert::Options options;
  bool verify = false;  // the caller sets options.prove
};
std::optional<ConvertOptions> convert_options(CommandLine& line);
// Converts, and says what was written.
int run_convert(const convert::Options& options);

// What README.md says of a pushed model: what it is, where it came from, and how it was trained.
struct CardInput {
  std::string repository;  // "ORG/NAME"
  std::string licence;     // the Hub's identifier; empty: the card names none
  std::string base_model;  // "ORG/NAME" whose weights it started from; empty: none
  std::vector<std::string> datasets;
  bool is_native = false;  // the files are Hearth's, not Hugging Face's
  int64_t parameters = 0;
  const checkpoint::Manifest* manifest = nullptr;  // Hearth's; null: another program's checkpoint
  std::string command;                             // the command that trained it; empty: not known
  std::string proof;  // a sentence about the comparison of the converted weights; empty: nothing was compared
};

struct PushOptions {
  Path checkpoint;
  CardInput card;
  hub::PushRequest upload;
  bool dry_run = false;  // prints what would be sent, and sends nothing
  bool verify = false;   // the caller sets `prove`
  // Like convert::Options::prove, but also gets the conversion's options. Empty: nothing is compared.
  std::function<std::string(const convert::Options& options, const convert::Written& written)> prove{};
};
std::optional<PushOptions> push_options(CommandLine& line);
// Converts the checkpoint, writes its card, uploads both and checks what arrived. A dry run ends before the upload, and
// needs neither the Hub's client nor a token.
int run_push(PushOptions options);

}  // namespace hearth::commands
