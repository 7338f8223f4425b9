// SPDX-License-Identifier: Apache-2.0
// Values that are no tensors: torch.load reads ours, and torch.save's are read.
#include "formats/scalar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/python.h"

namespace hearth::formats {
namespace {

TEST(Scalar, PyTorchReadsOurValues) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::pair<const char*, Scalar> values[] = {
      {"None", std::monostate{}},
      {"True", true},
      {"False", false},
      {"0", int64_t{0}},
      {"300", int64_t{300}},
      {"-5", int64_t{-5}},
      {"2**40 + 1", int64_t{1} << 40 | 1},
      {"1e-3", 1e-3},
      {"-0.1", -0.1},
      {"(0.9, 0.95)", std::pair(0.9, 0.95)},
  };
  std::string script = "import torch\n";
  for (size_t i = 0; i < std::size(values); ++i) {
    ZipWriter zip;
    add_scalar(zip, values[i].second);
    const Path path = scratch / std::to_string(i);
    File file = File::create(path);
    for (const std::span<const std::byte> part : zip.pieces()) file.write(part);
    file.close();
    script += fmt::format("v = torch.load(\"{}\", weights_only=True)\nassert (type(v), v) == (type({}), {}), v\n",
                          path.string(), values[i].first, values[i].first);
    const std::optional<double> number =
        read_number(File::open_read(path), 0, static_cast<int64_t>(std::filesystem::file_size(path)), path.string());
    const bool is_number = values[i].second.index() == 2 || values[i].second.index() == 3;
    EXPECT_EQ(number.has_value(), is_number) << values[i].first;
  }
  write_file_atomic(scratch / "check.py", script);
  const test::CommandResult result = test::run_python((scratch / "check.py").string());
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(Scalar, NumbersOfPyTorchAreReadAndOtherValuesAreNone) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  write_file_atomic(scratch / "make.py", R"(
import collections, sys, torch
values = [7, 300, 70000, -1, 2**45, 0.25, 1e-300, None, True, 'text', [1, 2], {'a': 1}, collections.Counter('aab'), b'xyz']
for i, value in enumerate(values):
    torch.save(value, f'{sys.argv[1]}/{i}')
)");
  const test::CommandResult made = test::run_python(fmt::format("{0}/make.py {0}", scratch.path().string()));
  ASSERT_EQ(made.exit_code, 0) << made.output;
  const std::optional<double> none;
  const std::optional<double> expected[] = {7,    300,  70000, -1,  35184372088832., 0.25, 1e-300, none, none, none,
                                            none, none, none,  none};
  for (size_t i = 0; i < std::size(expected); ++i) {
    const Path path = scratch / std::to_string(i);
    const File file = File::open_read(path);
    EXPECT_EQ(read_number(file, 0, file.size_bytes(), path.string()), expected[i]) << i;
    EXPECT_EQ(test::error_of([&] { read_number(file, 0, file.size_bytes() - 30, path.string()); }).code(),
              ExitCode::kDamaged);
  }
}

}  // namespace
}  // namespace hearth::formats
