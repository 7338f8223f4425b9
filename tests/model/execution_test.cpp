// SPDX-License-Identifier: Apache-2.0
// Every op reads and writes what its description says (models/ops.h), because the planner gives the memory of what is
// not read, or not written any more, to other buffers. Each op runs twice: on what came before it, and on the same with
// everything destroyed that it does not read.
#include <ATen/ops/randint.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <utility>

#include "comm/mesh_groups.h"
#include "comm/ranks.h"
#include "config/families.h"
#include "local_weights.h"
#include "model/execution.h"
#include "models/stage_program.h"
#include "ops/rope.h"

namespace hearth::model {
namespace {

using models::Backward;
using models::Ref;
using models::Section;
using plan::Recompute;

constexpr int64_t kExecutedB = 2, kExecutedS = 24, kExecutedChunk = 10;

// A plan in which no two buffers share memory.
plan::ActivationPlan spread_plan(models::Program program) {
  plan::ActivationPlan plan = plan::activation_plan(std::move(program));
  plan.total_bytes = 0;
  for (plan::BufferPlace& place : plan.places) {
    place.offset_bytes = plan.total_bytes;
    plan.total_bytes += place.size_bytes;
  }
  plan.shared_bytes = plan.total_bytes;
  return plan;
}

// A rank that computes a training step op by op.
class OpByOp {
 public:
  OpByOp(const plan::ModelShape& part, const plan::ParameterPlan& parameters, DType dtype, Backward backward,
         Recompute level, const ComputeOptions& options)
      : parameters_(parameters),
        weights_(parameters, dtype, 5),
        plan_(spread_plan(models::stage_program(part, {kExecutedB, kExecutedS, dtype, kExecutedChunk}, backward,
                                                std::vector<Recompute>(static_cast<size_t>(part.L()), level)))),
        arena_(ops::zeros({plan_.total_bytes}, DType::kUInt8)),
        a_(plan_, options,
           {.shared = arena_, .slots = {}, .ropes = model_ropes(part, kExecutedS, kExecutedS, dtype, at::kCPU)}) {
    weights_.vary_vectors(parameters);
    at::manual_seed(9);
    const int64_t T = a_.tokens();
    batch_.tokens_T = at::randint(100, {T}, at::kInt);
    batch_.labels_T = at::randint(100, {T}, at::kInt);
    if (part.sparse_labels)
      batch_.counted_N = ops::from_int64(std::vector<int64_t>{0, 3, 4, 5, 9, 11, 17, 20, 21, 30, 31, 40, 41}, at::kCPU);
    inputs_.batch = &batch_;
    inputs_.sums_2 = ops::zeros({2}, DType::kFloat64);
    inputs_.scale.scale_1 = ops::from_float64(std::vector<double>{0.01}, at::kCPU);
    inputs_.mask.causal = part.causal;
    inputs_.mask.queries = a_.queries();
    if (part.document_scope)
      inputs_.mask.document_starts_N = ops::from_int32(std::vector<int32_t>{0, 9, kExecutedS}, at::kCPU);
  }

  void run() {
    const int64_t L = a_.shape().L();
    const UnitTensors first = of_unit(0), last = of_unit(std::ssize(parameters_.units) - 1);
    const UnitTensors& output = a_.shape().tied ? first : last;
    run(Section::kEmbedding, 0, first);
    for (int64_t layer = 0; layer < L; ++layer) run(Section::kForward, layer, of_layer(layer));
    run(Section::kFinalNorm, 0, last);
    run(Section::kLoss, 0, output);
    run(Section::kLossAndGradient, 0, output);
    run(Section::kFinalNormGradient, 0, last);
    for (int64_t layer = L - 1; layer >= 0; --layer) run(Section::kBackward, layer, of_layer(layer));
    run(Section::kEmbeddingGradient, 0, first);
    for (int64_t layer = L - 1; layer >= 0; --layer) run(Section::kWeightGradients, layer, of_layer(layer));
  }

  int64_t num_ops = 0;

