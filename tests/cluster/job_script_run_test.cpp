// SPDX-License-Identifier: Apache-2.0
// The job's script under bash itself, with programs that stand for Slurm's and for hearth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "cluster/job_script.h"
#include "support/environment.h"

namespace hearth::cluster {
namespace {

using test::CommandResult;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class RunScripts : public testing::Test {
 protected:
  RunScripts() {
    make_folders(scratch / "bin");
    make_folders(run / "logs");
    // Each program writes its call down. What it answers is in files of its name: a line for each call.
    const std::string next = "next() { line=$(head -n 1 answers/$1); sed -i 1d answers/$1; }\n";
    // Hearth itself compares the nodes.
    program("hearth", "[ \"$2\" != compare ] || exec " + test::hearth_binary() + " \"$@\"\n" + next +
                          "next $2; case $2 in after) echo \"$line\" ;; *) exit ${line:-0} ;; esac");
    program("srun", next +
                        "case $* in *'job node'*) cat answers/nodes ;; *preflight*) next preflight; "
                        "[ \"$line\" = 0 ] || cp answers/off run/bad_nodes.txt; exit ${line:-0} ;; "
                        "*) next train; exit ${line:-0} ;; esac");
    program("scontrol", "case $* in *hostnames*) printf 'node1\\nnode2\\nnode3\\n' ;; esac; exit 0");
    program("squeue", "echo node9");
    program("sbatch", "echo 13");
    program("scancel", "exit 0");
    program("sleep", "exit 0");
    make_folders(scratch / "answers");
    for (const char* name : {"after", "before", "current", "train", "preflight", "nodes", "off", "queued"})
      answer(name, "");
    answer("nodes", "fine node1\nfine node2\nfine node3\n");
    job.cluster = read_cluster_file(test::source_path("configs/clusters/slurm_cpu.toml"), "slurm_cpu");
    job.hearth = scratch / "bin" / "hearth";
    job.run_file = "/r.toml";
    job.run = run;
    job.checkpoints = run / "checkpoints";
    job.nodes = 3;
    job.cluster_argument = "slurm_cpu";
  }
  void program(const std::string& name, const std::string& body) {
    const Path file = scratch / "bin" / name;
    write_file_atomic(
        file, fmt::format("#!/bin/bash\ncd {}\necho \"{} $*\" >>calls\n{}\n", scratch.path().string(), name, body));
    std::filesystem::permissions(file, std::filesystem::perms::all);
  }
  void answer(const std::string& name, const std::string& text) { write_file_atomic(scratch / "answers" / name, text); }
  CommandResult start(const std::string& nodes = "3") {
    write_file_atomic(run / "job.sh", job_script(job));
    return test::run_command(
        fmt::format("cd {}; PATH={}:$PATH SLURM_JOB_ID=12 SLURM_NNODES={} SLURMD_NODENAME=node1 "
                    "SLURM_JOB_NODELIST='node[1-3]' SLURM_RESTART_COUNT=2 bash {}",
                    scratch.path().string(), (scratch / "bin").string(), nodes, (run / "job.sh").string()));
  }
  std::string calls() { return path_exists(scratch / "calls") ? read_file(scratch / "calls") : ""; }
  int64_t count(const std::string& what) {
    int64_t found = 0;
    for (const std::string& line : split_lines(calls())) found += line.find(what) != std::string::npos ? 1 : 0;
    return found;
  }

  test::ScratchFolder scratch;
  const Path run = scratch / "run";
  JobScript job;
};

TEST_F(RunScripts, LeaveOutTheNodesThatCannotStart) {
  answer("train", "137\n");
  answer("nodes", "fine node1\noff node2\n");  // and node3 says nothing
  answer("after", "requeue 0\n");
  EXPECT_EQ(start().exit_code, 0);
  EXPECT_THAT(calls(), HasSubstr("hearth job before " + run.string() + " --job 12 --requeues 2 "));
  EXPECT_THAT(calls(), HasSubstr("--code 137 --signal nodes --off-nodes node2,node3\n"));
  EXPECT_THAT(calls(), HasSubstr("scontrol requeue 12\n"));
  EXPECT_THAT(calls(), HasSubstr("scontrol update JobId=12 ExcNodeList=node9,node2,node3\n"));
}

// The ranks of two builds do not meet, and those of two datasets refuse their input.
TEST_F(RunScripts, LeaveOutTheNodesUnlikeMostBeforeAndAfterTheRanksStart) {
  answer("nodes",
         "found node1 hearth-train (commit b)\nfine node1\nfound node2 hearth-train (commit a)\nfound node2 data x\n"
         "fine node2\nfound node3 hearth-train (commit a)\nfine node3\n");
  for (const bool preflight : {true, false}) {
    job.preflight = preflight;
    answer("train", "2\n");
    answer("after", "requeue 0\n");
    const CommandResult result = start();
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr("node node1: has hearth-train (commit b), and most nodes have hearth-train "
                                         "(commit a)\n"));
    EXPECT_THAT(calls(), HasSubstr(fmt::format("--code {} --signal nodes --off-nodes node1\n", preflight ? 4 : 2)));
    EXPECT_THAT(calls(), HasSubstr("ExcNodeList=node9,node1\n"));
    EXPECT_EQ(count("hearth train"), preflight ? 0 : 1);
    EXPECT_EQ(count("hearth preflight"), 0);
    std::filesystem::remove(scratch / "calls");
  }
}

// A folder of the same path that is local, for example. The script leaves a file in its own for them to find.
TEST_F(RunScripts, LeaveOutTheNodesWithAnotherRunFolder) {
  answer("train", "4\n");
  answer("after", "requeue 0\n");
  program("srun",
          "case $* in *'job node'*) token=${@: -1}; [ -e run/$token ] && seen=same || seen=$token\n"
          "printf \"folder node1 $seen known\\nfine node1\\nfolder node2 other unknown\\nfine node2\\n\"\n"
          "printf \"folder node3 $seen known\\nfine node3\\n\" ;; *) exit 4 ;; esac");
  const CommandResult result = start();
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("node node2: " + run.string() + " is another folder there than on node1"));
  EXPECT_THAT(calls(), HasSubstr("--code 4 --signal nodes"));
  EXPECT_THAT(calls(), HasSubstr("ExcNodeList=node9,node2\n"));
  EXPECT_THAT(list_folder(run), ElementsAre("job.sh", "logs"));
}

