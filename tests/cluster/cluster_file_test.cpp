// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/environment.h"

namespace hearth::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

struct ClusterFiles : testing::Test {
  ClusterFile read(const std::string& text) {
    write_file_atomic(scratch / "my.toml", text);
    return read_cluster_file(scratch / "my.toml", "my.toml");
  }
  // The error's whole text.
  std::string error_of(const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUser);
      return error.what();
    }
    return "no error";
  }
  test::ScratchFolder scratch;
};

TEST_F(ClusterFiles, GiveEveryKeyAndTheEnvironmentInTheOrderOfTheFile) {
  const ClusterFile file = read(R"([cluster]
description = "ours"
scheduler = "slurm"
[job]
account = "abc"
partition = "batch"
nodes = 4
ranks_per_node = 8
gpus_per_node = 8
gpu_option = "gres"
cpus_per_rank = 7
memory_per_node = "0"
exclusive = true
time_limit = "1-12:00:00"
signal_lead_seconds = 600
requeue = false
options = ["--core-spec=0"]
[start]
launcher = "mpirun"
modules = ["a/1", "b"]
container = ["apptainer", "exec", "x.sif"]
hearth = "/opt/hearth/bin/hearth"
[environment]
Z_FIRST = "1"
A_SECOND = 2
)");
  EXPECT_EQ(file.account, "abc");
  EXPECT_EQ(file.ranks_per_node, 8);
  EXPECT_EQ(file.gpu_option, "gres");
  EXPECT_TRUE(file.exclusive);
  EXPECT_FALSE(file.requeue);
  EXPECT_THAT(file.options, ElementsAre("--core-spec=0"));
  EXPECT_THAT(file.modules, ElementsAre("a/1", "b"));
  EXPECT_EQ(file.launcher, "mpirun");
  EXPECT_THAT(file.environment, ElementsAre(Pair("Z_FIRST", "1"), Pair("A_SECOND", "2")));
}

TEST_F(ClusterFiles, NameTheLineAndTheNearestNameOfEveryWrongField) {
  const std::string error = error_of(R"([clutser]
scheduler = "slurm"
[job]
partitoin = "batch"
nodes = "two"
ranks_per_node = 0
launcher = "srun"
[start]
launcher = "ssh"
modules = "a"
[environment]
2BAD = "1"
LIST = ["a"]
)");
  EXPECT_THAT(error,
              HasSubstr("my.toml:1: [clutser] is not a section of a cluster file\n      fix: did you mean [cluster]?"));
  EXPECT_THAT(
      error,
      HasSubstr("my.toml:4: job.partitoin is not a key of a cluster file\n      fix: did you mean job.partition?"));
  EXPECT_THAT(error, HasSubstr("my.toml:5: job.nodes = \"two\": not a whole number"));
  EXPECT_THAT(error,
              HasSubstr("my.toml:6: job.ranks_per_node = 0 is out of range\n      fix: give at least 1, at most 4096"));
  EXPECT_THAT(
      error,
      HasSubstr("my.toml:7: job.launcher is not a key of a cluster file\n      fix: did you mean start.launcher?"));
  EXPECT_THAT(error, HasSubstr("my.toml:9: start.launcher = \"ssh\" is not a choice"));
  EXPECT_THAT(error, HasSubstr("my.toml:10: start.modules = \"a\": not a list of texts in quotes"));
  EXPECT_THAT(error, HasSubstr("my.toml:12: environment.2BAD is not the name of an environment variable"));
  EXPECT_THAT(error, HasSubstr("my.toml:13: environment.LIST is a list: not a text in quotes, nor a whole number"));
  EXPECT_THAT(error, HasSubstr("9 errors"));
}

TEST_F(ClusterFiles, RefuseWhatContradictsItself) {
  EXPECT_THAT(error_of("[job]\ntime_limit = \"soon\"\n"),
              HasSubstr("my.toml:2: job.time_limit = \"soon\" is not a time"));
  EXPECT_THAT(error_of("[job]\ntime_limit = \"4\"\nsignal_lead_seconds = 240\n"),
              HasSubstr("my.toml:3: job.signal_lead_seconds = 240 is not less than the time limit of 240 s"));
  EXPECT_THAT(error_of("[cluster]\nscheduler = \"none\"\n"), HasSubstr("start.launcher = \"srun\" has no allocation"));
  EXPECT_THAT(error_of("[cluster]\nscheduler = \"none\"\n[job]\ntime_limit = \"4\"\nsignal_lead_seconds = "
                       "10\n[start]\nlauncher = \"local\"\n"),
              HasSubstr("my.toml:4: job.time_limit is read by nobody"));
  EXPECT_THAT(error_of("[job]\noptions = [\"core-spec\"]\n"), HasSubstr("my.toml:2: job.options has \"core-spec\""));
  for (const char* given : {"partition = \"a\\nb\"", "options = [\"-a\\nb\"]"})
    EXPECT_THAT(error_of(fmt::format("[job]\n{}\n", given)), HasSubstr(" has a line break")) << given;
  EXPECT_THAT(error_of("x = 1\n"), HasSubstr("my.toml:1: x stands outside of a section"));
  EXPECT_THAT(error_of("[job\n"), HasSubstr("my.toml:1: this is not TOML"));
}

// Slurm's manual of sbatch, --time: minutes; minutes:seconds; hours:minutes:seconds; days-hours; days-hours:minutes;
// days-hours:minutes:seconds.
TEST(TimeLimits, AreThoseOfSlurm) {
  EXPECT_EQ(seconds_of_time_limit("30"), 1800);
  EXPECT_EQ(seconds_of_time_limit("30:15"), 1815);
  EXPECT_EQ(seconds_of_time_limit("02:30:15"), 9015);
  EXPECT_EQ(seconds_of_time_limit("1-2"), 93600);
  EXPECT_EQ(seconds_of_time_limit("1-2:30"), 95400);
  EXPECT_EQ(seconds_of_time_limit("1-2:30:15"), 95415);
  for (const char* wrong : {"", "x", "1:", ":1", "1:2:3:4", "-1", "1-", "1d", "1e3", "9999999999", "4000-0"})
    EXPECT_EQ(seconds_of_time_limit(wrong), -1) << wrong;
}

TEST(ShippedClusters, AreReadWithoutProblems) {
  for (const char* name : {"frontier", "local", "slurm_cpu", "slurm_nvidia"}) {
    const Path path = test::source_path(std::string("configs/clusters/") + name + ".toml");
    const ClusterFile file = read_cluster_file(path, name);
    EXPECT_FALSE(file.description.empty()) << name;
    EXPECT_EQ(file.has_slurm(), std::string(name) != "local");
  }
}

TEST(ShippedClusters, AreFoundByNameAndOthersByPath) {
  // The tests' folder stands next to bin/, so share/ is where the program's is.
  EXPECT_THAT(shipped_clusters(), ElementsAre("frontier", "local", "slurm_cpu", "slurm_nvidia"));
  EXPECT_EQ(find_cluster_file("frontier").gpus_per_node, 8);
  try {
    find_cluster_file("fronteir");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no cluster file \"fronteir\""));
    EXPECT_THAT(error.what(), HasSubstr("did you mean frontier?"));
  }
}

}  // namespace
}  // namespace hearth::cluster
