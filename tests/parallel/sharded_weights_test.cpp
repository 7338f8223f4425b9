// SPDX-License-Identifier: Apache-2.0
// Slices, gathers and reductions against values computed directly from (unit, element, rank, micro-batch).
#include "parallel/sharded_weights.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/ranks.h"
#include "support/small_plan.h"

namespace hearth::parallel {
namespace {

using test::small_plan;
using test::tiny_plan;

constexpr double kTimeout = 60;

// Whole numbers: sums are exact in float32, so the order does not matter here.
double weight_at(int64_t unit, int64_t element) { return static_cast<double>((unit + 1) * 1000 + element % 997); }
double gradient_at(int64_t unit, int64_t element, int64_t rank, int64_t micro) {
  return static_cast<double>((element * 31 + unit * 7 + rank * 13 + micro * 5) % 101 - 50);
}

double get(const at::Tensor& t, int64_t i) {
  return t.scalar_type() == at::kDouble ? t.const_data_ptr<double>()[i] : t.const_data_ptr<float>()[i];
}
void add(const at::Tensor& t, int64_t i, double value) {
  if (t.scalar_type() == at::kDouble) {
    t.mutable_data_ptr<double>()[i] += value;
  } else {
    t.mutable_data_ptr<float>()[i] += static_cast<float>(value);
  }
}

struct Layout {
  int64_t ranks;
  DType dtype;
};
// Part of the test's name in CTest.
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.ranks << "x" << dtype_name(layout.dtype); }

class ShardedWeightsOn : public testing::TestWithParam<Layout> {
 protected:
  // Once for each plan and rank.
  void on_every_rank(const std::function<void(ShardedWeights&)>& body) {
    for (const plan::ParameterPlan& plan : {small_plan(), small_plan(true), tiny_plan()}) {
      comm::run_ranks(GetParam().ranks, kTimeout, [&](comm::Group& group) {
        ShardedWeights weights(plan, GetParam().dtype, group, ShardedWeights::Mode::kTraining);
        body(weights);
      });
    }
  }
};

void write_masters(ShardedWeights& weights, double offset) {
  for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
    const plan::Slice slice = weights.slice(unit);
    const at::Tensor master = weights.master(unit);
    ASSERT_EQ(master.numel(), slice.numel());
    for (int64_t i = 0; i < slice.numel(); ++i) {
      add(master, i, weight_at(unit, slice.begin + i) + offset - get(master, i));
    }
  }
}

void expect_masters(const ShardedWeights& weights, double offset) {
  for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
    const plan::Slice slice = weights.slice(unit);
    for (int64_t i = 0; i < slice.numel(); ++i) {
      const auto expected = static_cast<float>(weight_at(unit, slice.begin + i) + offset);
      ASSERT_EQ(weights.master(unit).const_data_ptr<float>()[i], expected) << unit << " " << i;
    }
  }
}

void expect_gathered(ShardedWeights& weights, double offset) {
  for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
    const at::Tensor whole = weights.gather(unit);
    ASSERT_EQ(whole.numel(), weights.plan().units[static_cast<size_t>(unit)].numel);
    for (int64_t i = 0; i < whole.numel(); ++i)
      ASSERT_EQ(get(whole, i), weight_at(unit, i) + offset) << unit << " " << i;
  }
}

TEST_P(ShardedWeightsOn, GatherEveryRanksMasters) {
  on_every_rank([](ShardedWeights& weights) {
    for (const double offset : {0.0, 0.5}) {
      write_masters(weights, offset);
      weights.masters_changed();
      expect_gathered(weights, offset);
      expect_gathered(weights, offset);  // without communication
    }
  });
}

TEST_P(ShardedWeightsOn, AreZeroAtFirst) {
  on_every_rank([](ShardedWeights& weights) {
    for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
      for (const at::Tensor& t : {weights.gather(unit), weights.gradient(unit)})
        for (int64_t i = 0; i < t.numel(); ++i) ASSERT_EQ(get(t, i), 0);
    }
    for (size_t p = 0; p < weights.plan().parameters.size(); ++p) {
      const auto owned = weights.owned(static_cast<int64_t>(p));
      for (const at::Tensor& t : {owned.master, owned.gradient, owned.exp_avg, owned.exp_avg_sq}) {
        ASSERT_EQ(t.numel(), owned.numel());
        for (int64_t i = 0; i < t.numel(); ++i) ASSERT_EQ(get(t, i), 0);
      }
    }
  });
}

