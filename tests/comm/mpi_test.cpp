// SPDX-License-Identifier: Apache-2.0
// The suite of group_test.cpp, in ranks that mpirun starts, and what MPI can refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "comm/mpi_group.h"
#include "comm/ranks.h"
#include "support/environment.h"
#include "support/errors.h"

namespace hearth::comm {
namespace {

struct Mpi {
  const char* name;
  const char* mpirun;
  const char* options;
};
void PrintTo(const Mpi& mpi, std::ostream* out) { *out << mpi.name; }

Path library_of(const Mpi& mpi) {
  return std::filesystem::canonical("/proc/self/exe").parent_path() / mpi.name / "libhearth_mpi.so";
}

constexpr Mpi kOpenMpi{"openmpi", "mpirun.openmpi", "--allow-run-as-root --oversubscribe"};
constexpr Mpi kMpich{"mpich", "mpirun.mpich", ""};

class MpiRanksOf : public testing::TestWithParam<Mpi> {
 protected:
  void SetUp() override {
    if (!path_exists(library_of(GetParam()))) GTEST_SKIP() << "no mpicxx." << GetParam().name << " is installed";
  }
  // Runs a test of this program as so many ranks. In the asan preset without the check of leaks: MPI's own libraries
  // leave memory behind at their end.
  static test::CommandResult run(int ranks, const std::string& name) {
    const Mpi& mpi = GetParam();
    return test::run_command(
        fmt::format("ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\" HEARTH_TEST_MPI={} {} {} -n {} {} --gtest_color=no "
                    "--gtest_also_run_disabled_tests "
                    "--gtest_filter=DISABLED_Mpi/{}/ranks{} 2>&1",
                    library_of(mpi).string(), mpi.mpirun, mpi.options, ranks,
                    std::filesystem::canonical("/proc/self/exe").string(), name, ranks));
  }
};

TEST_P(MpiRanksOf, PassTheSuiteOfGroups) {
  for (const char* name :
       {"Collectives.EqualDirectSumsAndCopiesInPlaceAndOutOfPlace", "Collectives.GoOnWhileTheCallerComputes",
        "Collectives.OfGroupsThatWereSplitConcernTheirRanksOnly",
        "Collectives.OfAGroupThatWasSplitApartRunBesideThoseOfOthers", "LargeCollectives.TakeTensorsOfAnySize"}) {
    const test::CommandResult result = run(3, name);
    EXPECT_EQ(result.exit_code, 0) << name << "\n" << result.output;
    EXPECT_THAT(result.output, testing::HasSubstr("[  PASSED  ] 1 test.")) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Library, MpiRanksOf, testing::Values(kOpenMpi, kMpich),
                         [](const auto& about) { return std::string(about.param.name); });

test::CommandResult bench(const std::string& launcher, const std::string& words) {
  return test::run_command(
      fmt::format("{} {} bench comm --mib 1 --repeats 2 {} 2>&1", launcher, test::hearth_binary(), words));
}

// Each process would train alone, on the same files.
TEST(MpiLibraryOf, AnotherLauncherIsRefused) {
  if (!path_exists(Path(test::hearth_binary()).parent_path() / "libhearth_mpi.so")) GTEST_SKIP() << "built without MPI";
  const test::CommandResult result = bench("", "--ranks 2 --backend mpi");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, testing::HasSubstr("error: this is rank 0 of 2, but rank 0 of 1 for MPI"));
}

TEST(MpiLibraryOf, NoPlaceIsNamedWithWhatToDo) {
  MpiOptions options;
  options.object = "/nowhere/libhearth_mpi.so";
  const Error error =
      test::error_of([&] { run_ranks(1, 600, [&](Group& group) { mpi_group(group.control(), options); }); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.message(), "tensors of several hosts, or of comm.backend = \"mpi\", need MPI");
  EXPECT_THAT(error.why(), testing::HasSubstr("/nowhere/libhearth_mpi.so"));
  EXPECT_THAT(error.fix(), testing::HasSubstr("on one host, without comm.backend"));
}

}  // namespace
}  // namespace hearth::comm
