// SPDX-License-Identifier: Apache-2.0
// Communication that takes time and no processor is hidden behind the computation: a step takes little more than the
// longer of the two. Products and the bytes of collectives take simulated time, nothing else does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "comm/ranks.h"
#include "config/config.h"
#include "model/transformer.h"
#include "ops/runtime.h"
#include "ops/tensor.h"
#include "parallel/sharded_weights.h"
#include "run/state.h"
#include "support/simulated_time.h"
#include "timed_products.h"

namespace hearth::train {
namespace {

using test::SimulatedTime;

// Spends time for each byte of a collective, then makes the call.
class DelayedGroup final : public comm::Group {
 public:
  DelayedGroup(comm::Group& group, SimulatedTime& time) : group_(group), time_(time) {}
  int64_t rank() const override { return group_.rank(); }
  int64_t size() const override { return group_.size(); }
  comm::Control& control() override { return group_.control(); }
  comm::Stream& stream() override { return group_.stream(); }

  double s_per_byte = 0;
  double spent_s = 0;  // only the stream adds to it

 protected:
  void all_gather_now(at::Tensor full, const at::Tensor& shard) override {
    spend(full);
    group_.all_gather(full, shard);
  }
  void reduce_scatter_now(at::Tensor shard, const at::Tensor& full) override {
    spend(full);
    group_.reduce_scatter(shard, full);
  }
  void all_reduce_now(at::Tensor values) override { group_.all_reduce(values); }
  void all_to_all_now(at::Tensor to, const at::Tensor& from, const comm::ExchangeCounts& counts) override {
    group_.all_to_all(to, from, counts);
  }
  void send_now(const at::Tensor& values, int64_t to) override { group_.send(values, to); }
  void recv_now(at::Tensor values, int64_t from) override { group_.recv(values, from); }
  std::unique_ptr<comm::Group> split(const std::vector<int64_t>& members, StreamOf) override {
    return group_.split(members);
  }

