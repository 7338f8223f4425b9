// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of Parquet, Arrow and save_to_disk.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>

#include "data/formats/arrow_library.h"
#include "support/environment.h"
#include "support/python.h"

// Without Arrow in the build the test is skipped; under CI that is a failure.
#define HEARTH_NEEDS_ARROW()                                                                   \
  HEARTH_NEEDS_ORACLE();                                                                       \
  do {                                                                                         \
    if (!::hearth::path_exists(Path(HEARTH_BIN_DIR) / ::hearth::data::kArrowObject)) {         \
      if (std::getenv("CI") != nullptr) FAIL() << "built without Arrow: run scripts/setup.sh"; \
      GTEST_SKIP() << "built without Arrow: run scripts/setup.sh, and build again";            \
    }                                                                                          \
  } while (false)

namespace hearth::data {

// The output of a script of tests/data.
inline std::string run_oracle(const std::string& script, const std::string& arguments) {
  const auto run = test::run_python(fmt::format("tests/data/{} {}", script, arguments));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  return run.output;
}

}  // namespace hearth::data
