// SPDX-License-Identifier: Apache-2.0
// What the nodes of a job print when its script looks at them (`hearth job node`), in lines:
//   found NODE TEXT   what a good node has: the build of its program, then the identities of the run's files
//   fine NODE         it can run the job
//   off NODE          it cannot
//   folder NODE same known      its run folder has the file that the job's script has just written, or: "other"
//                               starts.jsonl there tells of the job's submission, or: "unknown"
// Each node prints its lines in the same order; the lines of several nodes may be mixed. A line is short, because Slurm
// cuts lines of more than 1,024 bytes into parts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::cluster {

struct OddNode {
  std::string node, has, usual;  // the first TEXT that differs, and the TEXT of most nodes
};

// The nodes that differ from most nodes, in the order of their names. "Most" is more than half, because with two nodes
// that differ, nobody knows which one is right.
std::vector<OddNode> odd_nodes(std::string_view reports);

// Nodes where the run folder's path leads to another folder than on the rest: it is not mounted, stale, or local.
struct OtherFolder {
  std::vector<std::string> nodes;  // in the order of their names; empty: all have the same
  std::string usual;               // a node that has the run's folder
};

// The folder where the job's submission is written down is the run's. If that is in both or in neither, it is the one
// of the script's node, unless more than half of the nodes have another one.
OtherFolder nodes_with_another_folder(std::string_view reports);

}  // namespace hearth::cluster
