// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "formats/pickle.h"
#include "formats/tensor_object.h"
#include "formats/torch_file.h"
#include "support/errors.h"
#include "support/python.h"

namespace hearth::formats {
namespace {

using testing::HasSubstr;

// torch.save's outputs, by name.
constexpr const char* kFilesScript = R"(
import os, sys, torch
at = sys.argv[1] + '/'
base = torch.arange(24, dtype=torch.bfloat16)
torch.save({'views': base[4:10].view(2, 3), 'rows': base.view(4, 6)[1], 't': base.view(4, 6).t(),
            'p': torch.nn.Parameter(torch.ones(2)), 'step': 3}, at + 'good.pth')
torch.save([torch.ones(2)], at + 'list.pth')
torch.save({'w': torch.ones(4).to(torch.complex64)}, at + 'complex.pth')

class Runs:
    def __reduce__(self):
        return (os.system, ('touch ' + at + 'ran',))

torch.save({'w': torch.ones(2), 'evil': Runs()}, at + 'evil.pth')
torch.save({'w': Runs()}, at + 'evil_weight.pth')
)";

TEST(TorchFile, TensorsAreReadWithTheirPlacesAndNothingRuns) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  File script = File::create(scratch / "script.py");
  script.write(kFilesScript);
  script.close();
  const test::CommandResult result = test::run_python(fmt::format("{0}/script.py {0}", scratch.path().string()));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto read = [&](const char* name) { return read_torch_file(File::open_read(scratch / name), name); };
  const TorchFile good = read("good.pth");
  ASSERT_EQ(good.tensors.size(), 4U);
  EXPECT_EQ(good.tensors[0].layout.sizes, (std::vector<int64_t>{2, 3}));
  // Elements 4 and 6 of the one storage.
  EXPECT_EQ(good.tensors[1].layout.data_offset - good.tensors[0].layout.data_offset, 2 * 2);
  EXPECT_EQ(good.tensors[2].layout.strides, (std::vector<int64_t>{1, 6}));
  ASSERT_EQ(good.others.size(), 1U);
  EXPECT_EQ(good.others[0].name, "step");
  EXPECT_THAT(test::error_of([&] { read("list.pth"); }).what(), HasSubstr("the file's content is not a dict"));
  EXPECT_THAT(test::error_of([&] { read("complex.pth"); }).what(), HasSubstr("is not supported"));
  const TorchFile evil = read("evil.pth");
  EXPECT_EQ(evil.tensors.size(), 1U);
  EXPECT_EQ(evil.others.at(0).name, "evil");
  EXPECT_THAT(read("evil_weight.pth").others.at(0).what,
              HasSubstr("not a tensor but a call of posix.system, which does not run here"));
  EXPECT_FALSE(path_exists(scratch / "ran"));

  const std::string bytes = read_file(scratch / "good.pth");
  for (const size_t length : {bytes.size() - 1, bytes.size() / 2, size_t{100}, size_t{3}}) {
    File file = File::create(scratch / "cut.pth");
    file.write(std::string_view(bytes).substr(0, length));
    EXPECT_EQ(test::error_of([&] { read_torch_file(file, "cut"); }).code(), ExitCode::kDamaged) << length;
  }
}

// An archive with this pickle as its dict.
std::string dict_refusal(const test::ScratchFolder& scratch, const std::string& pickle,
                         const std::string& order = "little") {
  ZipFileWriter zip(scratch / "x.pth");
  zip.add("archive/data.pkl", pickle);
  zip.add("archive/byteorder", order);
  zip.finish();
  return test::error_of([&] { read_torch_file(File::open_read(scratch / "x.pth"), "x"); }).what();
}

TEST(TorchFile, WrongDictsAreNamed) {
  const test::ScratchFolder scratch;
  PickleWriter twice;
  twice.empty_dict();
  twice.mark();
  for (int i = 0; i < 2; ++i) {
    twice.string("w");
    twice.integer(1);
  }
  twice.set_items();
  EXPECT_THAT(dict_refusal(scratch, twice.finish()), HasSubstr("w is there twice"));
  PickleWriter beyond;
  beyond.empty_dict();
  beyond.mark();
  beyond.string("w");
  write_tensor_object(beyond, DType::kFloat32, {4, 4}, "7");
  beyond.set_items();
  EXPECT_THAT(dict_refusal(scratch, beyond.finish()), HasSubstr("x: w: the tensor needs 16 elements, 0 are stored"));
  EXPECT_THAT(dict_refusal(scratch, "\x80\x02}.", "big"), HasSubstr("written on a big-endian machine"));
  EXPECT_THAT(dict_refusal(scratch, std::string(size_t{17} << 20, 'N')), HasSubstr("far more than expected"));
  // A bomb: two million values in two million bytes.
  EXPECT_THAT(dict_refusal(scratch, "\x80\x02" + std::string(size_t{2} << 20, 'N')),
              HasSubstr("more than 1048576 values"));
  ZipFileWriter zip(scratch / "empty.pth");
  zip.add("archive/version", "3\n");
  zip.finish();
  EXPECT_THAT(test::error_of([&] { read_torch_file(File::open_read(scratch / "empty.pth"), "x"); }).what(),
              HasSubstr("has no data.pkl"));
}

TEST(TorchFile, PyTorchMapsWhatWeWrite) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::vector<mesh::TensorInfo> infos = {
      {"a", DType::kFloat16, {3, 5}}, {"b", DType::kFloat32, {}}, {"c", DType::kBFloat16, {7}}};
  const std::string data(30 + 4 + 14, '\x11');
  TorchFileWriter writer(scratch / "x.pth", infos);
  for (const auto& [at, size] : {std::pair{0, 10}, {10, 20}, {30, 4}, {34, 14}})
    writer.write(std::as_bytes(std::span(data)).subspan(static_cast<size_t>(at), static_cast<size_t>(size)));
  writer.finish();
  File script = File::create(scratch / "script.py");
  script.write(R"(
import sys, torch, zipfile
path = sys.argv[1] + '/x.pth'
assert zipfile.ZipFile(path).testzip() is None
for mmap in (True, False):
    found = torch.load(path, weights_only=True, mmap=mmap)
    assert {k: (v.dtype, tuple(v.shape)) for k, v in found.items()} == {
        'a': (torch.float16, (3, 5)), 'b': (torch.float32, ()), 'c': (torch.bfloat16, (7,))}
    assert all((v.reshape(-1).view(torch.uint8) == 0x11).all() for v in found.values())
)");
  script.close();
  const test::CommandResult result = test::run_python(fmt::format("{0}/script.py {0}", scratch.path().string()));
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

}  // namespace
}  // namespace hearth::formats
