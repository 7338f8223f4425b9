// SPDX-License-Identifier: Apache-2.0
#include "cluster/job_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/starts.h"
#include "runfolder/names.h"
#include "support/hearth_command.h"

namespace hearth::cluster {
namespace {

using testing::HasSubstr;

TEST(JobLogs, HaveTheFirstErrorSinceTheScriptsNewestLine) {
  for (const auto& find : {+[](std::string_view log) { return error_of_start(log, {}); }, +newest_error}) {
    EXPECT_EQ(find(""), "");
    EXPECT_EQ(find("step 1\nstep 2\n"), "");
    const std::string first = "error: cannot write a\n  why: No space left on device\n  fix: free some\n";
    EXPECT_EQ(find(first), "cannot write a: No space left on device");
    EXPECT_EQ(find(first + "error: later\n"), "cannot write a: No space left on device");
    EXPECT_EQ(find(first + "hearth: job 1 at step 0: x; next: again\nstep 1\n"), "");
    EXPECT_EQ(find(first + "hearth: job 1 at step 0: x; next: again\nerror: b"), "b");
    EXPECT_EQ(find("error: b\nstep 3\n  why: of something else\n"), "b");
    EXPECT_EQ(find("error: b (by hand)\n"), "b (by hand)");
  }
}

// The older start's node was cut off: its lines come after the first ones of the newer start.
TEST(JobLogs, TellTheErrorsOfTwoStartsApart) {
  const std::string log =
      "hearth: job 1 begins start 0.1 at step 0\nhearth: job 1 begins start 1.1 at step 150\n"
      "error: ranks waited 30 s for rank 2 (node2, process 7) in step 202 (start 0.1)\n  why: it hangs\n"
      "error: rank 0 (node2, process 9) has died in step 302 (start 1.1)\n  why: it was killed\n"
      "error: cannot open starts.jsonl (the job's script)\nerror: of a program that is not ours\n"
      "hearth: job 1 leaves: it was started again on node2\n";
  EXPECT_EQ(error_of_start(log, "1.1"), "rank 0 (node2, process 9) has died in step 302: it was killed");
  EXPECT_EQ(error_of_start(log, "0.1"), "ranks waited 30 s for rank 2 (node2, process 7) in step 202: it hangs");
  EXPECT_EQ(error_of_start(log, "1.2"), "");
  EXPECT_EQ(error_of_start(log, "1"), "");
  EXPECT_EQ(newest_error(log), "");
  EXPECT_EQ(newest_error("error: a (start 1.1)\n  why: b\nerror: c (start 1.1)\n"), "a: b");
}

TEST(JobLogs, SayWhyANodeIsOff) {
  const std::string log = "hearth: node node2: old\nhearth: node node21: x\nhearth: node node2: cannot open a: b\n";
  EXPECT_EQ(fault_of_node(log, "node2"), "cannot open a: b");
  EXPECT_EQ(fault_of_node(log, "node1"), "");
}

class EndsOfJobs : public testing::Test {
 protected:
  EndsOfJobs() {
    make_folders(run / runfolder::kLogsFolder);
    append_start(run, {.name = "submit", .job = "1"});
  }
  void log(const std::string& text) { write_file_atomic(run / runfolder::kLogsFolder / "job-1.log", text); }
  std::string job(const std::string& words) {
    return test::run_hearth(
               fmt::format("job {} --job 1 --checkpoints {} --max-restarts 3", words, (run / "checkpoints").string()))
        .output;
  }
  const test::ScratchFolder scratch;
  const Path run = scratch / "run";
};

// Such as a refusal that an older start printed, while this one's launcher does not find the program.
TEST_F(EndsOfJobs, DoNotHaveTheErrorOfAnotherStart) {
  EXPECT_THAT(job("before " + run.string() + " --requeues 1 --start 1.1"),
              HasSubstr("hearth: job 1 begins start 1.1 at step 0\n"));
  for (const char* speaker : {" (start 0.1)", "", " (the job's script)"}) {
    log(fmt::format("error: the run's lease is lost{}\n", speaker));
    const std::string end = job("after " + run.string() + " --requeues 1 --start 1.1 --code 2");
    EXPECT_THAT(end, HasSubstr("exit code 2 and without an error of Hearth; next: again")) << speaker;
  }
  log("error: the run's lease is lost (start 0.1)\nerror: no such key (start 1.1)\n");
  EXPECT_THAT(job("after " + run.string() + " --requeues 1 --start 1.1 --code 2"),
              HasSubstr("the training refused its input (exit code 2): no such key; next: stop"));
}

// Launchers may keep the environment from the ranks. The first start of a job is alone with its log.
TEST_F(EndsOfJobs, HaveTheErrorOfRanksWithoutANameInTheFirstStart) {
  job("before " + run.string() + " --requeues 0 --start 0.1");
  log("error: no such key\n");
  EXPECT_THAT(job("after " + run.string() + " --requeues 0 --start 0.1 --code 2"),
              HasSubstr("refused its input (exit code 2): no such key; next: stop"));
}

TEST_F(EndsOfJobs, SayWhyANodeIsLeftOut) {
  job("before " + run.string() + " --start 0.1");
  log("hearth: node node2: /r is another folder there than on node1\n");
  EXPECT_THAT(job("after " + run.string() + " --start 0.1 --code 4 --signal nodes --off-nodes node2,node3"),
              HasSubstr("node2, node3 are off (node2: /r is another folder there than on node1): the next start"));
  // The script is older than this program.
  job("before " + run.string() + " --start 0.1");
  write_file_atomic(run / "off", "node2\nnode3\n");
  EXPECT_THAT(
      job("after " + run.string() + " --start 0.1 --code 4 --signal nodes --bad-nodes " + (run / "off").string()),
      HasSubstr("node2, node3 are off (node2: /r is another folder there than on node1): the next start"));
}

// The job's first node lost the run's files: the script there asks another node.
TEST_F(EndsOfJobs, AreWrittenDownForTheHostOfTheScript) {
  job("before " + run.string() + " --host first");
  EXPECT_EQ(read_starts(run).back().host, "first");
  EXPECT_THAT(job("after " + run.string() + " --code 4"), HasSubstr("it was started again on first"));
  EXPECT_THAT(job("after " + run.string() + " --code 4 --host first --signal nodes --off-nodes first"),
              HasSubstr("next: requeue"));
  EXPECT_EQ(read_starts(run).back().host, "first");
}

}  // namespace
}  // namespace hearth::cluster
