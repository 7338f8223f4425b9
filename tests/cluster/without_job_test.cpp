// SPDX-License-Identifier: Apache-2.0
// Trainings that run without their job's script, or without a job: status, stop and a second submit see them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/program.h"
#include "base/text.h"
#include "cluster/starts.h"
#include "submits.h"

namespace hearth::cluster {
namespace {

using test::CommandResult;
using testing::HasSubstr;

// The script was killed, as the kernel does without memory. Its ranks train on.
TEST_F(Submits, RanksWithoutTheirScriptAreSeenAndStopped) {
  make_folders(run);
  // A process of that name in a session of its own, with a child: as rank 0 and what the job's script started.
  program("hearth-train", "sleep 1000 & echo $$ $! >" + (scratch / "rank0").string() + "; wait");
  test::run_command("setsid " + (scratch / "bin" / "hearth-train").string() + " >/dev/null 2>&1 &");
  while (!path_exists(scratch / "rank0") || read_file(scratch / "rank0").empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::vector<std::string> processes = split(split_lines(read_file(scratch / "rank0")).front(), ' ');
  const std::string& process = processes.front();
  const auto write_lease = [&](const std::string& job) {
    write_file_atomic(run / "lease", fmt::format("start = 1\nid = 0a\nhost = {}\nprocess = {}\ntime = 2026-01-31 "
                                                 "23:59:59 UTC\n{}beat = 000000000001\n",
                                                 host_name(), process, job));
  };
  write_lease("job = local-999999999\nsubmitted = yes\n");
  append_start(run, {.name = "submit", .job = "local-999999999", .cluster = "local"});
  append_start(run, {.name = "start", .job = "local-999999999"});
  const std::string on = fmt::format("process {} on {}, since 2026-01-31", process, host_name());
  EXPECT_THAT(hearth("status " + run.string()).output,
              HasSubstr("running (the script of job local-999999999 was killed, and its ranks train on: " + on));
  const CommandResult second = submit("--cluster local");
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.output, HasSubstr("is running already: a training, the script of job local-999999999 was killed"));
  // A training by hand after a job is seen, too.
  write_lease("");
  EXPECT_THAT(hearth("status " + run.string()).output, HasSubstr("running (" + on));
  write_lease("job = local-999999999\nsubmitted = yes\n");
  const CommandResult stopped = hearth("stop " + run.string());
  EXPECT_EQ(stopped.exit_code, 0) << stopped.output;
  EXPECT_THAT(stopped.output, HasSubstr(fmt::format("the training saves and ends (process {})", process)));
  for (const std::string& each : processes)  // the whole session
    while (path_exists("/proc/" + each + "/exe")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_THAT(hearth("status " + run.string()).output, HasSubstr("stopped (`hearth stop` asked for it)"));
  EXPECT_THAT(hearth("stop " + run.string()).output, HasSubstr("runs or waits"));
}

// It was killed before they had the lease: their environment tells whose they are.
TEST_F(Submits, RanksThatStartWithoutTheirScriptAreSeenAndStopped) {
  make_folders(run);
  program("hearth-train", "echo $$ >" + (scratch / "rank0").string() + "; sleep 1000 & wait");
  const std::string job = fmt::format("local-9{}", ::getpid());  // no process has this number
  test::run_command(
      fmt::format("HEARTH_JOB={} setsid {} >/dev/null 2>&1 &", job, (scratch / "bin/hearth-train").string()));
  append_start(run, {.name = "submit", .job = job, .cluster = "local"});
  append_start(run, {.name = "start", .job = job});
  while (!path_exists(scratch / "rank0") || read_file(scratch / "rank0").empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_THAT(hearth("status " + run.string()).output,
              HasSubstr(fmt::format("running (the script of job {} was killed, and its ranks start: process ", job)));
  EXPECT_THAT(submit("--cluster local").output, HasSubstr("is running already: a training, the script of job " + job));
  const CommandResult stopped = hearth("stop " + run.string());
  EXPECT_EQ(stopped.exit_code, 0) << stopped.output;
  EXPECT_THAT(stopped.output, HasSubstr("the training saves and ends (process "));
  while (path_exists("/proc/" + split_lines(read_file(scratch / "rank0")).front() + "/exe"))
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_THAT(hearth("status " + run.string()).output, HasSubstr("stopped (`hearth stop` asked for it)"));
}

// It dies of the signal that asks it to stop, before it has passed it on: the ranks get it, and it is recorded once.
TEST_F(Submits, AScriptThatDiesWhileItIsStoppedIsStoppedOnce) {
  make_folders(run);
  program("hearth-train", "echo $$ >" + (scratch / "rank0").string() + "; sleep 1000 & wait");
  write_file_atomic(run / "job.sh", fmt::format("export HEARTH_JOB=local-$$\n{} &\necho $HEARTH_JOB >{}\nwait\n",
                                                (scratch / "bin/hearth-train").string(), (scratch / "job").string()));
  test::run_command("setsid bash " + (run / "job.sh").string() + " >/dev/null 2>&1 &");
  const auto first_line = [&](const std::string& name) {
    while (!path_exists(scratch / name) || read_file(scratch / name).empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return split_lines(read_file(scratch / name)).front();
  };
  const std::string job = first_line("job"), rank = first_line("rank0");
  append_start(run, {.name = "submit", .job = job, .cluster = "local"});
  append_start(run, {.name = "start", .job = job});
  const CommandResult stopped = hearth("stop " + run.string());
  EXPECT_EQ(stopped.exit_code, 0) << stopped.output;
  while (path_exists("/proc/" + rank + "/exe")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::vector<StartEvent> events = read_starts(run);
  EXPECT_EQ(std::ranges::count(events, "stop", &StartEvent::name), 1);
  EXPECT_EQ(events.back().name, "stop");
}

// With --max-restarts, the process that starts ranks starts killed ones again.
TEST_F(Submits, AStopAtOnceEndsTheProcessThatStartsRanksAgain) {
  make_folders(run);
  const Path starter = scratch / "starter", ranks = scratch / "ranks";
  program("hearth-train",
          fmt::format("echo $$ >{}\nwhile true; do ( sh -c 'echo $PPID' >>{}; while true; do sleep 1; done ); done",
                      starter.string(), ranks.string()));
  test::run_command("setsid " + (scratch / "bin/hearth-train").string() + " >/dev/null 2>&1 &");
  while (!path_exists(ranks) || read_file(ranks).empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::string rank = split_lines(read_file(ranks)).front();
  write_file_atomic(run / "lease",
                    fmt::format("start = 1\nid = 0a\nhost = {}\nprocess = {}\ntime = 2026-01-31 23:59:59 UTC\nbeat = "
                                "000000000001\n",
                                host_name(), rank));
  const CommandResult stopped = hearth("stop --now " + run.string());
  EXPECT_EQ(stopped.exit_code, 0) << stopped.output;
  EXPECT_THAT(stopped.output, HasSubstr(fmt::format("the training ends at once (process {})", rank)));
  for (const std::string& each : {split_lines(read_file(starter)).front(), rank})
    while (path_exists("/proc/" + each + "/exe")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(read_file(ranks), rank + "\n");
}

TEST_F(Submits, ATrainingOfAnotherHostIsKnownByItsBeats) {
  make_folders(run);
  const auto write_lease = [&](const std::string& beat) {
    write_file_atomic(run / "lease",
                      "start = 1\nid = 0a\nhost = elsewhere\nprocess = 12\ntime = 2026-01-31 23:59:59 "
                      "UTC\nbeat = " +
                          beat + "\n");
  };
  write_lease("000000000007");
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(run / "lease", now + std::chrono::hours(1));  // of a clock that is ahead
  EXPECT_THAT(hearth("status " + run.string()).output, HasSubstr("running (process 12 on elsewhere, since 2026"));
  const CommandResult second = submit("--cluster local"), stop = hearth("stop " + run.string());
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.output, HasSubstr("is running already: a training, process 12 on elsewhere"));
  EXPECT_EQ(stop.exit_code, 4);
  EXPECT_THAT(stop.output, HasSubstr("trains on another host, without a job"));
  EXPECT_THAT(stop.output, HasSubstr("fix: on elsewhere: hearth stop " + run.string()));
  std::filesystem::last_write_time(run / "lease", now - std::chrono::minutes(10));
  EXPECT_THAT(hearth("status " + run.string()).output,
              HasSubstr("unknown (it trained on elsewhere, process 12, and shows no sign of life)"));
  write_lease("000000000000");  // it has begun just now
  EXPECT_THAT(hearth("status " + run.string()).output, HasSubstr("running (process 12 on elsewhere, since 2026"));
  write_lease("ended       ");
  EXPECT_THAT(hearth("status " + run.string()).output, HasSubstr("stopped (the training ended before its last step)"));
}

}  // namespace
}  // namespace hearth::cluster
