// SPDX-License-Identifier: Apache-2.0
// The batch script of a run: bash that a person can read and change, RUN/job.sh. One job of the scheduler runs it. It
// starts the ranks, passes signals on to them, and does what `hearth job after` says: start again in this allocation,
// ask for another job, or end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "cluster/cluster_file.h"

namespace hearth::cluster {

struct JobScript {
  ClusterFile cluster;
  std::string command;            // the command that wrote the script, for its heading
  Path hearth;                    // the program, as the nodes see it
  Path run_file, run;             // absolute
  Path checkpoints;               // the run's: absolute, or in a store
  std::vector<std::string> sets;  // overrides of the run file: "section.key=value"
  int64_t nodes = 1;
  int64_t max_restarts = 3;
  std::vector<std::string> exclude{};  // nodes that the job must not get
  bool preflight = false;              // `hearth preflight` checks the nodes of each job before the first start
  std::string cluster_argument{};      // --cluster for that check: a name, or an absolute path

  int64_t ranks() const { return nodes * cluster.ranks_per_node; }
};

using hearth::shell_word;

// The value in double quotes. The shell replaces $NAME and ${NAME}, and nothing else.
std::string shell_value(std::string_view text);

// The whole script.
std::string job_script(const JobScript& job);

}  // namespace hearth::cluster
