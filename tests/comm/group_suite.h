// SPDX-License-Identifier: Apache-2.0
// What a group must do, for every implementation. Each function is Collective.
#pragma once

#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "base/error.h"
#include "checked_calls.h"

namespace hearth::comm {

inline void check_control(Group& group, int64_t seed) {
  const int64_t R = group.size();
  Control& control = group.control();
  EXPECT_EQ(control.rank(), group.rank());
  EXPECT_EQ(control.size(), R);
  const double mine[] = {value_at(seed, group.rank(), 0), value_at(seed, group.rank(), 1)};
  EXPECT_THAT(control.sum("a sum", mine), testing::ElementsAre(sum_at<double>(seed, R, 0), sum_at<double>(seed, R, 1)));
  EXPECT_EQ(control.any("a vote", seed % (2 * R) == group.rank()), seed % (2 * R) < R);
  EXPECT_EQ(control.broadcast("a name", group.rank() == 0 ? "of rank 0" : "of another"), "of rank 0");
  const Posted first = control.post("the first", fmt::format("{},", group.rank()), merge_lists);
  const Posted second = control.post("the second", fmt::format("{},", 2 * group.rank()), merge_lists);
  control.barrier("between");
  std::string ranks, doubles;
  for (int64_t r = 0; r < R; ++r) {
    ranks += fmt::format("{},", r);
    doubles += fmt::format("{},", 2 * r);
  }
  EXPECT_EQ(control.collect(second), doubles);
  EXPECT_EQ(control.collect(first), ranks);
  EXPECT_EQ(control.first("who speaks", group.rank() >= R / 2 ? fmt::format("{}", group.rank()) : ""),
            fmt::format("{}", R / 2));
  const std::vector<std::string> of_all = control.gather("for rank 0", fmt::format("{}", 3 * group.rank()));
  ASSERT_EQ(std::ssize(of_all), group.rank() == 0 ? R : 0);
  if (!of_all.empty()) {
    EXPECT_EQ(of_all.back(), fmt::format("{}", 3 * (R - 1)));
  }
  const std::string bytes(static_cast<size_t>(group.rank()), '\0');
  const std::vector<std::string> all = control.all_gather("bytes", bytes + "!");
  ASSERT_EQ(static_cast<int64_t>(all.size()), R);
  for (int64_t r = 0; r < R; ++r)
    EXPECT_EQ(all[static_cast<size_t>(r)], std::string(static_cast<size_t>(r), '\0') + "!");
}

// An error of one rank, or of several, is thrown by all: that of the first.
inline void check_together(Group& group) {
  Control& control = group.control();
  control.together("nothing wrong", [] {});
  const int64_t last = group.size() - 1;
  try {
    control.together("an error", [&] {
      if (group.rank() == last) throw damaged("what of the last", "why", "fix").about("data.path");
    });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::StartsWith(damaged("what of the last", "why", "fix").what()));
    if (last > 0) {
      EXPECT_THAT(error.what(), testing::HasSubstr(fmt::format("\n  rank: rank {}", last)));
    }
    EXPECT_EQ(error.code(), ExitCode::kDamaged);
    EXPECT_EQ(error.key(), "data.path");
  }
  EXPECT_THROW(control.together("errors", [&] { throw user_error(std::to_string(group.rank())); }), Error);
}

inline void check_collectives(Group& group) {
  for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{1024}, int64_t{3001}}) {
    for (const bool in_place : {false, true}) {
      check_all_gather<float>(group, n, n, in_place);
      check_all_gather<double>(group, n + 1, n, in_place);
      check_all_gather<int64_t>(group, n + 2, n, in_place);
      check_reduce_scatter<float>(group, n + 3, n, in_place);
      check_reduce_scatter<double>(group, n + 4, n, in_place);
    }
    check_all_reduce<float>(group, n + 5, n);  // 1, 7 and 3001 do not divide by the ranks
    check_all_reduce<double>(group, n + 6, n);
    check_all_to_all<float>(group, n + 7, n);
    for (int64_t seed = 0; seed < 5; ++seed) check_unequal_all_to_all<float>(group, n + seed, n);
    check_transfers<float>(group, n + 7, n);
    check_bfloat16(group, n + 8, n);
    check_control(group, n + 9);
    group.control().barrier("a barrier");
  }
  check_together(group);
}

