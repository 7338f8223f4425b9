// SPDX-License-Identifier: Apache-2.0
// A real Slurm cluster on this machine, during the life of the object.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "support/environment.h"

namespace hearth::test {

class Cluster {
 public:
  // The reason why there can be none here; empty: there can.
  static std::string why_not() {
    if (::geteuid() != 0) return "only root can start a cluster";
    for (const char* program : {"/usr/sbin/slurmd", "/usr/sbin/munged"})
      if (!std::filesystem::exists(program)) return std::string(program) + " is not here";
    return {};
  }

  enum class Network { kShared, kOfEachNode };
  explicit Cluster(Network network = Network::kShared, int nodes = 2) {
    if (network == Network::kOfEachNode) ::setenv("SLURM_CLUSTER_NETWORK", "1", 1);
    const CommandResult up = run_command(fmt::format("bash {} up {} {}", kScript, folder_.path().string(), nodes));
    ::unsetenv("SLURM_CLUSTER_NETWORK");
    if (up.exit_code != 0) throw std::runtime_error(up.output);  // nothing that follows could work
    ::setenv("SLURM_CONF", (folder_ / "etc/slurm.conf").c_str(), 1);
  }
  ~Cluster() { run_command(fmt::format("bash {} down {}", kScript, folder_.path().string())); }
  Cluster(const Cluster&) = delete;

  // Ends every process of the node: its slurmd, and what that started.
  void kill_node(const std::string& node) {
    const std::string line = fmt::format("bash {} kill {} {}", kScript, folder_.path().string(), node);
    EXPECT_EQ(run_command(line).exit_code, 0);
  }

  // From then on the node cannot write in the folder.
  void make_read_only(const std::string& node, const Path& folder) {
    const std::string line =
        fmt::format("bash {} read_only {} {} {}", kScript, folder_.path().string(), node, folder.string());
    EXPECT_EQ(run_command(line).exit_code, 0);
  }

  // From then on the folder is empty on the node, as one that is not mounted.
  void hide(const std::string& node, const Path& folder) {
    const std::string line =
        fmt::format("bash {} hide {} {} {}", kScript, folder_.path().string(), node, folder.string());
    EXPECT_EQ(run_command(line).exit_code, 0);
  }

  // From then on nothing of the node's reaches the others.
  void cut(const std::string& node) {
    const std::string line = fmt::format("bash {} cut {} {}", kScript, folder_.path().string(), node);
    EXPECT_EQ(run_command(line).exit_code, 0);
  }

 private:
  const std::string kScript = source_path("tests/support/slurm_cluster.sh");
  ScratchFolder folder_;
};

}  // namespace hearth::test
