// SPDX-License-Identifier: Apache-2.0
#include "cluster/starts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/environment.h"

namespace hearth::cluster {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

StartEvent submitted(const std::string& job) {
  return {.name = "submit", .job = job, .cluster = "x", .nodes = 1, .ranks = 2};
}
StartEvent began(const std::string& job, int64_t step) { return {.name = "start", .job = job, .step = step}; }
StartEvent ended(const std::string& job, int64_t step) {
  return {.name = "end", .job = job, .step = step, .code = 4, .signal = "none", .next = "again", .why = "x"};
}
StartEvent queued(const std::string& job, const std::string& after) {
  return {.name = "queued", .job = job, .after = after};
}
StartEvent stopped(const std::string& job) { return {.name = "stop", .job = job}; }

TEST(Starts, AreReadAsTheyWereWritten) {
  const test::ScratchFolder run;
  EXPECT_THAT(read_starts(run), SizeIs(0));
  std::vector<StartEvent> events = {submitted("12"), began("12", 3), ended("12", 7), queued("13", "12"), stopped("13")};
  events[1].requeues = 2;
  for (const StartEvent& event : events) append_start(run, event);
  std::vector<StartEvent> read = read_starts(run);
  ASSERT_THAT(read, SizeIs(events.size()));
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_THAT(read[i].time, testing::MatchesRegex("....-..-..T..:..:..Z"));
    EXPECT_FALSE(read[i].host.empty());
    read[i].time.clear();
    read[i].host.clear();
    EXPECT_EQ(read[i], events[i]) << i;
  }
}

TEST(Starts, PassOverHalfALineAndCloseIt) {
  const test::ScratchFolder run;
  append_start(run, submitted("12"));
  File file = File::open_append(starts_file(run));
  file.write(std::string_view("{\"event\": \"start\", \"jo"));
  file.close();
  EXPECT_THAT(read_starts(run), SizeIs(1));
  append_start(run, began("12", 0));
  EXPECT_THAT(read_starts(run), SizeIs(2));
}

TEST(Starts, WithoutProgressAreCountedFromCheckpoints) {
  EXPECT_EQ(starts_without_progress({}, 0), 0);
  EXPECT_EQ(starts_without_progress({submitted("1"), began("1", 0)}, 0), 1);
  EXPECT_EQ(starts_without_progress({submitted("1"), began("1", 0)}, 5), 0);
  // A node died: no end was written. The next start saw the same checkpoint, then a newer one.
  EXPECT_EQ(starts_without_progress({began("1", 0), began("1", 0), began("1", 0)}, 0), 3);
  EXPECT_EQ(starts_without_progress({began("1", 0), began("1", 5), began("1", 5)}, 5), 2);
  EXPECT_EQ(starts_without_progress({began("1", 0), ended("1", 5), began("1", 5), ended("1", 5), began("1", 5)}, 5), 2);
  // Somebody submitted anew: earlier failures do not count.
  EXPECT_EQ(starts_without_progress({began("1", 0), ended("1", 0), submitted("2"), began("2", 0)}, 0), 1);
}

TEST(Starts, KnowThatTheJobRunsElsewhere) {
  StartEvent first = began("1", 0), second = began("1", 5);
  first.host = "node1";
  second.host = "node2";
  EXPECT_EQ(started_elsewhere({}, "1", "node1", 0), "");
  EXPECT_EQ(started_elsewhere({submitted("1"), first}, "1", "node1", 0), "");
  EXPECT_EQ(started_elsewhere({submitted("1"), first, second}, "1", "node1", 0), "node2");
  EXPECT_EQ(started_elsewhere({submitted("1"), first, second}, "1", "node2", 0), "");
  EXPECT_EQ(started_elsewhere({submitted("1"), first, second}, "2", "node1", 0), "");
  // On the same host, after another requeue.
  StartEvent same = began("1", 5);
  same.host = "node1";
  same.requeues = 1;
  EXPECT_EQ(started_elsewhere({submitted("1"), first, same}, "1", "node1", 0), "node1");
  EXPECT_EQ(started_elsewhere({submitted("1"), first, same}, "1", "node1", 1), "");
}

TEST(Starts, KnowAFullDiskOfTheRunFromOneOfANode) {
  const std::vector<Path> folders = {"/scratch/run", "/other/checkpoints"};
  EXPECT_TRUE(says_full_disk("cannot write /scratch/run/metrics.jsonl: No space left on device", folders));
  EXPECT_TRUE(says_full_disk("cannot write /other/checkpoints/step-1.tmp: Disk quota exceeded", folders));
  EXPECT_FALSE(says_full_disk("cannot write /dev/shm/pages: No space left on device", folders));
  EXPECT_FALSE(says_full_disk("cannot write /scratch/run/metrics.jsonl: Input/output error", folders));
}