TEST_P(ShardedWeightsOn, SumGradientsOverRanksAndMicroBatches) {
  on_every_rank([](ShardedWeights& weights) {
    constexpr int64_t kMicroBatches = 3;
    const int64_t ranks = weights.group().size(), rank = weights.group().rank();
    for (int64_t step = 0; step < 2; ++step) {  // the second begins from zero again
      weights.begin_step(kMicroBatches);
      for (int64_t micro = 0; micro < kMicroBatches; ++micro) {
        for (int64_t unit = weights.num_units() - 1; unit >= 0; --unit) {
          const at::Tensor gradient = weights.gradient(unit);
          for (int64_t i = 0; i < gradient.numel(); ++i) add(gradient, i, gradient_at(unit, i, rank, micro + step));
          weights.gradient_ready(unit);
        }
      }
      for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
        const plan::Slice slice = weights.slice(unit);
        const at::Tensor shard = weights.gradient_shard(unit);
        ASSERT_EQ(shard.numel(), slice.numel());
        for (int64_t i = 0; i < slice.numel(); ++i) {
          double sum = 0;
          for (int64_t r = 0; r < ranks; ++r) {
            for (int64_t m = 0; m < kMicroBatches; ++m) sum += gradient_at(unit, slice.begin + i, r, m + step);
          }
          ASSERT_EQ(get(shard, i), sum) << "unit " << unit << " element " << slice.begin + i;
        }
      }
      weights.end_step();
    }
  });
}

TEST_P(ShardedWeightsOn, OwnEveryElementOnce) {
  const plan::ParameterPlan plan = tiny_plan();
  std::vector<plan::Slice> slices(static_cast<size_t>(GetParam().ranks));
  comm::run_ranks(GetParam().ranks, kTimeout, [&](comm::Group& group) {
    const ShardedWeights weights(plan, GetParam().dtype, group, ShardedWeights::Mode::kInference);
    slices[static_cast<size_t>(group.rank())] = weights.slice(weights.num_units() - 1);
  });
  int64_t end = 0;
  for (const plan::Slice slice : slices) {
    EXPECT_EQ(slice.begin, end);
    end = slice.end;
  }
  EXPECT_EQ(end, plan.units.back().numel);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShardedWeightsOn,
                         testing::Values(Layout{1, DType::kFloat32}, Layout{2, DType::kFloat32},
                                         Layout{3, DType::kFloat64}, Layout{4, DType::kFloat32},
                                         Layout{5, DType::kFloat64}));

// Counts the collectives of another group, or of one rank.
class CountingGroup final : public comm::Group {
 public:
  CountingGroup() : own_(comm::single()), one_(own_.get()) {}
  explicit CountingGroup(comm::Group& group) : one_(&group) {}
  int64_t rank() const override { return one_->rank(); }
  int64_t size() const override { return one_->size(); }
  comm::Control& control() override { return one_->control(); }
  comm::Stream& stream() override { return one_->stream(); }

  int64_t gathers = 0, scatters = 0;

 protected:
  void all_gather_now(at::Tensor full, const at::Tensor& shard) override { ++gathers, one_->all_gather(full, shard); }
  void reduce_scatter_now(at::Tensor shard, const at::Tensor& full) override {
    ++scatters, one_->reduce_scatter(shard, full);
  }
  void all_reduce_now(at::Tensor values) override { one_->all_reduce(values); }
  void all_to_all_now(at::Tensor to, const at::Tensor& from, const comm::ExchangeCounts& counts) override {
    one_->all_to_all(to, from, counts);
  }
  void send_now(const at::Tensor& values, int64_t to) override { one_->send(values, to); }
  void recv_now(at::Tensor values, int64_t from) override { one_->recv(values, from); }
  std::unique_ptr<comm::Group> split(const std::vector<int64_t>& members, StreamOf) override {
    return one_->split(members);
  }

 private:
  std::unique_ptr<comm::Group> own_;
  comm::Group* one_;
};

TEST(ShardedWeights, CommunicateOncePerUnitAndStep) {
  const plan::ParameterPlan plan = small_plan();
  const auto units = static_cast<int64_t>(plan.units.size());
  CountingGroup group;
  ShardedWeights weights(plan, DType::kFloat32, group, ShardedWeights::Mode::kTraining);
  for (int64_t step = 1; step <= 2; ++step) {
    weights.begin_step(3);
    for (int64_t micro = 0; micro < 3; ++micro) {
      for (int64_t unit = 0; unit < units; ++unit) weights.gather(unit);
      for (int64_t unit = 0; unit < units; ++unit) {
        weights.gather(unit);
        EXPECT_EQ(group.scatters, (step - 1) * units + (micro == 2 ? unit : 0));
        weights.gradient_ready(unit);
      }
    }
    weights.end_step();
    EXPECT_EQ(group.gathers, step * units);
    EXPECT_EQ(group.scatters, step * units);
  }
}

