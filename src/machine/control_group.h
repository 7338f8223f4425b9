// The memory limit that Slurm, systemd, Docker or Kubernetes set by a control group.
// Sources: cgroups(7), proc_pid_cgroup(5), proc_pid_mountinfo(5).
#pragma once

#include <cstdint>
#include <optional>

#include "base/file.h"

namespace hearth::machine {

// The least of the limits of this process's control group and of those that it lies in, in bytes: memory.max of version
// 2, memory.limit_in_bytes of version 1. Nothing where no limit is set, or where the system does not say. memory.high
// slows a process down and does not end it: no limit. `root` stands before /proc and /sys, for tests.
std::optional<int64_t> control_group_memory_bytes(const Path& root = "/");

}  // namespace hearth::machine
