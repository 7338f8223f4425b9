// SPDX-License-Identifier: Apache-2.0
// Groups through NCCL, whose place tests/support/fake_nccl.cpp takes: failures, and what is loaded.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "comm/join.h"
#include "comm/nccl_group.h"
#include "comm/nccl_library.h"
#include "launch/launched_rank.h"
#include "launch/local_ranks.h"
#include "support/environment.h"
#include "support/errors.h"
#include "support/text_file.h"

namespace hearth::comm {
namespace {

using testing::HasSubstr;

Path fake_library() { return Path(HEARTH_BUILD_DIR) / "tests" / "libhearth_fake_nccl.so"; }

class Knob {
 public:
  Knob(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Knob() { ::unsetenv(name_); }

 private:
  const char* name_;
};

// Three ranks; rank 0's error goes to the returned text.
struct Outcome {
  int code;
  std::string output;
};
// `start_s`: of messages and the start, as a training sets it; 0: it is not set.
Outcome run_three(double timeout_s, const std::function<void(Group&)>& body, double start_s = 0) {
  testing::internal::CaptureStderr();
  const launch::LocalEnd end = launch::run_local_ranks(3, [&](const launch::LaunchedRank& launched) {
    at::set_num_threads(1);
    const Membership me{.rank = launched.rank, .size = launched.size, .address = launched.address, .key = launched.key};
    return run_as_rank(me, [&](Control& control, const MakeGroup& make_group) {
      if (start_s > 0) control.set_timeout(start_s);
      const auto group = make_group({.backend = config::CommBackend::kNccl,
                                     .nccl_library = fake_library().string(),
                                     .train_timeout_seconds = timeout_s},
                                    {});
      body(*group);
      return 0;
    });
  });
  return {end.code, testing::internal::GetCapturedStderr()};
}

void three_calls(Group& group) {
  for (int i = 0; i < 3; ++i) group.all_gather(at::ones({30}), at::ones({10}));
}

TEST(Nccl, ARankThatDiesEndsAll) {
  const Knob knob("HEARTH_FAKE_NCCL_DIE", "1:2");
  const Outcome outcome = run_three(60, three_calls);
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.output, HasSubstr("rank 1"));
}

TEST(Nccl, ARankThatHangsIsNoticedWithTheCall) {
  const Knob knob("HEARTH_FAKE_NCCL_HANG", "2:3");
  const std::string expected = " in all_gather of 10 elements through NCCL";
  double timeout_s = 1;
  Outcome outcome = run_three(timeout_s, three_calls);
  // On a busy machine the start may take as long: it gets more time.
  while (timeout_s < 16 && outcome.output.find(expected) == std::string::npos)
    outcome = run_three(timeout_s *= 4, three_calls);
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.output, testing::ContainsRegex("waited [0-9.]+ s" + expected));
}

TEST(Nccl, ARankThatDoesNotComeToTheStartIsNoticed) {
  const Knob knob("HEARTH_FAKE_NCCL_HANG_AT_START", "1");
  const Outcome outcome = run_three(1, three_calls);
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.output, testing::ContainsRegex("waited [0-9.]+ s in ncclCommInitRank"));
  EXPECT_THAT(outcome.output, HasSubstr("another rank did not come"));
}

// Until the first step has ended, a call may take longer than the limit of steps.
TEST(Nccl, ACallBeforeTheFirstStepHasTheTimeOfTheStart) {
  const Knob knob("HEARTH_FAKE_NCCL_DELAY_MS", "1500");
  const auto one_call = [](Group& group) { group.all_gather(at::ones({30}), at::ones({10})); };
  EXPECT_EQ(run_three(0.1, one_call, /*start_s=*/600).code, 0);
  const Outcome outcome = run_three(
      600,
      [&](Group& group) {
        group.control().set_step(2);
        group.control().set_timeout(0.1);  // as a training does when the first step has ended
        one_call(group);
      },
      /*start_s=*/600);
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.output, HasSubstr(" in all_gather of 10 elements through NCCL"));
}

TEST(Nccl, TheStartHasALimitOfItsOwn) {
  const Knob knob("HEARTH_FAKE_NCCL_HANG_AT_START", "1");
  const std::string expected = "comm.init_timeout_seconds is the limit";
  Outcome outcome = run_three(600, three_calls, /*start_s=*/1);
  // On a busy machine the ranks may take as long to come to it: they get more time.
  for (double start_s = 4; start_s < 100 && outcome.output.find(expected) == std::string::npos; start_s *= 4)
    outcome = run_three(600, three_calls, start_s);
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.output, HasSubstr(expected));
}