 private:
  void spend(const at::Tensor& tensor) {
    const double s = s_per_byte * static_cast<double>(tensor.nbytes());
    if (s > 0) time_.spend(s);
    spent_s += s;
  }
  comm::Group& group_;
  SimulatedTime& time_;
};

constexpr double kFlopRate = 1e9;        // of the simulated processor
constexpr double kTimeoutSeconds = 600;  // for a machine on which little real time is ours

plan::ModelShape twelve_layers() {
  config::Model model;
  model.dim = 64;
  model.n_layers = 12;
  model.n_heads = 4;
  return plan::model_shape(model, 512);
}

// Four windows of 64.
model::MicroBatch tokens_of_four() {
  std::vector<int32_t> tokens(256);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 31 % 512);
  return {ops::from_int32(tokens), ops::from_int32(tokens)};
}

struct Times {
  double compute_s = 0, communication_s = 0, step_s = 0;
};

// The times of a step on rank 0: `compute_s` where communication is free, the others where it takes `share` of that.
// `step` makes one, with a group whose collectives have `bytes` in all.
Times times_of_step(SimulatedTime& time, DelayedGroup& group, double share, double bytes,
                    const std::function<void()>& step) {
  Times times;
  const auto duration_s = [&] {
    group.control().barrier("a step");
    const double begin_s = time.now_s();
    step();
    group.control().barrier("the end of a step");
    return time.now_s() - begin_s;
  };
  times.compute_s = duration_s();
  group.s_per_byte = share * times.compute_s / bytes;
  group.spent_s = 0;
  times.step_s = duration_s();
  times.communication_s = group.spent_s;
  return times;
}

// Runs `body` on two ranks whose products take time.
void run_two_ranks(const std::function<void(SimulatedTime&, comm::Group&)>& body) {
  SimulatedTime time;
  spend_flops = [&](double flops) { time.spend(flops / kFlopRate); };
  comm::run_ranks(2, kTimeoutSeconds, [&](comm::Group& group) {
    const c10::InferenceMode no_gradients;
    ops::prepare_thread(1);
    body(time, group);
  });
  spend_flops = {};
}

Times times_of_sharded_step(int64_t stage, double share) {
  Times times;
  run_two_ranks([&](SimulatedTime& time, comm::Group& inner) {
    const plan::ModelShape shape = twelve_layers();
    const plan::ParameterPlan plan = plan::parameter_plan(shape);
    DelayedGroup group(inner, time);
    parallel::ShardedWeights weights(plan, DType::kFloat32, group, parallel::ShardedWeights::Mode::kTraining, {},
                                     {.zero_stage = stage});
    run::initialize_weights(weights, 1);
    model::Transformer transformer(shape, plan, 4, 64, {.training = true});
    const model::MicroBatch batch = tokens_of_four();
    double bytes = 0;
    for (const plan::Unit& unit : plan.units) bytes += 4 * static_cast<double>(unit.numel);
    // Weights once for the forward, and gradients once; stage 3 gathers most blocks again.
    const Times of_rank = times_of_step(time, group, share, bytes * (stage == 3 ? 3 : 2), [&] {
      weights.begin_step(1);
      transformer.loss_and_gradient(weights, batch, 1e-3);
      for (int64_t unit = 0; unit < weights.num_units(); ++unit) weights.gradient_shard(unit);
      weights.end_step();
    });
    if (inner.rank() == 0) times = of_rank;
  });
  return times;
}

TEST(Overlap, HidesCommunicationBehindTheComputation) {
  for (const int64_t stage : {2, 3}) {
    for (const double share : {0.4, 0.8, 1.5}) {
      const Times t = times_of_sharded_step(stage, share);
      const double ratio = t.step_s / std::max(t.compute_s, t.communication_s);
      std::printf("ZeRO-%ld: compute %.0f ms, communication %.0f ms, together %.0f ms: %.3f of the longer\n", stage,
                  1e3 * t.compute_s, 1e3 * t.communication_s, 1e3 * t.step_s, ratio);
      EXPECT_GT(t.communication_s, 0.2 * t.compute_s) << "nothing to hide";
      EXPECT_LT(ratio, 1.15);
    }
  }
}

// Where ranks share the layers, four of the ten collectives of a layer run beside products, all in the backward.
TEST(Overlap, HidesAPartOfTensorParallelCommunication) {
  run_two_ranks([](SimulatedTime& time, comm::Group& inner) {
    const plan::ModelShape shape = twelve_layers();
    DelayedGroup group(inner, time);
    const std::vector<int64_t> alone = {inner.rank()};
    const std::unique_ptr<comm::Group> own = inner.split(alone);
    const plan::TensorPart part{inner.rank(), 2};
    const plan::ParameterPlan plan = plan::parameter_plan(shape, part);
    parallel::ShardedWeights weights(plan, DType::kFloat32, *own, parallel::ShardedWeights::Mode::kTraining, {}, {},
                                     at::kCPU, {}, {.tensor = &group});
    run::initialize_weights(weights, 1);
    model::Transformer transformer(plan::model_part(shape, part), plan, 4, 64, {.training = true, .tensor = &group});
    const model::MicroBatch batch = tokens_of_four();
    const double bytes = 12.0 * 10 * static_cast<double>(batch.tokens_T.numel() * shape.D) * sizeof(float);
    const Times t = times_of_step(time, group, 0.5, bytes, [&] {
      weights.begin_step(1);
      transformer.loss_and_gradient(weights, batch, 1e-3);
      weights.end_step();
    });
    if (inner.rank() != 0) return;
    const double hidden = (t.compute_s + t.communication_s - t.step_s) / t.communication_s;
    std::printf("TP: compute %.0f ms, communication %.0f ms, together %.0f ms: %.0f %% hidden\n", 1e3 * t.compute_s,
                1e3 * t.communication_s, 1e3 * t.step_s, 100 * hidden);
    EXPECT_GT(hidden, 0.35);
  });
}

}  // namespace
}  // namespace hearth::train
