// SPDX-License-Identifier: Apache-2.0
#include "formats/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/example.h"

namespace hearth::formats {
namespace {

using testing::HasSubstr;

using namespace std::string_literals;

Pickle parse(const std::string& bytes, const PickleLimits& limits = {}) {
  return Pickle::parse(std::as_bytes(std::span(bytes)), "test.pkl", limits);
}

// The reason of the damaged() that parsing throws.
std::string refusal(const std::string& bytes, const PickleLimits& limits = {}) {
  try {
    parse(bytes, limits);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kDamaged);
    EXPECT_THAT(e.message(), HasSubstr("test.pkl"));
    return e.why();
  }
  return "accepted";
}

TEST(Pickle, ThatCallsAnythingUnknownIsRefusedByNameAndNothingRuns) {
  // What pickle.dumps gives for an object whose __reduce__ is (os.system, ("...",)), in protocols 2 and 4.
  EXPECT_THAT(refusal("\x80\x02"
                      "cposix\nsystem\nX\x02\x00\x00\x00id\x85R."s),
              HasSubstr("posix.system"));
  EXPECT_THAT(refusal("\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R."s), HasSubstr("posix.system"));
  EXPECT_THAT(refusal("\x80\x02"
                      "c__builtin__\neval\n."s),
              HasSubstr("__builtin__.eval"));
  EXPECT_THAT(refusal("\x80\x02"
                      "ctorch\nload\n."s),
              HasSubstr("torch.load"));
  // Opcodes that import or call by other ways: INST, OBJ, EXT1, and a class taken from the memo of another object.
  EXPECT_THAT(refusal("(iposix\nsystem\n."s), HasSubstr("opcode 0x69"));
  EXPECT_THAT(refusal("\x80\x02(cposix\nsystem\no."s), HasSubstr("posix.system"));
  EXPECT_THAT(refusal("\x80\x02\x82\x01."s), HasSubstr("opcode 0x82"));
  EXPECT_THAT(refusal("\x80\x02X\x01\x00\x00\x00x)R."s), HasSubstr("not a class"));
}

// Python 3.11.2's pickle.dumps(torch.contiguous_format's enum member), in protocols 2 and 4; other Pythons write a
// call.
TEST(Pickle, AMemberOfAnEnumMayBeNamedByGetattrAndNothingElseMay) {
  const std::string module = "torch.distributed.checkpoint.metadata";
  const auto stack_global = [](const std::string& in, const std::string& name) {
    return "\x8c" + std::string(1, static_cast<char>(in.size())) + in + "\x8c" +
           std::string(1, static_cast<char>(name.size())) + name + "\x93";
  };
  const auto getattr4 = [&](const std::string& object, const std::string& attribute) {
    return "\x80\x04" + stack_global("builtins", "getattr") + object + attribute + "\x86R.";
  };
  const std::string name = "\x8c\x17TORCH_CONTIGUOUS_FORMAT";
  for (const std::string& bytes :
       {getattr4(stack_global(module, "_MEM_FORMAT_ENCODING"), name),
        "\x80\x02"
        "c__builtin__\ngetattr\nc"s +
            module + "\n_MEM_FORMAT_ENCODING\nX\x17\x00\x00\x00TORCH_CONTIGUOUS_FORMAT\x86R."s}) {
    ASSERT_EQ(refusal(bytes), "accepted");
    const Pickle pickle = parse(bytes);
    const Pickle::Object member = pickle.object(pickle.root(), "member");
    EXPECT_EQ(member.name, module + "._MEM_FORMAT_ENCODING");
    ASSERT_EQ(member.arguments.size(), 1u);
    EXPECT_EQ(pickle.text(member.arguments[0], "name"), "TORCH_CONTIGUOUS_FORMAT");
  }
  const auto refused = [&](const std::string& bytes) {
    return refusal(bytes).find("not a member of an enum") != std::string::npos;
  };
  EXPECT_TRUE(refused(getattr4(stack_global("torch", "Size"), name)));
  EXPECT_TRUE(refused(getattr4(stack_global(module, "_MEM_FORMAT_ENCODING"), "K\x01")));
  EXPECT_TRUE(refused("\x80\x04" + stack_global("builtins", "getattr") + ")R."));
  // The result of getattr must not be called either.
  std::string call = getattr4(stack_global(module, "_MEM_FORMAT_ENCODING"), name);
  call.pop_back();
  EXPECT_THAT(refusal(call + ")R."), HasSubstr("not a class is called"));
}

TEST(Pickle, EveryTruncationOfAGoodOneIsRefused) {
  PickleWriter writer;
  writer.global("torch", "Size");
  writer.mark();
  writer.integers(std::vector<int64_t>{1, -5, 300, int64_t{1} << 40});
  writer.tuple();
  writer.reduce();
  const std::string good = writer.finish();
  EXPECT_EQ(refusal(good), "accepted");
  for (size_t length = 0; length < good.size(); ++length) EXPECT_NE(refusal(good.substr(0, length)), "accepted");
  EXPECT_THAT(refusal(good + "x"), HasSubstr("1 bytes follow"));
}

TEST(Pickle, ValuesComeBackAsTheyWereWritten) {
  PickleWriter w;
  w.empty_dict();
  w.mark();
  w.string("numbers");
  w.integers(std::vector<int64_t>{0, 255, 256, -1, INT32_MAX, int64_t{INT32_MAX} + 1, INT64_MIN, INT64_MAX});
  w.string("flag");
  w.boolean(true);
  w.string("nothing");
  w.none();
  w.string("list");
  w.empty_list();
  w.mark();
  for (int i = 0; i < 300; ++i) w.string(std::to_string(i));
  w.string("flag");  // from the memo
  w.string("299");   // from the memo, by a long index
  w.append_items();
  w.set_items();
  const Pickle p = parse(w.finish());
  const auto numbers = p.sequence(p.at(p.root(), "numbers", "root"), "numbers");
  const std::vector<int64_t> expected{0, 255, 256, -1, INT32_MAX, int64_t{INT32_MAX} + 1, INT64_MIN, INT64_MAX};
  ASSERT_EQ(numbers.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(p.integer(numbers[i], "number"), expected[i]);
  EXPECT_EQ(p.kind(p.at(p.root(), "nothing", "root")), PickleKind::kNone);
  EXPECT_EQ(p.kind(p.at(p.root(), "flag", "root")), PickleKind::kBool);
  const auto list = p.sequence(p.at(p.root(), "list", "root"), "list");
  ASSERT_EQ(list.size(), 302u);
  EXPECT_EQ(p.text(list[300], "text"), "flag");
  EXPECT_EQ(p.text(list[301], "text"), "299");
  EXPECT_THROW(p.at(p.root(), "missing", "root"), Error);
  EXPECT_THROW(p.integer(list[0], "text"), Error);
}

TEST(Pickle, ShortIntegersAreSigned) {
  const Pickle p = parse("\x80\x02\x8a\x01\xff\x8a\x02\x00\x80\x8a\x00\x87."s);
  const auto values = p.sequence(p.root(), "root");
  EXPECT_EQ(p.integer(values[0], "a"), -1);
  EXPECT_EQ(p.integer(values[1], "b"), -32768);
  EXPECT_EQ(p.integer(values[2], "c"), 0);
  EXPECT_THAT(refusal("\x80\x02\x8a\x09" + std::string(9, '\x01') + "."), HasSubstr("integer of 9 bytes"));
}

TEST(Pickle, LengthsThatAreNotThereAllocateNothing) {
  EXPECT_THAT(refusal("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fx."s), HasSubstr("longer than the limit"));
  EXPECT_THAT(refusal("\x80\x02X\xff\xff\x0f\x00x."s), HasSubstr("bytes early"));
  EXPECT_THAT(refusal("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xffN."s), HasSubstr("frame"));
  // A memo index of four billion makes one entry, not a table of that length.
  EXPECT_EQ(refusal("\x80\x02Nr\xff\xff\xff\xff."s), "accepted");
  EXPECT_THAT(refusal("\x80\x02j\xff\xff\xff\xff."s), HasSubstr("never stored"));
}

TEST(Pickle, LimitsOfBytesAndValuesHold) {
  const std::string many = "\x80\x02(" + std::string(100, 'N') + "t.";
  EXPECT_EQ(refusal(many), "accepted");
  EXPECT_THAT(refusal(many, {.max_values = 50}), HasSubstr("more than 50 values"));
  EXPECT_THAT(refusal(many, {.max_bytes = 50}), HasSubstr("limit of 50"));
}

TEST(Pickle, CyclesAndDeepNestingAreHarmless) {
  // A list that holds itself, and 100,000 lists inside each other.
  EXPECT_EQ(refusal("\x80\x02]q\x00h\x00"
                    "a."s),
            "accepted");
  EXPECT_EQ(refusal("\x80\x02" + std::string(100000, ']') + std::string(99999, 'a') + "."), "accepted");
}

TEST(Pickle, MisuseOfTheStackIsRefused) {
  for (const std::string& bad : {"\x80\x02."s, "\x80\x02t."s, "\x80\x02NNs."s, "\x80\x02(NNNu."s, "\x80\x02]Ne."s,
                                 "\x80\x02}(Nu."s, "\x80\x02N)b."s, "\x80\x02NN."s, "\x80\x02(."s,
                                 "\x80\x02"
                                 "0."s,
                                 "\x80\x01N."s, "\x80\x06N."s, ""s, "N"s})
    EXPECT_NE(refusal(bad), "accepted") << testing::PrintToString(bad);
}

}  // namespace
}  // namespace hearth::formats
