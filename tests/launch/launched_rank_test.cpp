// SPDX-License-Identifier: Apache-2.0
// Ranks as srun, mpirun and torchrun describe them. The variables are those that Slurm 22.05, Open MPI 4.1, MPICH 4.0
// and PyTorch 2.11 set.
#include "launch/launched_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "base/error.h"

namespace hearth::launch {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using Variables = std::map<std::string, std::string, std::less<>>;

std::optional<LaunchedRank> launched_rank_of(const Variables& variables) {
  return launched_rank_in([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

std::string refusal_of(const Variables& variables) {
  try {
    launched_rank_of(variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUser);
    return error.what();
  }
  return "nothing";
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

const Variables kSlurmStep = {{"SLURM_PROCID", "5"},
                              {"SLURM_STEP_NUM_TASKS", "8"},
                              {"SLURM_STEP_NUM_NODES", "2"},
                              {"SLURM_STEP_NODELIST", "node[03-05,7]"},
                              {"SLURM_JOB_ID", "123456"},
                              {"SLURM_STEP_ID", "2"},
                              {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}};
const Variables kOpenMpiRank = {
    {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables kTorchrunRank = {{"RANK", "3"},
                                 {"WORLD_SIZE", "4"},
                                 {"LOCAL_WORLD_SIZE", "2"},
                                 {"MASTER_ADDR", "10.0.0.1"},
                                 {"MASTER_PORT", "29500"}};

TEST(LaunchedRank, IsNoneWithoutALauncher) {
  EXPECT_FALSE(launched_rank_of({}));
  // A batch script, and a shell in an allocation, are not steps.
  EXPECT_FALSE(launched_rank_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}}));
}

TEST(LaunchedRank, OfSrunOnSeveralHostsIsReachedByThePortOfTheJob) {
  const std::optional<LaunchedRank> launched = launched_rank_of(kSlurmStep);
  ASSERT_TRUE(launched);
  EXPECT_EQ(launched->rank, 5);
  EXPECT_EQ(launched->size, 8);
  EXPECT_EQ(launched->launcher, "srun");
  EXPECT_THAT(launched->address, StartsWith("tcp:node03:23456,25959,28462,30965,"));
  EXPECT_EQ(launched->key, "slurm-123456-2");
  EXPECT_THAT(launched_rank_of(with(kSlurmStep, {{"SLURM_STEP_NODELIST", "login1,node2"}}))->address,
              StartsWith("tcp:login1:23456,"));
  // The ports of the highest number begin again at the lowest.
  EXPECT_THAT(launched_rank_of(with(kSlurmStep, {{"SLURM_JOB_ID", "19999"}}))->address,
              StartsWith("tcp:node03:39999,22502,25005,"));
  EXPECT_EQ(launched_rank_of(with(kSlurmStep, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "77"}}))->address, "tcp:h:77");
}

TEST(LaunchedRank, OnOneHostIsReachedByName) {
  const auto name = [](const char* key) { return fmt::format("unix:hearth-{}-{}", ::getuid(), key); };
  EXPECT_EQ(launched_rank_of(with(kSlurmStep, {{"SLURM_STEP_NUM_NODES", "1"}}))->address, name("slurm-123456-2"));
  EXPECT_THAT(launched_rank_of(kOpenMpiRank)->address, StartsWith(name("process-")));
  EXPECT_EQ(launched_rank_of(with(kTorchrunRank, {{"LOCAL_WORLD_SIZE", "4"}}))->address, name("port-29500"));
}

// A job that was put back into the queue keeps its number.
TEST(LaunchedRank, OfARestartedJobHasAnotherKey) {
  EXPECT_EQ(launched_rank_of(with(kSlurmStep, {{"SLURM_RESTART_COUNT", "3"}}))->key, "slurm-123456-2-3");
}

// Open MPI's name of the job is equal on all its hosts, whatever stands between mpirun and the rank.
TEST(LaunchedRank, OfMpirunHasTheKeyOfItsJob) {
  const Variables job = {{"PMIX_NAMESPACE", "1017380865"}};
  EXPECT_EQ(launched_rank_of(with(kOpenMpiRank, job))->key, "mpi-1017380865");
  EXPECT_EQ(launched_rank_of(with(kOpenMpiRank, {{"OMPI_MCA_ess_base_jobid", "77"}}))->key, "mpi-77");
  const Variables secret = {{"PMIX_NAMESPACE", "prterun-node1-4242@1"},
                            {"OMPI_MCA_orte_precondition_transports", "558726789ff6202d-c296bc6592ad0ade"}};
  const std::optional<LaunchedRank> launched = launched_rank_of(with(kOpenMpiRank, secret));
  EXPECT_THAT(launched->key, HasSubstr("558726789ff6202d"));
  EXPECT_LT(launched->address.size(), 100U) << "a name of a socket is short";
}

TEST(LaunchedRank, OfTorchrunLeavesItsStoreThePort) {
  const std::optional<LaunchedRank> launched = launched_rank_of(kTorchrunRank);
  ASSERT_TRUE(launched);
  EXPECT_EQ(launched->rank, 3);
  EXPECT_EQ(launched->size, 4);
  EXPECT_EQ(launched->address, "tcp:10.0.0.1:29500");
  EXPECT_EQ(launched_rank_of(with(kTorchrunRank, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}))->address,
            "tcp:10.0.0.1:29501,29502,29503,29504,29505,29506,29507,29508");
}

TEST(LaunchedRank, OfMpirunInAnAllocationIsMpirunsAndNotSlurms) {
  const std::optional<LaunchedRank> launched = launched_rank_of(with(kSlurmStep, kOpenMpiRank));
  ASSERT_TRUE(launched);
  EXPECT_EQ(launched->launcher, "mpirun");
  EXPECT_EQ(launched->rank, 1);
  EXPECT_EQ(launched_rank_of({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"MPI_LOCALNRANKS", "3"}})->rank, 2);
}

