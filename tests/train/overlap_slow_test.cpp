// Communication that takes time and no processor is hidden behind the computation: ZeRO-2 and ZeRO-3 with a transport
// that sleeps. A step should take little more than the longer of the two.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "comm/ranks.h"
#include "config/config.h"
#include "model/transformer.h"
#include "ops/runtime.h"
#include "ops/tensor.h"
#include "parallel/sharded_weights.h"
#include "run/state.h"

namespace hearth::train {
namespace {

using Seconds = std::chrono::duration<double>;

double now_s() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Sleeps for each byte that a rank receives or sends, then makes the call.
class DelayedGroup final : public comm::Group {
 public:
  explicit DelayedGroup(comm::Group& group) : group_(group) {}
  int64_t rank() const override { return group_.rank(); }
  int64_t size() const override { return group_.size(); }
  comm::Control& control() override { return group_.control(); }
  comm::Stream& stream() override { return group_.stream(); }

  double s_per_byte = 0;
  double slept_s = 0;  // only the stream adds to it

 protected:
  void all_gather_now(at::Tensor full, const at::Tensor& shard) override {
    sleep(full);
    group_.all_gather(full, shard);
  }
  void reduce_scatter_now(at::Tensor shard, const at::Tensor& full) override {
    sleep(full);
    group_.reduce_scatter(shard, full);
  }
  void all_reduce_now(at::Tensor values) override { group_.all_reduce(values); }
  void all_to_all_now(at::Tensor to, const at::Tensor& from) override { group_.all_to_all(to, from); }
  void send_now(const at::Tensor& values, int64_t to) override { group_.send(values, to); }
  void recv_now(at::Tensor values, int64_t from) override { group_.recv(values, from); }
  std::unique_ptr<comm::Group> split(const std::vector<int64_t>& members, StreamOf) override {
    return group_.split(members);
  }

 private:
  void sleep(const at::Tensor& tensor) {
    const double s = s_per_byte * static_cast<double>(tensor.nbytes());
    const double begin_s = now_s();
    if (s > 0) std::this_thread::sleep_for(Seconds(s));
    slept_s += now_s() - begin_s;
  }
  comm::Group& group_;
};

struct Times {
  double compute_s, communication_s, step_s;
};

// The second fastest of some steps: this machine has other work, too.
Times times_of(int64_t stage, double share) {
  Times times{};
  config::Model model;
  model.dim = 256;
  model.n_layers = 12;
  model.n_heads = 4;
  const plan::ModelShape shape = plan::model_shape(model, 512);
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  comm::run_ranks(2, 60, [&](comm::Group& inner) {
    const c10::InferenceMode no_gradients;
    ops::prepare_thread(1);
    DelayedGroup group(inner);
    parallel::ShardedWeights weights(plan, DType::kFloat32, group, parallel::ShardedWeights::Mode::kTraining, {},
                                     {.zero_stage = stage});
    run::initialize_weights(weights, 1);
    model::Transformer transformer(shape, plan, 4, 256, {.training = true});
    std::vector<int32_t> tokens(1024);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 31 % 512);
    model::MicroBatch batch{ops::from_int32(tokens), ops::from_int32(tokens)};
    const auto step_s = [&] {
      std::vector<std::pair<double, double>> all;  // of a step, and of its sleep
      for (int i = 0; i < 6; ++i) {
        inner.control().barrier("a step");
        group.slept_s = 0;
        const double begin_s = now_s();
        weights.begin_step(1);
        transformer.loss_and_gradient(weights, batch, 1e-3);
        for (int64_t unit = 0; unit < weights.num_units(); ++unit) weights.gradient_shard(unit);
        weights.end_step();
        all.emplace_back(now_s() - begin_s, group.slept_s);
      }
      std::sort(all.begin(), all.end());
      return all[1];
    };
    const double compute_s = inner.control().sum("the compute time", std::vector<double>{step_s().first}).front() / 2;
    int64_t bytes = 0;
    for (const plan::Unit& unit : plan.units) bytes += 4 * unit.numel;
    // Weights once for the forward, and gradients once; stage 3 gathers most blocks again.
    group.s_per_byte = share * compute_s / static_cast<double>(bytes * (stage == 3 ? 3 : 2));
    const auto [step, slept] = step_s();
    if (group.rank() == 0) times = {compute_s, slept, step};
  });
  return times;
}

TEST(Overlap, HidesCommunicationBehindTheComputation) {
  for (const int64_t stage : {2, 3}) {
    for (const double share : {0.4, 0.8, 1.5}) {
      const Times t = times_of(stage, share);
      const double ratio = t.step_s / std::max(t.compute_s, t.communication_s);
      std::printf("ZeRO-%ld: compute %.0f ms, communication %.0f ms, together %.0f ms: %.3f of the longer\n", stage,
                  1e3 * t.compute_s, 1e3 * t.communication_s, 1e3 * t.step_s, ratio);
      EXPECT_GT(t.communication_s, 0.2 * t.compute_s) << "nothing to hide";
      EXPECT_LT(ratio, 1.25);
    }
  }
}

// Where ranks share the layers, four of the ten collectives of a layer run beside products, all in the backward.
TEST(Overlap, HidesAPartOfTensorParallelCommunication) {
  config::Model model;
  model.dim = 256;
  model.n_layers = 12;
  model.n_heads = 4;
  const plan::ModelShape shape = plan::model_shape(model, 512);
  comm::run_ranks(2, 60, [&](comm::Group& inner) {
    const c10::InferenceMode no_gradients;
    ops::prepare_thread(1);
    DelayedGroup group(inner);
    const std::vector<int64_t> alone = {inner.rank()};
    const std::unique_ptr<comm::Group> own = inner.split(alone);
    const plan::Part part{inner.rank(), 2};
    const plan::ParameterPlan plan = plan::parameter_plan(shape, part);
    parallel::ShardedWeights weights(plan, DType::kFloat32, *own, parallel::ShardedWeights::Mode::kTraining, {}, {},
                                     at::kCPU, {}, {.tensor = &group});
    run::initialize_weights(weights, 1);
    model::Transformer transformer(plan::model_part(shape, part), plan, 4, 256, {.training = true, .tensor = &group});
    std::vector<int32_t> tokens(1024);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 31 % 512);
    const model::MicroBatch batch{ops::from_int32(tokens), ops::from_int32(tokens)};
    const auto step_s = [&] {
      std::vector<std::pair<double, double>> all;
      for (int i = 0; i < 6; ++i) {
        inner.control().barrier("a step");
        group.slept_s = 0;
        const double begin_s = now_s();
        weights.begin_step(1);
        transformer.loss_and_gradient(weights, batch, 1e-3);
        weights.end_step();
        all.emplace_back(now_s() - begin_s, group.slept_s);
      }
      std::sort(all.begin(), all.end());
      return all[1];
    };
    const double compute_s = inner.control().sum("the compute time", std::vector<double>{step_s().first}).front() / 2;
    group.s_per_byte = 0.5 * compute_s / (12 * 10 * 1024 * 256 * 4.0);
    const auto [step, slept] = step_s();
    if (group.rank() != 0) return;
    const double hidden = (compute_s + slept - step) / slept;
    std::printf("TP: compute %.0f ms, communication %.0f ms, together %.0f ms: %.0f %% hidden\n", 1e3 * compute_s,
                1e3 * slept, 1e3 * step, 100 * hidden);
    EXPECT_GT(hidden, 0.25);
  });
}

}  // namespace
}  // namespace hearth::train
