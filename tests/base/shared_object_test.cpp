// SPDX-License-Identifier: Apache-2.0
#include "base/shared_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/environment.h"
#include "support/errors.h"

namespace hearth {
namespace {

using testing::HasSubstr;

using test::error_of;

TEST(SharedObject, OneOfAnotherBuildIsRefused) {
  const test::ScratchFolder scratch;
  const Path object = scratch / "libpart.so", source = scratch / "part.c";
  write_file_atomic(source, "int part_1a2b3c4d(void) { return 7; }\n");
  const std::string compile = fmt::format("cc -shared -fPIC -o {} {}", object.string(), source.string());
  ASSERT_EQ(test::run_command(compile).exit_code, 0);
#define PART_ENTRY part_1a2b3c4d
  void* entry = load_entry(object, HEARTH_ENTRY_NAME(PART_ENTRY), "no part", "mend it");
  EXPECT_EQ(reinterpret_cast<int (*)()>(entry)(), 7);
  const Error other = error_of([&] { load_entry(object, "part_00000000", "no part", "mend it"); });
  EXPECT_EQ(other.code(), ExitCode::kUser);
  EXPECT_EQ(other.message(), object.string() + " belongs to another build than this program");
  EXPECT_EQ(other.why(), "it has no part_00000000");
  EXPECT_EQ(other.fix(), "build Hearth again, and copy the build's bin/ folder as a whole");
}

TEST(SharedObject, OneThatCannotBeLoadedSaysWhy) {
  const test::ScratchFolder scratch;
  const Path object = scratch / "libpart.so";
  write_file_atomic(object, "text");
  const Error error = error_of([&] { load_entry(object, "part", "no part", "mend it"); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.message(), "no part");
  EXPECT_THAT(error.why(), HasSubstr("libpart.so")) << error.why();
  EXPECT_EQ(error.fix(), "mend it");
}

}  // namespace
}  // namespace hearth