// The ranks draw the same plan from the same seed and reach each operation at different times.
inline void check_random_calls(Group& group, int64_t count) {
  std::mt19937_64 plan(17);
  std::mt19937_64 own(static_cast<uint64_t>(group.rank()));
  for (int64_t i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    const auto n = static_cast<int64_t>(plan() % 40);
    const bool in_place = plan() % 2 == 0;
    const auto kind = plan() % 9;
    if (own() % 4 == 0) std::this_thread::yield();
    if (own() % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (kind == 0) check_all_gather<float>(group, i, n, in_place);
    if (kind == 1) check_all_gather<double>(group, i, n, in_place);
    if (kind == 2) check_reduce_scatter<float>(group, i, n, in_place);
    if (kind == 3) check_reduce_scatter<double>(group, i, n, in_place);
    if (kind == 4) check_all_reduce<float>(group, i, n);
    if (kind == 5) check_control(group, i);
    if (kind == 6) check_all_to_all<double>(group, i, n);
    if (kind == 8) check_unequal_all_to_all<double>(group, i, n);
    if (kind == 7) check_transfers<double>(group, i, n);
  }
}

// The ranks that are equal to this one modulo `stride`, or those of its block of `stride` neighbours.
inline std::vector<int64_t> members_of(int64_t rank, int64_t ranks, int64_t stride, bool neighbours) {
  std::vector<int64_t> members;
  for (int64_t r = 0; r < ranks; ++r)
    if (neighbours ? r / stride == rank / stride : r % stride == rank % stride) members.push_back(r);
  return members;
}

inline void check_split_groups(Group& all, int64_t count) {
  const auto rows = all.split(members_of(all.rank(), all.size(), 2, true));
  const auto columns = all.split(members_of(all.rank(), all.size(), 2, false));
  const auto part_of_columns = columns->split(members_of(columns->rank(), columns->size(), 2, true));
  EXPECT_EQ(columns->rank(), all.rank() / 2);
  EXPECT_EQ(part_of_columns->rank(), all.rank() / 2 % 2);
  EXPECT_EQ(rows->rank(), all.rank() % 2);
  EXPECT_EQ(&rows->control(), &all.control());
  std::mt19937_64 plan(29);
  for (int64_t i = 0; i < count; ++i) {
    const auto n = static_cast<int64_t>(plan() % 3000);
    Group& group = plan() % 3 == 0 ? all : plan() % 3 == 1 ? *rows : plan() % 2 == 0 ? *columns : *part_of_columns;
    check_all_gather<float>(group, i, n, plan() % 2 == 0);
    check_reduce_scatter<float>(group, i, n, plan() % 2 == 0);
    check_all_reduce<double>(group, i, n);
    check_all_to_all<float>(group, i, n);
    check_unequal_all_to_all<float>(group, i, n);
  }
}

// Calls that were started run in their order, between those that the caller waits for.
inline void check_started_calls(Group& all) {
  const int64_t R = all.size();
  const auto pairs = all.split(members_of(all.rank(), R, 2, true));
  std::vector<at::Tensor> values;
  std::vector<Work> works;
  for (int64_t i = 0; i < 50; ++i) {
    const at::Tensor mine = filled<float>(i, all.rank(), 100);
    values.push_back(mine);
    Group& group = i % 2 == 0 ? all : *pairs;
    works.push_back(all.start([&group, mine] {
      group.all_reduce(mine);
      mine.narrow(0, 0, 1).add_(1);  // the caller sees this, too
    }));
    if (i % 7 == 0) check_all_gather<float>(all, i, 10, false);
  }
  for (Work& work : works) work.wait();
  for (int64_t i = 0; i < 50; i += 2) {
    expect_elements<float>(values[static_cast<size_t>(i)],
                           [&](int64_t k) { return sum_at<float>(i, R, k) + (k == 0 ? 1.0F : 0.0F); });
  }
}

// A transfer that waits for its partner does not hold up the calls of other groups.
inline void check_group_apart(Group& all) {
  const auto apart = all.split_apart(members_of(all.rank(), all.size(), all.size(), true));
  const int64_t last = all.size() - 1;
  if (last == 0) return;
  const at::Tensor values = all.rank() == 0 ? tensor_of<float>(1000) : filled<float>(3, all.rank(), 1000);
  Work transfer;
  if (all.rank() == 0) transfer = apart->start([&] { apart->recv(values, last); });
  check_all_reduce<float>(all, 1, 100);  // returns although nobody has sent
  if (all.rank() == last) apart->send(values, 0);
  transfer.wait();
  if (all.rank() == 0) expect_elements<float>(values, [&](int64_t i) { return value_at(3, last, i); });
  check_all_reduce<float>(*apart, 2, 100);
}

}  // namespace hearth::comm
