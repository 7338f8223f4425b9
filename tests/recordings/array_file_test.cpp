// SPDX-License-Identifier: Apache-2.0
// .npy files as sources, compared with NumPy's own files.
#include "recordings/spike_folder.h"

namespace hearth::data {
namespace {

using test::ScratchFolder;

TEST(Npy, WrongLabelsAreErrorsWithTheirLine) {
  const ScratchFolder scratch;
  const Path folder = scratch / "rec", labels = folder / "metadata.jsonl";
  write_array(folder / "a.npy", 1, 1, std::string(1, '\0'));
  const auto message = [&](const std::string& text) {
    write_text(labels, text);
    return error_of([&] { build(scratch / "out", {folder}, spikes()); }).message();
  };
  const std::string rest = R"("session_id": "", "segment_id": "", "source_dataset": "x"})";
  const std::string line = R"({"file_name": "a.npy", "subject_id": "s", )" + rest;
  EXPECT_EQ(message("\n{\"file_name\": 3}"), labels.string() + ":2: there is no \"subject_id\"");
  EXPECT_EQ(message(R"({"file_name": "a.npy", "subject_id": 1, )" + rest),
            labels.string() + ":1: \"subject_id\" is not a string");
  EXPECT_EQ(message("[1]"), labels.string() + ":1: the line is not a JSON object");
  EXPECT_EQ(message(line + "\n" + line), labels.string() + ":2: an earlier line names the file");
  EXPECT_EQ(message(R"({"file_name": "b.npy", "subject_id": "s", )" + rest),
            labels.string() + " has no line for a.npy");
  EXPECT_EQ(message(R"({"file_name": "a.npy", "subject_id": "\u0000", )" + rest),
            (folder / "a.npy").string() + ": the array: its subject_id has a zero byte");
  EXPECT_EQ(message(R"({"file_name": "a.npy", "subject_id": ")" + std::string(1025, 'x') + "\", " + rest),
            (folder / "a.npy").string() + ": the array: its subject_id is longer than 1024 bytes");
  write_text(labels, line);
  build(scratch / "out", {folder}, spikes());
  // Other labels give another build.
  write_text(labels, R"({"file_name": "a.npy", "subject_id": "t", )" + rest);
  EXPECT_EQ(error_of([&] { build(scratch / "out", {folder}, spikes()); }).code(), ExitCode::kUser);
}

TEST(Npy, WhatIsNoArrayOfCountsIsRefused) {
  const ScratchFolder scratch;
  const Path path = scratch / "rec" / "a.npy";
  const auto error = [&](const std::string& content) {
    write_text(path, content);
    const Error e = error_of([&] { build(scratch / "out", {path}, spikes()); });
    return fmt::format("{} {}", static_cast<int>(e.code()), e.message().substr(path.string().size() + 2));
  };
  const auto header = [](const char* descr, std::vector<int64_t> shape) { return formats::npy_header(descr, shape); };
  EXPECT_EQ(error(header("<f8", {1, 1}) + "12345678"), "2 the array: its elements are \"<f8\", not uint8 (\"|u1\")");
  EXPECT_EQ(error(header("|u1", {2}) + "12"), "2 the array: it has 1 dimensions, not the two of neurons and time bins");
  EXPECT_EQ(error(header("|u1", {0, 5})), "2 the array: it has no neurons");
  EXPECT_EQ(error(header("|u1", {2, 3}) + "12345"), "3 the array: it is cut short: 5 bytes of 6");
  EXPECT_EQ(error(header("|u1", {2, 3}) + "1234567"), "2 the array: 1 bytes follow its end");
  EXPECT_EQ(error(header("|u1", {1LL << 40, 1LL << 40})), "2 the array: its shape is (1099511627776, 1099511627776)");
  EXPECT_EQ(error(header("|u1", {2, 3}).substr(0, 40)), "3 the array: it is cut short: it ends inside its header");
  std::string structured = header("|u1", {1, 1}) + "1";
  structured.replace(structured.find("'|u1'"), 5, "[('a']");
  EXPECT_EQ(error(structured).substr(0, 60), "2 the array: it has a header that is not understood: it desc");
  EXPECT_EQ(error(std::string("\x93NUMPY\x09\x00", 8)), "2 the array: it has version 9 of .npy: 1 to 3 are known");
  BuildRules rules = spikes();
  rules.read.max_record_bytes = 5;
  write_array(path, 2, 3, "123456");
  EXPECT_EQ(error_of([&] { build(scratch / "out", {path}, rules); }).message(),
            path.string() + ": the array: it has more than 5 bytes (--max-record-bytes)");
}

}  // namespace
}  // namespace hearth::data
