// SPDX-License-Identifier: Apache-2.0
// A step's first product of a matrix replaces what its gradient's buffer has, and what nothing writes becomes zero.
// Compared with weights whose gradients are added to zeros (model/local_weights.h). Buffers have NaN before the step.
#include <gtest/gtest.h>

#include <limits>
#include <ostream>
#include <vector>

#include "base/random.h"
#include "comm/ranks.h"
#include "model/local_weights.h"
#include "model/transformer.h"
#include "parallel/sharded_weights.h"
#include "support/distance.h"

namespace hearth::train {
namespace {

constexpr int64_t kRowsB = 2, kPlacesS = 8, kIds = 37, kUnwrittenBatches = 2;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct UnwrittenCase {
  const char* name;
  DType compute = DType::kFloat64;
  int64_t ranks = 1;
  plan::Sharding sharding = {};
  bool tied = false, counts_none = false, counts_few = false, frozen = false;

  // Whether sums are made in the same order as without shards. Otherwise they differ by rounding.
  bool is_exact() const { return sharding.zero_stage == 1 && !sharding.reproducible; }
};
void PrintTo(const UnwrittenCase& c, std::ostream* out) { *out << c.name; }

const std::vector<UnwrittenCase>& unwritten_cases() {
  static const std::vector<UnwrittenCase> cases = {
      {.name = "float64"},
      {.name = "float32", .compute = DType::kFloat32},
      {.name = "bfloat16", .compute = DType::kBFloat16},
      {.name = "tied", .tied = true},
      {.name = "frozen", .frozen = true},
      {.name = "few_positions_count", .tied = true, .counts_few = true},
      {.name = "no_position_counts", .counts_none = true},
      {.name = "no_position_counts_tied", .tied = true, .counts_none = true},
      {.name = "reproducible", .sharding = {.reproducible = true}, .tied = true},
      {.name = "two_ranks", .ranks = 2, .frozen = true},
      {.name = "zero2", .ranks = 2, .sharding = {.zero_stage = 2}, .tied = true},
      {.name = "zero2_reproducible", .ranks = 2, .sharding = {.zero_stage = 2, .reproducible = true}},
      {.name = "zero3", .ranks = 2, .sharding = {.zero_stage = 3}, .frozen = true},
      {.name = "zero3_no_position_counts", .ranks = 2, .sharding = {.zero_stage = 3}, .counts_none = true}};
  return cases;
}

plan::ModelShape shape_of(const UnwrittenCase& c) {
  config::Model model;
  model.dim = 24;  // groups of parameters with gaps between them
  model.n_layers = 2;
  model.n_heads = 4;
  model.n_kv_heads = 2;
  model.hidden_dim = 28;
  model.enable_weight_tying = c.tied;
  plan::ModelShape shape = plan::model_shape(model, kIds);
  shape.sparse_labels = c.counts_few || c.counts_none;
  return shape;
}

model::MicroBatch batch_of(const UnwrittenCase& c, int64_t micro) {
  const RandomKey key = random_key(static_cast<uint64_t>(micro), "unwritten gradients");
  std::vector<int32_t> tokens, labels;
  for (uint64_t t = 0; t < kRowsB * kPlacesS; ++t) {
    tokens.push_back(static_cast<int32_t>(random_u64(key, 2 * t) % kIds));
    labels.push_back(static_cast<int32_t>(random_u64(key, 2 * t + 1) % kIds));
  }
  model::MicroBatch batch;
  batch.tokens_T = ops::from_int32(tokens);
  batch.labels_T = ops::from_int32(labels);
  if (c.counts_few && micro > 0) batch.counted_N = ops::from_int64(std::vector<int64_t>{1, 2, 3, 5, 8, 13});
  if (c.counts_none || (c.counts_few && micro == 0)) batch.counted_N = ops::from_int64(std::vector<int64_t>{});
  return batch;
}

// Both micro-batches on each rank.
void add_gradients(const UnwrittenCase& c, const plan::ParameterPlan& plan, model::Weights& weights, double scale) {
  model::Transformer model(shape_of(c), plan, kRowsB, kPlacesS,
                           {.dtype = c.compute, .loss_chunk_tokens = 5, .training = true});
  for (int64_t micro = 0; micro < kUnwrittenBatches; ++micro)
    model.loss_and_gradient(weights, batch_of(c, micro), scale);
}

std::vector<bool> trained_of(const UnwrittenCase& c, const plan::ParameterPlan& plan) {
  std::vector<bool> trained(plan.parameters.size(), true);
  if (!c.frozen) return trained;
  trained[0] = false;
  trained[static_cast<size_t>(plan.find("layers.1.attention.wk.weight"))] = false;
  trained[static_cast<size_t>(plan.find("layers.0.attention_norm.weight"))] = false;
  return trained;
}

// Whole units, summed over equal ranks.
std::vector<at::Tensor> expected_gradients(const UnwrittenCase& c, const plan::ParameterPlan& plan,
                                           test::LocalWeights& plain) {
  add_gradients(c, plan, plain, 0.1);
  const std::vector<bool> trained = trained_of(c, plan);
  for (size_t i = 0; i < trained.size(); ++i) {
    const plan::Parameter& p = plan.parameters[i];
    if (!trained[i]) ops::zero_(plain.gradient(p.unit).narrow(0, p.offset, p.numel));
  }
  std::vector<at::Tensor> sums;
  for (int64_t unit = 0; unit < std::ssize(plan.units); ++unit) {
    sums.push_back(plain.gradient(unit) * static_cast<double>(c.ranks));
    EXPECT_EQ(sums.back().count_nonzero().item<int64_t>() > 0, !c.counts_none && !(c.frozen && unit == 0)) << unit;
  }
  return sums;
}

class UnwrittenGradients : public testing::TestWithParam<UnwrittenCase> {};

TEST_P(UnwrittenGradients, EndLikeThoseThatBeginAtZero) {
  const c10::InferenceMode no_gradients;
  const UnwrittenCase& c = GetParam();
  const plan::ParameterPlan plan = plan::parameter_plan(shape_of(c));
  test::LocalWeights plain(plan, c.compute, 3);
  const std::vector<at::Tensor> expected = expected_gradients(c, plan, plain);
  const DType exact = c.compute == DType::kBFloat16 ? DType::kFloat32 : c.compute;
  comm::run_ranks(c.ranks, 60, [&](comm::Group& group) {
    const c10::InferenceMode none_here;
    parallel::ShardedWeights weights(plan, {exact, c.compute, exact, exact}, group,
                                     parallel::ShardedWeights::Mode::kTraining, trained_of(c, plan), c.sharding);
    for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
      const plan::Slice slice = weights.slice(unit);
      ops::copy_(weights.master(unit), plain.whole(unit).narrow(0, slice.begin, slice.numel()));
    }
    weights.masters_changed();
    for (const bool is_nan : {true, false, false}) {
      weights.begin_step(kUnwrittenBatches);
      // Shards are part of the buffers of one rank; the first step, whose loss is NaN, fills all others.
      for (int64_t unit = 0; unit < weights.num_units(); ++unit) weights.gradient_shard(unit).fill_(kNan);
      add_gradients(c, plan, weights, is_nan ? kNan : 0.1);
      weights.finish_gradients();
      for (int64_t unit = 0; unit < weights.num_units() && !is_nan; ++unit) {
        const plan::Slice slice = weights.slice(unit);
        const at::Tensor ours = weights.gradient_shard(unit);
        const at::Tensor theirs = expected[static_cast<size_t>(unit)].narrow(0, slice.begin, slice.numel());
        if (c.is_exact()) {
          EXPECT_TRUE(ours.equal(theirs)) << "unit " << unit;
        } else {
          EXPECT_LT(test::relative_distance(ours, theirs), 1e-14) << "unit " << unit;
        }
      }
      weights.end_step();
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Of, UnwrittenGradients, testing::ValuesIn(unwritten_cases()));

}  // namespace
}  // namespace hearth::train
