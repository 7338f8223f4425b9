// SPDX-License-Identifier: Apache-2.0
#include "plan/activations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "support/errors.h"

namespace hearth::plan {
namespace {

using Levels = std::vector<Recompute>;
using enum Recompute;

ModelShape small_shape(int64_t layers, NormType norm_type = NormType::kRmsNorm) {
  config::Model m;
  m.dim = 24, m.n_layers = layers, m.n_heads = 4, m.n_kv_heads = 2, m.hidden_dim = 36, m.norm_type = norm_type;
  return model_shape(m, 258);
}

int64_t bytes_of(const models::Buffer& b) {
  int64_t bytes = dtype_size(b.dtype);
  for (const int64_t size : b.shape) bytes *= size;
  return bytes;
}

// The shape of a buffer of this name; empty: the plan has none.
std::vector<int64_t> shape_of(const ActivationPlan& plan, std::string_view name) {
  for (const models::Buffer& buffer : plan.program.buffers())
    if (buffer.name == name) return buffer.shape;
  return {};
}

// Runs the steps on the plan's bytes. Every step marks the bytes that it writes, and checks that the bytes it reads
// still have their writer's mark. The test uses nothing of how the plan was made.
void run_on_bytes(const ActivationPlan& plan) {
  std::vector<int32_t> memory(static_cast<size_t>(plan.total_bytes / 4));  // who wrote these four bytes last
  std::map<int32_t, int32_t> stamps;                                       // of each buffer
  int32_t now = 0;
  for (const models::Step& step : plan.program.steps()) {
    ++now;
    const auto range = [&](int32_t buffer) {
      const auto i = static_cast<size_t>(buffer);
      const int64_t offset = plan.places[i].offset_bytes, bytes = bytes_of(plan.program.buffers()[i]);
      EXPECT_EQ(offset % 64, 0);
      EXPECT_LE(offset + bytes, plan.total_bytes);
      return std::span(memory).subspan(static_cast<size_t>(offset / 4), static_cast<size_t>(bytes / 4));
    };
    std::set<int32_t> reads, writes;  // of what is there before the step; of all its ops
    for (const models::Op& op : plan.program.ops_of(step)) {
      for (const models::Ref& ref : models::reads_of(op))
        if (!writes.contains(ref.buffer)) reads.insert(ref.buffer);
      for (const models::Ref& ref : models::writes_of(op)) writes.insert(ref.buffer);
    }
    for (const int32_t buffer : writes) std::fill_n(range(buffer).begin(), range(buffer).size(), now);
    // After the writes: what a step reads must not be overwritten by what it writes, unless it is the same buffer.
    for (const int32_t buffer : reads) {
      const int32_t expected = writes.contains(buffer) ? now : stamps.at(buffer);
      for (const int32_t stamp : range(buffer))
        ASSERT_EQ(stamp, expected) << step.full_name() << " reads "
                                   << plan.program.buffers()[static_cast<size_t>(buffer)].name;
    }
    for (const int32_t buffer : writes) stamps[buffer] = now;
  }
}

TEST(Activations, NoOpFindsWhatItReadsOverwritten) {
  for (const int64_t layers : {1, 2, 5}) {
    for (const NormType norm : {NormType::kRmsNorm, NormType::kLayerNorm}) {
      const ModelShape shape = small_shape(layers, norm);
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        run_on_bytes(activation_plan(shape, 2, 7, dtype, 5, Backward::kNone));
        for (const Recompute level : {kNone, kNorms, kAttention, kBlock}) {
          Levels levels(static_cast<size_t>(layers), level);
          run_on_bytes(activation_plan(shape, 2, 7, dtype, 5, Backward::kWhole, levels));
          levels.front() = kNone, levels.back() = kBlock;
          run_on_bytes(activation_plan(shape, 2, 7, dtype, 5, Backward::kWhole, levels));
        }
      }
    }
  }
}

TEST(Activations, OfAPartOfAModelAreNotOverwrittenEitherAndTheirRowsAreShared) {
  for (const int64_t layers : {1, 3}) {
    const ModelShape part = model_part(small_shape(layers), {1, 2});
    run_on_bytes(activation_plan(part, 2, 7, DType::kFloat32, 5, Backward::kNone));
    for (const Recompute level : {kNone, kNorms, kAttention, kBlock}) {
      const Levels levels(static_cast<size_t>(layers), level);
      const ActivationPlan plan = activation_plan(part, 2, 7, DType::kFloat32, 5, Backward::kWhole, levels);
      run_on_bytes(plan);
      EXPECT_EQ(shape_of(plan, "stream"), (std::vector<int64_t>{7, 24}));
      EXPECT_EQ(shape_of(plan, "gathered_rows"), (std::vector<int64_t>{14, 24}));
      EXPECT_EQ(shape_of(plan, "qkv"), (std::vector<int64_t>{14, 24}));
    }
  }
}

ModelShape latent_shape(int64_t of_queries) {
  config::Model m;
  m.dim = 24, m.n_layers = 2, m.n_heads = 4, m.hidden_dim = 36, m.q_lora_rank = of_queries, m.kv_lora_rank = 10;
  m.qk_nope_head_dim = 6, m.qk_rope_head_dim = 2, m.v_head_dim = 5;
  return model_shape(m, 258);
}

TEST(Activations, OfLatentAttentionAreNotOverwrittenEither) {
  for (const int64_t of_queries : {0, 12}) {
    for (const ModelShape& shape : {latent_shape(of_queries), model_part(latent_shape(of_queries), {1, 2})}) {
      for (const Backward backward : {Backward::kWhole, Backward::kInHalves}) {
        for (const Recompute level : {kNone, kNorms, kAttention, kBlock})
          run_on_bytes(activation_plan(shape, 2, 7, DType::kFloat32, 5, backward, Levels(2, level)));
      }
    }
  }
}

// A buffer lives from its write to its last read: what another step wrote before is not alive in between.
TEST(Activations, PartsOfABufferAreWrittenInOneStep) {
  for (const bool in_one : {true, false}) {
    models::Program p(small_shape(1), {1, 4, DType::kFloat32, 4}, Backward::kNone);
    const models::Ref from = p.add_buffer("from", 0, {4, 2}), both = p.add_buffer("both", 0, {4, 4});
    p.begin(models::Pass::kForward, models::Section::kForward);
    p.step("first");
    p.add(models::Receive{from});
    p.add(models::Copy{both.part(0, 2), from});
    if (!in_one) p.step("second");
    p.add(models::Copy{both.part(2, 2), from});
    p.step("last");
    p.add(models::Copy{from, both.part(0, 2)});
    const auto plan = [&] { activation_plan(p, 0); };
    if (in_one)
      EXPECT_NO_THROW(plan());
    else
      EXPECT_THAT(test::error_of(plan).message(),
                  testing::HasSubstr("\"layer 0: second\" writes a part of both, and a step before it another one"));
  }
}

// Four ranks share sequences of 8 positions: a rank has 2 x 2 of them, and all 16 of one query head. Three of four
// ranks have the keys and values of another rank's head, too.
TEST(Activations, WhereRanksShareSequencesAttentionHasAllPositionsOfSomeHeads) {
  const ModelShape whole = small_shape(3);
  const int64_t context = whole.H, K = whole.K;
  ASSERT_GT(whole.H, whole.G);
  const ModelShape part = model_part(whole, {}, context);
  run_on_bytes(activation_plan(part, 2, 8, DType::kFloat32, 5, Backward::kNone));
  for (const Recompute level : {kNone, kNorms, kAttention, kBlock}) {
    const ActivationPlan plan = activation_plan(part, 2, 8, DType::kFloat32, 5, Backward::kWhole, Levels(3, level));
    run_on_bytes(plan);
    EXPECT_EQ(shape_of(plan, "stream"), (std::vector<int64_t>{16 / context, whole.D}));
    EXPECT_EQ(shape_of(plan, "qkv"), (std::vector<int64_t>{16, 3 * K}));
    EXPECT_EQ(shape_of(plan, "log_sum_exp"), (std::vector<int64_t>{2, 1, 8}));
    EXPECT_EQ(shape_of(plan, "attention"), (std::vector<int64_t>{16 / context, whole.H * K}));
  }
}

// The arena is as large as what is alive at the worst moment: holes between buffers cost 3.1 % of it at most here.
TEST(Activations, TheArenaIsHardlyLargerThanThePeak) {
  config::Model m;  // 1B
  m.dim = 2048, m.n_layers = 16, m.n_heads = 32, m.n_kv_heads = 8, m.ffn_dim_multiplier = 1.3, m.multiple_of = 1024;
  for (const int64_t vocab : {256, 128256}) {
    const ModelShape shape = model_shape(m, vocab);
    for (const Recompute level : {kNone, kNorms, kAttention, kBlock}) {
      const Levels levels(16, level);
      const ActivationPlan plan = activation_plan(shape, 1, 8192, DType::kBFloat16, 1024, Backward::kWhole, levels);
      EXPECT_GE(plan.total_bytes, plan.peak_bytes);
      EXPECT_LE(static_cast<double>(plan.total_bytes), 1.035 * static_cast<double>(plan.peak_bytes))
          << static_cast<int>(level) << " " << plan.peak_step;
    }
  }
}

TEST(Activations, EveryLevelNeedsLessThanTheOneBefore) {
  const ModelShape shape = small_shape(8);
  const auto total = [&](Recompute level) {
    return activation_plan(shape, 2, 64, DType::kFloat32, 16, Backward::kWhole, Levels(8, level)).total_bytes;
  };
  EXPECT_LT(total(kNorms), total(kNone));
  EXPECT_LT(total(kAttention), total(kNorms));
  EXPECT_LT(total(kBlock), total(kAttention));
  const int64_t T = 128, D = 24, F = 36, qkv = 48;
  // By hand, at the beginning of the last layer's backward: with kBlock eight inputs of blocks and the last one's
  // output, its gradient, and what one block computes again; with kNone everything of eight blocks.
  EXPECT_GE(total(kBlock), 4 * T * (8 * D + D + qkv + D + D + D + 2 * F));
  EXPECT_GE(total(kNone), 4 * T * (9 * D + 8 * (D + qkv + D + D + D + 2 * F + F)));
  EXPECT_LT(activation_plan(shape, 2, 64, DType::kFloat32, 16, Backward::kNone).total_bytes, total(kBlock));
}

TEST(Activations, OnlyWhatIsNeededWithoutBackwardHasMemory) {
  const ActivationPlan plan = activation_plan(small_shape(3), 2, 7, DType::kFloat32, 5, Backward::kNone);
  EXPECT_EQ(shape_of(plan, "stream_gradient"), std::vector<int64_t>());
  EXPECT_EQ(shape_of(plan, "logits"), (std::vector<int64_t>{5, 258}));
  EXPECT_EQ(std::count_if(plan.program.buffers().begin(), plan.program.buffers().end(),
                          [](const models::Buffer& buffer) { return buffer.name == "stream"; }),
            4);
}

// The most that 1 GiB of logits holds, in powers of two from 1024 to 8192.
TEST(Activations, AGpuTakesLargerChunksOfLogits) {
  const auto chunk = [](int64_t vocabulary, DType dtype, bool on_gpu, int64_t setting = -1) {
    ModelShape shape = small_shape(1);
    shape.V = vocabulary;
    return loss_chunk(setting, shape, dtype, on_gpu);
  };
  using enum DType;
  EXPECT_EQ(chunk(128256, kBFloat16, true), 4096);
  EXPECT_EQ(chunk(131072, kBFloat16, true), 4096) << "1 GiB is not too much";
  EXPECT_EQ(chunk(131073, kBFloat16, true), 2048);
  EXPECT_EQ(chunk(128256, kFloat32, true), 2048);
  EXPECT_EQ(chunk(32000, kBFloat16, true), 8192);
  EXPECT_EQ(chunk(258, kBFloat16, true), 8192);
  EXPECT_EQ(chunk(1 << 20, kFloat32, true), 1024);
  EXPECT_EQ(chunk(258, kBFloat16, false), 1024);
  EXPECT_EQ(chunk(128256, kBFloat16, true, 48), 48) << "a given number is taken as it is";
  EXPECT_EQ(chunk(128256, kFloat32, false, 20000), 20000);
}

// Two ranks of 131,073 ids have 65,537 and 65,536, on both sides of a border of the rule.
TEST(Activations, TensorParallelRanksTakeEqualChunksOfLogits) {
  ModelShape whole = small_shape(1);
  whole.V = 131073;
  for (const int64_t rank : {0, 1}) {
    const ModelShape part = model_part(whole, {rank, 2}, 1);
    EXPECT_EQ(part.V, 65537 - rank);
    EXPECT_EQ(loss_chunk(-1, part, DType::kBFloat16, true), 4096);
  }
  whole.V = 131072;
  EXPECT_EQ(loss_chunk(-1, model_part(whole, {0, 2}, 1), DType::kBFloat16, true), 8192);
}

TEST(Activations, PositionsThatCountHaveAPlaceOfTheirOwnWhereOthersDoNotCount) {
  ModelShape shape = small_shape(2);
  EXPECT_EQ(shape_of(activation_plan(shape, 2, 7, DType::kFloat32, 5, Backward::kWhole), "head_input"),
            std::vector<int64_t>());
  shape.sparse_labels = true;
  const ActivationPlan plan = activation_plan(shape, 2, 7, DType::kFloat32, 5, Backward::kWhole);
  for (const char* name : {"head_input", "head_gradient"})
    EXPECT_EQ(shape_of(plan, name), (std::vector<int64_t>{5, 24}));
  run_on_bytes(plan);
}

}  // namespace
}  // namespace hearth::plan
