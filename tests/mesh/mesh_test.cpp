// SPDX-License-Identifier: Apache-2.0
// Meshes next to the layout of PyTorch's DeviceMesh, arange(size).reshape(pp, dp_replicate, dp_shard, cp, tp), whose
// indices are counted up here instead of computed from a rank.
#include "mesh/mesh.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/errors.h"

namespace hearth::mesh {
namespace {

using test::error_of;
using testing::ElementsAre;

constexpr int64_t kMostRanks = 64;
constexpr Axis kEveryAxis[] = {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp};
constexpr size_t kDenseAxes = std::size(kEveryAxis);
using Indices = std::array<int64_t, kDenseAxes>;

// All degrees whose product is at most kMostRanks.
std::vector<Degrees> every_degrees() {
  std::vector<Degrees> all;
  for (int64_t pp = 1; pp <= kMostRanks; ++pp)
    for (int64_t replicate = 1; pp * replicate <= kMostRanks; ++replicate)
      for (int64_t shard = 1; pp * replicate * shard <= kMostRanks; ++shard)
        for (int64_t cp = 1; pp * replicate * shard * cp <= kMostRanks; ++cp)
          for (int64_t tp = 1; pp * replicate * shard * cp * tp <= kMostRanks; ++tp)
            all.push_back({.dp_replicate = replicate, .dp_shard = shard, .cp = cp, .tp = tp, .pp = pp});
  return all;
}

std::string text_of(const Degrees& d) {
  return fmt::format("pp {} dp_replicate {} dp_shard {} cp {} tp {}", d.pp, d.dp_replicate, d.dp_shard, d.cp, d.tp);
}

// The indices of a row-major array with these sizes; element r belongs to rank r.
std::vector<Indices> indices_of_ranks(const Degrees& d) {
  std::vector<Indices> all;
  for (int64_t pp = 0; pp < d.pp; ++pp)
    for (int64_t replicate = 0; replicate < d.dp_replicate; ++replicate)
      for (int64_t shard = 0; shard < d.dp_shard; ++shard)
        for (int64_t cp = 0; cp < d.cp; ++cp)
          for (int64_t tp = 0; tp < d.tp; ++tp) all.push_back({pp, replicate, shard, cp, tp});
  return all;
}

bool is_in_set(unsigned set, size_t axis) { return (set >> axis & 1U) != 0; }

// Set number 0 .. 31, whose bits are the axes.
Axes axes_of_set(unsigned set) {
  if (set == 0) return {};
  size_t member = 0;
  while (!is_in_set(set, member)) ++member;
  // An axis that is not in the set is replaced by one that is.
  const auto pick = [&](size_t axis) { return kEveryAxis[is_in_set(set, axis) ? axis : member]; };
  return {pick(4), pick(3), pick(2), pick(1), pick(0)};
}

// The rows of permute(other axes, axes of the set).reshape(-1, size of the set).
std::vector<std::vector<int64_t>> expected_groups(const std::vector<Indices>& indices, unsigned set) {
  std::map<Indices, std::vector<int64_t>> rows;
  for (size_t rank = 0; rank < indices.size(); ++rank) {
    Indices row = indices[rank];
    for (size_t axis = 0; axis < kDenseAxes; ++axis) {
      if (is_in_set(set, axis)) row[axis] = 0;
    }
    rows[row].push_back(static_cast<int64_t>(rank));
  }
  std::vector<std::vector<int64_t>> groups;
  for (auto& [row, group] : rows) groups.push_back(std::move(group));
  return groups;
}

TEST(Mesh, CoordinatesAreThoseOfARowMajorArrayAndLeadBackToTheRank) {
  for (const Degrees& degrees : every_degrees()) {
    SCOPED_TRACE(text_of(degrees));
    const Mesh mesh(degrees);
    const std::vector<Indices> indices = indices_of_ranks(degrees);
    ASSERT_EQ(mesh.size(), static_cast<int64_t>(indices.size()));
    ASSERT_EQ(degrees.size(), mesh.size());
    for (int64_t rank = 0; rank < mesh.size(); ++rank) {
      const auto& [pp, replicate, shard, cp, tp] = indices[static_cast<size_t>(rank)];
      const Coordinates expected = {.pp = pp, .dp_replicate = replicate, .dp_shard = shard, .cp = cp, .tp = tp};
      ASSERT_EQ(mesh.coordinates(rank), expected) << rank;
      ASSERT_EQ(mesh.rank(expected), rank);
    }
  }
}

TEST(Mesh, GroupsAlongEverySetOfAxesAreThoseOfDeviceMeshAndPartitionTheRanks) {
  for (const Degrees& degrees : every_degrees()) {
    SCOPED_TRACE(text_of(degrees));
    const Mesh mesh(degrees);
    const std::vector<Indices> indices = indices_of_ranks(degrees);
    for (unsigned set = 0; set < 1U << kDenseAxes; ++set) {
      const Axes axes = axes_of_set(set);
      const std::vector<std::vector<int64_t>> groups = mesh.groups(axes);
      ASSERT_EQ(groups, expected_groups(indices, set)) << "set " << set;
      std::vector<int> times_seen(indices.size(), 0);
      for (const std::vector<int64_t>& group : groups) {
        ASSERT_EQ(mesh.group_size(axes), static_cast<int64_t>(group.size())) << "set " << set;
        for (const int64_t rank : group) ++times_seen[static_cast<size_t>(rank)];
      }
      ASSERT_EQ(times_seen, std::vector<int>(indices.size(), 1)) << "set " << set;
    }
  }
}

TEST(Mesh, EveryRankFindsItselfInTheGroupThatTheOthersSee) {
  for (const Degrees& degrees : every_degrees()) {
    if (degrees.size() > 32) continue;  // 32 ranks have two along each axis; sanitizers are slow
    SCOPED_TRACE(text_of(degrees));
    const Mesh mesh(degrees);
    for (unsigned set = 0; set < 1U << kDenseAxes; ++set) {
      const Axes axes = axes_of_set(set);
      for (const std::vector<int64_t>& group : mesh.groups(axes)) {
        for (size_t i = 0; i < group.size(); ++i) {
          ASSERT_EQ(mesh.group(group[i], axes), group) << "rank " << group[i] << " set " << set;
          ASSERT_EQ(mesh.rank_in_group(group[i], axes), static_cast<int64_t>(i)) << "rank " << group[i];
        }
      }
    }
  }
}

TEST(Mesh, OfThreeAxesHasTheGroupsThatADrawingShows) {
  // Ranks of pp 0: [[0, 1], [2, 3]] over dp_shard and tp; of pp 1: [[4, 5], [6, 7]].
  const Mesh mesh({.dp_shard = 2, .tp = 2, .pp = 2});
  using Groups = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(mesh.groups({Axis::kTp}), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(mesh.groups({Axis::kDpShard}), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(mesh.groups({Axis::kPp}), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(mesh.groups({Axis::kTp, Axis::kPp}), (Groups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(mesh.coordinates(6), (Coordinates{.pp = 1, .dp_shard = 1}));
}

TEST(Mesh, ShardsReplicasAndLossesAreOverTheirAxes) {
  const Mesh mesh({.dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 2, .pp = 2});
  EXPECT_THAT(mesh.group(0, kDataAxes), ElementsAre(0, 4, 8, 12));
  EXPECT_EQ(mesh.rank_in_group(12, kDataAxes), 3);  // replica 1, shard 1: 1 * 2 + 1
  EXPECT_THAT(mesh.group(0, kShardAxes), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(mesh.group(0, kReplicaAxes), ElementsAre(0, 8));
  EXPECT_THAT(mesh.group(16, kLossAxes), ElementsAre(16, 18, 20, 22, 24, 26, 28, 30));
}

TEST(Mesh, ShardsThenReplicasReachEveryRankThatCountsALoss) {
  // The gradient's two reductions, one after the other, add each rank of kLossAxes exactly once.
  for (const Degrees& degrees : every_degrees()) {
    const Mesh mesh(degrees);
    std::vector<int64_t> added;
    for (const int64_t replica : mesh.group(0, kReplicaAxes)) {
      const std::vector<int64_t> shards = mesh.group(replica, kShardAxes);
      added.insert(added.end(), shards.begin(), shards.end());
    }
    ASSERT_EQ(added, mesh.group(0, kLossAxes)) << text_of(degrees);
  }
}

// A replica's ranks r have experts r % ep: the columns of arange(ranks).reshape(-1, ep).
TEST(Mesh, OfExpertsCutsReplicasIntoRanksWithDifferentAndRanksWithTheSameExperts) {
  for (Degrees degrees : every_degrees()) {
    if (degrees.size() > 24) continue;
    const int64_t replica = degrees.dp_shard * degrees.cp * degrees.tp, pipeline = replica * degrees.dp_replicate;
    for (degrees.ep = 1; degrees.ep <= replica; ++degrees.ep) {
      if (replica % degrees.ep != 0) continue;
      SCOPED_TRACE(fmt::format("{} ep {}", text_of(degrees), degrees.ep));
      const Mesh mesh = Mesh::of_experts(degrees);
      ASSERT_EQ(mesh.size(), degrees.size());
      ASSERT_EQ(degrees.expert_shards() * degrees.ep, replica);
      for (int64_t rank = 0; rank < mesh.size(); ++rank) {
        std::vector<int64_t> different, same;
        for (int64_t other = 0; other < mesh.size(); ++other) {
          if (other / degrees.ep == rank / degrees.ep) different.push_back(other);
          if (other / pipeline == rank / pipeline && other % degrees.ep == rank % degrees.ep) same.push_back(other);
        }
        ASSERT_EQ(mesh.group(rank, {Axis::kEp}), different);
        ASSERT_EQ(mesh.rank_in_group(rank, {Axis::kEp}), rank % degrees.ep);
        ASSERT_EQ(mesh.group(rank, {Axis::kDpReplicate, Axis::kExpertShard}), same);
      }
    }
  }
  const Error error = error_of([] { resolve({.dp_shard = 2, .tp = 3, .ep = 4}, 6); });
  EXPECT_EQ(error.key(), "parallelism.expert_parallel_degree");
  EXPECT_THAT(error.message(), testing::HasSubstr("does not divide 6 ranks"));
  EXPECT_EQ(error_of([] { resolve({.ep = 0}, 1); }).key(), "parallelism.expert_parallel_degree");
}

TEST(Mesh, GroupsCrossNodesWhereARankOfAnotherNodeIsInOne) {
  for (const Degrees& degrees : every_degrees()) {
    if (degrees.size() != 16 && degrees.size() != 24) continue;
    const Mesh mesh(degrees);
    const std::vector<Indices> indices = indices_of_ranks(degrees);
    for (unsigned set = 0; set < 1U << kDenseAxes; ++set) {
      const std::vector<std::vector<int64_t>> groups = expected_groups(indices, set);
      for (const int64_t ranks_per_node : {1, 3, 4, 8, 24}) {
        const bool crosses = std::any_of(groups.begin(), groups.end(), [&](const std::vector<int64_t>& group) {
          return std::any_of(group.begin(), group.end(),
                             [&](int64_t rank) { return rank / ranks_per_node != group.front() / ranks_per_node; });
        });
        ASSERT_EQ(mesh.crosses_nodes(axes_of_set(set), ranks_per_node), crosses)
            << text_of(degrees) << " set " << set << " nodes of " << ranks_per_node;
      }
    }
  }
  // The fast axes of two nodes of 8 stay inside a node. Three ranks a node cut a tp group in two.
  const Mesh mesh({.dp_shard = 4, .tp = 4});
  EXPECT_FALSE(mesh.crosses_nodes({Axis::kTp}, 8));
  EXPECT_TRUE(mesh.crosses_nodes(kShardAxes, 8));
  EXPECT_TRUE(mesh.crosses_nodes({Axis::kTp}, 3));
  EXPECT_FALSE(mesh.crosses_nodes({Axis::kPp}, 1));  // groups of one rank
}

// One call of each group, as a graph: an edge leads from a call to one that a rank makes after it.
class CallGraph {
 public:
  // `rank` calls with `group`, after its earlier calls.
  void add(int64_t rank, const std::vector<int64_t>& group) {
    const auto [entry, is_new] = nodes_.try_emplace(group, later_.size());
    if (is_new) later_.emplace_back(), missing_.push_back(group);
    const size_t node = entry->second;
    std::erase(missing_[node], rank);
    if (const auto last = last_.find(rank); last != last_.end()) later_[last->second].push_back(node);
    last_[rank] = node;
  }

  // Whether every rank of a group makes the group's call.
  bool all_ranks_call() const {
    return std::all_of(missing_.begin(), missing_.end(), [](const auto& ranks) { return ranks.empty(); });
  }

  // Whether a call waits for itself: some remain after calls that nothing precedes are taken away (Kahn).
  bool has_cycle() const {
    std::vector<int> earlier(later_.size(), 0);
    for (const std::vector<size_t>& nodes : later_)
      for (const size_t node : nodes) ++earlier[node];
    std::vector<size_t> ready;
    for (size_t node = 0; node < later_.size(); ++node)
      if (earlier[node] == 0) ready.push_back(node);
    for (size_t i = 0; i < ready.size(); ++i)
      for (const size_t node : later_[ready[i]])
        if (--earlier[node] == 0) ready.push_back(node);
    return ready.size() < later_.size();
  }

 private:
  std::map<std::vector<int64_t>, size_t> nodes_;  // by the group's ranks, as communicators know each other
  std::vector<std::vector<size_t>> later_;
  std::vector<std::vector<int64_t>> missing_;
  std::map<int64_t, size_t> last_;
};

TEST(Mesh, CallsOfTwoAxesInOneOrderHaveNoCycle) {
  for (const Degrees& degrees : every_degrees()) {
    const Mesh mesh(degrees);
    for (const Axis first : kEveryAxis) {
      for (const Axis second : kEveryAxis) {
        // A group of one rank calls nobody.
        if (first == second || mesh.group_size({first}) == 1 || mesh.group_size({second}) == 1) continue;
        CallGraph graph;
        for (int64_t rank = 0; rank < mesh.size(); ++rank) {
          graph.add(rank, mesh.group(rank, {first}));
          graph.add(rank, mesh.group(rank, {second}));
        }
        ASSERT_TRUE(graph.all_ranks_call()) << text_of(degrees);
        ASSERT_FALSE(graph.has_cycle()) << text_of(degrees);
      }
    }
  }
}

TEST(Mesh, CallsOfTwoAxesHaveACycleWhereOppositeCornersSwapThem) {
  const Mesh mesh({.cp = 2, .tp = 2});
  CallGraph graph;
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    const bool swaps = rank == 0 || rank == 3;
    graph.add(rank, mesh.group(rank, {swaps ? Axis::kCp : Axis::kTp}));
    graph.add(rank, mesh.group(rank, {swaps ? Axis::kTp : Axis::kCp}));
  }
  EXPECT_TRUE(graph.all_ranks_call());
  EXPECT_TRUE(graph.has_cycle());
}

TEST(Resolve, TakesExactlyTheDegreesWhoseProductIsTheNumberOfRanks) {
  const int64_t least = -1, most = 4;
  for (int64_t replicate = 1; replicate <= most; ++replicate)
    for (int64_t shard = least; shard <= most; ++shard)
      for (int64_t cp = 1; cp <= most; ++cp)
        for (int64_t tp = 1; tp <= most; ++tp)
          for (const int64_t pp : {1, 3}) {
            if (shard == 0) continue;
            const Degrees given = {.dp_replicate = replicate, .dp_shard = shard, .cp = cp, .tp = tp, .pp = pp};
            const int64_t others = replicate * cp * tp * pp;
            for (const int64_t world : {1, 2, 3, 8, 12, 24, 36}) {
              const bool fits = shard == -1 ? world % others == 0 : world == others * shard;
              Degrees expected = given;
              if (shard == -1) expected.dp_shard = world / others;
              try {
                const Degrees found = resolve(given, world);
                ASSERT_TRUE(fits && found == expected) << text_of(given) << " on " << world << ": " << text_of(found);
              } catch (const Error& error) {
                ASSERT_FALSE(fits) << text_of(given) << " on " << world << ": " << error.what();
              }
            }
          }
}

TEST(Resolve, RefusesADegreeBelowOne) {
  const Error zero = error_of([] { resolve({.tp = 0}, 8); });
  EXPECT_STREQ(zero.what(),
               "error: parallelism.tensor_parallel_degree = 0 is below 1\n"
               "  why: a degree is the number of ranks along an axis\n"
               "  fix: give at least 1: only parallelism.data_parallel_shard_degree may be -1");
  EXPECT_EQ(zero.key(), "parallelism.tensor_parallel_degree");
  EXPECT_EQ(zero.code(), ExitCode::kUser);
  const Error shard = error_of([] { resolve({.dp_shard = -2}, 8); });
  EXPECT_STREQ(shard.what(),
               "error: parallelism.data_parallel_shard_degree = -2 is below 1\n"
               "  why: a degree is the number of ranks along an axis\n"
               "  fix: give at least 1, or -1 for the ranks that the other degrees leave");
  const auto message = [](Degrees degrees) { return error_of([&] { resolve(degrees, 8); }).message(); };
  EXPECT_EQ(message({.dp_replicate = -1}), "parallelism.data_parallel_replicate_degree = -1 is below 1");
  EXPECT_EQ(message({.cp = -1}), "parallelism.context_parallel_degree = -1 is below 1");
  EXPECT_EQ(message({.pp = 0}), "parallelism.pipeline_parallel_degree = 0 is below 1");
  EXPECT_THAT(message({.dp_shard = -1, .cp = 0, .pp = 0}),
              testing::AllOf(testing::HasSubstr("[parallelism] has 2 errors"),
                             testing::HasSubstr("parallelism.context_parallel_degree = 0 is below 1"),
                             testing::HasSubstr("parallelism.pipeline_parallel_degree = 0 is below 1")));
}

TEST(Resolve, RefusesDegreesThatDoNotMultiplyToTheRanks) {
  const Error some = error_of([] { resolve({.dp_shard = 3, .tp = 4}, 8); });
  EXPECT_STREQ(some.what(),
               "error: the degrees of parallelism do not multiply to the number of ranks, 8\n"
               "  why: data_parallel_shard_degree 3 x tensor_parallel_degree 4 is not 8\n"
               "  fix: give parallelism.data_parallel_shard_degree = 2, or another number of ranks");
  EXPECT_EQ(some.key(), "parallelism.data_parallel_shard_degree");
  EXPECT_EQ(error_of([] { resolve({.tp = 3}, 8); }).fix(),
            "give degrees whose product is 8, or another number of ranks");
  // 3 * 6148914691236517206 is 2 modulo 2^64.
  EXPECT_EQ(error_of([] { resolve({.dp_shard = 6148914691236517206, .tp = 3}, 2); }).message(),
            "the degrees of parallelism do not multiply to the number of ranks, 2");
}

TEST(Resolve, RefusesARestThatDoesNotDivide) {
  const Error error = error_of([] { resolve({.dp_replicate = 2, .dp_shard = -1, .pp = 2}, 6); });
  EXPECT_STREQ(error.what(),
               "error: parallelism.data_parallel_shard_degree = -1 cannot be the rest of the number of ranks, 6\n"
               "  why: data_parallel_replicate_degree 2 x pipeline_parallel_degree 2 does not divide 6\n"
               "  fix: give degrees whose product divides 6, or another number of ranks");
  EXPECT_EQ(error.key(), "parallelism.data_parallel_shard_degree");
}

}  // namespace
}  // namespace hearth::mesh