TEST_F(RunScripts, OfOneNodeLeaveItOutIfItIsOff) {
  answer("train", "2\n");
  answer("nodes", "off node1\n");
  answer("after", "requeue 0\n");
  EXPECT_EQ(start("1").exit_code, 0);
  EXPECT_THAT(calls(), HasSubstr("--code 2 --signal nodes"));
  EXPECT_THAT(calls(), HasSubstr("ExcNodeList=node9,node1\n"));
}

// Slurm calls them otherwise than they do themselves, or says nothing: no node is known to be off.
TEST_F(RunScripts, LeaveNobodyOutOfAListThatDoesNotFit) {
  for (const char* names : {"node1.x node2.x", ""}) {
    program("scontrol", fmt::format("case $* in *hostnames*) printf '%s\\n' {} ;; esac; exit 0", names));
    answer("train", "137\n0\n");
    answer("after", "again 0\ndone 0\n");
    EXPECT_EQ(start().exit_code, 0) << names;
    EXPECT_EQ(count("--code 137 --signal none"), 1) << names << calls();
    EXPECT_EQ(count("--off-nodes"), 0) << names;
    std::filesystem::remove(scratch / "calls");
  }
}

// The disk is away: all nodes would be left out.
TEST_F(RunScripts, LeaveNobodyOutIfAllAreOff) {
  answer("train", "2\n0\n");
  answer("nodes", "off node1\noff node2\noff node3\n");
  answer("after", "again 15\ndone 0\n");
  EXPECT_EQ(start().exit_code, 0);
  EXPECT_THAT(calls(), HasSubstr("--code 2 --signal nodes"));
  EXPECT_EQ(count("hearth train"), 2);
  EXPECT_EQ(count("sleep 15"), 1);
  EXPECT_EQ(count("scontrol requeue"), 0);
}

