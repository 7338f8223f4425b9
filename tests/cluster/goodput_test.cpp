// SPDX-License-Identifier: Apache-2.0
#include "cluster/goodput.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::cluster {
namespace {

constexpr double kMidnight_s = 1'769'904'000;  // date --date=2026-02-01T00:00:00Z +%s

StartEvent at(int64_t second, const std::string& name, const std::string& next = {}) {
  return {.name = name,
          .time = fmt::format("2026-02-01T00:{:02}:{:02}Z", second / 60, second % 60),
          .job = "1",
          .next = next};
}

// Steps of two seconds, of which the last one ends at that second.
std::vector<metrics::StepRecord> steps(int64_t count, double last_s) {
  std::vector<metrics::StepRecord> records;
  for (int64_t i = 1; i <= count; ++i)
    records.push_back({.step = i, .step_s = 2, .time = kMidnight_s + last_s - 2 * static_cast<double>(count - i)});
  return records;
}

double allocated(const std::vector<StartEvent>& events, double last_step_s, bool running = false) {
  return goodput_of(events, steps(3, last_step_s), running, kMidnight_s + 1000).allocated_s;
}

TEST(Goodput, ReadsTimes) {
  EXPECT_EQ(seconds_of_time("2026-02-01T00:00:00Z"), kMidnight_s);
  EXPECT_EQ(seconds_of_time("1970-01-02T00:00:01Z"), 86401);
  EXPECT_EQ(seconds_of_time("2026-02-01"), -1);
  EXPECT_EQ(seconds_of_time(""), -1);
}

TEST(Goodput, IsTheTimeOfStepsThatStayOverTheTimeOfJobs) {
  const Goodput found = goodput_of({at(0, "submit"), at(60, "start"), at(80, "end", "done")}, steps(8, 79), false, 0);
  EXPECT_EQ(found.allocated_s, 20);
  EXPECT_EQ(found.useful_s, 16);
  EXPECT_EQ(found.share(), 0.8);
  EXPECT_EQ(found.starts, 1);
  EXPECT_EQ(goodput_of({}, {}, false, 0).share(), 0);
}

TEST(Goodput, IsNeverMoreThanTheTimeOfJobs) {
  const std::vector<StartEvent> events = {at(0, "submit"), at(60, "start"), at(80, "end", "done")};
  // Ten minutes of steps by hand before the job.
  std::vector<metrics::StepRecord> records = steps(300, 59);
  EXPECT_EQ(goodput_of(events, records, false, 0).useful_s, 0);
  for (const metrics::StepRecord& record : steps(5, 79)) records.push_back(record);
  EXPECT_EQ(goodput_of(events, records, false, 0).useful_s, 10);
  // Events have whole seconds: the end came at 80.9.
  EXPECT_EQ(goodput_of(events, steps(10, 80.5), false, 0).share(), 1);
  // The script of the job was killed, and its ranks train on.
  const std::vector<StartEvent> killed = {at(0, "submit"), at(10, "start")};
  EXPECT_EQ(goodput_of(killed, steps(400, 811), /*running=*/true, kMidnight_s + 811).share(), 800.0 / 801);
  EXPECT_EQ(goodput_of(killed, steps(400, 811), /*running=*/false, kMidnight_s + 5000).share(), 800.0 / 801);
  // Somebody submitted it anew while they did.
  const std::vector<StartEvent> anew = {at(0, "submit"), at(10, "start"), at(100, "submit"), at(110, "start")};
  const Goodput found = goodput_of(anew, steps(100, 211), /*running=*/true, kMidnight_s + 211);
  EXPECT_EQ(found.allocated_s, 90 + 101);
  EXPECT_LE(found.share(), 1);
}

TEST(Goodput, CountsTheTimeBetweenStartsOfOneJobAndNotTheQueue) {
  const StartEvent submit = at(0, "submit");
  // Again in the same allocation: 10 to 50.
  EXPECT_EQ(allocated({submit, at(10, "start"), at(20, "end", "again"), at(30, "start"), at(50, "end", "done")}, 49),
            40);
  // Back in the queue between: 10 to 20 and 30 to 50.
  EXPECT_EQ(allocated({submit, at(10, "start"), at(20, "end", "requeue"), at(30, "start"), at(50, "end", "done")}, 49),
            30);
  // A node died, and nobody wrote an end: 10 to 50.
  EXPECT_EQ(allocated({submit, at(10, "start"), at(30, "start"), at(50, "end", "done")}, 49), 40);
  // It runs; it died, after its last step or between two starts.
  EXPECT_EQ(allocated({submit, at(10, "start")}, 49, /*running=*/true), 990);
  EXPECT_EQ(allocated({submit, at(10, "start")}, 49), 39);
  EXPECT_EQ(allocated({submit, at(10, "start"), at(60, "end", "again")}, 49), 50);
  // It died, and somebody submitted it anew.
  EXPECT_EQ(allocated({submit, at(10, "start"), at(100, "submit"), at(110, "start"), at(120, "end", "done")}, 49), 49);
}

}  // namespace
}  // namespace hearth::cluster