 private:
  UnitTensors of_unit(int64_t unit) { return {parameters_, unit, weights_.gather(unit), {weights_.gradient(unit)}}; }
  UnitTensors of_layer(int64_t layer) { return with_gradients(layer_weights(parameters_, weights_, layer), weights_); }

  void run(Section section, int64_t layer, const UnitTensors& unit) {
    a_.use_layer(layer);
    for (const models::Op& op : a_.program().ops_of(section, layer)) {
      ++num_ops;
      check(op, unit);
      if (testing::Test::HasFailure()) return;
    }
  }

  void check(const models::Op& op, const UnitTensors& unit) {
    SCOPED_TRACE(fmt::format("op {} of kind {}", num_ops, op.index()));
    std::set<int32_t> reads, writes;
    for (const Ref& ref : models::reads_of(op)) reads.insert(ref.buffer);
    for (const Ref& ref : models::writes_of(op)) writes.insert(ref.buffer);
    const at::Tensor before = arena_.clone(), sums = inputs_.sums_2.clone();
    const std::vector<at::Tensor> gradients = gradients_of(unit);
    execute(a_, std::span(&op, 1), unit, inputs_);
    const at::Tensor normal = arena_.clone();
    const std::vector<at::Tensor> normal_gradients = gradients_of(unit);

    ops::copy_(arena_, before);
    set_gradients(unit, gradients);
    ops::copy_(inputs_.sums_2, sums);
    for (size_t i = 0; i < plan_.places.size(); ++i)
      if (!reads.contains(static_cast<int32_t>(i))) bytes(arena_, i).fill_(0xff);  // NaN in every type
    execute(a_, std::span(&op, 1), unit, inputs_);
    for (size_t i = 0; i < normal_gradients.size(); ++i) EXPECT_TRUE(gradients_of(unit)[i].equal(normal_gradients[i]));
    for (size_t i = 0; i < plan_.places.size(); ++i) {
      const std::string_view name = a_.program().buffers()[i].name;
      const bool is_read = reads.contains(static_cast<int32_t>(i));
      if (!writes.contains(static_cast<int32_t>(i))) {
        EXPECT_TRUE(bytes(normal, i).equal(bytes(before, i))) << "writes " << name;
        EXPECT_TRUE(is_read || bytes(arena_, i).eq(0xff).all().item<bool>()) << "writes " << name;
      }
    }
    // Scratch of the head has more rows than an op may fill.
    if (!std::holds_alternative<models::Loss>(op)) {
      for (const Ref& ref : models::writes_of(op)) {
        // What a sequence's ranks exchange has room for queries, keys and values, and may be queries alone.
        if (a_.program().buffer(ref).name == "exchange") continue;
        const at::Tensor destroyed = a_(ref).clone();
        const at::Tensor whole = arena_.clone();
        ops::copy_(arena_, normal);
        EXPECT_TRUE(destroyed.equal(a_(ref))) << a_.program().buffer(ref).name << " depends on what is not read";
        EXPECT_FALSE(a_(ref).isnan().any().item<bool>()) << a_.program().buffer(ref).name << " is not written whole";
        ops::copy_(arena_, whole);
      }
    }
    ops::copy_(arena_, normal);
    set_gradients(unit, normal_gradients);
  }

  // Copies.
  static std::vector<at::Tensor> gradients_of(const UnitTensors& unit) {
    std::vector<at::Tensor> copies = {unit.gradients.whole.clone()};
    if (unit.expert_gradients.whole.defined()) copies.push_back(unit.expert_gradients.whole.clone());
    return copies;
  }
  static void set_gradients(const UnitTensors& unit, const std::vector<at::Tensor>& copies) {
    ops::copy_(unit.gradients.whole, copies[0]);
    if (unit.expert_gradients.whole.defined()) ops::copy_(unit.expert_gradients.whole, copies[1]);
  }

  at::Tensor bytes(const at::Tensor& arena, size_t buffer) const {
    return arena.narrow(0, plan_.places[buffer].offset_bytes, plan_.places[buffer].size_bytes);
  }

