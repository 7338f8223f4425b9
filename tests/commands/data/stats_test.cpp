// SPDX-License-Identifier: Apache-2.0
// data stats, compared with Python that reads the dataset by itself.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "support/environment.h"
#include "support/text_file.h"

namespace hearth {
namespace {

using testing::HasSubstr;

TEST(DataStats, JsonIsWhatPythonCountsAndTextSaysTheSame) {
  const test::ScratchFolder scratch;
  for (uint64_t i = 0; i < 40; ++i) {
    std::string text;
    const RandomKey key = random_key(i, "data stats");
    const uint64_t length = 1 + random_u64(key, 0) % (i % 4 == 0 ? 3000 : 40);
    for (uint64_t k = 0; k < length; ++k) text += static_cast<char>(random_u64(key, k + 1) % (i + 2));
    test::write_text(scratch / "text" / fmt::format("{}.txt", i), text);
  }
  const std::string out = (scratch / "out").string(), hearth = test::hearth_binary() + " ";
  ASSERT_EQ(test::run_command(fmt::format("{}data build --as-text --out {} --validation 0.3 {}", hearth, out,
                                          (scratch / "text").string()))
                .exit_code,
            0);
  const auto python =
      test::run_command(fmt::format("python3 {} {} 7", test::source_path("tests/data/study/stats_reference.py"), out));
  ASSERT_EQ(python.exit_code, 0) << python.output;
  const auto result = test::run_command(hearth + "data stats --json --top 7 " + out);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto expected = nlohmann::json::parse(python.output);
  const auto stats = nlohmann::json::parse(result.output);
  ASSERT_EQ(expected.size(), 2u);
  ASSERT_EQ(stats.at("splits").size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const auto& ours = stats.at("splits")[i];
    for (const auto& [key, value] : expected[i].items()) {
      if (key == "most_frequent") {
        ASSERT_EQ(ours.at(key).size(), value.size());
        for (size_t k = 0; k < value.size(); ++k) {
          EXPECT_EQ(ours.at(key)[k].at("id"), value[k][0]);
          EXPECT_EQ(ours.at(key)[k].at("count"), value[k][1]);
        }
      } else if (key == "lengths") {
        auto filled = nlohmann::json::array();
        for (const auto& bin : ours.at(key)) {
          if (bin.at("documents") > 0) filled.push_back(bin);
        }
        EXPECT_EQ(filled, value);
      } else {
        EXPECT_EQ(ours.at(key), value) << key;
      }
    }
  }
  const std::string text = test::run_command(hearth + "data stats --top 7 " + out).output;
  for (size_t i = 0; i < 2; ++i) {
    const std::string line =
        fmt::format("  documents       {}, of {} to {} tokens", expected[i]["documents"].get<int>(),
                    expected[i]["shortest"].get<int>(), expected[i]["longest"].get<int>());
    EXPECT_THAT(text, HasSubstr(line)) << line << "\n" << text;
  }
  EXPECT_THAT(text, HasSubstr("\"\\x00\"")) << text;
}

// Python reads it as XML: well-formed, without external parts, and every bar is as long as its number.
TEST(DataStats, ThePictureIsAPageOfItsOwnThatDrawsTheSameNumbers) {
  const test::ScratchFolder scratch;
  for (uint64_t i = 0; i < 60; ++i)
    test::write_text(scratch / "<&text" / fmt::format("{}.txt", i), std::string(1 + i * i, 'a') + "<&\xc3\"\n\x01");
  const std::string out = (scratch / "<&out").string(), page = (scratch / "page.html").string();
  const std::string hearth = test::hearth_binary() + " ";
  ASSERT_EQ(test::run_command(fmt::format("{}data build --as-text --out '{}' --validation 0.3 '{}'", hearth, out,
                                          (scratch / "<&text").string()))
                .exit_code,
            0);
  const auto result = test::run_command(fmt::format("{}data stats --json --top 5 --plot {} '{}'", hearth, page, out));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  test::write_text(scratch / "stats.json", result.output);
  const auto python =
      test::run_command(fmt::format("python3 {} {} {}", test::source_path("tests/commands/data/page_reader.py"), page,
                                    (scratch / "stats.json").string()));
  EXPECT_EQ(python.exit_code, 0) << python.output;
  EXPECT_EQ(python.output, "2 splits\n");

  const auto nowhere = test::run_command(fmt::format("{}data stats --plot /nowhere/page.html '{}'", hearth, out));
  EXPECT_EQ(nowhere.exit_code, 2) << nowhere.output;
  EXPECT_THAT(nowhere.output, HasSubstr("/nowhere/page.html")) << nowhere.output;
}

}  // namespace
}  // namespace hearth
