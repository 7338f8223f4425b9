// SPDX-License-Identifier: Apache-2.0
// The tables of scaled rotary embedding against transformers, in float64 and far beyond the original length.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "config/config.h"
#include "models/rope.h"
#include "ops/rope.h"
#include "ops/tensor.h"
#include "support/environment.h"
#include "support/python.h"

namespace hearth::ops::test {
namespace {

using config::RopeType;

struct ScaledRope {
  const char* name;
  void (*set)(config::Model& m);
  const char* parameters;  // the same in transformers, besides rope_theta
  int64_t K = 64;
};

void set_yarn(config::Model& m, double factor, int64_t original) {
  m.rope_type = RopeType::kYarn, m.rope_scaling_factor = factor, m.rope_original_seq_len = original;
}
void set_longrope(config::Model& m, int64_t original) {
  m.rope_type = RopeType::kLongRope, m.rope_scaling_factor = 32, m.rope_original_seq_len = original;
  m.partial_rotary_factor = 0.75;
  m.rope_short_factor = {1, 1, 1.05, 1.1, 1.3, 1.7}, m.rope_long_factor = {1, 1.2, 3.4, 9.1, 30, 61.5};
}
constexpr const char* kLongRope =
    R"("rope_type": "longrope", "factor": 32.0, "partial_rotary_factor": 0.75,
       "short_factor": [1, 1, 1.05, 1.1, 1.3, 1.7], "long_factor": [1, 1.2, 3.4, 9.1, 30, 61.5],
       "original_max_position_embeddings": )";

const ScaledRope kScaled[] = {
    {"a part of a head", [](config::Model& m) { m.partial_rotary_factor = 0.4; },
     R"("rope_type": "default", "partial_rotary_factor": 0.4)", 80},
    {"linear", [](config::Model& m) { m.rope_type = RopeType::kLinear, m.rope_scaling_factor = 8, m.rope_theta = 1e6; },
     R"("rope_type": "linear", "factor": 8.0)"},
    {"llama3", [](config::Model& m) { m.rope_scaling_factor = 32, m.rope_original_seq_len = 8192, m.rope_theta = 5e5; },
     R"("rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192)"},
    {"OLMo 3's YaRN", [](config::Model& m) { set_yarn(m, 8, 8192), m.rope_theta = 5e5; },
     R"("rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192,
        "attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0)",
     128},
    {"gpt-oss's YaRN, between pairs",
     [](config::Model& m) { set_yarn(m, 32, 4096), m.rope_theta = 150000, m.rope_truncate = false; },
     R"("rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": false)"},
    {"Ministral 3's YaRN",
     [](config::Model& m) { set_yarn(m, 16, 16384), m.rope_theta = 1e6, m.rope_attention_factor = 1; },
     R"("rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 16384, "mscale": 1.0,
        "mscale_all_dim": 1.0)",
     128},
    // Scaling begins and is full at one pair.
    {"YaRN with a step", [](config::Model& m) { set_yarn(m, 4, 2), m.rope_theta = 100; },
     R"("rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2)", 16},
    {"longrope's long factors", [](config::Model& m) { set_longrope(m, 4096); }, "4096", 16},
    {"longrope's short factors", [](config::Model& m) { set_longrope(m, 131073); }, "131073", 16},
    {"longrope with a factor on cosines",
     [](config::Model& m) { set_longrope(m, 4096), m.rope_attention_factor = 1.19; },
     R"(4096, "attention_factor": 1.19)", 16}};

TEST(RopeScaling, HasTheCosinesAndSinesOfTransformersAlsoFarBeyondTheOriginalLength) {
  HEARTH_NEEDS_ORACLE();
  constexpr int64_t kLength = 131073;
  constexpr double kBeta = 0.1;
  const std::vector<int64_t> positions = {0, 1, 2, 63, 4095, 4096, 8191, 8192, 16384, 50021, 131072};
  for (const ScaledRope& c : kScaled) {
    SCOPED_TRACE(c.name);
    config::Model m;
    c.set(m);
    const std::string rest = (m.rope_type == RopeType::kLongRope ? kLongRope : "") + std::string(c.parameters);
    const auto result = hearth::test::run_python(
        fmt::format("tests/ops/rope_oracle.py {} {} {} '[{}]' '{{\"rope_theta\": {:.1f}, {}}}'", c.K, kLength, kBeta,
                    fmt::join(positions, ","), m.rope_theta, rest));
    ASSERT_EQ(result.exit_code, 0) << result.output;
    plan::Rope rope = models::rope_of(m);
    rope.query_position_scale = kBeta;
    if (rope.type == RopeType::kDefault || rope.type == RopeType::kLinear) rope.original_seq_len = 1;
    const RopeTables tables = rope_tables(kLength, kLength, c.K, rope, DType::kFloat64);
    const int64_t R = rope.rotary_width(c.K);
    ASSERT_EQ(tables.heads_SR.sizes(), at::IntArrayRef({kLength, R}));
    std::istringstream words(result.output);
    for (const int64_t position : positions) {
      const auto* heads = tables.heads_SR.select(0, position).const_data_ptr<double>();
      const auto* queries = tables.queries_SR.select(0, position).const_data_ptr<double>();
      std::vector<double> expected(static_cast<size_t>(R));
      double scale = 0;
      for (double& value : expected) ASSERT_TRUE(words >> value) << result.output;
      ASSERT_TRUE(words >> scale);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(heads[i], expected[i], 1e-9) << position << " " << i;
        ASSERT_NEAR(queries[i], scale * expected[i], 1e-9) << position << " " << i;
      }
    }
  }
}

// The list follows the length of the sequences, and one position more changes all of them.
TEST(RopeScaling, LongRopeTakesTheListOfTheSequencesLength) {
  config::Model m;
  set_longrope(m, 20);
  const plan::Rope rope = models::rope_of(m);
  const auto ratio = [&](int64_t S, size_t pair) {
    plan::Rope plain;
    plain.rotated_share = 0.75;
    return rope_frequencies(plain, 16, S)[pair] / rope_frequencies(rope, 16, S)[pair];
  };
  for (size_t pair = 0; pair < 6; ++pair) {
    EXPECT_NEAR(ratio(20, pair), m.rope_short_factor[pair], 1e-12);
    EXPECT_NEAR(ratio(21, pair), m.rope_long_factor[pair], 1e-12);
  }
  EXPECT_FALSE(rope.is_long(20));
  EXPECT_TRUE(rope.is_long(21));
}

}  // namespace
}  // namespace hearth::ops::test
