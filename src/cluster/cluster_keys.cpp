// The table of keys of cluster files. Parsing, messages and docs/config.md come from it.
#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "cluster/cluster_file.h"

namespace hearth::cluster {
namespace {

template <auto Member>
config::Slot key_slot(ClusterFile& file) {
  return &(file.*Member);
}

config::Limits counts(double least, double most) {
  config::Limits limits;
  limits.least = least;
  limits.most = most;
  return limits;
}

config::Limits words(std::vector<std::string_view> choices) {
  config::Limits limits;
  limits.choices = std::move(choices);
  return limits;
}

std::vector<ClusterKey> scheduler_keys() {
  using C = ClusterFile;
  return {
      {"cluster", "description", key_slot<&C::description>, "", "one line about the cluster", {}},
      {"cluster", "scheduler", key_slot<&C::scheduler>, "",
       "who runs jobs; `none`: the job is a process of this host, and no job waits for another",
       words({"slurm", "none"})},
      {"job",
       "account",
       key_slot<&C::account>,
       "",
       "the project that pays; `hearth submit --account` replaces it, and empty leaves it to the site",
       {}},
      {"job",
       "partition",
       key_slot<&C::partition>,
       "",
       "the queue; `hearth submit --partition` replaces it, and empty leaves it to the site",
       {}},
      {"job", "qos", key_slot<&C::qos>, "", "the quality of service, where the site has several", {}},
      {"job", "constraint", key_slot<&C::constraint>, "", "features that the nodes must have", {}},
      {"job", "nodes", key_slot<&C::nodes>, "",
       "nodes of a job, where neither `hearth submit --nodes` nor the run file's `[parallelism]` says how many",
       counts(1, 1 << 20)},
      {"job", "ranks_per_node", key_slot<&C::ranks_per_node>, "", "ranks on each node: one for each GPU",
       counts(1, 4096)},
      {"job", "gpus_per_node", key_slot<&C::gpus_per_node>, "", "GPUs to ask for on each node; 0: none",
       counts(0, 4096)},
      {"job", "gpu_option", key_slot<&C::gpu_option>, "", "how the site wants GPUs asked for",
       words({"gpus-per-node", "gres"})},
      {"job", "cpus_per_rank", key_slot<&C::cpus_per_rank>, "",
       "CPUs to ask for with each rank; 0: what the site gives", counts(0, 4096)},
      {"job",
       "memory_per_node",
       key_slot<&C::memory_per_node>,
       "",
       "memory to ask for on each node as Slurm writes it, such as `64G`; `0`: all, and empty: what the site gives",
       {}},
      {"job", "exclusive", key_slot<&C::exclusive>, "", "whether the nodes run no other job meanwhile", {}},
      {"job",
       "time_limit",
       key_slot<&C::time_limit>,
       "",
       "the job's time limit as Slurm writes it, such as `24:00:00`; `hearth submit --time-limit` replaces it, and "
       "empty leaves it to the site",
       {}},
      {"job", "signal_lead_seconds", key_slot<&C::signal_lead_seconds>, "s",
       "how long before the time limit the training saves and leaves; at least a step, a save and half a minute",
       counts(10, 86400)},
      {"job",
       "requeue",
       key_slot<&C::requeue>,
       "",
       "whether a job that is not done goes back to the queue with its number; else it submits another job",
       {}},
      {"job", "options", key_slot<&C::options>, "", "further options of `sbatch`, such as \"--core-spec=0\"", {}},
  };
}

std::vector<ClusterKey> start_keys() {
  using C = ClusterFile;
  return {
      {"start", "launcher", key_slot<&C::launcher>, "",
       "what starts the ranks; `local`: `hearth train --ranks`, on one node", words({"srun", "mpirun", "local"})},
      {"start",
       "launcher_options",
       key_slot<&C::launcher_options>,
       "",
       "further options of the launcher, such as \"--mpi=pmix\"",
       {}},
      {"start", "modules", key_slot<&C::modules>, "", "environment modules to load, in this order", {}},
      {"start",
       "commands",
       key_slot<&C::commands>,
       "",
       "lines of bash that the job's script runs after the modules and the environment",
       {}},
      {"start",
       "container",
       key_slot<&C::container>,
       "",
       "the words that run a program in a container, such as [\"apptainer\", \"exec\", \"hearth.sif\"]; empty: "
       "without a container",
       {}},
      {"start",
       "hearth",
       key_slot<&C::hearth>,
       "",
       "the program on the nodes; empty: the one that submits, which the nodes must see at the same path",
       {}},
  };
}

std::vector<ClusterKey> device_keys() {
  using C = ClusterFile;
  return {
      {"device",
       "name",
       key_slot<&C::device_name>,
       "",
       "the GPU of the nodes, a name that `hearth plan --device` takes; with `memory`, any name",
       {}},
      {"device",
       "memory",
       key_slot<&C::device_memory>,
       "",
       "memory of a GPU, or of a node without GPUs, such as \"64 GiB\"; empty: that of the name, or "
       "`job.memory_per_node`",
       {}},
  };
}

std::vector<ClusterKey> preflight_keys() {
  using C = ClusterFile;
  return {
      {"preflight", "least_share", key_slot<&C::least_share>, "",
       "a rank with less than this share of the ranks' median, or of a figure below, is off", counts(0, 1)},
      {"preflight", "gemm_tflops", key_slot<&C::gemm_tflops>, "TFLOP/s",
       "rate of matrix products that each rank's device reaches; 0: ranks are compared with each other only",
       counts(0, 1e6)},
      {"preflight",
       "fabric_library",
       key_slot<&C::fabric_library>,
       "",
       "part of the file name of the plugin that must be loaded for tensors between nodes, such as "
       "\"librccl-net.so\"; empty: not checked",
       {}},
      {"preflight", "fabric_gb_s", key_slot<&C::fabric_gb_s>, "GB/s",
       "rate into each rank in an all_gather of 64 MiB over all ranks; 0: not checked", counts(0, 1e6)},
  };
}

}  // namespace

std::string ClusterKey::name() const { return fmt::format("{}.{}", section, key); }

config::Value ClusterKey::default_value() const {
  ClusterFile defaults;
  return std::visit(
      []<class Member>(const Member& member) -> config::Value {
        if constexpr (std::is_pointer_v<Member>) return *member;
        HEARTH_CHECK(false, "a choice");
      },
      slot(defaults));
}

std::span<const ClusterKey> cluster_keys() {
  static const std::vector<ClusterKey> keys = [] {
    std::vector<ClusterKey> all = scheduler_keys();
    for (ClusterKey& key : device_keys()) all.push_back(key);
    for (ClusterKey& key : start_keys()) all.push_back(key);
    for (ClusterKey& key : preflight_keys()) all.push_back(key);
    return all;
  }();
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