TEST_F(RunScripts, StartAgainWhereAllNodesAreFineAndAskForAnotherJobWhereNoneAnswers) {
  answer("train", "4\n4\n");
  answer("after", "again 0\nagain 0\n");
  program("srun",
          "case $* in *'job node'*) [ -e first ] || echo 'fine node1\nfine node2\nfine node3'; touch first ;; "
          "*) exit 4 ;; esac");
  EXPECT_EQ(start().exit_code, 0);
  EXPECT_EQ(count("hearth train"), 2);
  EXPECT_EQ(count("--code 4 --signal none"), 2);
  EXPECT_THAT(calls(), HasSubstr("scontrol requeue 12\n"));
  EXPECT_THAT(calls(), HasSubstr("ExcNodeList=node9\n"));
}

// Slurm gave the job to another host, and nothing here reaches it.
TEST_F(RunScripts, AskSlurmNothingWhereANewerStartHasTheRun) {
  answer("train", "4\n");
  answer("current", "75\n");
  answer("after", "leave\n");
  EXPECT_EQ(start().exit_code, 4);
  for (const char* what : {"scontrol", "job node", "sbatch", "scancel"}) EXPECT_EQ(count(what), 0) << what;
}

// Several starts may write one log.
TEST_F(RunScripts, GiveEachStartAName) {
  program("srun", "case $* in *'job node'*) cat answers/nodes ;; *) echo \"speaks: $HEARTH_SPEAKER\" ;; esac; exit 4");
  answer("after", "again 0\ndone 0\n");
  const CommandResult result = start();
  EXPECT_EQ(result.exit_code, 0);
  for (const char* name : {"2.1", "2.2"}) {
    EXPECT_EQ(count(fmt::format("--max-restarts 3 --start {}", name)), 2) << calls();  // before and after
    EXPECT_THAT(result.output, HasSubstr(fmt::format("speaks: start {}\n", name)));
  }
}

TEST_F(RunScripts, EndAsCancelledAfterAStop) {
  answer("after", "cancel 0\n");
  EXPECT_EQ(start().exit_code, 0);
  EXPECT_THAT(calls(), testing::EndsWith("scancel 12\n"));
}

TEST_F(RunScripts, KeepTheCodeOfAFailure) {
  answer("train", "3\n");
  answer("after", "stop 0\n");
  EXPECT_EQ(start().exit_code, 3);
  EXPECT_EQ(count("scancel"), 0);
}

TEST_F(RunScripts, AskHearthAgainWhileItsDiskIsAway) {
  answer("before", "4\n126\n0\n");
  answer("after", "done 0\n");
  EXPECT_EQ(start().exit_code, 0);
  EXPECT_EQ(count("hearth job before"), 3);
  EXPECT_EQ(count("hearth train"), 1);
  // Another job goes on: that is an answer.
  answer("before", "75\n");
  std::filesystem::remove(scratch / "calls");
  EXPECT_EQ(start().exit_code, 75);
  EXPECT_EQ(count("hearth job before"), 1);
  EXPECT_EQ(count("hearth train"), 0);
}

// The first node of the job is the one on which the program does not start.
TEST_F(RunScripts, LeaveTheirOwnNodeOutIfTheProgramDoesNotStartThere) {
  std::filesystem::remove(scratch / "bin" / "hearth");
  const CommandResult result = start();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("node node1 does not start the program: the next start leaves it out"));
  EXPECT_THAT(calls(), HasSubstr("scontrol requeue 12\n"));
  EXPECT_THAT(calls(), HasSubstr("ExcNodeList=node9,node1\n"));
  // Not forever: as often as there may be restarts.
  job.max_restarts = 1;
  std::filesystem::remove(scratch / "calls");
  EXPECT_EQ(start().exit_code, 127);
  EXPECT_EQ(count("scontrol"), 0);
}

