// SPDX-License-Identifier: Apache-2.0
// `hearth preflight RUN.toml` on this host: two steps of the real run.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/file.h"
#include "support/environment.h"
#include "support/hearth_command.h"

namespace hearth::commands {
namespace {

using testing::HasSubstr;

// What only a longer run has room for is left out of the two steps.
TEST(Preflight, TakesTwoStepsOfARunThatProfilesAndWritesSamples) {
  HEARTH_NEEDS_TRAINER();
  const test::ScratchFolder scratch;
  std::string text;
  for (int i = 0; i < 400; ++i) text += fmt::format("The number {} stands in a row of words.\n", i);
  write_file_atomic(scratch / "text.txt", text);
  const test::CommandResult data =
      test::run_hearth(fmt::format("data build --out {} --tokenizer bytes --document-bytes 100 "
                                   "--validation 0.1 {}",
                                   (scratch / "data").string(), (scratch / "text.txt").string()));
  ASSERT_EQ(data.exit_code, 0) << data.output;
  write_file_atomic(scratch / "run.toml",
                    "[job]\ndump_folder = \"run\"\n[model]\ndim = 16\nn_layers = 1\nn_heads = 2\n"
                    "[training]\nseq_len = 32\nlocal_batch_size = 2\nsteps = 200\n[data]\npath = \"data\"\n"
                    "[validation]\nfreq = 50\ngenerate = [\"The \"]\n[checkpoint]\ninterval = 50\n"
                    "[profiling]\nenable_profiling = true\nprofile_freq = 100\nenable_memory_snapshot = true\n");
  const test::CommandResult result = test::run_hearth("preflight " + (scratch / "run.toml").string());
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("2 of the run with its layout, start and save"));
  EXPECT_FALSE(path_exists(scratch / "run" / "checkpoints"));
}

}  // namespace
}  // namespace hearth::commands
