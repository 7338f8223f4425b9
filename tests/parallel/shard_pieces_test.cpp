// Pieces of all ranks together are the parameters: each element once, in the right place.
#include "parallel/shard_pieces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <mutex>

#include "comm/ranks.h"
#include "support/small_plan.h"

namespace hearth::parallel {
namespace {

constexpr double kExchangeTimeout = 60;

struct Seen {
  std::vector<int64_t> shape;
  std::vector<int64_t> owners;  // per element
};

// Counts, for every name, how often each element is owned.
std::map<std::string, Seen> collect(const plan::ParameterPlan& plan, int64_t ranks, bool moments) {
  std::map<std::string, Seen> seen;
  std::mutex mutex;
  comm::run_ranks(ranks, kExchangeTimeout, [&](comm::Group& group) {
    const ShardedWeights weights(plan, DType::kFloat32, group, ShardedWeights::Mode::kTraining);
    for (const ShardPiece& piece :
         moments ? optimizer_pieces(weights, PiecesFor::kLoading) : parameter_pieces(weights, PiecesFor::kLoading)) {
      const std::lock_guard lock(mutex);
      Seen& s = seen[piece.name];
      int64_t numel = 1;
      for (const int64_t size : piece.shape) numel *= size;
      s.shape = piece.shape;
      s.owners.resize(static_cast<size_t>(numel));
      ASSERT_LT(piece.begin, piece.end);
      ASSERT_LE(piece.end, numel);
      ASSERT_EQ(static_cast<int64_t>(piece.values.nbytes()), 4 * (piece.end - piece.begin));
      for (int64_t i = piece.begin; i < piece.end; ++i) ++s.owners[static_cast<size_t>(i)];
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

// As a checkpoint is loaded: written through the spans, seen through gather, each parameter at its offset.
TEST(ShardPieces, AreTheLiveMemoryOfTheWeights) {
  const plan::ParameterPlan plan = test::small_plan();
  for (int64_t ranks = 1; ranks <= 4; ++ranks) {
    comm::run_ranks(ranks, kExchangeTimeout, [&](comm::Group& group) {
      ShardedWeights weights(plan, DType::kFloat64, group, ShardedWeights::Mode::kTraining);
      for (const ShardPiece& piece : parameter_pieces(weights, PiecesFor::kLoading)) {
        ASSERT_EQ(piece.dtype, DType::kFloat64);
        const auto index = static_cast<double>(plan.find(piece.name));
        for (int64_t i = piece.begin; i < piece.end; ++i) {
          const double value = index * 1e6 + static_cast<double>(i + 1);
          std::memcpy(static_cast<std::byte*>(piece.values.mutable_data_ptr()) + (i - piece.begin) * 8, &value, 8);
        }
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
    EXPECT_EQ(piece.values.const_data_ptr(), moment.const_data_ptr()) << piece.name;
    EXPECT_EQ(piece.values.nbytes(), moment.nbytes());
  }
}

}  // namespace
}  // namespace hearth::parallel