// srun --mpi=pmi2 gives both. The step has a key that all its hosts know.
TEST(LaunchedRank, OfAStepIsSlurmsAlsoWherePmiCountsTheSameTasks) {
  const std::optional<LaunchedRank> plain = launched_rank_of(kSlurmStep);
  const std::optional<LaunchedRank> launched =
      launched_rank_of(with(kSlurmStep, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}}));
  ASSERT_TRUE(plain && launched);
  EXPECT_EQ(launched->launcher, "srun");
  EXPECT_EQ(launched->rank, plain->rank);
  EXPECT_EQ(launched->key, plain->key);
  EXPECT_EQ(launched->address, plain->address);
}

TEST(LaunchedRank, OfOneTaskIsARankToo) {
  const std::optional<LaunchedRank> launched = launched_rank_of(
      with(kSlurmStep, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_STEP_NUM_NODES", "1"}}));
  ASSERT_TRUE(launched);
  EXPECT_EQ(launched->size, 1);
}

TEST(LaunchedRank, ThatContradictsSlurmIsRefused) {
  const Variables alone = {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"MPI_LOCALNRANKS", "1"}};
  EXPECT_THAT(refusal_of(with(kSlurmStep, alone)),
              HasSubstr("srun started 8 tasks, and mpirun says that each is a world"));
  EXPECT_EQ(launched_rank_of(alone)->size, 1);
}

TEST(LaunchedRank, OfWrongNumbersIsRefused) {
  EXPECT_THAT(refusal_of(with(kOpenMpiRank, {{"OMPI_COMM_WORLD_RANK", "4"}})),
              StartsWith("error: the environment variable OMPI_COMM_WORLD_RANK is \"4\""));
  EXPECT_THAT(refusal_of(with(kOpenMpiRank, {{"OMPI_COMM_WORLD_SIZE", "four"}})), HasSubstr("is \"four\""));
  EXPECT_THAT(refusal_of(with(kOpenMpiRank, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})),
              HasSubstr("MASTER_ADDR and MASTER_PORT are not set"));
  EXPECT_THAT(refusal_of(with(kTorchrunRank, {{"MASTER_PORT", "70000"}})), HasSubstr("a number from 1 to 65535"));
}

}  // namespace
}  // namespace hearth::launch
