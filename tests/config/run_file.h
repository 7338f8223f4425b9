// SPDX-License-Identifier: Apache-2.0
// A run file in a folder of its own, next to folders that look like datasets.
#pragma once

#include <gtest/gtest.h>

#include "base/error.h"
#include "config/load.h"
#include "support/environment.h"

namespace hearth::config {

// Everything that a training needs.
inline constexpr const char* kComplete =
    "[data]\npath = \"d\"\n[lr_scheduler]\nwarmup_steps = 0\n[training]\nsteps = 10\n";

class RunFileTest : public ::testing::Test {
 protected:
  RunFileTest() {
    for (const char* name : {"d", "web", "books", "code", "x"}) {
      make_folders(folder_ / name);
      write_file_atomic(folder_ / name / "manifest.json", "{}");
    }
  }
  Path file(const std::string& text) {
    write_file_atomic(folder_ / "run.toml", text);
    return folder_ / "run.toml";
  }
  // The message with the scratch folder taken out.
  std::string error_of(const std::string& text, const std::vector<std::string>& sets = {}) {
    try {
      load(file(text), sets);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUser);
      std::string message = error.what();
      const std::string prefix = folder_.path().string() + "/";
      for (size_t at; (at = message.find(prefix)) != std::string::npos;) message.erase(at, prefix.size());
      return message;
    }
    return "no error";
  }
  test::ScratchFolder folder_;
};

}  // namespace hearth::config
