// SPDX-License-Identifier: Apache-2.0
// Pieces of all ranks together are the parameters: each element once, in the right place.
#include "parallel/shard_pieces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <mutex>

#include "comm/mesh_groups.h"
#include "comm/ranks.h"
#include "support/small_plan.h"

namespace hearth::parallel {
namespace {

constexpr double kExchangeTimeout = 60;

struct Seen {
  std::vector<int64_t> shape;
  std::vector<int64_t> owners;  // per element
};

// The row-major numbers of a box's elements, in their order.
std::vector<int64_t> elements_of(const mesh::Box& box, const std::vector<int64_t>& shape) {
  std::vector<int64_t> elements = {0};
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<int64_t> next;
    for (const int64_t element : elements)
      for (int64_t i = 0; i < box.sizes[d]; ++i) next.push_back(element * shape[d] + box.offsets[d] + i);
    elements = std::move(next);
  }
  return elements;
}

int64_t numel_of(const std::vector<int64_t>& shape) { return mesh::Box{{}, shape}.numel(); }

void count(Seen& s, const ShardPiece& piece) {
  s.shape = piece.shape;
  s.owners.resize(static_cast<size_t>(numel_of(piece.shape)));
  const std::vector<int64_t> elements = elements_of(piece.box, piece.shape);
  ASSERT_GT(elements.size(), 0U);
  ASSERT_EQ(piece.values.numel(), std::ssize(elements));
  for (const int64_t i : elements) ++s.owners.at(static_cast<size_t>(i));
}

// Counts, for every name, how often each element is owned.
std::map<std::string, Seen> collect(const plan::ParameterPlan& plan, int64_t ranks, bool moments) {
  std::map<std::string, Seen> seen;
  std::mutex mutex;
  comm::run_ranks(ranks, kExchangeTimeout, [&](comm::Group& group) {
    const ShardedWeights weights(plan, DType::kFloat32, group, ShardedWeights::Mode::kTraining);
    for (const ShardPiece& piece :
         moments ? optimizer_pieces(weights, PiecesFor::kLoading) : parameter_pieces(weights, PiecesFor::kLoading)) {
      const std::lock_guard lock(mutex);
      count(seen[piece.name], piece);
    }
  });
  return seen;
}

TEST(ShardPieces, CoverEveryElementOnceForAnyNumberOfRanks) {
  for (const plan::ParameterPlan& plan : {test::small_plan(), test::small_plan(true), test::tiny_plan()}) {
    for (int64_t ranks = 1; ranks <= 5; ++ranks) {
      const auto parameters = collect(plan, ranks, false);
      const auto moments = collect(plan, ranks, true);
      ASSERT_EQ(parameters.size(), plan.parameters.size());
      ASSERT_EQ(moments.size(), 2 * plan.parameters.size());
      for (const plan::Parameter& p : plan.parameters) {
        for (const Seen& seen : {parameters.at(p.name), moments.at("optimizer.state." + p.name + ".exp_avg"),
                                 moments.at("optimizer.state." + p.name + ".exp_avg_sq")}) {
          EXPECT_EQ(seen.shape, p.shape);
          EXPECT_EQ(seen.owners, std::vector<int64_t>(static_cast<size_t>(p.numel), 1)) << p.name << ", " << ranks;
        }
      }
    }
  }
}

// Ranks that share layers save each element once, too: norms, which all of them have, are saved by the first.
TEST(ShardPieces, OfPartsOfAModelAreSavedOnce) {
  const plan::ParameterPlan whole = test::small_plan();
  for (const int64_t ranks : {1, 3}) {
    std::map<std::string, Seen> seen;
    std::mutex mutex;
    comm::run_ranks(2 * ranks, kExchangeTimeout, [&](comm::Group& world) {
      const comm::MeshGroups groups(world, {.dp_shard = ranks, .tp = 2}, {});
      const plan::ParameterPlan plan = test::small_plan(false, {groups.place().tp, 2});
      const ShardedWeights weights(plan, DType::kFloat32, groups.loss(), ShardedWeights::Mode::kTraining, {}, {},
                                   at::kCPU, {}, {.tensor = groups.tensor()});
      for (const ShardPiece& piece : parameter_pieces(weights, PiecesFor::kSaving)) {
        const std::lock_guard lock(mutex);
        count(seen[piece.name], piece);
      }
    });
    ASSERT_EQ(seen.size(), whole.parameters.size());
    for (const plan::Parameter& p : whole.parameters) {
      EXPECT_EQ(seen[p.name].shape, p.shape);
      EXPECT_EQ(seen[p.name].owners, std::vector<int64_t>(static_cast<size_t>(p.numel), 1)) << p.name << ", " << ranks;
    }
  }
}

// As a checkpoint is loaded: written through the spans, seen through gather, each parameter at its offset.
TEST(ShardPieces, AreTheLiveMemoryOfTheWeights) {
  const plan::ParameterPlan plan = test::small_plan();
  for (int64_t ranks = 1; ranks <= 4; ++ranks) {
    comm::run_ranks(ranks, kExchangeTimeout, [&](comm::Group& group) {
      ShardedWeights weights(plan, DType::kFloat64, group, ShardedWeights::Mode::kTraining);
      for (const ShardPiece& piece : parameter_pieces(weights, PiecesFor::kLoading)) {
        ASSERT_EQ(piece.dtype, DType::kFloat64);
        const auto index = static_cast<double>(plan.find(piece.name));
        auto* value = piece.values.mutable_data_ptr<double>();
        for (const int64_t i : elements_of(piece.box, piece.shape)) *value++ = index * 1e6 + static_cast<double>(i + 1);
      }
      weights.masters_changed();
      double sum = 0;
      for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
        const at::Tensor whole = weights.gather(unit);
        for (int64_t i = 0; i < whole.numel(); ++i) sum += whole.const_data_ptr<double>()[i];
      }
      double expected = 0;
      for (size_t index = 0; index < plan.parameters.size(); ++index) {
        const plan::Parameter& p = plan.parameters[index];
        const double* values = weights.gather(p.unit).const_data_ptr<double>() + p.offset;
        for (int64_t i = 0; i < p.numel; ++i) {
          ASSERT_EQ(values[i], static_cast<double>(index) * 1e6 + static_cast<double>(i + 1)) << p.name << " " << i;
          expected += values[i];
        }
      }
      EXPECT_EQ(sum, expected);  // nothing in the padding
    });
  }
}

TEST(ShardPieces, PutEachMomentIntoItsOwnBuffer) {
  const plan::ParameterPlan plan = test::tiny_plan();
  const auto group = comm::single();
  ShardedWeights weights(plan, DType::kFloat32, *group, ShardedWeights::Mode::kTraining);
  for (const ShardPiece& piece : optimizer_pieces(weights, PiecesFor::kLoading)) {
    const bool square = piece.name.ends_with(".exp_avg_sq");
    const std::string name =
        piece.name.substr(std::strlen("optimizer.state."), piece.name.rfind('.') - std::strlen("optimizer.state."));
    const auto owned = weights.owned(plan.find(name));
    const at::Tensor& moment = square ? owned.exp_avg_sq : owned.exp_avg;
    EXPECT_EQ(piece.box.numel(), moment.numel());
    EXPECT_EQ(piece.values.const_data_ptr(), moment.const_data_ptr()) << piece.name;
    EXPECT_EQ(piece.values.nbytes(), moment.nbytes());
  }
}

}  // namespace
}  // namespace hearth::parallel
