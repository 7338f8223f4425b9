// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::cluster {
namespace {

using testing::ElementsAre;
using testing::FieldsAre;
using testing::IsEmpty;

TEST(NodeReports, NameTheNodesThatDifferFromMostAndHow) {
  EXPECT_THAT(odd_nodes("found node1 hearth-train (commit a)\n"
                        "found node2 hearth-train (commit b)\n"
                        "found node1 data with x\n"
                        "found node3 hearth-train (commit a)\n"
                        "found node4 hearth-train (commit a)\n"
                        "found node3 data with x\nfine node3\n"
                        "found node2 data with x\nfine node2\n"
                        "fine node1\noff node5\n"
                        "found node4 data with y\nfine node4\n"),
              ElementsAre(FieldsAre("node2", "hearth-train (commit b)", "hearth-train (commit a)"),
                          FieldsAre("node4", "data with y", "data with x")));
}

TEST(NodeReports, NameNobodyWithoutMoreThanHalfOfTheNodes) {
  EXPECT_THAT(odd_nodes(""), IsEmpty());
  EXPECT_THAT(odd_nodes("fine node1\noff node2\n"), IsEmpty());
  EXPECT_THAT(odd_nodes("found node1 a\n"), IsEmpty());
  EXPECT_THAT(odd_nodes("found node1 a\nfound node2 b\n"), IsEmpty());
  EXPECT_THAT(odd_nodes("found node1 a\nfound node2 b\nfound node3 a\nfound node4 c\n"), IsEmpty());
}

TEST(NodeReports, NameTheNodesWithAnotherRunFolder) {
  const auto named = [](const std::string& reports) { return nodes_with_another_folder(reports); };
  EXPECT_THAT(named("").nodes, IsEmpty());
  EXPECT_THAT(named("folder node1 same known\nfine node1\nfolder node2 same known\n").nodes, IsEmpty());
  // Nobody saw it, as where the script could not leave it there.
  EXPECT_THAT(named("folder node1 other known\nfolder node2 other unknown\n").nodes, IsEmpty());
  EXPECT_THAT(named("folder node1 same known\nfolder node2 other unknown\n"), FieldsAre(ElementsAre("node2"), "node1"));
  // Most nodes may be wrong: the submission is written down in one folder only.
  EXPECT_THAT(named("folder node3 other unknown\nfolder node1 same known\nfolder node2 other unknown\n"),
              FieldsAre(ElementsAre("node2", "node3"), "node1"));
  // So may the script's own.
  EXPECT_THAT(named("folder node1 same unknown\nfolder node2 other known\n"), FieldsAre(ElementsAre("node1"), "node2"));
  // Where it was not written down, as of a script that a person gave to sbatch.
  EXPECT_THAT(named("folder node1 same unknown\nfolder node2 other unknown\n"),
              FieldsAre(ElementsAre("node2"), "node1"));
  EXPECT_THAT(named("folder node1 same unknown\nfolder node2 other unknown\nfolder node3 other unknown\n"),
              FieldsAre(ElementsAre("node1"), "node2"));
}

}  // namespace
}  // namespace hearth::cluster
