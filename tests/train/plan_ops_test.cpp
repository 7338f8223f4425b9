// plan/micro_batch_ops.h lists the ops of model/. This test records a training step: every kernel call, with the
// buffers that it reads and writes, and the shapes of its products. These must be the plan's list, and its FLOPs.
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/random.h"
#include "comm/group.h"
#include "ops/runtime.h"
#include "optim/optimizer.h"
#include "plan/micro_batch_ops.h"
#include "plan/run_shape.h"
#include "recorded_ops.h"
#include "run/state.h"
#include "support/gpu.h"
#include "train/step.h"

namespace hearth::train {
namespace {

using Levels = std::vector<plan::Recompute>;
using enum plan::Recompute;
constexpr int64_t kOpsB = 2, kOpsS = 12, kOpsT = kOpsB * kOpsS, kChunk = 10;

struct OpsCase {
  const char* name;
  bool causal = true, sparse = false, documents = false, tied = false, every_label = false, graph = false;
  bool biases = false, normed_heads = false;
};
const OpsCase kCases[] = {
    {.name = "causal", .every_label = true},
    {.name = "spikes, of which BOS is not predicted"},
    {.name = "weighted labels", .sparse = true},
    {.name = "masked", .causal = false, .sparse = true},
    {.name = "within documents, tied", .documents = true, .tied = true, .every_label = true},
    {.name = "recorded", .graph = true},
    {.name = "biases", .biases = true},
    {.name = "wide heads with norms and biases", .every_label = true, .biases = true, .normed_heads = true},
};

// Some positions have no label, unless every_label.
data::Batch batch_of(const OpsCase& c, int64_t V) {
  data::Batch batch;
  batch.B = kOpsB;
  batch.S = kOpsS;
  const RandomKey key = random_key(3, "plan ops");
  const auto token = [&](int64_t i) {
    return static_cast<int32_t>(random_u64(key, static_cast<uint64_t>(i)) % static_cast<uint64_t>(V));
  };
  for (int64_t i = 0; i < kOpsT; ++i) {
    batch.tokens.push_back(token(i));
    batch.labels.push_back(c.every_label || i % 3 != 0 ? token(kOpsT + i) : data::kIgnore);
  }
  batch.document_starts = {0, 7, kOpsS, kOpsS + 5};
  return batch;
}

plan::ModelShape shape_of(const OpsCase& c) {
  config::Model m;
  m.dim = 32, m.n_layers = 4, m.n_heads = 4, m.n_kv_heads = 2, m.hidden_dim = 48;
  m.enable_weight_tying = c.tied;
  m.qkv_bias = c.biases, m.qk_norm = c.normed_heads;
  if (c.normed_heads) m.head_dim = 16;
  plan::ModelShape shape = plan::model_shape(m, 80);
  shape.causal = c.causal;
  shape.sparse_labels = c.sparse;
  shape.document_scope = c.documents;
  if (c.sparse) shape.counted = 2.0 / 3;
  return shape;
}

enum class Pass { kStep, kLoss };

// The calls of a training step, or of a measurement of the loss.
Recorder recorded(const OpsCase& c, plan::Precision precision, const Levels& levels, bool float8, Pass pass) {
  const c10::InferenceMode no_gradients;
  ops::prepare_thread(1);  // the model is too small for more threads
  Recorder result;
  recorder = &result;
  const bool training = pass == Pass::kStep;
  const plan::ModelShape shape = shape_of(c);
  const plan::ParameterPlan parameters = plan::parameter_plan(shape);
  const auto group = comm::single();
  parallel::ShardedWeights weights(parameters, precision, *group, parallel::ShardedWeights::Mode::kTraining);
  optim::Optimizer optimizer(config::Optimizer{}, weights);
  model::Transformer model(shape, parameters, kOpsB, kOpsS,
                           {.dtype = precision.compute,
                            .loss_chunk_tokens = kChunk,
                            .training = training,
                            .recompute = levels,
                            .float8 = float8});
  run::initialize_weights(weights, 1);
  data::StepBatch batch;
  batch.micro_batches.push_back(batch_of(c, shape.V));
  if (training) {
    TrainStep step(model, weights, optimizer, {.graph = c.graph});
    EXPECT_TRUE(step.run(batch, 1, 1e-3).result().applied);
  } else {
    EXPECT_GT(model.loss(weights, to_tensors(batch.micro_batches.front())).loss, 0);
  }
  recorder = nullptr;
  return result;
}

// The kernels of an op of the list.
std::vector<std::string> kernels_of(std::string name, const OpsCase& c) {
  if (const size_t colon = name.find(": "); colon != std::string::npos) name.erase(0, colon + 2);
  if (name.ends_with(" again")) name.erase(name.size() - 6);
  if (name == "wq wk wv") {
    std::vector<std::string> kernels = {"product"};
    if (c.biases) kernels.emplace_back("bias");
    if (c.normed_heads) kernels.insert(kernels.end(), {"copy", "norm", "norm"});
    kernels.emplace_back("rope");
    return kernels;
  }
  if (name == "the head norms' gradients") return {"norm gradient", "norm gradient"};
  if (name == "the biases' gradients") return {"bias gradient"};
  if (name == "wo" || name == "w1 w3" || name == "w2") return {"product"};
  if (name == "w2's input gradient") return {"input gradient"};
  if (name == "w2's gradient") return {"weight gradient"};
  if (name == "wo's gradients") return {"weight gradient", "input gradient"};
  if (name == "w1's and w3's gradients" || name == "wq's, wk's and wv's gradients")
    return {"input gradient", "weight gradient"};
  if (name == "attention's gradient") return {"attention gradient", "rope gradient"};
  if (name == "swiglu's gradient") return {"swiglu gradient"};
  if (name == "the norm's gradient" || name == "last norm's gradient") return {"norm gradient"};
  if (name == "last norm") return {"norm"};
  if (name == "embedding's gradient") return {"embedding gradient"};
  const bool training = name == "output, loss and their gradients";
  if (!training && name != "output and loss") return {name};  // "norm", "attention", "swiglu", "embedding"
  std::vector<std::string> kernels;
  if (c.sparse && training) kernels.emplace_back("zero");
  const int64_t positions = c.sparse ? kOpsT * 2 / 3 : kOpsT;
  for (int64_t first = 0; first < positions; first += kChunk) {
    if (c.sparse) kernels.emplace_back("gather");
    kernels.insert(kernels.end(), {"product", "loss"});
    if (training) kernels.insert(kernels.end(), {"weight gradient", "input gradient"});
    if (c.sparse && training) kernels.emplace_back("scatter");
  }
  return kernels;
}

// The places with memory.
std::set<Buffer> present(const std::vector<plan::BufferRef>& places, const plan::ActivationPlan& plan) {
  std::set<Buffer> buffers;
  for (const plan::BufferRef& place : places)
    if (plan[place.which].size_bytes > 0) buffers.emplace(place.which, place.copy);
  return buffers;
}

// A product's shape follows from the columns of its buffers. `head`: a product over some of the rows.
void expect_shapes(const Call& call, const plan::ModelShape& s, const plan::ActivationPlan& plan, bool head) {
  if (call.kernel.starts_with("attention")) {
    EXPECT_EQ(call.sizes, (std::vector<int64_t>{kOpsB, kOpsS, s.H, s.G, s.K}));
    return;
  }
  if (call.sizes.empty()) return;
  const auto width = [&](const Buffer& of) { return plan[of.first].shape.at(1); };
  const bool of_weight = call.kernel == "weight gradient";
  const int64_t rows = head ? call.sizes[of_weight ? 2 : 0] : kOpsT;
  EXPECT_LE(rows, head ? kChunk : kOpsT);
  const std::vector<int64_t> expected =
      of_weight ? std::vector<int64_t>{width(call.reads.at(0)), width(call.reads.at(1)), rows}
                : std::vector<int64_t>{rows, width(call.writes.at(0)), width(call.reads.at(0))};
  EXPECT_EQ(call.sizes, expected) << call.kernel;
}

double flops_of(const Call& call, bool causal) {
  if (call.sizes.empty()) return 0;
  const auto size = static_cast<double>(
      std::accumulate(call.sizes.begin(), call.sizes.end(), int64_t{1}, std::multiplies<int64_t>()));
  if (!call.kernel.starts_with("attention")) return 2 * size;
  // [B, S, H, G, K]: two products over S x S forward, twice as many backward; a causal mask halves them.
  const double forward = 4 * size / static_cast<double>(call.sizes[3]) * kOpsS / (causal ? 2 : 1);
  return call.kernel == "attention" ? forward : 2 * forward;
}

void expect_the_list(const OpsCase& c, plan::Precision precision, const Levels& levels, bool float8 = false,
                     Pass pass = Pass::kStep) {
  SCOPED_TRACE(fmt::format("{}, {}, recompute {}{}", c.name, dtype_name(precision.compute), plan::describe(levels),
                           float8 ? ", float8" : ""));
  const Recorder got = recorded(c, precision, levels, float8, pass);
  const plan::ModelShape shape = shape_of(c);
  size_t next = 0;
  double flops = 0;
  const auto backward = pass == Pass::kStep ? plan::Backward::kWhole : plan::Backward::kNone;
  for (const plan::Op& op : plan::micro_batch_ops(shape, levels, backward)) {
    SCOPED_TRACE(op.name);
    std::set<Buffer> reads, writes;
    for (const std::string& kernel : kernels_of(op.name, c)) {
      ASSERT_LT(next, got.calls.size()) << "the step ends before " << kernel;
      const Call& call = got.calls[next++];
      ASSERT_EQ(call.kernel, kernel) << "call " << next - 1;
      // A buffer that the op itself has written is not an input.
      for (const Buffer& buffer : call.reads)
        if (!writes.contains(buffer)) reads.insert(buffer);
      writes.insert(call.writes.begin(), call.writes.end());
      expect_shapes(call, shape, got.plan(), op.name.starts_with("output"));
      flops += flops_of(call, shape.causal);
    }
    EXPECT_EQ(reads, present(op.reads, got.plan()));
    EXPECT_EQ(writes, present(op.writes, got.plan()));
  }
  EXPECT_EQ(next, got.calls.size()) << "the step goes on with "
                                    << got.calls.at(std::min(next, got.calls.size() - 1)).kernel;
  // Forward is a third of a step's FLOPs.
  const double step =
      kOpsT * (plan::computed_flops_per_token(shape, kOpsS) + plan::recompute_flops_per_token(shape, kOpsS, levels));
  EXPECT_DOUBLE_EQ(flops, pass == Pass::kStep ? step : step / 3);
}

const std::vector<Levels> kLevels = {Levels(4, kNone), Levels(4, kNorms), Levels(4, kAttention), Levels(4, kBlock),
                                     Levels{kBlock, kAttention, kNorms, kNone}};
const plan::Precision kMixed(DType::kFloat32, DType::kBFloat16, DType::kFloat32, DType::kFloat32);

TEST(PlanOps, AStepOfTheCpuDoesWhatThePlanLists) {
  for (const OpsCase& c : kCases)
    for (const Levels& levels : kLevels)
      for (const plan::Precision& precision : {plan::Precision(DType::kFloat32), kMixed})
        expect_the_list(c, precision, levels);
}

TEST(PlanOps, ALossDoesWhatThePlanLists) {
  for (const OpsCase& c : kCases) expect_the_list(c, DType::kFloat32, kLevels.front(), /*float8=*/false, Pass::kLoss);
}

// The emulated GPU takes a hundred times as long: one case has every level, one a layer.
TEST(PlanOps, AStepOfAGpuDoesWhatThePlanLists) {
  const test::TestGpu gpu(test::GpuKind::kEmulated);
  for (const OpsCase& c : kCases) {
    expect_the_list(c, DType::kFloat32, kLevels.back());
    if (&c != &kCases[0] && &c != &kCases[3]) continue;
    expect_the_list(c, kMixed, kLevels.back());
    expect_the_list(c, kMixed, kLevels.back(), /*float8=*/true);
  }
}

}  // namespace
}  // namespace hearth::train
