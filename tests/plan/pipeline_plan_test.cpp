// SPDX-License-Identifier: Apache-2.0
// A rank's schedule with slots, and the memory of its stages, checked by running them on marked bytes.
#include "plan/pipeline_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "plan/pipeline_simulation.h"
#include "plan/stage_activations.h"
#include "support/errors.h"

namespace hearth::plan {
namespace {

using enum PipelineSchedule;
using enum ActionKind;

config::RunConfig run_of(PipelineSchedule schedule, int64_t ranks, int64_t micro_batches, int64_t layers_per_stage) {
  config::RunConfig config;
  config.parallelism.pipeline_parallel_degree = ranks;
  config.parallelism.pipeline_parallel_schedule = schedule;
  config.parallelism.pipeline_parallel_layers_per_stage = layers_per_stage;
  config.training.local_batch_size = micro_batches;
  return config;
}

ModelShape shape_of(int64_t layers, bool tied) {
  config::Model m;
  m.dim = 16, m.n_layers = layers, m.n_heads = 4, m.n_kv_heads = 2, m.hidden_dim = 24;
  m.enable_weight_tying = tied;
  return model_shape(m, 50);
}

TEST(PipelinePlan, StagesAreTorchtitans) {
  // torchtitan: stages of ceil((layers + 2) / layers_per_stage), and two per rank of a schedule with several.
  EXPECT_EQ(pipeline_plan(run_of(k1F1B, 4, 8, 0), 8).pipeline.stages_per_rank, 1);
  EXPECT_EQ(pipeline_plan(run_of(kInterleaved1F1B, 4, 8, 0), 16).pipeline.stages_per_rank, 2);
  EXPECT_EQ(pipeline_plan(run_of(kInterleaved1F1B, 2, 8, 3), 16).pipeline.stages_per_rank, 3);
  EXPECT_EQ(pipeline_plan(run_of(kInterleavedZeroBubble, 4, 8, 5), 16).pipeline.stages_per_rank, 1);  // ZB-H1
  EXPECT_EQ(pipeline_plan(run_of(k1F1B, 1, 8, 0), 8).layers, (std::vector<StageLayers>{{0, 8}}));
  const PipelinePlan plan = pipeline_plan(run_of(kInterleaved1F1B, 2, 8, 0), 6);
  EXPECT_EQ(plan.stages_of(0), (std::vector<StageLayers>{{0, 1}, {3, 5}}));
  EXPECT_EQ(plan.stages_of(1), (std::vector<StageLayers>{{1, 3}, {5, 6}}));
}

TEST(PipelinePlan, StagesThatScheduleOrLayersDoNotAllowAreErrors) {
  EXPECT_THAT(test::error_of([] { pipeline_plan(run_of(k1F1B, 2, 8, 2), 8); }).what(),
              testing::HasSubstr("schedule 1F1B has 3 stages per rank"));
  EXPECT_THAT(test::error_of([] { pipeline_plan(run_of(kInterleaved1F1B, 2, 8, 9), 8); }).what(),
              testing::HasSubstr("Interleaved1F1B has one stage per rank"));
  const auto many = test::error_of([] { pipeline_plan(run_of(kInterleaved1F1B, 3, 8, 0), 4); });
  EXPECT_THAT(many.what(), testing::HasSubstr("4 layers cannot be cut into 6 stages"));
  EXPECT_EQ(many.key(), "parallelism.pipeline_parallel_degree");
}

// A micro-batch has its slot from its first action in a stage to its last one, alone. 1F1B holds no more of them than
// its paper says, and one that is on its way.
TEST(PipelinePlan, NoTwoMicroBatchesAreInASlotAtOnce) {
  for (const PipelineSchedule schedule : {kGPipe, k1F1B, kInterleaved1F1B, kInterleavedZeroBubble}) {
    for (const int64_t ranks : {1, 2, 3, 4}) {
      for (const int64_t micro_batches : {1, 2, 5, 8}) {
        const int64_t stages = schedule == kGPipe || schedule == k1F1B ? 1 : 2;
        const Pipeline pipeline{schedule, ranks, stages, micro_batches};
        for (int64_t rank = 0; rank < ranks; ++rank) {
          for (const PipelinePass pass : {PipelinePass::kTraining, PipelinePass::kForward}) {
            const RankSchedule placed = rank_schedule(pipeline, rank, pass);
            ASSERT_EQ(std::ssize(placed.slots), stages);
            std::map<std::pair<int32_t, int32_t>, std::pair<size_t, size_t>> alive;  // by stage and micro-batch
            std::map<std::pair<int32_t, int32_t>, int64_t> slot_of;
            for (size_t i = 0; i < placed.actions.size(); ++i) {
              const auto& [action, slot] = placed.actions[i];
              const std::pair key{action.stage, action.micro_batch};
              const bool is_new = alive.try_emplace(key, i, i).second;
              if (is_new) slot_of[key] = slot;
              EXPECT_EQ(slot_of[key], slot);
              EXPECT_LT(slot, placed.slots[static_cast<size_t>(action.stage / ranks)]);
              alive[key].second = i;
            }
            for (const auto& [a, when] : alive) {
              for (const auto& [b, other] : alive) {
                if (a == b || a.first != b.first || slot_of[a] != slot_of[b]) continue;
                EXPECT_TRUE(when.second < other.first || other.second < when.first) << a.second << " " << b.second;
              }
            }
            if (schedule == k1F1B && pass == PipelinePass::kTraining) {
              EXPECT_LE(placed.slots[0], std::min(micro_batches, ranks - rank) + 1);
            }
          }
        }
      }
    }
  }
}

// The memory of a rank: what its stages share, and the slots of each. Every op marks the bytes that it writes, and
// finds the marks of what it reads: no other stage, micro-batch or op wrote there meanwhile.
class MarkedMemory {
 public:
  MarkedMemory(const ModelShape& shape, const std::vector<Recompute>& recompute, const PipelinePlan& plan, int64_t rank)
      : pipeline_(plan.pipeline),
        plans_(stage_activations(shape, 2, 8, DType::kFloat32, 5, true, recompute, plan, rank)),
        memory_(static_cast<size_t>(sum_of_stages(plans_).total_bytes / 4)) {
    int64_t begin = sum_of_stages(plans_).shared_bytes;
    for (const ActivationPlan& stage : plans_) {
      begins_.push_back(begin);
      begin += stage.num_slots * stage.slot_bytes;
    }
    EXPECT_EQ(begin, sum_of_stages(plans_).total_bytes);
  }

