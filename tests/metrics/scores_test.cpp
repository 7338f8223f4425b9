// SPDX-License-Identifier: Apache-2.0
#include "metrics/scores.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/environment.h"
#include "support/errors.h"

namespace hearth::metrics {
namespace {

TEST(Scores, AreReadBackByStepAndNameAndALaterLineCounts) {
  const test::ScratchFolder scratch;
  const Path file = scratch / "scores.jsonl";
  EXPECT_TRUE(read_scores(file).empty());
  append_scores(file, {{8, "validation_loss", 1.0 / 3, "a"}, {8, "a \"task\".acc", 0.5, "b"}});
  append_scores(file, {{4, "validation_loss", 2e-300, "c"}});
  File::open_append(file).write("{\"step\": 8, \"na");  // a kill
  EXPECT_EQ(read_scores(file).size(), 3u);
  append_scores(file, {{8, "validation_loss", 0.25, "d"}});
  EXPECT_EQ(read_scores(file), (std::vector<Score>{{4, "validation_loss", 2e-300, "c"},
                                                   {8, "a \"task\".acc", 0.5, "b"},
                                                   {8, "validation_loss", 0.25, "d"}}));
  EXPECT_EQ(read_file(file).substr(0, read_file(file).find('\n')),
            R"({"step": 8, "name": "validation_loss", "value": 0.3333333333333333, "of": "a"})");
}

TEST(Scores, ALineThatIsNoScoreIsNamed) {
  const test::ScratchFolder scratch;
  const Path file = scratch / "scores.jsonl";
  for (const char* line : {"{}", "[1]", "{\"step\": 1.5, \"name\": \"a\", \"value\": 1, \"of\": \"\"}", "x"}) {
    write_file_atomic(file, fmt::format("{{\"step\": 1, \"name\": \"a\", \"value\": 1, \"of\": \"\"}}\n{}\n", line));
    const Error error = test::error_of([&] { read_scores(file); });
    EXPECT_EQ(error.code(), ExitCode::kDamaged);
    EXPECT_EQ(error.message(), file.string() + ":2 is not a score");
  }
}

}  // namespace
}  // namespace hearth::metrics