TEST(ShardedWeights, OfStage3ReduceWithEachMicroBatchOrOncePerStep) {
  const plan::ParameterPlan plan = small_plan();
  const auto units = static_cast<int64_t>(plan.units.size());
  for (const bool once : {false, true}) {
    comm::run_ranks(2, kTimeout, [&](comm::Group& group) {
      CountingGroup counted(group);
      ShardedWeights weights(plan, DType::kFloat32, counted, ShardedWeights::Mode::kTraining, {},
                             {.zero_stage = 3, .once = once});
      weights.begin_step(3);
      for (int64_t micro = 1; micro <= 3; ++micro) {
        for (int64_t unit = 0; unit < units; ++unit) {
          weights.gather(unit);
          weights.gradient(unit).fill_(static_cast<double>(micro));
          weights.release(unit);
          weights.gradient_ready(unit);
        }
      }
      // fill_ replaces what whole gradients have: the last micro-batch's values alone are left of them.
      const double sum = once ? 2 * 3 : 2 * (1 + 2 + 3);
      for (int64_t unit = 0; unit < units; ++unit)
        EXPECT_EQ(ops::to_doubles(weights.gradient_shard(unit)).front(), sum) << unit;
      weights.end_step();
      EXPECT_EQ(counted.scatters, once ? units : 3 * units);
    });
  }
}

TEST(ShardedWeights, OfOneRankCopyNothing) {
  const plan::ParameterPlan plan = small_plan();
  const auto group = comm::single();
  ShardedWeights weights(plan, DType::kFloat32, *group, ShardedWeights::Mode::kTraining);
  for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
    EXPECT_EQ(weights.gather(unit).data_ptr(), weights.master(unit).data_ptr());
    EXPECT_EQ(weights.gradient(unit).data_ptr(), weights.gradient_shard(unit).data_ptr());
  }
  const int64_t elements = plan.units[0].numel + plan.units[1].numel + plan.units[2].numel + plan.units[3].numel;
  const int64_t bytes = 2 * 4 * elements + 2 * 4 * plan.num_parameters;
  const auto buffers = static_cast<int64_t>(2 * plan.units.size() + 2 * plan.parameters.size());
  EXPECT_GE(weights.memory_bytes(), bytes);
  EXPECT_LT(weights.memory_bytes(), bytes + 64 * buffers);  // the arena's alignment
}

TEST(ShardedWeights, ForInferenceHaveNoGradients) {
  const plan::ParameterPlan plan = small_plan();
  const auto group = comm::single();
  ShardedWeights weights(plan, DType::kFloat32, *group, ShardedWeights::Mode::kInference);
  EXPECT_FALSE(weights.gradient(0).defined());
  EXPECT_FALSE(weights.gradient_shard(0).defined());
  EXPECT_FALSE(weights.owned(0).gradient.defined());
  EXPECT_FALSE(weights.owned(0).exp_avg.defined());
  EXPECT_THROW(weights.begin_step(1), Error);
}

TEST(ShardedWeights, ComputeInBfloat16FromMastersInFloat32) {
  const plan::ParameterPlan plan = small_plan();
  for (int64_t ranks = 1; ranks <= 5; ++ranks) {
    comm::run_ranks(ranks, kTimeout, [&](comm::Group& group) {
      const plan::Precision mixed{DType::kFloat32, DType::kBFloat16, DType::kFloat32, DType::kFloat32};
      ShardedWeights weights(plan, mixed, group, ShardedWeights::Mode::kTraining);
      write_masters(weights, 0.3);
      weights.masters_changed();
      for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
        ASSERT_EQ(weights.master(unit).scalar_type(), at::kFloat);
        ASSERT_EQ(weights.gradient(unit).scalar_type(), at::kFloat);
        const at::Tensor whole = weights.gather(unit);
        for (int64_t i = 0; i < whole.numel(); ++i) {
          const auto master = static_cast<float>(weight_at(unit, i) + 0.3);
          ASSERT_EQ(whole.const_data_ptr<c10::BFloat16>()[i].x, c10::BFloat16(master).x) << unit << " " << i;
        }
      }
      expect_masters(weights, 0.3);  // gathering has not touched them
    });
  }
}

