// SPDX-License-Identifier: Apache-2.0
#include "infer/text_writer.h"

#include <gtest/gtest.h>

namespace hearth::infer {
namespace {

// What is shown after each byte of `text`, from a model that is certain of the next one.
struct Writing {
  std::vector<std::string> shown;
  int64_t tokens = 0;
  std::optional<Ending> ending;
};
Writing write(const std::string& text, const std::vector<std::string>& stop, int64_t max_tokens = 100) {
  const auto bytes = tokenizer::open_tokenizer("bytes");
  const WritingRules rules{.max_tokens = max_tokens, .sampling = {.temperature = 0}, .stop = stop};
  TextWriter writer(*bytes, rules, 1);
  Writing result;
  for (size_t i = 0; i <= text.size() && !writer.ending(); ++i) {
    std::vector<double> logits(static_cast<size_t>(bytes->vocab_size()), 0);
    logits[i < text.size() ? static_cast<unsigned char>(text[i]) : *bytes->eos()] = 1;
    const auto token = writer.next(logits);
    EXPECT_EQ(token.has_value(), !writer.ending().has_value());
    result.shown.push_back(writer.take_text());
  }
  result.tokens = writer.tokens();
  result.ending = writer.ending();
  return result;
}

TEST(TextWriter, ATextEndsByItsEndOrByItsLength) {
  const Writing whole = write("abc", {});
  EXPECT_EQ(whole.shown, (std::vector<std::string>{"a", "b", "c", ""}));
  EXPECT_EQ(whole.tokens, 3);
  EXPECT_EQ(name_of(*whole.ending), "eos");
  const Writing cut = write("abc", {}, 2);
  EXPECT_EQ(cut.shown, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(cut.tokens, 2);
  EXPECT_EQ(name_of(*cut.ending), "length");
}

TEST(TextWriter, AStopStringIsNotShownAndItsBeginningWaits) {
  const Writing stopped = write("abXYc", {"XY"});
  EXPECT_EQ(stopped.shown, (std::vector<std::string>{"a", "b", "", ""}));
  EXPECT_EQ(stopped.tokens, 4);
  EXPECT_EQ(name_of(*stopped.ending), "stop");
  // What turns out to be something else is shown then; the longest beginning waits.
  EXPECT_EQ(write("XXYaX", {"XYZ"}).shown, (std::vector<std::string>{"", "X", "", "XYa", "", "X"}));
  // At the end and at the length, too.
  EXPECT_EQ(write("aX", {"XY"}, 2).shown, (std::vector<std::string>{"a", "X"}));
  // The one that begins first, if there are several.
  EXPECT_EQ(write("abcd", {"bc", "abc", "c"}).shown, (std::vector<std::string>{"", "", ""}));
  EXPECT_EQ(write("aab", {"aab", "b"}).shown, (std::vector<std::string>{"", "", ""}));
}

TEST(TextWriter, StopStringsAreCharactersAndHalfACharacterWaits) {
  const std::string euro = "\xE2\x82\xAC";
  EXPECT_EQ(write("a" + euro + "b", {euro}).shown, (std::vector<std::string>{"a", "", "", ""}));
  EXPECT_EQ(write("a\xE2\x82", {}).shown, (std::vector<std::string>{"a", "", "", "\xEF\xBF\xBD"}));
}

}  // namespace
}  // namespace hearth::infer
