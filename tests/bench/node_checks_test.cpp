// SPDX-License-Identifier: Apache-2.0
#include "bench/node_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Outcome = CheckRow::Outcome;

// Three nodes of two ranks, all alike.
std::vector<RankFacts> good() {
  std::vector<RankFacts> facts;
  for (int64_t rank = 0; rank < 6; ++rank) {
    RankFacts f;
    f.rank = rank;
    f.host = "node" + std::to_string(rank / 2 + 1);
    f.first_of_host = rank % 2 == 0;
    f.versions = "Hearth 1";
    f.device = "GPU";
    f.memory_bytes = int64_t{64} << 30;
    f.gemm_flops = 100e12;
    f.clock_s = 1000;
    f.write_bytes_s = f.first_of_host ? 1e9 : 0;
    f.read_bytes_s = f.first_of_host ? 2e9 : 0;
    f.plugin_loaded = true;
    f.received_bytes_s = 10e9;
    facts.push_back(f);
  }
  return facts;
}

const NodeLimits kLimits{.gemm_flops = 100e12, .fabric_library = "librccl-net.so", .fabric_bytes_s = 10e9};

std::vector<CheckRow> judge(const std::vector<RankFacts>& facts, const NodeLimits& limits = kLimits) {
  std::vector<CheckRow> rows = judge_nodes(facts, limits);
  for (CheckRow& row : judge_fabric(facts, limits)) rows.push_back(row);
  return rows;
}

// The one row that is off.
CheckRow off_row(const std::vector<RankFacts>& facts, const NodeLimits& limits = kLimits) {
  CheckRow found;
  int count = 0;
  for (const CheckRow& row : judge(facts, limits))
    if (row.outcome == Outcome::kOff) found = row, ++count;
  EXPECT_EQ(count, 1);
  return found;
}

TEST(NodeChecks, FindNothingOnGoodNodes) {
  for (const CheckRow& row : judge(good()))
    EXPECT_EQ(name_of(row.outcome), row.name == "memory errors" || row.name.starts_with("GPU") ? "not checked" : "fine")
        << row_text(row);
  EXPECT_THAT(bad_nodes(judge(good())), IsEmpty());
}

TEST(NodeChecks, NameTheNodeThatIsOff) {
  struct Case {
    void (*change)(RankFacts& of_rank_2);
    const char *row, *text;
  };
  const Case cases[] = {
      {[](RankFacts& f) { f.versions = "Hearth 2"; }, "versions", "node2: Hearth 2, and most have Hearth 1"},
      {[](RankFacts& f) { f.device = "CPU"; }, "devices", "rank 2 on node2: CPU, and most have GPU"},
      {[](RankFacts& f) { f.memory_bytes /= 2; }, "devices", "rank 2 on node2: 32.0 GiB free, and most have 64.0 GiB"},
      {[](RankFacts& f) { f.gemm_flops = 89e12; }, "products",
       "rank 2 on node2: 89.0 TFLOP/s, and the median is 100 TFLOP/s"},
      {[](RankFacts& f) { f.clock_s += 7; }, "clocks", "node2: +7.0 s from the others"},
      {[](RankFacts& f) { f.file_error = "Read-only file system"; }, "files", "node2: Read-only file system"},
      {[](RankFacts& f) { f.memory_errors = 3; }, "memory errors", "node2: 3 uncorrected"},
      {[](RankFacts& f) { f.plugin_loaded = false; }, "fabric plugin", "node2: librccl-net.so is not loaded"},
      {[](RankFacts& f) { f.received_bytes_s = 5e9; }, "bandwidth",
       "rank 2 on node2: 5.00 GB/s, and the cluster file says 10.00 GB/s"},
  };
  for (const Case& c : cases) {
    std::vector<RankFacts> facts = good();
    c.change(facts[2]);
    const CheckRow row = off_row(facts);
    EXPECT_EQ(row.name, c.row);
    EXPECT_THAT(row.text, HasSubstr(c.text));
    EXPECT_THAT(row.bad_nodes, ElementsAre("node2")) << c.row;
  }
}

