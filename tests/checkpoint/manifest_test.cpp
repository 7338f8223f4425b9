// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "example.h"

namespace hearth::checkpoint {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Manifest, ChecksumIsThatOfTheTextWithItsDigitsZeroed) {
  const std::string text = format_manifest(example_manifest(3, 1));
  EXPECT_EQ(signed_again(text), text);
}

TEST(Manifest, MetricsThatAreNotNumbersSurvive) {
  Manifest m = example_manifest(3, 1);
  m.metrics = {{"a", NAN}, {"b", INFINITY}, {"c", -INFINITY}, {"d", -0.0}, {"e", 5e-324}};
  const Manifest back = parse_manifest(format_manifest(m), "x");
  EXPECT_TRUE(std::isnan(back.metrics.at("a")));
  EXPECT_EQ(back.metrics.at("b"), INFINITY);
  EXPECT_EQ(back.metrics.at("c"), -INFINITY);
  EXPECT_TRUE(std::signbit(back.metrics.at("d")));
  EXPECT_EQ(back.metrics.at("e"), 5e-324);
}

TEST(Manifest, StatesOfAnyNameComeBackAndStandUnderTheirNames) {
  Manifest m = example_manifest(3, 1);
  m.states = {{"data", R"({"seed":18446744073709551615,"weights":[5e-324,0.1,1e+15]})"},
              {"later", R"({"a":{"b":[]}})"}};
  const std::string text = format_manifest(m);
  EXPECT_THAT(text, HasSubstr("\n\"later\": {\"a\":{\"b\":[]}},\n")) << text;
  EXPECT_EQ(parse_manifest(text, "x").states, m.states);
  EXPECT_EQ(parse_manifest(text, "x").state("never"), "{}");
}

TEST(Manifest, TheNumberOfNeuronsIsThereWhereTheDataFixIt) {
  Manifest m = example_manifest(3, 1);
  EXPECT_THAT(format_manifest(m), Not(HasSubstr("n_fixed")));
  EXPECT_EQ(parse_manifest(format_manifest(m), "x").n_fixed, 0);
  m.n_fixed = 256;
  EXPECT_EQ(parse_manifest(format_manifest(m), "x").n_fixed, 256);
}

TEST(Manifest, TheHashOfTokenWeightsIsThereWhereThereAreSome) {
  Manifest m = example_manifest(3, 1);
  EXPECT_THAT(format_manifest(m), Not(HasSubstr("token_weights")));
  EXPECT_EQ(parse_manifest(format_manifest(m), "x").token_weights_hash, "");
  m.token_weights_hash = "w0";
  EXPECT_EQ(parse_manifest(format_manifest(m), "x").token_weights_hash, "w0");
}

TEST(Manifest, EveryChangedByteIsDamage) {
  const std::string text = format_manifest(example_manifest(3, 1));
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char flip : {'\x01', '\x20', '\x80'}) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      try {
        parse_manifest(changed, "here/hearth.json");
        FAIL() << "byte " << i;
      } catch (const Error& e) {
        ASSERT_EQ(e.code(), ExitCode::kDamaged) << i;
        ASSERT_THAT(e.message(), HasSubstr("here/hearth.json"));
      }
    }
  }
  for (size_t length = 0; length < text.size(); ++length)
    ASSERT_THROW(parse_manifest(std::string_view(text).substr(0, length), "x"), Error) << length;
}

TEST(Manifest, OfANewerFormatIsAUserErrorThatNamesBothVersions) {
  const std::string text = with_format_version(format_manifest(example_manifest(3, 1)), '2');
  try {
    parse_manifest(text, "x");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_THAT(e.message(), HasSubstr("checkpoint format 2, this program knows 1"));
  }
}

TEST(Manifest, ItemsOfManyRanksComeBackInOrder) {
  Manifest m = example_manifest(3, 1);
  for (int64_t i = 0; i < 300; ++i)
    m.items.push_back({fmt::format("tensor {}", i),
                       {{i, 0}, {1, 7}},
                       fmt::format("__R_{}.distcp", i % 7),
                       10 * i,
                       10,
                       static_cast<uint64_t>(i) << 55});
  const Manifest back = parse_manifest(format_manifest(m), "x");
  ASSERT_EQ(back.items.size(), m.items.size());
  for (size_t i = 0; i < m.items.size(); ++i) {
    EXPECT_EQ(back.items[i].name, m.items[i].name);
    EXPECT_EQ(back.items[i].box, m.items[i].box);
    EXPECT_EQ(back.items[i].file, m.items[i].file);
    EXPECT_EQ(back.items[i].offset, m.items[i].offset);
    EXPECT_EQ(back.items[i].checksum, m.items[i].checksum);
  }
  EXPECT_EQ(back.step, m.step) << "what follows the items' keys, and comes before them, is read too";
}

TEST(Manifest, WhoseItemsAreSomethingElseIsDamage) {
  const std::string text = format_manifest(example_manifest(3, 1));
  const std::string items = "\"items\": [\n]";
  ASSERT_THAT(text, HasSubstr(items));
  for (const char* other :
       {"\"items\": 7", "\"items\": [7]", "\"items\": {}", "\"items\": [{\"name\": 1}]", "\"x\": []"}) {
    std::string changed = text;
    changed.replace(changed.find(items), items.size(), other);
    try {
      parse_manifest(signed_again(changed), "here/hearth.json");
      ADD_FAILURE() << other;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kDamaged) << other;
      EXPECT_THAT(e.message(), HasSubstr("here/hearth.json")) << other;
    }
  }
  // A newer format may have other items.
  std::string newer = text;
  newer.replace(newer.find(items), items.size(), "\"items\": [[1, 2]]");
  try {
    parse_manifest(with_format_version(newer, '2'), "x");
    ADD_FAILURE() << "a newer format";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUser);
  }
}

TEST(Manifest, WithAFieldMissingIsDamageThatNamesIt) {
  std::string text = format_manifest(example_manifest(3, 1));
  text[text.find("tokens_seen") + 7] = 'x';
  try {
    parse_manifest(signed_again(text), "x");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kDamaged);
    EXPECT_THAT(e.why(), HasSubstr("tokens_seen")) << e.what();
  }
}

TEST(Manifest, WithAFractionForACountIsDamage) {
  const std::string good = format_manifest(example_manifest(3, 1));
  for (const char* step : {"\"step\": 3.5", "\"step\": 1e300", "\"step\": \"3\""}) {
    std::string text = good;
    const std::string_view before = "\"step\": 3";
    text.replace(text.find(before), before.size(), step);
    try {
      parse_manifest(signed_again(text), "x");
      ADD_FAILURE() << step;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kDamaged) << e.what();
    }
  }
}

}  // namespace
}  // namespace hearth::checkpoint
