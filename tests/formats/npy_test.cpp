// SPDX-License-Identifier: Apache-2.0
// Vectors in .npy files, compared with NumPy's own files.
#include "formats/npy.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/environment.h"
#include "support/errors.h"
#include "support/python.h"

namespace hearth::formats {
namespace {

using test::error_of;
using test::ScratchFolder;

TEST(Npy, VectorsAreNumpysBothWays) {
  HEARTH_NEEDS_ORACLE();
  const ScratchFolder scratch;
  const Path ours = scratch / "ours.npy", theirs = scratch / "theirs.npy";
  const std::vector<float> values = {1.5F, -2, 3e-9F};
  write_npy_vector(ours, values);
  const auto run = test::run_python(
      fmt::format("-c \"import numpy as n; a = n.load('{}'); assert a.dtype == 'f4' and "
                  "a.tolist() == [1.5, -2, n.float32(3e-9)]; "
                  "n.save('{}', a); n.save('{}', a.astype('f8')); n.save('{}', a[:0])\"",
                  ours.string(), theirs.string(), (scratch / "f8.npy").string(), (scratch / "none.npy").string()));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(read_file(ours), read_file(theirs));
  EXPECT_EQ(read_npy_vector(theirs), values);
  EXPECT_EQ(read_npy_vector(scratch / "none.npy"), std::vector<float>());
  EXPECT_EQ(read_npy_vector(scratch / "f8.npy"), values);
  const std::string content = read_file(ours);
  write_file_atomic(ours, content.substr(0, content.size() - 1));
  EXPECT_EQ(error_of([&] { read_npy_vector(ours); }).code(), ExitCode::kDamaged);
}

}  // namespace
}  // namespace hearth::formats
