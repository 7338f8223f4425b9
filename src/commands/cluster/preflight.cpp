// `hearth preflight`: reads the run's options and the cluster file's figures, then becomes `hearth-train`.
#include "base/error.h"
#include "cluster/cluster_file.h"
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/run/options.h"
#include "commands/run_file.h"

namespace hearth::commands {

std::optional<config::PreflightOptions> preflight_options(CommandLine& line) {
  config::PreflightOptions options;
  std::string name;
  line.positional("RUN.toml", &options.run_toml, "the run file; without it, the devices and nodes alone").optional();
  line.option("--cluster", "NAME|FILE", &name, "the cluster file, whose figures of [preflight] are compared with");
  line.option("--ranks", "N", &options.ranks,
              "start N processes on this host; under srun and mpirun leave it out: they start the processes")
      .range(1, 4096);
  line.option("--steps", "N", &options.steps,
              "steps of the run with its layout, in a folder that is removed; 0: no steps")
      .range(0, 1000);
  line.option("--folder", "DIR", &options.folder, "the folder in which each node writes a file and reads it back");
  line.option("--set", "SECTION.KEY=VALUE", &options.sets, kSetHelp);
  line.flag("--json", &options.json, "print one JSON object");
  if (!line.parse()) return std::nullopt;
  if (options.run_toml.empty() && !options.sets.empty())
    throw user_error("--set was given without a run file", {}, "name the run file, or remove --set");
  if (!name.empty()) {
    const cluster::ClusterFile file = cluster::find_cluster_file(name);
    options.least_share = file.least_share;
    options.gemm_flops = 1e12 * file.gemm_tflops;
    options.fabric_bytes_s = 1e9 * file.fabric_gb_s;
    options.fabric_library = file.fabric_library;
  }
  return options;
}

int preflight(CommandLine& line) {
  if (!preflight_options(line)) return 0;
  become_hearth_train(line);
}

}  // namespace hearth::commands
