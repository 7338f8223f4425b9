// SPDX-License-Identifier: Apache-2.0
// `hearth train`: checks the run file, then becomes `hearth-train`.
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/run_file.h"
#include "commands/torch_options.h"
#include "config/load.h"
#include "launch/launched_rank.h"

namespace hearth::commands {

std::optional<config::TrainOptions> train_options(CommandLine& line) {
  config::TrainOptions options;
  line.positional("RUN.toml", &options.run_toml, "the run file");
  line.option("--set SECTION.KEY=VALUE", &options.sets, kSetHelp);
  line.flag("--restart", &options.restart, "start over; the old run is moved aside, not deleted");
  line.flag("--verbose", &options.verbose, "print every key, and every part of the memory");
  line.option("--ranks N", &options.ranks, within(1, 4096),
              "start N processes on this host that share the training; leave it out under srun, mpirun and torchrun");
  line.option("--max-restarts N", &options.max_restarts, within(0, 1 << 20),
              "start again from the newest checkpoint after a kill or a failure of hardware; at most N times without a "
              "new one");
  line.elsewhere({"--resume", "--resume_from_checkpoint", "--load"},
                 "leave it out: a training goes on from the newest good checkpoint of its run folder");
  line.elsewhere({"--nproc_per_node", "--nproc-per-node", "--num_processes", "--nproc", "-n", "-np"},
                 "write --ranks N");
  line.elsewhere({"--config", "--config_file", "--config-file", "--job.config_file"},
                 "leave it out: the run file is an argument of its own");
  line.append(sections_help());
  if (!line.parse()) return std::nullopt;
  return options;
}

int train(CommandLine& line) {
  const auto options = train_options(line);
  if (!options) return 0;
  // A process of srun, mpirun or torchrun: hearth-train meets the other ranks first, so that one rank reports errors.
  if (launch::launched_rank_in_environment()) become_hearth_train(line);
  const config::LoadResult loaded = config::read_and_check(options->run_toml, options->sets, options->ranks);
  // hearth-train checks more and reports all errors together. If it is missing, `hearth` reports the errors of the run
  // file.
  if (loaded.syntax_error || !has_hearth_train()) config::throw_problems(loaded.file_name, loaded.problems);
  become_hearth_train(line);
}

}  // namespace hearth::commands