  void run(const PlacedAction& placed) {
    const auto stage = static_cast<size_t>(placed.action.stage / pipeline_.ranks);
    const models::Program& program = plans_[stage].program;
    switch (placed.action.kind) {
      case kRecvForward:
        return run_step("receive", {}, {program.input}, placed, stage);
      case kRecvBackward:
        return run_step("receive", {}, {program.dstream}, placed, stage);
      case kSendForward:
      case kSendBackward:
        return run_step("send", {program.dstream}, {}, placed, stage);
      case kForward:
        return run_pass(models::Pass::kForward, placed, stage);
      case kWeightGradient:
        return run_pass(models::Pass::kWeightGradients, placed, stage);
      default:
        return run_pass(models::Pass::kBackward, placed, stage);
    }
  }

 private:
  using Key = std::tuple<size_t, int32_t, int32_t>;  // stage, micro-batch, buffer

  void run_pass(models::Pass pass, const PlacedAction& placed, size_t stage) {
    for (const models::Step& step : plans_[stage].program.steps()) {
      if (step.pass != pass || step.name == "input") continue;
      models::Refs reads, writes;  // of what is there before the step; of all its ops
      for (const models::Op& op : plans_[stage].program.ops_of(step)) {
        for (const models::Ref& ref : models::reads_of(op))
          if (std::none_of(writes.begin(), writes.end(), [&](const auto& w) { return w.buffer == ref.buffer; }))
            reads.push_back(ref);
        for (const models::Ref& ref : models::writes_of(op)) writes.push_back(ref);
      }
      run_step(step.full_name(), reads, writes, placed, stage);
    }
  }