  const plan::ParameterPlan& parameters_;
  test::LocalWeights weights_;
  const plan::ActivationPlan plan_;
  const at::Tensor arena_;
  Activations a_;
  MicroBatch batch_{};
  Inputs inputs_;
};

struct ExecutedModel {
  const char* name;
  bool causal = true, sparse = false, documents = false, tied = false, biases = false, normed_heads = false;
  bool like_olmo2 = false, like_gemma = false, ungated = false, like_modernbert = false, experts = false,
       like_glm = false, like_gpt_oss = false;
  int64_t window = 0;
  int64_t latent = -1;  // of queries, in latent attention; -1: no latent attention
};
const ExecutedModel kExecuted[] = {
    {.name = "causal"},
    {.name = "masked", .causal = false, .sparse = true},
    {.name = "within documents, tied", .documents = true, .tied = true},
    {.name = "wide heads with norms and biases", .biases = true, .normed_heads = true},
    {.name = "OLMo 2's norms", .like_olmo2 = true},
    {.name = "Gemma's norms, all biases, multipliers", .biases = true, .like_gemma = true},
    {.name = "OLMo 2's with one added, no gate", .like_olmo2 = true, .ungated = true},
    {.name = "a window in one layer", .window = 3},
    {.name = "ModernBERT's ends", .causal = false, .sparse = true, .like_modernbert = true},
    {.name = "ModernBERT's ends, tied", .causal = false, .tied = true, .like_modernbert = true},
    {.name = "experts", .like_olmo2 = true, .experts = true},
    {.name = "GLM-4.5's experts", .biases = true, .experts = true, .like_glm = true},
    {.name = "latent attention", .documents = true, .latent = 20},
    {.name = "latent attention without a latent of queries", .latent = 0},
    {.name = "gpt-oss", .experts = true, .like_gpt_oss = true, .window = 3}};

plan::ModelShape executed_shape(const ExecutedModel& c) {
  config::Model m;
  m.dim = 32, m.n_layers = 2, m.n_heads = 4, m.n_kv_heads = 2, m.hidden_dim = 48;
  m.enable_weight_tying = c.tied, m.qkv_bias = c.biases, m.qk_norm = c.normed_heads;
  if (c.normed_heads) m.head_dim = 16;
  if (c.like_olmo2) config::apply(config::find_family("olmo2"), m);
  if (c.like_modernbert) config::apply(config::find_family("modernbert"), m);
  m.sliding_window = c.window;
  m.full_attention_interval = c.window > 0 ? 2 : 0;
  if (c.like_gemma) {
    m.norm_type = config::NormType::kRmsNorm1p, m.norm_placement = config::NormPlacement::kBoth;
    m.activation = config::Activation::kGeluTanh;
    m.output_bias = m.ffn_bias = true;
    m.embedding_multiplier = 5, m.residual_multiplier = 0.3, m.attention_multiplier = 0.1, m.logits_divisor = 3;
  }
  if (c.ungated) {
    m.norm_type = config::NormType::kRmsNorm1p, m.activation = config::Activation::kRelu2, m.gated_ffn = false;
    m.ffn_bias = true;
  }
  if (c.experts) {
    m.num_experts = 6, m.moe_top_k = 2, m.moe_hidden_dim = 24, m.n_dense_layers = 1, m.route_norm = true;
    m.moe_aux_loss_coeff = 0.1, m.moe_z_loss_coeff = c.like_glm ? 0 : 0.01;
  }
  if (c.like_gpt_oss) config::apply(config::find_family("gpt_oss"), m);
  if (c.like_glm) {
    config::apply(config::find_family("glm4_moe"), m);
    m.attention_gate = true;
    m.num_shared_experts = 2, m.num_expert_groups = 3, m.num_limited_groups = 2;
  }
  if (c.latent >= 0) {
    m.n_kv_heads = 0, m.kv_lora_rank = 14, m.q_lora_rank = c.latent;
    m.qk_nope_head_dim = 10, m.qk_rope_head_dim = 6, m.v_head_dim = 9;
  }
  plan::ModelShape shape = plan::model_shape(m, 100);
  shape.causal = c.causal, shape.sparse_labels = c.sparse, shape.document_scope = c.documents;
  return shape;
}

constexpr Recompute kExecutedLevels[] = {Recompute::kNone, Recompute::kNorms, Recompute::kAttention, Recompute::kBlock};

TEST(Execution, EveryOpReadsAndWritesWhatItSays) {
  for (const ExecutedModel& c : kExecuted) {
    const plan::ModelShape shape = executed_shape(c);
    const plan::ParameterPlan parameters = plan::parameter_plan(shape);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const Recompute level : kExecutedLevels) {
        const bool in_halves = level == Recompute::kNorms || level == Recompute::kBlock;
        SCOPED_TRACE(fmt::format("{}, {}, level {}", c.name, dtype_name(dtype), static_cast<int>(level)));
        OpByOp step(shape, parameters, dtype, in_halves ? Backward::kInHalves : Backward::kWhole, level,
                    {.dtype = dtype});
        step.run();
        EXPECT_GE(step.num_ops, 50);
        if (HasFailure()) return;
      }
    }
  }
}