TEST(NodeChecks, NameTheNodeWhoseGpusAreSlowOrFaulty) {
  std::vector<RankFacts> facts = good();
  for (RankFacts& f : facts)
    if (f.first_of_host)
      f.gpus = {.memory_errors = 0, .least_mhz = 1900, .top_mhz = 1980, .says_slowed = true, .faults = 0};
  for (const CheckRow& row : judge_nodes(facts, kLimits))
    if (row.name.starts_with("GPU")) {
      EXPECT_EQ(row.outcome, Outcome::kFine) << row_text(row);
    }
  struct Case {
    void (*change)(GpuHealth& of_node2);
    const char *row, *text;
  };
  const Case cases[] = {
      {[](GpuHealth& g) { g.slowed = "GPU 1: slowed down by its heat"; }, "GPU clocks",
       "node2: GPU 1: slowed down by its heat"},
      {[](GpuHealth& g) { g.top_mhz = 1400; }, "GPU clocks", "node2: at most 1400 MHz, and most have 1980 MHz"},
      {[](GpuHealth& g) { g.faults = 2, g.fault = "Xid 79"; }, "GPU faults",
       "node2: 2 in the last day, the newest Xid 79"},
  };
  for (const Case& c : cases) {
    std::vector<RankFacts> changed = facts;
    c.change(changed[2].gpus);
    const CheckRow row = off_row(changed);
    EXPECT_EQ(row.name, c.row);
    EXPECT_THAT(row.text, HasSubstr(c.text));
    EXPECT_THAT(row.bad_nodes, ElementsAre("node2"));
  }
}

TEST(NodeChecks, LetATenthPass) {
  std::vector<RankFacts> facts = good();
  facts[3].gemm_flops = 91e12;
  facts[3].received_bytes_s = 9.1e9;
  EXPECT_THAT(bad_nodes(judge(facts)), IsEmpty());
}

TEST(NodeChecks, FindThatAllAreSlowFromTheClusterFileOnly) {
  std::vector<RankFacts> facts = good();
  for (RankFacts& f : facts) f.gemm_flops = 50e12;
  EXPECT_THAT(off_row(facts).bad_nodes, ElementsAre("node1", "node2", "node3"));
  NodeLimits without = kLimits;
  without.gemm_flops = 0;
  EXPECT_THAT(bad_nodes(judge(facts, without)), IsEmpty());
}

TEST(NodeChecks, SayWhatTheyCouldNotCheck) {
  const auto outcome = [](const std::vector<CheckRow>& rows, const std::string& name) {
    for (const CheckRow& row : rows)
      if (row.name == name) return std::string(name_of(row.outcome));
    return std::string("missing");
  };
  std::vector<RankFacts> one_node = good();
  one_node.resize(2);
  EXPECT_EQ(outcome(judge(one_node), "fabric plugin"), "not checked");
  EXPECT_EQ(outcome(judge(good(), {}), "fabric plugin"), "not checked");
  one_node.resize(1);
  EXPECT_EQ(outcome(judge(one_node), "bandwidth"), "not checked");
}

TEST(NodeChecks, ListAtMostEightOffenders) {
  std::vector<RankFacts> facts;
  for (int i = 0; i < 10; ++i)
    for (RankFacts& f : good()) facts.push_back(f);
  for (size_t i = 0; i < 20; i += 2) facts[i].clock_s += 100;
  EXPECT_THAT(off_row(facts).text, HasSubstr("; and 2 more"));
}

TEST(NodeChecks, FactsComeBackFromTheirText) {
  RankFacts f = good()[3];
  f.file_error = "a \"quoted\" error";
  f.memory_errors = 3;
  f.gpus = {
      .memory_errors = 3, .least_mhz = 1, .top_mhz = 2, .slowed = "x", .says_slowed = true, .faults = 4, .fault = "y"};
  const RankFacts back = facts_of_text(facts_text(f));
  EXPECT_EQ(facts_text(back), facts_text(f));
  EXPECT_EQ(back.gemm_flops, f.gemm_flops);
  EXPECT_EQ(back.file_error, f.file_error);
  EXPECT_EQ(back.memory_bytes, f.memory_bytes);
  EXPECT_EQ(back.gpus, f.gpus);
}

}  // namespace
}  // namespace hearth::bench
