// SPDX-License-Identifier: Apache-2.0
// A cluster file: how jobs of Hearth run on one machine or cluster. It is a small TOML file apart from the run file, so
// that a run file needs no change on another cluster. configs/clusters has the shipped ones.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/file.h"
#include "config/fields.h"

namespace hearth::cluster {

struct ClusterFile {
  std::string name;  // "frontier", or the file as the user typed it; not a key
  Path path;         // of the file; not a key

  // [cluster]
  std::string description;
  std::string scheduler = "slurm";  // or "none": jobs are processes of this host

  // [job]: what the scheduler is asked for.
  std::string account, partition, qos, constraint;
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;
  int64_t gpus_per_node = 0;
  std::string gpu_option = "gpus-per-node";  // or "gres"
  int64_t cpus_per_rank = 0;
  std::string memory_per_node;
  bool exclusive = false;
  std::string time_limit;
  int64_t signal_lead_seconds = 300;
  bool requeue = true;
  std::vector<std::string> options;

  // [device]: what `hearth plan --device` plans for. Empty: not known.
  std::string device_name;    // of a GPU that machine/device.h knows, or a name of its own
  std::string device_memory;  // of a GPU, or of a node without GPUs: "64 GiB"

  // [start]: how ranks are started.
  std::string launcher = "srun";  // or "mpirun", "local"
  std::vector<std::string> launcher_options, modules, commands, container;
  std::string hearth;

  // [preflight]: figures of this cluster; 0 or empty: not known.
  double least_share = 0.9;
  double gemm_tflops = 0;
  std::string fabric_library;
  double fabric_gb_s = 0;

  // [environment]: names are free. In the order of the file.
  std::vector<std::pair<std::string, std::string>> environment;

  bool has_slurm() const { return scheduler == "slurm"; }
};

// A key of a cluster file.
struct ClusterKey {
  using Member = std::variant<bool ClusterFile::*, int64_t ClusterFile::*, double ClusterFile::*,
                              std::string ClusterFile::*, config::Names ClusterFile::*>;
  std::string_view section, key;
  Member member;
  std::string_view help;  // one sentence without a full stop
  config::Limits limits{};
  std::string_view unit{};

  std::string name() const;  // "job.partition"
  config::Value default_value() const;
};

// Every key except the free names in [environment], in the order of docs/config.md.
std::span<const ClusterKey> cluster_keys();
struct ClusterSection {
  std::string_view name, help;
};
std::span<const ClusterSection> cluster_sections();

// The seconds of a time limit of Slurm: "30" (minutes), "30:00", "24:00:00", "1-12", "1-12:30", "1-12:30:00". -1 if the
// text is not one, or is longer than a year.
int64_t seconds_of_time_limit(std::string_view text);

// Reads a file. Throws all its problems together: unknown keys and sections, wrong types and values, and rules between
// keys, each with file:line and the nearest name. `name` is for messages.
ClusterFile read_cluster_file(const Path& path, const std::string& name);

// The cluster file that a user names. A word without a slash that does not end in ".toml" is one of the shipped files,
// in share/hearth/clusters next to the program's folder. Throws user_error if there is no such file.
ClusterFile find_cluster_file(const std::string& name_or_file);

// The names of the shipped files, sorted; empty where the program was installed without them.
std::vector<std::string> shipped_clusters();

}  // namespace hearth::cluster