struct Row {
  const char* about;
  std::vector<StartEvent> events;
  Ended ended;
  Next next;
  const char* why;
};

TEST(Decisions, AreThoseOfTheTable) {
  const std::vector<StartEvent> first = {submitted("1"), began("1", 0)};
  const std::vector<StartEvent> looping = {submitted("1"), began("1", 5), ended("1", 5),
                                           began("1", 5),  ended("1", 5), began("1", 5)};
  const auto with = [](std::vector<StartEvent> events, const StartEvent& more) {
    events.push_back(more);
    return events;
  };
  const Row rows[] = {
      {"complete", first, {"1", 0, "none", true, 9}, Next::kDone, "complete"},
      {"complete, although srun failed", first, {"1", 137, "none", true, 9}, Next::kDone, "complete"},
      {"complete, at the time limit", first, {"1", 0, "limit", true, 9}, Next::kDone, "complete"},
      {"a whole node died: srun says 0", first, {"1", 0, "none", false, 5}, Next::kAgain, "death of a node"},
      {"the time limit", first, {"1", 75, "limit", false, 5}, Next::kRequeue, "time limit"},
      {"the time limit came before the ranks could save",
       first,
       {"1", 140, "limit", false, 0},
       Next::kRequeue,
       "time limit"},
      {"cancelled, preempted, or requeued by Slurm",
       first,
       {"1", 75, "leave", false, 5},
       Next::kLeave,
       "asked to end: it was cancelled, preempted, or requeued after the failure of a node"},
      {"a rank got SIGTERM from somebody", first, {"1", 75, "none", false, 5}, Next::kLeave, "asked to leave"},
      {"wrong input",
       first,
       {"1", 2, "none", false, 0, {}, "no such key"},
       Next::kStop,
       "refused its input (exit code 2): no such key"},
      {"wrong input, with an old mark",
       first,
       {"1", 2, "none", true, 0, {}, "no such key"},
       Next::kStop,
       "refused its input (exit code 2)"},
      {"srun's own 2: it did not find the program",
       first,
       {"1", 2, "none", false, 0},
       Next::kAgain,
       "exit code 2 and without an error of Hearth"},
      {"again and again",
       looping,
       {"1", 2, "none", false, 5},
       Next::kStop,
       "3 starts in a row made no new checkpoint; the last: the ranks ended with exit code 2"},
      {"a node without the run's files",
       first,
       {"1", 2, "nodes", false, 0, {"node4"}, "cannot open data/x: No such file or directory"},
       Next::kRequeue,
       "node4 cannot start the program, or lacks the run's files or the build of most: the next start leaves out"},
      {"a node whose fault is known",
       first,
       {"1", 4, "nodes", false, 0, {"node4"}, "x", false, 0, "node4: /r is another folder there"},
       Next::kRequeue,
       "node4 is off (node4: /r is another folder there): the next start leaves out"},
      {"nodes that do not start the program",
       first,
       {"1", 137, "nodes", false, 0, {"node4", "node7"}},
       Next::kRequeue,
       "node4, node7 cannot start the program, or lack the run's files or the build of most: the next start"},
      {"on no node are the run's files: its disk is away",
       first,
       {"1", 2, "nodes", false, 0, {}, "cannot open data/x: No such file or directory"},
       Next::kAgain,
       "no node finds the program and the run's files: cannot open data/x"},
      {"nodes that never start the program",
       looping,
       {"1", 137, "nodes", false, 5, {"node4"}},
       Next::kStop,
       "3 starts in a row made no new checkpoint; the last: node4 cannot start"},
      {"a stop of a run whose nodes are off",
       with(first, stopped("1")),
       {"1", 137, "nodes", false, 0, {"node4"}},
       Next::kStop,
       "hearth stop"},
      {"a preflight that a hanging node ended",
       first,
       {"1", 137, "preflight", false, 0},
       Next::kAgain,
       "hearth preflight ended with exit code 137"},
      {"a preflight that refused the run file",
       first,
       {"1", 2, "preflight", false, 0, {}, "no such key"},
       Next::kStop,
       "refused its input"},
      {"this host is off",
       {submitted("local-7"), began("local-7", 0)},
       {"local-7", 4, "preflight", false, 0},
       Next::kStop,
       "hearth preflight ended with exit code 4"},
      {"nodes that are off and can be left out",
       first,
       {"1", 4, "preflight", false, 0, {"node2", "node5"}},
       Next::kRequeue,
       "hearth preflight found node2, node5 off: the next start leaves out"},
      {"nodes that are off at every start",
       looping,
       {"1", 4, "preflight", false, 5, {"node2"}},
       Next::kStop,
       "3 starts in a row made no new checkpoint; the last: hearth preflight found node2 off"},
      {"preempted, with time to save", first, {"1", 75, "preempt", false, 5}, Next::kRequeue, "was preempted"},
      {"a full disk",
       first,
       {"1", 4, "none", false, 5, {}, "cannot write a: No space left on device", /*disk_is_full=*/true},
       Next::kStop,
       "the disk is full: cannot write a"},
      {"a full disk of one node",
       first,
       {"1", 4, "none", false, 5, {}, "cannot write /dev/shm/a: No space left on device"},
       Next::kAgain,
       "exit code 4): cannot write /dev/shm/a"},
      {"another error of a rank",
       first,
       {"1", 4, "none", false, 5, {}, "rank 3 was lost"},
       Next::kAgain,
       "failed (exit code 4): rank 3 was lost"},
      {"damage", first, {"1", 3, "none", false, 0}, Next::kStop, "damaged"},
      {"our bug", first, {"1", 5, "none", false, 0}, Next::kStop, "Hearth itself"},
      {"a killed rank", first, {"1", 137, "none", false, 0}, Next::kAgain, "signal 9"},
      {"hardware", first, {"1", 4, "none", false, 0}, Next::kAgain, "exit code 4"},
      {"a third failure in a row: two restarts are allowed",
       looping,
       {"1", 4, "none", false, 5},
       Next::kStop,
       "3 starts in a row made no new checkpoint; the last: a rank"},
      {"the third one got on", looping, {"1", 4, "none", false, 6}, Next::kAgain, "exit code 4"},
      {"time limits that are too short are a loop, too",
       looping,
       {"1", 75, "limit", false, 5},
       Next::kStop,
       "the time limit came"},
      {"`hearth stop` came", with(first, stopped("1")), {"1", 75, "limit", false, 5}, Next::kStop, "hearth stop"},
      {"an older stop does not count",
       {submitted("1"), stopped("1"), submitted("2"), began("2", 0)},
       {"2", 75, "limit", false, 5},
       Next::kRequeue,
       "time limit"},
      {"a newer job began", with(first, began("2", 0)), {"1", 4, "none", false, 0}, Next::kLeave, "job 2 goes on"},
      {"a newer job was submitted",
       with(first, submitted("2")),
       {"1", 137, "none", false, 0},
       Next::kLeave,
       "job 2 goes on"},
      {"this job was requeued by Slurm and began again",
       with(with(first, began("1", 5)), ended("1", 5)),
       {"1", 4, "none", false, 5},
       Next::kAgain,
       "exit code 4"},
  };
  for (const Row& row : rows) {
    const RestartDecision decision = decide(row.events, row.ended, /*max_restarts=*/2);
    EXPECT_EQ(name_of(decision.next), name_of(row.next)) << row.about;
    EXPECT_THAT(decision.why, HasSubstr(row.why)) << row.about;
    EXPECT_EQ(decision.is_asked, decision.why == "`hearth stop` asked for it") << row.about;
  }
}

// What fails at once may need a while to pass: a file system that is away, a name that is not resolved.
TEST(Decisions, StartsThatFailAtOnceComeLaterAndLater) {
  std::vector<StartEvent> events = {submitted("1")};
  std::vector<int64_t> waits, after_ten_seconds;
  for (int i = 0; i < 6; ++i) {
    events.push_back(began("1", 5));
    Ended end{"1", 4, "none", false, 5};
    waits.push_back(decide(events, end, 9).wait_s);
    end.lasted_s = 10;
    after_ten_seconds.push_back(decide(events, end, 9).wait_s);
    events.push_back(ended("1", 5));
  }
  EXPECT_THAT(waits, testing::ElementsAre(0, 5, 15, 30, 30, 30));
  EXPECT_THAT(after_ten_seconds, testing::ElementsAre(0, 0, 5, 20, 20, 20));
  events.pop_back();
  EXPECT_EQ(decide(events, {"1", 4, "none", false, 6}, 9).wait_s, 0);  // it got on
}

}  // namespace
}  // namespace hearth::cluster
