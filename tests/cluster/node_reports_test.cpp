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

}  // namespace
}  // namespace hearth::cluster
