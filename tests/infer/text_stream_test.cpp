// SPDX-License-Identifier: Apache-2.0
#include "infer/text_stream.h"

#include <gtest/gtest.h>

namespace hearth::infer {
namespace {

TEST(TextStream, ACharacterIsShownOnceItIsWhole) {
  TextStream stream;
  EXPECT_EQ(stream.push("a\xE2"), "a");
  EXPECT_EQ(stream.push("\x82"), "");
  EXPECT_EQ(stream.push("\xAC"
                        "b"),
            "\xE2\x82\xAC"
            "b");
  EXPECT_EQ(stream.push("\xF0\x9F\x94"), "");
  EXPECT_EQ(stream.push("\xA5"), "\xF0\x9F\x94\xA5");
  EXPECT_EQ(stream.finish(), "");
}

// The example of the Unicode standard, table 3-8, byte by byte.
TEST(TextStream, WhatIsNoCharacterIsReplacedAsTheUnicodeStandardShows) {
  const std::string input = "\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64";
  const std::string r = "\xEF\xBF\xBD";
  TextStream stream;
  std::string shown;
  for (const char c : input) shown += stream.push(std::string_view(&c, 1));
  EXPECT_EQ(shown + stream.finish(), "a" + r + r + r + "b" + r + "c" + r + r + "d");
}

TEST(TextStream, OverlongFormsSurrogatesAndTooLargeCodesAreNoCharacters) {
  const std::string r = "\xEF\xBF\xBD";
  for (const std::string bad : {"\xC0\x80", "\xE0\x80", "\xED\xA0", "\xF0\x80", "\xF4\x90", "\xF5\x80"}) {
    TextStream stream;
    EXPECT_EQ(stream.push(bad), r + r);
  }
}

TEST(TextStream, TheFirstAndTheLastCharacterOfEachLengthAreShown) {
  for (const std::string good : {"\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
                                 "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    TextStream stream;
    EXPECT_EQ(stream.push(good) + stream.finish(), good);
  }
}

TEST(TextStream, AHeldBackStartIsReplacedAtTheEnd) {
  TextStream stream;
  EXPECT_EQ(stream.push("x\xE2\x82"), "x");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.finish(), "");
}

}  // namespace
}  // namespace hearth::infer
