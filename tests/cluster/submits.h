// SPDX-License-Identifier: Apache-2.0
// Runs that a test submits, with programs of its own in place of Slurm's.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "data/build/build.h"
#include "support/hearth_command.h"

namespace hearth::cluster {

class Submits : public testing::Test {
 protected:
  Submits() {
    make_folders(scratch / "text");
    make_folders(scratch / "bin");
    write_file_atomic(scratch / "text" / "a.txt", "one two three four five six seven eight nine ten\n");
    data::BuildOptions options;
    options.out = scratch / "data";
    options.paths = {scratch / "text"};
    data::BuildProgress progress;
    data::build_dataset(options, progress);
    write_file_atomic(toml, "[job]\ndump_folder = \"out\"\n[training]\nsteps = 10\n[data]\npath = \"data\"\n");
  }

  // A program of the test's own, which calls of PATH find first.
  void program(const std::string& name, const std::string& script) {
    write_file_atomic(scratch / "bin" / name, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(scratch / "bin" / name, std::filesystem::perms::all);
  }
  test::CommandResult hearth(const std::string& arguments) {
    return test::run_hearth(arguments, fmt::format("PATH={}:/usr/bin:/bin", (scratch / "bin").string()));
  }
  test::CommandResult submit(const std::string& options = "--cluster slurm_cpu --set training.global_batch_size=-1") {
    return hearth("submit " + toml.string() + " " + options);
  }

  test::ScratchFolder scratch;
  Path toml = scratch / "run.toml", run = scratch / "out";
};

}  // namespace hearth::cluster
