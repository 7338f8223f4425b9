#include "plan/activations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>

#include "plan/micro_batch_ops.h"

namespace hearth::plan {
namespace {

using Levels = std::vector<Recompute>;
using enum Recompute;

ModelShape small_shape(int64_t layers, NormType norm_type = NormType::kRmsNorm) {
  config::Model m;
  m.dim = 24, m.n_layers = layers, m.n_heads = 4, m.n_kv_heads = 2, m.hidden_dim = 36, m.norm_type = norm_type;
  return model_shape(m, 258);
}

int64_t bytes_of(const ActivationBuffer& b) {
  int64_t bytes = dtype_size(b.dtype);
  for (const int64_t size : b.shape) bytes *= size;
  return bytes;
}

// Runs the ops on the plan's bytes. Every op marks the bytes that it writes, and checks that the bytes it reads still
// have their writer's mark. The test uses nothing of how the plan was made.
void run_on_bytes(const ActivationPlan& plan, const ModelShape& shape) {
  std::vector<int32_t> memory(static_cast<size_t>(plan.total_bytes / 4));  // who wrote these four bytes last
  std::map<std::pair<Activation, int64_t>, int32_t> stamps;
  int32_t now = 0;
  for (const Op& op : micro_batch_ops(shape, plan.recompute, plan.backward)) {
    ++now;
    const auto range = [&](const BufferRef& p) {
      const ActivationBuffer& b = plan[p.which];
      const int64_t offset = b.offset_bytes.at(static_cast<size_t>(p.copy));
      EXPECT_EQ(offset % 64, 0);
      EXPECT_LE(offset + bytes_of(b), plan.total_bytes);
      return std::span(memory).subspan(static_cast<size_t>(offset / 4), static_cast<size_t>(bytes_of(b) / 4));
    };
    for (const BufferRef& p : op.writes) std::fill_n(range(p).begin(), range(p).size(), now);
    // After the writes: what an op reads must not be overwritten by what it writes, but where it is the same buffer.
    for (const BufferRef& p : op.reads) {
      const bool also_written = std::any_of(op.writes.begin(), op.writes.end(),
                                            [&](const BufferRef& w) { return w.which == p.which && w.copy == p.copy; });
      const int32_t expected = also_written ? now : stamps.at({p.which, p.copy});
      for (const int32_t stamp : range(p)) ASSERT_EQ(stamp, expected) << op.name << " reads " << plan[p.which].name;
    }
    for (const BufferRef& p : op.writes) stamps[{p.which, p.copy}] = now;
  }
}

TEST(Activations, NoOpFindsWhatItReadsOverwritten) {
  for (const int64_t layers : {1, 2, 5}) {
    for (const NormType norm : {NormType::kRmsNorm, NormType::kLayerNorm}) {
      const ModelShape shape = small_shape(layers, norm);
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        run_on_bytes(activation_plan(shape, 2, 7, dtype, 5, Backward::kNone), shape);
        for (const Recompute level : {kNone, kNorms, kAttention, kBlock}) {
          Levels levels(static_cast<size_t>(layers), level);
          run_on_bytes(activation_plan(shape, 2, 7, dtype, 5, Backward::kWhole, levels), shape);
          levels.front() = kNone, levels.back() = kBlock;
          run_on_bytes(activation_plan(shape, 2, 7, dtype, 5, Backward::kWhole, levels), shape);
        }
      }
    }
  }
}

TEST(Activations, OfAPartOfAModelAreNotOverwrittenEitherAndTheirRowsAreShared) {
  for (const int64_t layers : {1, 3}) {
    const ModelShape part = model_part(small_shape(layers), {1, 2});
    run_on_bytes(activation_plan(part, 2, 7, DType::kFloat32, 5, Backward::kNone), part);
    for (const Recompute level : {kNone, kNorms, kAttention, kBlock}) {
      const Levels levels(static_cast<size_t>(layers), level);
      const ActivationPlan plan = activation_plan(part, 2, 7, DType::kFloat32, 5, Backward::kWhole, levels);
      run_on_bytes(plan, part);
      EXPECT_EQ(plan[Activation::kStream].shape, (std::vector<int64_t>{7, 24}));
      EXPECT_EQ(plan[Activation::kGatheredRows].shape, (std::vector<int64_t>{14, 24}));
      EXPECT_EQ(plan[Activation::kQkv].shape, (std::vector<int64_t>{14, 24}));
    }
  }
}

// Four ranks share sequences of 8 positions: a rank has 2 x 2 of them, and all 16 of one query head. Three of four
// ranks have the keys and values of another rank's head, too.
TEST(Activations, WhereRanksShareSequencesAttentionHasAllPositionsOfSomeHeads) {
  const ModelShape whole = small_shape(3);
  const int64_t context = whole.H, K = whole.K;
  ASSERT_GT(whole.H, whole.G);
  const ModelShape part = model_part(whole, {}, context);
  run_on_bytes(activation_plan(part, 2, 8, DType::kFloat32, 5, Backward::kNone), part);
  for (const Recompute level : {kNone, kNorms, kAttention, kBlock}) {
    const ActivationPlan plan = activation_plan(part, 2, 8, DType::kFloat32, 5, Backward::kWhole, Levels(3, level));
    run_on_bytes(plan, part);
    EXPECT_EQ(plan[Activation::kStream].shape, (std::vector<int64_t>{16 / context, whole.D}));
    EXPECT_EQ(plan[Activation::kQkv].shape, (std::vector<int64_t>{16, 3 * K}));
    EXPECT_EQ(plan[Activation::kLogSumExp].shape, (std::vector<int64_t>{2, 1, 8}));
    EXPECT_EQ(plan[Activation::kAttention].shape, (std::vector<int64_t>{16 / context, whole.H * K}));
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
          << static_cast<int>(level) << " " << plan.peak_op;
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
  EXPECT_EQ(plan[Activation::kStreamGradient].shape, (std::vector<int64_t>{0, 24}));
  EXPECT_EQ(plan[Activation::kLogits].shape, (std::vector<int64_t>{5, 258}));
  EXPECT_EQ(plan[Activation::kStream].offset_bytes.size(), 4U);
}

TEST(Activations, PositionsThatCountHaveAPlaceOfTheirOwnWhereOthersDoNotCount) {
  ModelShape shape = small_shape(2);
  EXPECT_EQ(activation_plan(shape, 2, 7, DType::kFloat32, 5, Backward::kWhole)[Activation::kHeadInput].shape,
            (std::vector<int64_t>{0, 24}));
  shape.sparse_labels = true;
  const ActivationPlan plan = activation_plan(shape, 2, 7, DType::kFloat32, 5, Backward::kWhole);
  for (const Activation which : {Activation::kHeadInput, Activation::kHeadGradient})
    EXPECT_EQ(plan[which].shape, (std::vector<int64_t>{5, 24}));
  run_on_bytes(plan, small_shape(2));
}

}  // namespace
}  // namespace hearth::plan
