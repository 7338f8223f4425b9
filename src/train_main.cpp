// SPDX-License-Identifier: Apache-2.0
// hearth-train: the commands of `hearth` that need LibTorch. `hearth` starts it; users can start it, too.
#include <c10/util/Exception.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/program.h"
#include "bench/comm.h"
#include "bench/gemm.h"
#include "bench/ops.h"
#include "bench/preflight.h"
#include "bench/ranks.h"
#include "bench/step.h"
#include "checkpoint/retain.h"
#include "comm/join.h"
#include "commands/commands.h"
#include "commands/torch_options.h"
#include "config/load.h"
#include "infer/eval.h"
#include "infer/generate.h"
#include "infer/proof.h"
#include "infer/score.h"
#include "launch/launched_rank.h"
#include "launch/local_ranks.h"
#include "metrics/throughput.h"
#include "ops/runtime.h"
#include "run/compute_device.h"
#include "run/same_run.h"
#include "runfolder/lease.h"
#include "train/libtorch_error.h"
#include "train/signals.h"
#include "train/trainer.h"

namespace hearth {
namespace {

// `folder`: rank 0's, for the secret of a start over a network (comm/meeting.h).
comm::Membership membership_of(const launch::LaunchedRank& launched, const Path& folder,
                               double join_timeout_s = config::Comm().init_timeout_seconds) {
  return {.rank = launched.rank,
          .size = launched.size,
          .address = launched.address,
          .key = launched.key,
          .secret_folder = folder,
          .supervised = launched.supervised,
          .join_timeout_s = join_timeout_s};
}

// Before the ranks know how many threads each may have (run/run.h), one of several has one: `threads` are those of all.
void prepare_rank(int64_t ranks, int64_t threads) { ops::prepare_process(ranks == 1 ? threads : 1); }

// The group of a rank that computes with this configuration, on its device.
auto group_of(const launch::LaunchedRank& launched, const config::RunConfig& config, comm::Control& control,
              const comm::MakeGroup& make_group) {
  prepare_rank(launched.size, config.training.threads);
  const at::Device device = run::open_rank_device(control, std::string(config::name_of(config.training.device)));
  return make_group(config.comm, comm::transfers_of(config, device));
}

// Whether ranks are processes of their own. NCCL that is named serves one rank, too: so it can be tried on one GPU.
bool needs_processes(const config::RunConfig& config) {
  return config.parallelism.ranks() > 1 || config.comm.backend == config::CommBackend::kNccl;
}

// The rank that a launcher gave this process among several; nullopt: this process is alone, and may start `ranks`.
std::optional<launch::LaunchedRank> launched_rank_of(int64_t ranks) {
  const std::optional<launch::LaunchedRank> launched = launch::launched_rank_in_environment();
  if (!launched || launched->size == 1) return std::nullopt;
  if (ranks > 0 && launched->rank == 0)
    throw user_error(fmt::format("--ranks {} was given to a process that {} started", ranks, launched->launcher),
                     fmt::format("{} ranks were started already", launched->size), "remove --ranks");
  if (ranks > 0) std::exit(static_cast<int>(ExitCode::kUser));  // rank 0 says why
  return launched;
}

// Whether a launcher's output is this process's. The shell of one task, as `srun --pty bash`, is a user's.
bool is_launched() {
  const std::optional<launch::LaunchedRank> launched = launch::launched_rank_in_environment();
  return launched && (launched->size > 1 || launched->launcher != "srun");
}

// The error of options that start ranks, in a process that is one of several already.
std::optional<Error> misuse_of(const launch::LaunchedRank& launched, const config::TrainOptions& options) {
  if (options.ranks > 0)
    return user_error(
        fmt::format("--ranks {} was given to a process that {} started", options.ranks, launched.launcher),
        fmt::format("{} ranks were started already", launched.size), "remove --ranks");
  if (options.max_restarts > 0)
    return user_error(fmt::format("--max-restarts was given to a process that {} started", launched.launcher),
                      "only the launcher can start its processes again", "remove --max-restarts");
  return std::nullopt;
}

// Trains as one of several processes. With `known`, the run file has been read and checked for all of them.
int train_as(const launch::LaunchedRank& launched, const config::TrainOptions& options,
             const config::LoadResult* known) {
  const run::GivenRun given{.run_toml = options.run_toml,
                            .sets = options.sets,
                            .restart = options.restart,
                            .misuse = misuse_of(launched, options)};
  std::optional<run::FirstRun> first;
  if (known == nullptr && launched.rank == 0) first = run::read_first_run(given, launched.size);
  const Path folder = first ? first->folder() : Path();
  const double join_timeout_s =
      known != nullptr ? known->config.comm.init_timeout_seconds : run::join_timeout_s(first, given, launched.size);
  return comm::run_as_rank(
      membership_of(launched, folder, join_timeout_s), [&](comm::Control& control, const comm::MakeGroup& make_group) {
        const train::SignalScope signals(
            {.speaks = launched.rank == 0, .ends_by_interrupt = !launched.supervised, .has_bar = !options.launched});
        // Also of the exchange of the run. Other hosts' ranks know the key after it.
        if (known != nullptr) control.set_timeout(known->config.comm.init_timeout_seconds);
        if (first && !first->error) control.set_timeout(first->loaded.config.comm.init_timeout_seconds);
        const config::LoadResult loaded = known != nullptr ? *known : run::share_run(first, given, control);
        control.together("the run file's syntax", [&] {
          if (loaded.syntax_error) config::throw_problems(loaded.file_name, loaded.problems);
        });
        control.set_timeout(loaded.config.comm.init_timeout_seconds);
        const auto group = group_of(launched, loaded.config, control, make_group);
        return static_cast<int>(train::run_training(loaded, options, *group));
      });
}

// Trains as processes of this host, and starts them again after failures, as --max-restarts says.
int train_locally(config::TrainOptions options, const config::LoadResult& loaded) {
  const auto newest_step = [&] {
    const std::vector<int64_t> steps = checkpoint::list_steps(loaded.config.checkpoint_folder());
    return steps.empty() ? 0 : steps.back();
  };
  int64_t before = newest_step(), restarts = 0;  // since the last new checkpoint
  int64_t lease = runfolder::Lease::newest(loaded.config.run_folder());
  while (true) {
    const launch::LocalEnd end =
        launch::run_local_ranks(loaded.config.parallelism.ranks(),
                                [&](const launch::LaunchedRank& mine) { return train_as(mine, options, &loaded); });
    const int64_t after = newest_step();
    if (after > before) restarts = 0;
    before = after;
    const bool failed = end.code == static_cast<int>(ExitCode::kHardware);
    if (!failed || end.asked_to_leave || restarts == options.max_restarts) return end.code;
    // Our ranks took it once. A start elsewhere that took it, too, goes on with the run.
    const int64_t lease_before = std::exchange(lease, runfolder::Lease::newest(loaded.config.run_folder()));
    if (lease > lease_before + 1) return end.code;
    ++restarts;
    options.restart = false;  // the run that failed goes on
    log_info("warning: the ranks start again, from {}; restart {} of {} without a new checkpoint",
             after > 0 ? fmt::format("step {}", after) : "the beginning", restarts, options.max_restarts);
  }
}

int train_command(config::TrainOptions options) {
  options.launched = is_launched();
  // A training does not end because the reader of its output did, as in `hearth train RUN.toml | head`.
  std::signal(SIGPIPE, SIG_IGN);
  if (const auto launched = launched_rank_of(/*ranks=*/0)) return train_as(*launched, options, nullptr);
  const config::LoadResult loaded = config::read_and_check(options.run_toml, options.sets, options.ranks);
  // hearth-train is started by itself, too.
  if (loaded.syntax_error) config::throw_problems(loaded.file_name, loaded.problems);
  if (needs_processes(loaded.config) || options.max_restarts > 0) return train_locally(options, loaded);
  ops::prepare_process(loaded.config.training.threads);
  const train::SignalScope signals({.speaks = true, .has_bar = !options.launched});
  return static_cast<int>(train::run_training(loaded, options, *comm::single()));
}

int bench_comm_command(const config::BenchCommOptions& options) {
  const double began_s = metrics::monotonic_seconds();
  const auto as_rank = [&](const launch::LaunchedRank& launched) {
    return comm::run_as_rank(membership_of(launched, "."),
                             [&](comm::Control& control, const comm::MakeGroup& make_group) {
                               ops::prepare_process(1);
                               return static_cast<int>(bench::run_bench_comm(options, control, make_group, began_s));
                             });
  };
  if (const auto launched = launched_rank_of(options.ranks)) return as_rank(*launched);
  return launch::run_local_ranks(options.ranks > 0 ? options.ranks : 2, as_rank).code;
}

int preflight_command(const config::PreflightOptions& options) {
  const auto as_rank = [&](const launch::LaunchedRank& launched) {
    const run::GivenRun given{.run_toml = options.run_toml, .sets = options.sets};
    std::optional<run::FirstRun> first;
    if (launched.rank == 0) first = run::read_first_run(given, launched.size);
    const Path folder = !options.folder.empty() ? options.folder : first ? first->folder() : Path(".");
    return comm::run_as_rank(membership_of(launched, folder, run::join_timeout_s(first, given, launched.size)),
                             [&](comm::Control& control, const comm::MakeGroup& make_group) {
                               const train::SignalScope signals;
                               prepare_rank(launched.size, /*threads=*/0);
                               const config::LoadResult loaded = run::share_run(first, given, control);
                               control.set_timeout(loaded.config.comm.init_timeout_seconds);
                               const bench::PreflightResult result =
                                   bench::run_preflight(options, loaded, control, make_group);
                               if (control.rank() == 0) commands::hand_on_bad_nodes(options, result.bad_nodes);
                               return static_cast<int>(result.code);
                             });
  };
  if (const auto launched = launched_rank_of(options.ranks)) return as_rank(*launched);
  int64_t ranks = std::max<int64_t>(options.ranks, 1);
  if (options.ranks == 0 && !options.run_toml.empty())
    ranks = config::read_and_check(options.run_toml, options.sets).config.parallelism.ranks();
  return launch::run_local_ranks(ranks, as_rank).code;
}

int bench_step_command(const config::BenchStepOptions& options) {
  const config::RunConfig& config = options.config;
  const auto as_rank = [&](const launch::LaunchedRank& launched) {
    return comm::run_as_rank(
        membership_of(launched, ".", config.comm.init_timeout_seconds),
        [&](comm::Control& control, const comm::MakeGroup& make_group) {
          return static_cast<int>(bench::run_bench_step(options, *group_of(launched, config, control, make_group)));
        });
  };
  if (const auto launched = launched_rank_of(/*ranks=*/0)) return as_rank(*launched);
  if (needs_processes(config)) return launch::run_local_ranks(config.parallelism.ranks(), as_rank).code;
  ops::prepare_process(config.training.threads);
  return static_cast<int>(bench::run_bench_step(options, *comm::single()));
}

// The process is prepared after the conversion, because a prepared one takes tiny numbers for 0.
std::string prove_conversion(const convert::Options& options, const convert::Written& written) {
  ops::prepare_process(/*threads=*/0);
  return infer::prove_conversion(options, written);
}

int convert_command(const commands::ConvertOptions& all) {
  convert::Options options = all.options;
  if (all.verify)
    options.prove = [&all](const convert::Written& written) { return prove_conversion(all.options, written); };
  return commands::run_convert(options);
}

int push_command(commands::PushOptions options) {
  if (options.verify) options.prove = prove_conversion;
  return commands::run_push(std::move(options));
}

// A command: reads the options that `hearth` has read, and does the work.
template <auto options_of, auto work>
int command(commands::CommandLine& line) {
  const auto options = options_of(line);
  return options ? static_cast<int>(work(*options)) : 0;
}

int64_t threads_of(const auto& options) { return options.threads; }
int64_t threads_of(const config::ScoreOptions& options) { return options.eval.threads; }
int64_t threads_of(const config::BenchStepOptions& options) { return options.config.training.threads; }

// The same for work of this process alone.
template <auto options_of, auto work>
int alone(commands::CommandLine& line) {
  const auto options = options_of(line);
  if (!options) return 0;
  ops::prepare_process(threads_of(*options));
  return static_cast<int>(work(*options));
}

// LibTorch's errors have a C++ stack in what(); from_libtorch leaves it out.
int run_command(int argc, char** argv) {
  const std::vector<commands::Command> table =
      commands::torch_commands({.train = command<commands::train_options, train_command>,
                                .preflight = command<commands::preflight_options, preflight_command>,
                                .eval = alone<commands::eval_options, infer::run_eval>,
                                .score = alone<commands::score_options, infer::run_score>,
                                .generate = alone<commands::generate_options, infer::run_generate>,
                                .bench_step = command<commands::bench_step_options, bench_step_command>,
                                .bench_ops = alone<commands::bench_ops_options, bench::run_bench_ops>,
                                .bench_gemm = alone<commands::bench_gemm_options, bench::run_bench_gemm>,
                                .bench_comm = command<commands::bench_comm_options, bench_comm_command>,
                                .bench_ranks = command<commands::bench_ranks_options, bench::run_bench_ranks>,
                                .convert = command<commands::convert_options, convert_command>,
                                .push = command<commands::push_options, push_command>});
  raise_open_files_limit();
  try {
    return commands::run_program({"hearth-train", "LibTorch " HEARTH_LIBTORCH_VERSION, table}, argc, argv);
  } catch (const c10::Error& e) {
    throw train::from_libtorch(e);
  }
}

}  // namespace
}  // namespace hearth

int main(int argc, char** argv) { return hearth::run_and_report(hearth::run_command, argc, argv); }
