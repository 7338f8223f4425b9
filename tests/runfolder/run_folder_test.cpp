// SPDX-License-Identifier: Apache-2.0
// The ranks of a run must see one folder.
#include "runfolder/run_folder.h"

#include <gmock/gmock.h>

#include <thread>

#include "support/environment.h"
#include "support/errors.h"

namespace hearth::runfolder {
namespace {

config::RunConfig run_in(const Path& folder) {
  config::RunConfig config;
  config.base_folder = folder;
  config.job.dump_folder = "run";
  return config;
}

TEST(RunFolder, ThatOtherRanksDoNotSeeIsNamed) {
  const test::ScratchFolder shared, local;
  const RunFolder first(run_in(shared));
  const std::string lease = first.lease().value().id();
  RunFolder(run_in(shared), /*locks=*/false).require_shared(lease, 0);
  const RunFolder other(run_in(local), /*locks=*/false);
  const Error error = test::error_of([&] { other.require_shared(lease, 0); });
  EXPECT_EQ(error.code(), ExitCode::kHardware);
  EXPECT_THAT(error.message(), testing::HasSubstr("is not the folder of rank 0"));
  EXPECT_THAT(error.fix(), testing::HasSubstr("job.dump_folder"));
  // A copy that an earlier start left there is not the folder, either.
  { const RunFolder earlier(run_in(local)); }
  EXPECT_EQ(test::error_of([&] { other.require_shared(lease, 0); }).code(), ExitCode::kHardware);
}

TEST(RunFolder, ThatOtherRanksSeeLateIsWaitedFor) {
  const test::ScratchFolder shared, late;
  const RunFolder first(run_in(shared));
  const RunFolder other(run_in(late), /*locks=*/false);
  std::thread appears([&] {
    make_folders(late / "run");
    write_file_atomic(late / "run" / kLeaseFile, read_file(shared / "run" / kLeaseFile));
  });
  other.require_shared(first.lease().value().id());
  appears.join();
}

}  // namespace
}  // namespace hearth::runfolder