  void run_step(const std::string& name, const models::Refs& reads, const models::Refs& writes,
                const PlacedAction& placed, size_t stage) {
    ++now_;
    const ActivationPlan& plan = plans_[stage];
    const auto range = [&](const models::Ref& of) {
      const models::Buffer& buffer = plan.program.buffer(of);
      const BufferPlace& place = plan.places[static_cast<size_t>(of.buffer)];
      int64_t begin = place.offset_bytes, bytes = dtype_size(buffer.dtype);
      if (place.is_in_slot) begin += begins_[stage] + placed.slot * plan.slot_bytes;
      for (const int64_t size : buffer.shape) bytes *= size;
      return std::span(memory_).subspan(static_cast<size_t>(begin / 4), static_cast<size_t>(bytes / 4));
    };
    const auto key = [&](const models::Ref& of) { return Key{stage, placed.action.micro_batch, of.buffer}; };
    for (const models::Ref& of : reads) {
      const int32_t mark = marks_.at(key(of));
      const auto marks = range(of);
      ASSERT_EQ(std::count(marks.begin(), marks.end(), mark), std::ssize(marks))
          << to_string(placed.action) << ": " << name << " reads " << plan.program.buffer(of).name;
    }
    for (const models::Ref& of : writes) {
      std::fill_n(range(of).begin(), range(of).size(), now_);
      marks_[key(of)] = now_;
    }
  }

  const Pipeline pipeline_;
  std::vector<ActivationPlan> plans_;
  std::vector<int64_t> begins_;
  std::vector<int32_t> memory_;
  std::map<Key, int32_t> marks_;
  int32_t now_ = 0;
};

TEST(StageActivations, NoMicroBatchOverwritesWhatAnotherKeeps) {
  for (const PipelineSchedule schedule : {kGPipe, k1F1B, kInterleaved1F1B, kInterleavedZeroBubble}) {
    for (const Recompute level : {Recompute::kNone, Recompute::kNorms, Recompute::kAttention, Recompute::kBlock}) {
      for (const TensorPart part : {TensorPart{0, 1}, TensorPart{1, 2}}) {
        for (const int64_t context : {1, 2}) {
          const ModelShape shape = model_part(shape_of(5, true), part, part.size == 1 ? context : 1);
          const PipelinePlan plan = pipeline_plan(run_of(schedule, 2, 5, 0), shape.L());
          for (const int64_t rank : {0, 1}) {
            std::vector<Recompute> levels(5, level);
            levels[2] = Recompute::kNone;
            MarkedMemory memory(shape, levels, plan, rank);
            for (const PlacedAction& action : rank_schedule(plan.pipeline, rank, PipelinePass::kTraining).actions) {
              memory.run(action);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

// Two equal stages with two micro-batches wait a third of the time (arXiv 1811.06965). A large vocabulary makes the
// last stage slower, and the attention of long sequences makes that difference small.
TEST(PipelineBubble, CountsTheOutputMatrixAndAttention) {
  config::Model m;
  m.dim = 64, m.n_layers = 8, m.n_heads = 4;
  const ModelShape shape = model_shape(m, 32000);
  const PipelinePlan plan{{k1F1B, 2, 1, 2}, {{0, 4}, {4, 8}}};
  EXPECT_GT(pipeline_bubble(plan, shape, 64), 0.45);
  EXPECT_NEAR(pipeline_bubble(plan, shape, 10'000'000), 1.0 / 3, 0.001);
}

// The first stage's layers are nearly all of the work: its rank alone does not wait.
TEST(PipelineBubble, CountsEachLayer) {
  config::Model m;
  m.dim = 64, m.n_layers = 8, m.n_heads = 4;
  ModelShape shape = model_shape(m, 100);
  for (size_t layer = 0; layer < 4; ++layer) shape.layers[layer].F *= 1000;
  EXPECT_NEAR(pipeline_bubble({{k1F1B, 2, 1, 2}, {{0, 4}, {4, 8}}}, shape, 64), 0.5, 0.01);
}

// 1F1B keeps fewer micro-batches than GPipe, and zero bubble keeps more of each.
TEST(StageActivations, ASchedulesMemoryIsThatOfThePapers) {
  const auto bytes = [](PipelineSchedule schedule, int64_t rank) {
    const ModelShape shape = shape_of(8, false);
    const PipelinePlan plan = pipeline_plan(run_of(schedule, 4, 16, schedule == kInterleavedZeroBubble ? 3 : 0), 8);
    return sum_of_stages(stage_activations(shape, 2, 8, DType::kFloat32, 5, true, {}, plan, rank)).total_bytes;
  };
  EXPECT_LT(2 * bytes(k1F1B, 0), bytes(kGPipe, 0));
  EXPECT_LT(bytes(k1F1B, 2), bytes(k1F1B, 0));
  EXPECT_GT(bytes(kInterleavedZeroBubble, 2), bytes(k1F1B, 2));
}

}  // namespace
}  // namespace hearth::plan