// transformers' Gemma has the multiplier in the type of its weights; Granite's multiplies as it is.
TEST(Execution, AMultiplierOfEmbeddingsIsRoundedWhereTheModelSaysSo) {
  config::Model m;
  m.dim = 32, m.n_layers = 1, m.n_heads = 4, m.n_kv_heads = 2, m.hidden_dim = 48;
  m.embedding_multiplier = std::sqrt(1152.0);
  for (const bool rounds : {false, true}) {
    m.round_embedding_multiplier = rounds;
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const models::Program program =
          models::stage_program(plan::model_shape(m, 100), {1, 4, dtype, 4}, Backward::kNone, {});
      const models::Op& last = program.ops_of(Section::kEmbedding).back();
      ASSERT_TRUE(std::holds_alternative<models::Scale>(last));
      const double rounded = at::scalar_tensor(m.embedding_multiplier, at::kBFloat16).item<double>();
      EXPECT_EQ(std::get<models::Scale>(last).factor,
                rounds && dtype == DType::kBFloat16 ? rounded : m.embedding_multiplier);
    }
  }
}

// Ranks that share layers, or sequences by heads, or by heads and keys; or that have different experts.
TEST(Execution, EveryOpOfSeveralRanksReadsAndWritesWhatItSays) {
  struct Layout {
    int64_t tensor, context, experts = 1;
  };
  for (const Layout layout : {Layout{2, 1}, Layout{1, 2}, Layout{1, 8}, Layout{2, 1, 2}, Layout{1, 2, 2}}) {
    for (const ExecutedModel& c : {kExecuted[0], kExecuted[3], kExecuted[4], kExecuted[5], kExecuted[6], kExecuted[7],
                                   kExecuted[9], kExecuted[10], kExecuted[12], kExecuted[13], kExecuted[14]}) {
      if (layout.experts > 1 && !c.experts) continue;
      const plan::ModelShape whole = executed_shape(c);
      comm::run_ranks(layout.tensor * layout.context, 60, [&](comm::Group& world) {
        const plan::ModelShape part =
            plan::model_part(whole, {layout.tensor > 1 ? world.rank() : 0, layout.tensor}, layout.context,
                             {layout.experts > 1 ? world.rank() : 0, layout.experts});
        const plan::ParameterPlan parameters = plan::parameter_plan(whole, part.tensor, {}, part.expert_part);
        ComputeOptions options{.dtype = DType::kFloat32};
        const comm::MeshGroups groups(world, {.cp = layout.context, .tp = layout.tensor, .ep = layout.experts},
                                      {.tied = whole.tied, .key_ranks = part.key_ranks});
        options.tensor = groups.tensor();
        options.experts = groups.experts();
        options.context = {groups.heads(), groups.keys()};
        for (const Backward backward : {Backward::kWhole, Backward::kInHalves}) {
          OpByOp step(part, parameters, DType::kFloat32, backward, Recompute::kAttention, options);
          step.run();
        }
      });
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace hearth::model
