// SPDX-License-Identifier: Apache-2.0
// [[data.source]] and the other tables that may occur several times, in files and in --set.
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/load.h"
#include "run_file.h"

namespace hearth::config {
namespace {

using ListsTest = RunFileTest;

constexpr const char* kMixed =
    "[lr_scheduler]\nwarmup_steps = 0\n[training]\nsteps = 10\n"
    "[[data.source]]\npath = \"web\"\nweight = 4\n[[data.source]]\npath = \"books\"\n"
    "[[data.segment]]\nfrom_tokens = 1e6\nweights = [0, 1.5]\n";

TEST_F(ListsTest, TablesOfAListStandOnceEachAndSetReachesThemByNumber) {
  const RunConfig config =
      load(file(kMixed), {"data.source.0.weight=2", "data.source.2.path=code", "data.segment.0.weights=[0, 1.5,3]"});
  ASSERT_EQ(config.data.source.size(), 3u);
  EXPECT_EQ(config.data.source[0].path, "web");
  EXPECT_EQ(config.data.source[0].weight, 2);
  EXPECT_EQ(config.data.source[1].weight, 1);
  EXPECT_EQ(config.data.source[2].path, "code");
  ASSERT_EQ(config.data.segment.size(), 1u);
  EXPECT_EQ(config.data.segment[0].from_tokens, 1000000);
  EXPECT_EQ(config.data.segment[0].weights, (std::vector<double>{0, 1.5, 3}));
  EXPECT_EQ(config.sources().size(), 3u);
  EXPECT_EQ(load(file(kComplete), {}).sources().front().path, "d");
}

TEST_F(ListsTest, OriginsOfAListsKeysAreTheirLines) {
  const LoadResult run = read_run(file(kMixed), {"data.source.1.weight=3"});
  EXPECT_EQ(run.origin("data.source.0").line, 5);
  EXPECT_EQ(run.origin("data.source.0.weight").line, 7);
  EXPECT_EQ(run.origin("data.source.1").line, 8);
  EXPECT_EQ(run.origin("data.source.1.path").line, 9);
  EXPECT_EQ(run.origin("data.source.1.weight").kind, Origin::Kind::kSet);
  EXPECT_EQ(run.origin("data.source.1.epochs_max").kind, Origin::Kind::kDefault);
}

TEST_F(ListsTest, ErrorsInListsNameTheLineAndTheFix) {
  const std::string base = kMixed;
  EXPECT_EQ(error_of(base + "[[data.source]]\nwieght = 1\npath = \"x\"\n"),
            "error: run.toml has 2 errors\n"
            "  run.toml:12: data.segment.0.weights has 2 numbers for 3 sources\n"
            "      fix: give one for each [[data.source]], in their order\n"
            "  run.toml:14: data.source.wieght is not a key\n"
            "      fix: did you mean data.source.weight?");
  EXPECT_EQ(error_of(base + "[[data.segment]]\nfrom = 1\nfrom_tokens = 2e6\nweights = [1, 1]\n"),
            "error: run.toml:14: data.segment.from is not a key\n  fix: did you mean data.segment.from_tokens?");
  EXPECT_EQ(error_of(base + "[[data.segment]]\nfrom_tokens = 2e6\nweights = [1, -1]\n"),
            "error: run.toml:15: data.segment.1.weights = [1.0, -1.0] is out of range\n"
            "  fix: give numbers, each at least 0, at most 1000000000000000");
  EXPECT_EQ(error_of(base + "[[data.segment]]\nfrom_tokens = 2e6\nweights = [1, \"a\"]\n"),
            "error: run.toml:15: data.segment.1.weights is a list: not a list of numbers");
  EXPECT_EQ(error_of(std::string(kComplete) + "[data.source]\npath = \"x\"\n"),
            "error: run.toml:7: data.source is not a key\n  fix: write [[data.source]], with two brackets, for each");
  EXPECT_EQ(error_of(base, {"data.source.1.path=gone"}),
            "error: --set: data.source.1.path = \"gone\": gone does not exist\n"
            "  fix: paths start at the run file's folder; `hearth data build --out DIR ...` makes a dataset");
  EXPECT_EQ(error_of("[data]\npath = \"d\"\nsource = 3\n[lr_scheduler]\nwarmup_steps = 0\n[training]\nsteps = 10\n"),
            "error: run.toml:3: data.source is not a key\n  fix: write [[data.source]], with two brackets, for each");
  EXPECT_EQ(error_of(base, {"data.source.3.weight=1"}),
            "error: --set: data.source.3.weight: 3 is not the index of a [[data.source]] table\n"
            "  fix: the run file has 2, counted from 0; 2 adds one");
  EXPECT_EQ(error_of(base, {"data.source.x.weight=1"}).substr(0, 75),
            "error: --set: data.source.x.weight: x is not the index of a [[data.source]]");
  EXPECT_EQ(error_of(base, {"data.source.0.wieght=1"}),
            "error: --set: data.source.0.wieght is not a key\n  fix: did you mean data.source.weight?");
}

}  // namespace
}  // namespace hearth::config
