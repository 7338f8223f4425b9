// SPDX-License-Identifier: Apache-2.0
// Memory limits of control groups, on trees laid out as Linux, Slurm, systemd and Docker lay them out.
#include "machine/control_group.h"

#include <gtest/gtest.h>

#include "support/environment.h"

namespace hearth::machine {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
// What version 1 says where there is no limit: the most pages of 4 KiB that fit a signed 64-bit number.
constexpr const char* kNone = "9223372036854771712\n";

// A machine's /proc and /sys.
struct ControlGroup : testing::Test {
  void write(const std::string& path, const std::string& text) {
    const Path file = root / path;
    std::filesystem::create_directories(file.parent_path());
    write_file_atomic(file, text);
  }
  void limit(const std::string& path, int64_t gibibytes) { write(path, std::to_string(gibibytes * kGiB) + "\n"); }
  std::optional<int64_t> limit_gib() const {
    const auto bytes = control_group_memory_bytes(root);
    return bytes ? std::optional(*bytes / kGiB) : std::nullopt;
  }
  test::ScratchFolder root;
};

constexpr const char* kMountsV2 =
    "23 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw\n"
    "31 24 0:27 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

// systemd's service in a slice; the least stands in the middle.
TEST_F(ControlGroup, OfVersion2TheLeastOfAGroupAndOfThoseAboveItCounts) {
  write("proc/self/mountinfo", kMountsV2);
  write("proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0\n");
  write("sys/fs/cgroup/system.slice/memory.max", "max\n");
  write("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/memory.max", "max\n");
  EXPECT_EQ(limit_gib(), std::nullopt) << "max means no limit";
  limit("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/memory.high", 1);
  EXPECT_EQ(limit_gib(), std::nullopt) << "memory.high is no limit";
  limit("sys/fs/cgroup/system.slice/memory.max", 64);
  EXPECT_EQ(limit_gib(), 64);
  limit("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.max", 12);
  EXPECT_EQ(limit_gib(), 12);
  limit("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/memory.max", 16);
  EXPECT_EQ(limit_gib(), 12);
  limit("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/memory.max", 8);
  EXPECT_EQ(limit_gib(), 8);
  limit("sys/fs/cgroup/system.slice/another.service/memory.max", 1);
  EXPECT_EQ(limit_gib(), 8) << "of another group";
}

// A container with a namespace of its own sees its group as the root.
TEST_F(ControlGroup, TheMountPointsOwnLimitCounts) {
  write("proc/self/mountinfo", kMountsV2);
  write("proc/self/cgroup", "0::/\n");
  limit("sys/fs/cgroup/memory.max", 3);
  EXPECT_EQ(limit_gib(), 3);
}

// cgroupns=host: the path is the host's; the container's part of the tree is what is mounted.
TEST_F(ControlGroup, OnlyAPartOfTheTreeMayBeMounted) {
  write("proc/self/mountinfo", "31 24 0:27 /docker/4f0c /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  write("proc/self/cgroup", "0::/docker/4f0c/worker\n");
  limit("sys/fs/cgroup/memory.max", 9);
  EXPECT_EQ(limit_gib(), 9);
  limit("sys/fs/cgroup/worker/memory.max", 5);
  EXPECT_EQ(limit_gib(), 5);
  limit("sys/fs/cgroup/docker/4f0c/worker/memory.max", 1);
  EXPECT_EQ(limit_gib(), 5) << "that is another group";
  // A group that has no name in this namespace.
  write("proc/self/cgroup", "0::/../../4f0c\n");
  EXPECT_EQ(limit_gib(), 9);
}

TEST_F(ControlGroup, OfVersion1TheMemoryControllersTreeCounts) {
  write("proc/self/mountinfo",
        "33 24 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "36 24 0:32 / /sys/fs/cgroup/memory\\040here rw shared:14 - cgroup cgroup rw,memory\n");
  write("proc/self/cgroup",
        "12:pids:/user.slice\n6:cpu,cpuacct:/wrong\n5:memory:/slurm/uid_1000/job_7\n1:name=systemd:/wrong\n");
  write("sys/fs/cgroup/memory here/memory.limit_in_bytes", kNone);
  write("sys/fs/cgroup/memory here/slurm/uid_1000/job_7/memory.limit_in_bytes", kNone);
  limit("sys/fs/cgroup/cpu,cpuacct/memory.limit_in_bytes", 1);
  limit("sys/fs/cgroup/memory here/wrong/memory.limit_in_bytes", 1);
  EXPECT_EQ(limit_gib(), std::nullopt) << "the largest number means no limit";
  limit("sys/fs/cgroup/memory here/slurm/memory.limit_in_bytes", 40);
  EXPECT_EQ(limit_gib(), 40);
  limit("sys/fs/cgroup/memory here/slurm/uid_1000/job_7/memory.limit_in_bytes", 10);
  EXPECT_EQ(limit_gib(), 10);
}

// systemd's hybrid: memory is version 1's, and version 2's tree has no controllers. Or the other way round.
TEST_F(ControlGroup, WhereBothVersionsAreMountedTheOneThatLimitsCounts) {
  write("proc/self/mountinfo",
        "36 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "5:memory:/a/b\n0::/a/c\n");
  write("sys/fs/cgroup/unified/a/c/cgroup.procs", "1\n");
  EXPECT_EQ(limit_gib(), std::nullopt);
  limit("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", 6);
  EXPECT_EQ(limit_gib(), 6);
  limit("sys/fs/cgroup/unified/a/memory.max", 2);
  EXPECT_EQ(limit_gib(), 2);
}

TEST_F(ControlGroup, WhatIsMissingOrUnreadableLimitsNothing) {
  EXPECT_EQ(limit_gib(), std::nullopt);
  write("proc/self/mountinfo", "nonsense\n31 24 0:27 / /sys/fs/cgroup rw -\n");
  write("proc/self/cgroup", "nonsense\n7\n");
  write("sys/fs/cgroup/memory.max", "lots\n");
  EXPECT_EQ(limit_gib(), std::nullopt);
  // Where no mount is listed, the usual places.
  limit("sys/fs/cgroup/memory.max", 7);
  EXPECT_EQ(limit_gib(), 7);
  limit("sys/fs/cgroup/memory/memory.limit_in_bytes", 4);
  EXPECT_EQ(limit_gib(), 4);
  std::filesystem::create_directories(root / "sys/fs/cgroup/unreadable/memory.max");
  write("proc/self/cgroup", "0::/unreadable\n");
  EXPECT_EQ(limit_gib(), 4);
}

}  // namespace
}  // namespace hearth::machine
