// SPDX-License-Identifier: Apache-2.0
// The table of keys of cluster files. Parsing, messages and docs/config.md come from it.
#include <fmt/format.h>

#include <array>

#include "cluster/cluster_file.h"
#include "config/field_row.h"

namespace hearth::cluster {

std::string ClusterKey::name() const { return fmt::format("{}.{}", section, key); }

config::Value ClusterKey::default_value() const {
  return std::visit([](auto member) -> config::Value { return ClusterFile().*member; }, member);
}

std::span<const ClusterKey> cluster_keys() {
  using C = ClusterFile;
  static const std::vector<ClusterKey> keys = {
      {"cluster", "description", &C::description, "one line about the cluster"},
      {"cluster", "scheduler", &C::scheduler,
       "who runs jobs; `none`: the job is a process of this host, and no job waits for another",
       config::one_of({"slurm", "none"})},
      {"job", "account", &C::account,
       "the project that pays; `hearth submit --account` replaces it, and empty leaves it to the site"},
      {"job", "partition", &C::partition,
       "the queue; `hearth submit --partition` replaces it, and empty leaves it to the site"},
      {"job", "qos", &C::qos, "the quality of service, where the site has several"},
      {"job", "constraint", &C::constraint, "features that the nodes must have"},
      {"job", "nodes", &C::nodes,
       "nodes of a job, where neither `hearth submit --nodes` nor the run file's `[parallelism]` says how many",
       config::between(1, 1 << 20)},
      {"job", "ranks_per_node", &C::ranks_per_node, "ranks on each node: one for each GPU", config::between(1, 4096)},
      {"job", "gpus_per_node", &C::gpus_per_node, "GPUs to ask for on each node; 0: none", config::between(0, 4096)},
      {"job", "gpu_option", &C::gpu_option, "how the site wants GPUs asked for",
       config::one_of({"gpus-per-node", "gres"})},
      {"job", "cpus_per_rank", &C::cpus_per_rank, "CPUs to ask for with each rank; 0: what the site gives",
       config::between(0, 4096)},
      {"job", "memory_per_node", &C::memory_per_node,
       "memory to ask for on each node as Slurm writes it, such as `64G`; `0`: all, and empty: what the site gives"},
      {"job", "exclusive", &C::exclusive, "whether the nodes run no other job meanwhile"},
      {"job", "time_limit", &C::time_limit,
       "the job's time limit as Slurm writes it, such as `24:00:00`; `hearth submit --time-limit` replaces it, and "
       "empty leaves it to the site"},
      {"job", "signal_lead_seconds", &C::signal_lead_seconds,
       "how long before the time limit the training saves and leaves; at least a step, a save and half a minute",
       config::between(10, 86400), "s"},
      {"job", "requeue", &C::requeue,
       "whether a job that is not done goes back to the queue with its number; else it submits another job"},
      {"job", "options", &C::options, "further options of `sbatch`, such as \"--core-spec=0\""},
      {"device", "name", &C::device_name,
       "the GPU of the nodes, a name that `hearth plan --device` takes; with `memory`, any name"},
      {"device", "memory", &C::device_memory,
       "memory of a GPU, or of a node without GPUs, such as \"64 GiB\"; empty: that of the name, or "
       "`job.memory_per_node`"},
      {"start", "launcher", &C::launcher, "what starts the ranks; `local`: `hearth train --ranks`, on one node",
       config::one_of({"srun", "mpirun", "local"})},
      {"start", "launcher_options", &C::launcher_options, "further options of the launcher, such as \"--mpi=pmix\""},
      {"start", "modules", &C::modules, "environment modules to load, in this order"},
      {"start", "commands", &C::commands,
       "lines of bash that the job's script runs after the modules and the environment"},
      {"start", "container", &C::container,
       "the words that run a program in a container, such as [\"apptainer\", \"exec\", \"hearth.sif\"]; empty: without "
       "a container"},
      {"start", "hearth", &C::hearth,
       "the program on the nodes; empty: the one that submits, which the nodes must see at the same path"},
      {"preflight", "least_share", &C::least_share,
       "a rank with less than this share of the ranks' median, or of a figure below, is off", config::between(0, 1)},
      {"preflight", "gemm_tflops", &C::gemm_tflops,
       "rate of matrix products that each rank's device reaches; 0: ranks are compared with each other only",
       config::between(0, 1e6), "TFLOP/s"},
      {"preflight", "fabric_library", &C::fabric_library,
       "part of the file name of the plugin that must be loaded for tensors between nodes, such as \"librccl-net.so\"; "
       "empty: not checked"},
      {"preflight", "fabric_gb_s", &C::fabric_gb_s,
       "rate into each rank in an all_gather of 64 MiB over all ranks; 0: not checked", config::between(0, 1e6),
       "GB/s"},
  };
  return keys;
}

std::span<const ClusterSection> cluster_sections() {
  static constexpr std::array<ClusterSection, 6> sections = {{
      {"cluster", "What this cluster is."},
      {"job", "What the scheduler is asked for. `sbatch` gets each as the option of the same name."},
      {"device", "What `hearth plan --device` with this file plans for; it also reads `preflight.gemm_tflops`."},
      {"start", "How the job's script starts the ranks."},
      {"preflight", "Figures that `hearth preflight` compares with."},
      {"environment",
       "Variables that the job's script exports, `NAME = \"value\"`, in the order of the file. A value may name "
       "others: `LD_LIBRARY_PATH = \"/opt/plugin/lib:$LD_LIBRARY_PATH\"`."},
  }};
  return sections;
}

}  // namespace hearth::cluster
