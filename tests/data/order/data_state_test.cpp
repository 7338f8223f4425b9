// SPDX-License-Identifier: Apache-2.0
#include "data/order/data_state.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/errors.h"

namespace hearth::data {
namespace {

DataState parsed(const std::string& json) { return parse_data_state(json, "d0", "here/hearth.json"); }

TEST(DataState, ReadsBackAsTheSameBits) {
  DataState state;
  state.seed = 18446744073709551615u;
  state.next_sample = uint64_t{1} << 63;
  state.sources = {"0123", "4567"};
  state.segments = {{0, {1.0 / 3, 0}}, {uint64_t{1} << 60, {5e-324, 1e15}}};
  state.order_samples = 17;
  EXPECT_EQ(parsed(format_data_state(state)), state);
}

// docs/checkpoint_format.md: a state from before mixtures has neither sources nor the order's version.
TEST(DataState, AnOldOneIsOfItsOneDatasetInTheFirstOrder) {
  const DataState old = parsed(R"({"seed": 5, "next_sample": 24})");
  EXPECT_EQ(old.sources, std::vector<std::string>{"d0"});
  EXPECT_EQ(old.segments, (std::vector<MixtureSegment>{{0, {1}}}));
  EXPECT_EQ(old.order_version, 1);
  EXPECT_EQ(parsed(R"({"seed": 5, "next_sample": 24, "order_version": 7})").order_version, 7);
}

TEST(DataState, WhatContradictsItselfIsDamage) {
  const std::string begin = R"({"seed": 5, "next_sample": 24, "sources": ["a", "b"], "segments": )";
  EXPECT_EQ(parsed(begin + R"([{"first_sample": 0, "weights": [1, 1]}]})").sources.size(), 2u);
  for (const char* segments :
       {"[]", R"([{"first_sample": 1, "weights": [1, 1]}])", R"([{"first_sample": 0, "weights": [1]}])",
        R"([{"first_sample": 0, "weights": [0, 0]}])", R"([{"first_sample": 0, "weights": [1, -1]}])",
        R"([{"first_sample": 0, "weights": [1, 1]}, {"first_sample": 0, "weights": [1, 2]}])", "7", "null"}) {
    const Error e = test::error_of([&] { parsed(begin + segments + "}"); });
    EXPECT_EQ(e.code(), ExitCode::kDamaged) << segments;
    EXPECT_EQ(e.message(), "here/hearth.json is damaged") << segments;
  }
  for (const char* json :
       {"{}", "[]", R"({"seed": 5})", R"({"seed": 5, "next_sample": 1.5})", R"({"seed": -5, "next_sample": 1})"})
    EXPECT_EQ(test::error_of([&] { parsed(json); }).code(), ExitCode::kDamaged) << json;
}

}  // namespace
}  // namespace hearth::data
