// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/error.h"
#include "formats/safetensors.h"
#include "support/errors.h"
#include "support/python.h"

namespace hearth::formats {
namespace {

using testing::HasSubstr;

Path write_safetensors(const test::ScratchFolder& scratch, const std::string& header, size_t data_bytes) {
  std::string text;
  for (size_t i = 0; i < 8; ++i) text.push_back(static_cast<char>(header.size() >> (8 * i) & 0xff));
  File file = File::create(scratch / "x.safetensors");
  file.write(text + header + std::string(data_bytes, 'd'));
  file.close();
  return scratch / "x.safetensors";
}

std::string header_refusal(const std::string& header, size_t data_bytes = 24) {
  const test::ScratchFolder scratch;
  const File file = File::open_read(write_safetensors(scratch, header, data_bytes));
  const Error e = test::error_of([&] { read_safetensors(file, "x"); });
  EXPECT_EQ(e.code(), ExitCode::kDamaged);
  return e.what();
}

std::string entry(const std::string& name, const std::string& rest) { return "\"" + name + "\":{" + rest + "}"; }
const std::string kGoodEntry = R"("dtype":"F32","shape":[2,3],"data_offsets":[0,24])";

TEST(Safetensors, LiesInTheHeaderAreNamed) {
  EXPECT_THAT(header_refusal("[]"), HasSubstr("its header is not an object"));
  EXPECT_THAT(header_refusal("{"), HasSubstr("not JSON that can be read"));
  EXPECT_THAT(header_refusal("{" + entry("a", kGoodEntry) + "," + entry("a", kGoodEntry) + "}"),
              HasSubstr("\"a\" is there twice"));
  EXPECT_THAT(header_refusal(R"({"a":1})"), HasSubstr("a is not an object"));
  EXPECT_THAT(header_refusal(R"({"__metadata__":{"a":1}})"), HasSubstr("__metadata__ is not a table of texts"));
  EXPECT_THAT(header_refusal("{" + entry("a", R"("dtype":"F32","shape":[2,3])") + "}"),
              HasSubstr("a lacks dtype, shape or data_offsets"));
  EXPECT_THAT(header_refusal("{" + entry("a", R"("dtype":"F32","shape":[2,-3],"data_offsets":[0,24])") + "}"),
              HasSubstr("shape of a is not a list of sizes"));
  EXPECT_THAT(header_refusal("{" + entry("a", kGoodEntry + R"(,"more":1)") + "}"), HasSubstr("more of a is not known"));
  EXPECT_THAT(header_refusal("{" + entry("a", kGoodEntry) + "}", 23),
              HasSubstr("a lies at bytes 0 to 24, and 23 are there"));
  EXPECT_THAT(header_refusal("{" + entry("a", R"("dtype":"F32","shape":[2,4],"data_offsets":[0,24])") + "}"),
              HasSubstr("a has 24 bytes, which is not [2, 4] of F32"));
  EXPECT_THAT(
      header_refusal("{" + entry("a", R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,24])") + "}"),
      HasSubstr("a has 24 bytes, which is not"));
  EXPECT_THAT(header_refusal("{" + entry("a", kGoodEntry) + "," +
                             entry("b", R"("dtype":"U8","shape":[4],"data_offsets":[20,24])") + "}"),
              HasSubstr("a and b share bytes"));
  EXPECT_THAT(header_refusal("{\"a\":{\"b\":{\"c\":{}}}}"), HasSubstr("b of a is not known"));
  EXPECT_THAT(header_refusal("{\"a\":{\"shape\":[[[1]]]}}"), HasSubstr("shape of a is not a list of sizes"));
}

TEST(Safetensors, AHeaderLongerThanTheFileIsNotRead) {
  const test::ScratchFolder scratch;
  File file = File::create(scratch / "x");
  file.write(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  EXPECT_THAT(test::error_of([&] { read_safetensors(file, "x"); }).what(), HasSubstr("its header claims"));
  File empty = File::create(scratch / "empty");
  EXPECT_THAT(test::error_of([&] { read_safetensors(empty, "x"); }).what(), HasSubstr("shorter than its length"));
}

TEST(Safetensors, OtherTypesAreNamed) {
  const test::ScratchFolder scratch;
  const File file = File::open_read(
      write_safetensors(scratch,
                        "{" + entry("f8", R"("dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2])") + "," +
                            entry("a", R"("dtype":"U8","shape":[4],"data_offsets":[2,6])") + "}   ",
                        6));
  const SafetensorsFile found = read_safetensors(file, "x");
  ASSERT_EQ(found.tensors.size(), 1U);
  EXPECT_EQ(found.tensors[0].info.name, "a");
  ASSERT_EQ(found.others.size(), 1U);
  EXPECT_EQ(found.others[0].what, "a tensor of F8_E4M3");
}

// Hugging Face's library refuses the same files.
TEST(Safetensors, BytesOfNoTensorAreDamage) {
  HEARTH_NEEDS_ORACLE();
  struct Case {
    std::string header;
    const char* why;
  };
  const std::string b = entry("b", R"("dtype":"U8","shape":[4],"data_offsets":[26,30])"),
                    empty = entry("e", R"("dtype":"U8","shape":[0],"data_offsets":[9,9])");
  const Case cases[] = {{"{" + entry("a", kGoodEntry) + "}", "its last 6 bytes are no tensor's"},
                        {"{" + entry("a", kGoodEntry) + "," + b + "}", "bytes 24 to 26, before b, are no tensor's"},
                        {"{" + b + "}", "bytes 0 to 26, before b, are no tensor's"},
                        {"{" + empty + "," + entry("a", kGoodEntry) + "}", "a and e share bytes"},
                        {"{}", "its last 30 bytes are no tensor's"}};
  for (const Case& c : cases) {
    EXPECT_THAT(header_refusal(c.header, 30), HasSubstr(c.why));
    const test::ScratchFolder scratch;
    const test::CommandResult result =
        test::run_python(fmt::format("-c \"from safetensors import safe_open; safe_open('{}', 'np')\" 2>&1",
                                     write_safetensors(scratch, c.header, 30).string()));
    EXPECT_NE(result.exit_code, 0) << c.header;
    EXPECT_THAT(result.output, HasSubstr("SafetensorError")) << c.header;
  }
}

TEST(Safetensors, LiesInAnIndexAreNamed) {
  const auto refusal = [](const std::string& text) {
    return std::string(test::error_of([&] { parse_safetensors_index(text, "x"); }).what());
  };
  EXPECT_THAT(refusal("{}"), HasSubstr("has no weight_map"));
  EXPECT_THAT(refusal(R"({"weight_map":[]})"), HasSubstr("weight_map is not a table of file names"));
  EXPECT_THAT(refusal(R"({"weight_map":{"a":{}}})"), HasSubstr("weight_map is not a table of file names"));
  for (const char* name : {"../x", "/etc/passwd", "", "..", "a/b"}) {
    EXPECT_THAT(refusal(fmt::format("{{\"weight_map\":{{\"a\":\"{}\"}}}}", name)),
                HasSubstr("is not the name of a file in the same folder"));
  }
  EXPECT_THAT(refusal(R"({"weight_map":{"a":"x","a":"y"}})"), HasSubstr("\"a\" is there twice"));
  EXPECT_THAT(refusal("[[[[[[[[[[[[[]]]]]]]]]]]]]"), HasSubstr("more than 8 levels"));
}

TEST(Safetensors, TheLibraryReadsWhatWeWriteAndWeReadWhatItWrites) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::vector<mesh::TensorInfo> infos = {
      {"b", DType::kBFloat16, {3, 5}}, {"scalar", DType::kFloat32, {}}, {"empty", DType::kInt8, {0, 4}}};
  std::string data(34, '\0');
  std::iota(data.begin(), data.end(), '\1');
  SafetensorsWriter writer(scratch / "ours.safetensors", infos);
  writer.write(std::as_bytes(std::span(data)).first(7));
  writer.write(std::as_bytes(std::span(data)).subspan(7));
  writer.finish();
  File script = File::create(scratch / "script.py");
  script.write(R"(
import struct, sys, torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
path = sys.argv[1]
found = load_file(path + '/ours.safetensors')
raw = bytes(range(1, 35))
assert found['b'].dtype == torch.bfloat16 and found['b'].shape == (3, 5) and found['scalar'].shape == ()
assert bytes(found['b'].view(torch.uint8).flatten().tolist()) == raw[:30] and found['empty'].shape == (0, 4)
assert struct.pack('<f', found['scalar'].item()) == raw[30:]
assert struct.unpack('<Q', open(path + '/ours.safetensors', 'rb').read(8))[0] % 8 == 0
assert safe_open(path + '/ours.safetensors', 'pt').metadata() == {'format': 'pt'}
types = {'f64': torch.float64, 'f32': torch.float32, 'f16': torch.float16, 'bf16': torch.bfloat16, 'i64': torch.int64,
         'i32': torch.int32, 'i16': torch.int16, 'i8': torch.int8, 'u8': torch.uint8, 'bool': torch.bool}
save_file({k: torch.ones(3, 2, dtype=v) for k, v in types.items()}, path + '/theirs.safetensors')
)");
  script.close();
  const test::CommandResult result = test::run_python(fmt::format("{0}/script.py {0}", scratch.path().string()));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const SafetensorsFile theirs = read_safetensors(File::open_read(scratch / "theirs.safetensors"), "x");
  EXPECT_EQ(theirs.tensors.size(), 10U);
  for (const SafetensorsTensor& tensor : theirs.tensors) {
    EXPECT_EQ(tensor.info.shape, (std::vector<int64_t>{3, 2}));
    EXPECT_EQ(tensor.length, 6 * dtype_size(tensor.info.dtype));
  }
}

}  // namespace
}  // namespace hearth::formats
