// SPDX-License-Identifier: Apache-2.0
// The memory limit that Slurm, systemd, Docker or Kubernetes set with a control group.
// Sources: cgroups(7), proc_pid_cgroup(5), proc_pid_mountinfo(5).
#pragma once

#include <cstdint>
#include <optional>

#include "base/file.h"

namespace hearth::machine {

// The lowest limit of this process's control group and the groups around it, in bytes: memory.max of version 2,
// memory.limit_in_bytes of version 1. Empty if no limit is set or known. memory.high is ignored: it slows a process
// down and does not end it. `root` is put before /proc and /sys, for tests.
std::optional<int64_t> control_group_memory_bytes(const Path& root = "/");

}  // namespace hearth::machine