// The run folder has turned read-only on the first node, in mid-run or before the start. Nothing can be written there.
TEST_F(RunScripts, LetAnotherNodeAnswerWhereTheirOwnCannotWrite) {
  write_file_atomic(scratch / "bin" / "elsewhere", read_file(scratch / "bin" / "hearth"));  // it can write
  std::filesystem::permissions(scratch / "bin" / "elsewhere", std::filesystem::perms::all);
  program("srun",
          "case $* in *'job node'*) printf 'off node1\\nfine node2\\nfine node3\\n' ;; *--nodelist=*) "
          "while [ $1 != job ]; do shift; done; exec bin/elsewhere \"$@\" ;; *) exit 2 ;; esac");
  for (const std::string failing : {"after", "before"}) {
    program("hearth",
            fmt::format("case $2 in {}) exit 2 ;; compare) cat ;; *) exec bin/elsewhere \"$@\" ;; esac", failing));
    answer("after", "requeue 0\n");
    const CommandResult result = start();
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr("node node1 cannot use the run's files: node2 answers for it"));
    EXPECT_EQ(count("sleep"), 3) << calls();                 // it was asked four times here
    EXPECT_EQ(count("job " + failing + " "), 6) << calls();  // then by srun, there
    EXPECT_THAT(calls(), HasSubstr("--nodelist=node2 " + job.hearth.string() + " job " + failing));
    EXPECT_THAT(calls(), HasSubstr("--host " + test::run_command("uname -n | tr -d '\\n'").output + " "));
    EXPECT_THAT(calls(),
                HasSubstr(fmt::format("--code {} --signal nodes --off-nodes node1\n", failing == "after" ? 2 : 4)));
    EXPECT_EQ(count("hearth train"), failing == "after" ? 1 : 0);
    EXPECT_THAT(calls(), HasSubstr("scontrol requeue 12\nscontrol update JobId=12 ExcNodeList=node9,node1\n"));
    std::filesystem::remove(scratch / "calls");
  }
}

// There is no other node to answer. A full disk (4) is nothing of the node's.
TEST_F(RunScripts, LeaveTheirOnlyNodeOutIfItCannotWrite) {
  answer("nodes", "off node1\n");
  for (const int code : {2, 4}) {
    answer("before", join(std::vector<std::string>(4, fmt::format("{}", code)), "\n") + "\n");
    const CommandResult result = start("1");
    EXPECT_EQ(result.exit_code, code == 2 ? 0 : 4) << result.output;
    EXPECT_EQ(count("ExcNodeList=node9,node1"), code == 2 ? 1 : 0) << calls();
    std::filesystem::remove(scratch / "calls");
  }
  // Not forever, where not even a list can be written.
  std::filesystem::remove_all(run / "logs");
  answer("before", "2\n2\n2\n2\n");
  job.max_restarts = 1;
  EXPECT_EQ(start("1").exit_code, 2);
  EXPECT_EQ(count("scontrol"), 0) << calls();
}

TEST_F(RunScripts, FindTheNodesThatCannotStartBeforeThePreflight) {
  job.preflight = true;
  answer("nodes", "fine node1\nfine node3\n");
  answer("after", "requeue 0\n");
  EXPECT_EQ(start().exit_code, 0);
  EXPECT_EQ(count("hearth preflight"), 0);
  EXPECT_THAT(calls(), HasSubstr("--code 4 --signal nodes"));
  EXPECT_THAT(calls(), HasSubstr("ExcNodeList=node9,node2\n"));
}

TEST_F(RunScripts, HearWhatThePreflightFinds) {
  job.preflight = true;
  answer("preflight", "4\n");
  answer("off", "node3\n");
  answer("after", "requeue 0\n");
  EXPECT_EQ(start().exit_code, 0);
  EXPECT_THAT(calls(), HasSubstr("--code 4 --signal preflight --off-nodes node3\n"));
  EXPECT_THAT(calls(), HasSubstr("ExcNodeList=node9,node3\n"));
  EXPECT_EQ(count("hearth train"), 0);
}

TEST_F(RunScripts, TrainAfterAPreflightThatFindsNothing) {
  job.preflight = true;
  answer("preflight", "0\n");
  answer("train", "4\n0\n");
  answer("after", "again 0\ndone 0\n");
  EXPECT_EQ(start().exit_code, 0);
  EXPECT_EQ(count("hearth preflight"), 1);  // once a job
  EXPECT_EQ(count("hearth train"), 2);
}

// Before the job can be put back into the queue, it asks for another one, which the program cannot write down.
TEST_F(RunScripts, NameTheNextJobThemselvesWhereHearthDoesNotAnswer) {
  job.cluster.requeue = false;
  std::filesystem::remove(scratch / "bin" / "hearth");
  EXPECT_EQ(start().exit_code, 0);
  EXPECT_THAT(calls(), HasSubstr("sbatch --parsable --dependency=afterany:12 --exclude=node9,node1 "));
  EXPECT_EQ(read_file(run / "starts.jsonl"), "{\"event\":\"queued\",\"job\":\"13\",\"after\":\"12\"}\n");
}

}  // namespace
}  // namespace hearth::cluster
