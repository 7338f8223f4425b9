// SPDX-License-Identifier: Apache-2.0
// The record of a rank's calls: what is written is read, also after a kill, and damage is refused.
#include "trace/flight.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "support/environment.h"
#include "support/errors.h"

namespace hearth::trace {
namespace {

using testing::HasSubstr;

TEST(Flight, KeepsTheLastCallsWhenTheProcessIsKilled) {
  const test::ScratchFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    FlightWriter writer(flight_file(folder, 3), 3, 8);
    const int32_t group = writer.add_group({1, 2, 4});
    writer.set_step(7);
    for (int64_t i = 1; i <= 2 * kFlightCalls + 5; ++i) {
      const uint64_t number = writer.begin("all_reduce with a name that is much too long", group, i, 8 * i, kAllPeers);
      if (i <= 2 * kFlightCalls + 4) writer.end(number);
    }
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Flight flight = read_flight(flight_file(folder, 3));
  EXPECT_EQ(flight.rank, 3);
  EXPECT_EQ(flight.ranks, 8);
  EXPECT_EQ(flight.process, child);
  EXPECT_FALSE(flight.ended);
  EXPECT_EQ(flight.groups, (std::vector<FlightGroup>{{1, 2, 4}}));
  ASSERT_EQ(std::ssize(flight.calls), kFlightCalls);
  for (size_t i = 0; i < flight.calls.size(); ++i) {
    const FlightCall& call = flight.calls[i];
    EXPECT_EQ(call.number, static_cast<uint64_t>(kFlightCalls) + 6 + i);
    EXPECT_EQ(call.sequence, static_cast<int64_t>(call.number));
    EXPECT_EQ(call.bytes, 8 * call.sequence);
    EXPECT_EQ(call.step, 7);
    EXPECT_STREQ(call.name, "all_reduce with a name that is ");
    EXPECT_EQ(call.under_way(), i + 1 == flight.calls.size());
  }
}

TEST(Flight, OfAnotherFileIsRefused) {
  const test::ScratchFolder folder;
  const Path file = flight_file(folder, 0);
  {
    FlightWriter writer(file, 0, 2);
    writer.end(writer.begin("send", writer.add_group({0, 1, 2}), 0, 4, 1));
    writer.set_ended();
  }
  const std::string good = read_file(file);
  EXPECT_TRUE(read_flight(file).ended);
  const auto refusal = [&](const std::string& bytes) {
    write_file_atomic(file, bytes);
    const Error error = test::error_of([&] { read_flights(folder); });
    EXPECT_EQ(error.code(), ExitCode::kDamaged);
    EXPECT_THAT(error.message(), HasSubstr("rank-00000.ring is no record of a rank's calls"));
    return error.why();
  };
  EXPECT_THAT(refusal(""), HasSubstr("it has 0 bytes, not "));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)), HasSubstr(" bytes, not "));
  const auto with = [&](size_t at, int32_t value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return bytes;
  };
  EXPECT_EQ(refusal(with(0, 7)), "it does not begin with HEARTHFR");
  EXPECT_EQ(refusal(with(offsetof(FlightHead, version), 2)), "it has version 2, not 1");
  EXPECT_THAT(refusal(with(offsetof(FlightHead, rank), 2)), HasSubstr("it is of rank 2 of 2"));
  EXPECT_THAT(refusal(with(offsetof(FlightHead, num_groups), 1000)), HasSubstr("in 1000 groups"));
  EXPECT_EQ(refusal(with(offsetof(FlightHead, groups) + offsetof(FlightGroup, count), 3)), "its group 0 is damaged");
  const size_t call = sizeof(FlightHead) + sizeof(FlightCall);  // number 1
  EXPECT_EQ(refusal(with(call + offsetof(FlightCall, group), 1)), "its call number 1 is damaged");
  EXPECT_EQ(refusal(with(call + offsetof(FlightCall, peer), 2)), "its call number 1 is damaged");
  EXPECT_EQ(refusal(with(call, 2)), "its call number 2 is damaged");
}

TEST(Flight, FoldersWithoutRecordsOrOfTwoTrainingsAreRefused) {
  const test::ScratchFolder folder;
  EXPECT_THAT(test::error_of([&] { read_flights(folder); }).message(), HasSubstr("there are no records of calls in "));
  const FlightWriter one(flight_file(folder, 0), 0, 2), two(flight_file(folder, 1), 1, 3);
  EXPECT_THAT(test::error_of([&] { read_flights(folder); }).why(), HasSubstr("rank 0 of 2 and rank 1 of 3"));
}

}  // namespace
}  // namespace hearth::trace
