// SPDX-License-Identifier: Apache-2.0
// The options of `hearth preflight`, with the cluster file's figures.
#include <cstdlib>

#include "base/log.h"
#include "base/text.h"
#include "cluster/cluster_file.h"
#include "cluster/slurm.h"
#include "commands/run_file.h"
#include "commands/torch_options.h"

namespace hearth::commands {

std::optional<config::PreflightOptions> preflight_options(CommandLine& line) {
  config::PreflightOptions options;
  std::string name;
  line.positional("RUN.toml", &options.run_toml, "the run file; without it, the devices and nodes alone").optional();
  line.option("--cluster NAME|FILE", &name, "the cluster file, whose figures of [preflight] are compared with");
  line.option("--ranks N", &options.ranks, within(1, 4096),
              "start N processes on this host; under srun and mpirun leave it out: they start the processes");
  line.option("--steps N", &options.steps, within(0, 1000),
              "steps of the run with its layout, in a folder that is removed; 0: no steps");
  line.option("--folder DIR", &options.folder, "the folder in which each node writes a file and reads it back");
  line.option("--set SECTION.KEY=VALUE", &options.sets, kSetHelp);
  line.flag("--exclude-bad", &options.exclude_bad,
            "where nodes are off: this Slurm job goes back to the queue, to start again without them");
  line.option("--bad-nodes FILE", &options.bad_nodes, "write the names of the nodes that are off into it, one a line");
  line.flag("--json", &options.json, "print one JSON object");
  if (!line.parse()) return std::nullopt;
  if (options.run_toml.empty() && !options.sets.empty())
    throw user_error("--set was given without a run file", {}, "name the run file, or remove --set");
  if (options.exclude_bad && std::getenv("SLURM_JOB_ID") == nullptr)
    throw user_error("--exclude-bad was given outside a Slurm job", "there is no SLURM_JOB_ID in the environment",
                     "remove --exclude-bad, or start hearth preflight in the job");
  if (!name.empty()) {
    const cluster::ClusterFile file = cluster::find_cluster_file(name);
    options.least_share = file.least_share;
    options.gemm_flops = 1e12 * file.gemm_tflops;
    options.fabric_bytes_s = 1e9 * file.fabric_gb_s;
    options.fabric_library = file.fabric_library;
  }
  return options;
}

void hand_on_bad_nodes(const config::PreflightOptions& options, const std::vector<std::string>& nodes) {
  std::string lines;
  for (const std::string& node : nodes) lines += node + "\n";
  if (!options.bad_nodes.empty()) write_file_atomic(options.bad_nodes, lines);
  if (!options.exclude_bad || nodes.empty()) return;
  const std::string job = std::getenv("SLURM_JOB_ID");
  log_info("hearth: job {} goes back to the queue, to start without {}", job, join(nodes));
  cluster::requeue_without(job, nodes);
}

}  // namespace hearth::commands