TEST(ShardedWeights, ThatAreFrozenHaveNoMomentsAndNoGradient) {
  const plan::ParameterPlan plan = small_plan();
  for (int64_t ranks = 1; ranks <= 4; ++ranks) {
    comm::run_ranks(ranks, kTimeout, [&](comm::Group& group) {
      std::vector<bool> trained(plan.parameters.size(), true);
      const auto frozen = static_cast<size_t>(plan.find("layers.1.attention.wk.weight"));
      trained[frozen] = false;
      trained[0] = false;  // the whole of unit 0
      const ShardedWeights all(plan, DType::kFloat32, group, ShardedWeights::Mode::kTraining);
      ShardedWeights weights(plan, DType::kFloat32, group, ShardedWeights::Mode::kTraining, trained);
      const int64_t spared = weights.owned(0).numel() + weights.owned(static_cast<int64_t>(frozen)).numel();
      EXPECT_NEAR(static_cast<double>(all.memory_bytes() - weights.memory_bytes()), 8.0 * static_cast<double>(spared),
                  4 * 64);
      weights.begin_step(1);
      for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
        for (int64_t i = 0; i < weights.gradient(unit).numel(); ++i) add(weights.gradient(unit), i, 1);
        weights.gradient_ready(unit);
      }
      for (size_t p = 0; p < plan.parameters.size(); ++p) {
        const auto owned = weights.owned(static_cast<int64_t>(p));
        EXPECT_EQ(owned.exp_avg.defined(), trained[p]);
        EXPECT_EQ(owned.exp_avg_sq.defined(), trained[p]);
        for (int64_t i = 0; i < owned.numel(); ++i)
          ASSERT_EQ(get(owned.gradient, i), trained[p] ? static_cast<double>(ranks) : 0.0) << plan.parameters[p].name;
      }
    });
  }
}

// The first step leaves values in the buffers. In the second, the first micro-batch writes each unit's last parameter.
TEST(ShardedWeights, HaveZerosWhereNothingIsWritten) {
  const plan::ParameterPlan plan = small_plan();
  for (const int64_t zero_stage : {1, 2}) {
    comm::run_ranks(2, kTimeout, [&](comm::Group& group) {
      ShardedWeights weights(plan, DType::kFloat32, group, ShardedWeights::Mode::kTraining, {},
                             {.zero_stage = zero_stage});
      for (const bool is_first : {true, false}) {
        weights.begin_step(2);
        for (int64_t i = 0; i < 2 * weights.num_units(); ++i) {
          const int64_t unit = i % weights.num_units();
          const model::UnitGradient gradient = weights.gradient_to_write(unit);
          const plan::Unit& of = plan.units[static_cast<size_t>(unit)];
          const plan::Parameter& last =
              plan.parameters[static_cast<size_t>(of.first_parameter + of.num_parameters - 1)];
          if (is_first) {
            weights.gradient(unit).fill_(7);
          } else if (i < weights.num_units()) {
            EXPECT_TRUE(gradient.unwritten->back());
            gradient.unwritten->back() = false;
            gradient.whole.narrow(0, last.offset, last.numel).fill_(1);
          }
          weights.gradient_ready(unit);
          if (is_first || i < weights.num_units()) continue;
          const plan::Slice slice = weights.slice(unit);
          const at::Tensor shard = weights.gradient_shard(unit);
          for (int64_t e = slice.begin; e < slice.end; ++e) {
            const bool is_written = e >= last.offset && e < last.offset + last.numel;
            ASSERT_EQ(get(shard, e - slice.begin), is_written ? 2 : 0) << "unit " << unit << " element " << e;
          }
        }
        weights.end_step();
      }
    });
  }
}

TEST(ShardedWeights, NoticeAStepThatForgotAUnit) {
  const plan::ParameterPlan plan = tiny_plan();
  const auto group = comm::single();
  ShardedWeights weights(plan, DType::kFloat32, *group, ShardedWeights::Mode::kTraining);
  EXPECT_THROW(weights.gradient_ready(0), Error);  // outside a step
  weights.begin_step(1);
  weights.gradient_ready(0);
  weights.gradient_ready(1);
  EXPECT_THROW(weights.gradient_ready(1), Error);
  EXPECT_THROW(weights.end_step(), Error);
  weights.gradient_ready(2);
  weights.end_step();
}

}  // namespace
}  // namespace hearth::parallel