// A rank fails by itself, and NCCL does not let go of its calls: the others must hear of it all the same.
TEST(Nccl, AnAbortThatDoesNotReturnEndsAll) {
  const Knob knob("HEARTH_FAKE_NCCL_HANG_IN_ABORT", "1");
  testing::internal::CaptureStderr();
  const launch::LocalEnd end = launch::run_local_ranks(3, [&](const launch::LaunchedRank& launched) {
    at::set_num_threads(1);
    const Membership me{.rank = launched.rank, .size = launched.size, .address = launched.address, .key = launched.key};
    return run_as_rank(me, [&](Control& control, const MakeGroup&) {
      const auto fail = [&](const Error& error) { dynamic_cast<ProcessControl&>(control).fail(error); };
      const auto group = nccl_group(control, {.library = fake_library(), .abort_s = 0.2, .fail = fail});
      if (group->rank() == 1) throw user_error("rank 1 has had enough");
      three_calls(*group);
      return 0;
    });
  });
  EXPECT_EQ(end.code, 4);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("rank 1 failed, and NCCL did not end its calls within 0.2 s"));
}

// It aborts NCCL before its message is on the way. The others then hear of a remote error, which says less.
TEST(Nccl, TheErrorOfARankIsSaidAndNotThatOthersHearOfIt) {
  for (const int64_t victim : {1, 2}) {
    const Outcome outcome = run_three(60, [&](Group& group) {
      group.control().barrier("all are there");
      if (group.rank() == victim) throw user_error("this rank has had enough");
      three_calls(group);
    });
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.output, HasSubstr("error: this rank has had enough"));
    EXPECT_THAT(outcome.output, HasSubstr(fmt::format("rank {}", victim)));
  }
}

TEST(Nccl, CallsInDifferentOrdersAreAnErrorThatNamesThem) {
  const Outcome outcome = run_three(60, [](Group& group) {
    group.rank() == 1 ? group.all_reduce(at::ones({7})) : group.all_gather(at::ones({30}), at::ones({10}));
  });
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.output, HasSubstr("fails: invalid usage"));
  EXPECT_THAT(outcome.output, HasSubstr("meets"));
}

// NCCL's own sums are in any order: near those in pairs.
TEST(Nccl, ItsOwnSumsAreThoseOfTheRanks) {
  const launch::LocalEnd end = launch::run_local_ranks(3, [&](const launch::LaunchedRank& launched) {
    at::set_num_threads(1);
    const Membership me{.rank = launched.rank, .size = launched.size, .address = launched.address, .key = launched.key};
    return run_as_rank(me, [&](Control&, const MakeGroup& make_group) {
      const auto group = make_group({.backend = config::CommBackend::kNccl, .nccl_library = fake_library().string()},
                                    {.ordered = false});
      const auto rank = static_cast<double>(group->rank());
      for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
        const at::Tensor full = at::arange(12, type) + rank;
        const at::Tensor shard = at::empty({4}, full.options());
        group->reduce_scatter(shard, full);  // the sum over ranks of 4 rank + i + r is 3 (4 rank + i) + 3
        EXPECT_TRUE(shard.equal(3 * (at::arange(4, type) + 4 * rank) + 3));
        group->all_reduce(full);
        EXPECT_TRUE(full.equal(3 * at::arange(12, type) + 3));
      }
      return testing::Test::HasFailure() ? 1 : 0;
    });
  });
  EXPECT_EQ(end.code, 0);
}

TEST(Nccl, LibrariesThatAreMissingForeignOrTooOldAreNamed) {
  const auto missing = test::error_of([] { NcclLibrary("/nowhere/libnccl.so.2"); });
  EXPECT_EQ(missing.code(), ExitCode::kHardware);
  EXPECT_THAT(missing.what(), HasSubstr("/nowhere/libnccl.so.2"));
  EXPECT_THAT(test::error_of([] { NcclLibrary("libz.so.1"); }).what(), HasSubstr("libz.so.1 has no function nccl"));
  const Knob knob("HEARTH_FAKE_NCCL_VERSION", "21703");
  EXPECT_THAT(test::error_of([] { NcclLibrary{fake_library()}; }).what(),
              HasSubstr("is version 2.17.3\n  why: Hearth needs 2.18.0 or newer"));
}

TEST(Nccl, TheLibraryThatPipInstallsHasEveryFunction) {
  Path found;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(Path(HEARTH_SOURCE_DIR) / ".deps" / "oracle" / "lib",
                                                     std::filesystem::directory_options::skip_permission_denied))
    if (entry.path().filename() == "libnccl.so.2") found = entry.path();
  if (found.empty()) GTEST_SKIP() << "nvidia-nccl-cu13 is not installed";
  const NcclLibrary library(found);
  EXPECT_THAT(library.name(), HasSubstr("version 2."));
  nccl::UniqueId id{};
  library.check(library.api().GetUniqueId(&id), "ncclGetUniqueId");
}

}  // namespace
}  // namespace hearth::comm
