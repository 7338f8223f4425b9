// hearth-train: the commands of `hearth` that need LibTorch. `hearth` starts it; users can start it, too.
#include <c10/util/Exception.h>

#include "base/error.h"
#include "bench/gemm.h"
#include "bench/ops.h"
#include "bench/step.h"
#include "commands/commands.h"
#include "commands/run/options.h"
#include "config/load.h"
#include "infer/eval.h"
#include "infer/generate.h"
#include "ops/runtime.h"
#include "train/libtorch_error.h"
#include "train/trainer.h"

namespace hearth {
namespace {

using commands::CommandLine;

int train_command(CommandLine& line) {
  const auto options = commands::train_options(line);
  if (!options) return 0;
  const config::LoadResult loaded = config::read_and_check(options->run_toml, options->sets);
  ops::prepare_process(loaded.config.training.threads);
  return static_cast<int>(train::run_training(loaded, *options));
}

int eval_command(CommandLine& line) {
  const auto options = commands::eval_options(line);
  if (!options) return 0;
  ops::prepare_process(options->threads);
  return static_cast<int>(infer::run_eval(*options));
}

int generate_command(CommandLine& line) {
  const auto options = commands::generate_options(line);
  if (!options) return 0;
  ops::prepare_process(options->threads);
  return static_cast<int>(infer::run_generate(*options));
}

int bench_step_command(CommandLine& line) {
  const auto options = commands::bench_step_options(line);
  if (!options) return 0;
  ops::prepare_process(options->config.training.threads);
  return static_cast<int>(bench::run_bench_step(*options));
}

int bench_ops_command(CommandLine& line) {
  const auto options = commands::bench_ops_options(line);
  if (!options) return 0;
  ops::prepare_process(options->config.training.threads);
  return static_cast<int>(bench::run_bench_ops(*options));
}

int bench_gemm_command(CommandLine& line) {
  const auto options = commands::bench_gemm_options(line);
  if (!options) return 0;
  ops::prepare_process(options->threads);
  return static_cast<int>(bench::run_bench_gemm(*options));
}

// LibTorch's errors have a C++ stack in what(); from_libtorch leaves it out.
int run(int argc, char** argv) {
  const std::vector<commands::Command> table = commands::torch_commands({.train = train_command,
                                                                         .eval = eval_command,
                                                                         .generate = generate_command,
                                                                         .bench_step = bench_step_command,
                                                                         .bench_ops = bench_ops_command,
                                                                         .bench_gemm = bench_gemm_command});
  try {
    return commands::run_program({"hearth-train", "LibTorch " HEARTH_LIBTORCH_VERSION, table}, argc, argv);
  } catch (const c10::Error& e) {
    throw train::from_libtorch(e);
  }
}

}  // namespace
}  // namespace hearth

int main(int argc, char** argv) { return hearth::run_and_report(hearth::run, argc, argv); }
