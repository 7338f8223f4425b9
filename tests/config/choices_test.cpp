// SPDX-License-Identifier: Apache-2.0
#include "config/choices.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "config/block_options.h"

namespace hearth::config {
namespace {

// Each enumerator with the name that run files and checkpoints have for it: the order of the names is not enough.
template <Choice E>
void expect_names(const std::vector<std::pair<E, std::string_view>>& named) {
  EXPECT_EQ(named.size(), choice_names(E{}).size());
  for (const auto& [choice, name] : named) {
    EXPECT_EQ(name_of(choice), name);
    EXPECT_EQ(find_choice<E>(name), choice) << name;
  }
}

TEST(Choices, OfAModelHaveTheNamesOnDisk) {
  expect_names<NormType>({{NormType::kRmsNorm, "rmsnorm"},
                          {NormType::kLayerNorm, "layernorm"},
                          {NormType::kNpLayerNorm, "np_layernorm"},
                          {NormType::kRmsNormNeox, "rmsnorm_neox"},
                          {NormType::kRmsNorm1p, "rmsnorm_1p"}});
  expect_names<RopePairs>({{RopePairs::kInterleaved, "interleaved"}, {RopePairs::kHalves, "halves"}});
  expect_names<AttentionScope>({{AttentionScope::kWindow, "window"}, {AttentionScope::kDocument, "document"}});
  expect_names<InitLaw>({{InitLaw::kTorchtitan, "torchtitan"},
                         {InitLaw::kNormal, "normal"},
                         {InitLaw::kScaledNormal, "scaled_normal"},
                         {InitLaw::kSmallInit, "small_init"},
                         {InitLaw::kWangInit, "wang_init"}});
  expect_names<DType>({{DType::kFloat32, "float32"}, {DType::kFloat64, "float64"}, {DType::kBFloat16, "bfloat16"}});
  expect_names<NormPlacement>(
      {{NormPlacement::kInputs, "inputs"}, {NormPlacement::kOutputs, "outputs"}, {NormPlacement::kBoth, "both"}});
  expect_names<Activation>({{Activation::kSilu, "silu"},
                            {Activation::kGelu, "gelu"},
                            {Activation::kGeluTanh, "gelu_tanh"},
                            {Activation::kRelu2, "relu2"},
                            {Activation::kClampedSwiglu, "clamped_swiglu"}});
  expect_names<QkNormScope>({{QkNormScope::kHead, "head"}, {QkNormScope::kAllHeads, "all_heads"}});
}

TEST(Choices, OfATrainingHaveTheNamesOnDisk) {
  expect_names<ObjectiveKind>({{ObjectiveKind::kCausalLm, "causal_lm"},
                               {ObjectiveKind::kMaskedLm, "masked_lm"},
                               {ObjectiveKind::kSpikeLm, "spike_lm"},
                               {ObjectiveKind::kMaskedDiffusion, "masked_diffusion"}});
  expect_names<OptimizerName>(
      {{OptimizerName::kAdamW, "AdamW"}, {OptimizerName::kAdam, "Adam"}, {OptimizerName::kMuon, "Muon"}});
  expect_names<OptimizerForm>({{OptimizerForm::kTorch, "torch"}, {OptimizerForm::kTransformers, "transformers"}});
  expect_names<WeightDecayOn>({{WeightDecayOn::kMatrices, "matrices"}, {WeightDecayOn::kAll, "all"}});
  expect_names<MuonAdjustLrFn>(
      {{MuonAdjustLrFn::kOriginal, "original"}, {MuonAdjustLrFn::kMatchRmsAdamW, "match_rms_adamw"}});
  expect_names<ScheduleRule>({{ScheduleRule::kTorchtitan, "torchtitan"},
                              {ScheduleRule::kTorchtitan2024, "torchtitan_2024"},
                              {ScheduleRule::kTorchtitan2025, "torchtitan_2025"},
                              {ScheduleRule::kNeox, "neox"},
                              {ScheduleRule::kNeox2023, "neox_2023"},
                              {ScheduleRule::kTransformers, "transformers"}});
  expect_names<DecayType>({{DecayType::kLinear, "linear"},
                           {DecayType::kCosine, "cosine"},
                           {DecayType::kSqrt, "sqrt"},
                           {DecayType::kExponential, "exponential"},
                           {DecayType::kConstant, "constant"},
                           {DecayType::kCosineWithRestarts, "cosine_with_restarts"},
                           {DecayType::kPolynomial, "polynomial"}});
  expect_names<AsyncMode>({{AsyncMode::kDisabled, "disabled"}, {AsyncMode::kAsync, "async"}});
  expect_names<RecomputeChoice>({{RecomputeChoice::kNone, "none"},
                                 {RecomputeChoice::kNorms, "norms"},
                                 {RecomputeChoice::kAttention, "attention"},
                                 {RecomputeChoice::kBlock, "block"},
                                 {RecomputeChoice::kAuto, "auto"}});
  expect_names<LossAverage>({{LossAverage::kGlobal, "global"}, {LossAverage::kPerRank, "per_rank"}});
  expect_names<Policy>(
      {{Policy::kOff, "off"}, {Policy::kStop, "stop"}, {Policy::kSkip, "skip"}, {Policy::kRewind, "rewind"}});
}

TEST(Choices, OfDataAndRanksHaveTheNamesOnDisk) {
  expect_names<CommBackend>({{CommBackend::kAuto, "auto"},
                             {CommBackend::kHost, "host"},
                             {CommBackend::kMpi, "mpi"},
                             {CommBackend::kNccl, "nccl"}});
  expect_names<PipelineSchedule>({{PipelineSchedule::kGPipe, "GPipe"},
                                  {PipelineSchedule::k1F1B, "1F1B"},
                                  {PipelineSchedule::kInterleaved1F1B, "Interleaved1F1B"},
                                  {PipelineSchedule::kInterleavedZeroBubble, "InterleavedZeroBubble"}});
  expect_names<DeviceKind>({{DeviceKind::kCpu, "cpu"}, {DeviceKind::kCuda, "cuda"}});
  expect_names<WeightUnit>({{WeightUnit::kTokens, "tokens"}, {WeightUnit::kDocuments, "documents"}});
  expect_names<WeightRule>({{WeightRule::kSlots, "slots"}, {WeightRule::kNeox, "neox"}});
  expect_names<DataOrder>(
      {{DataOrder::kShuffle, "shuffle"}, {DataOrder::kNeox, "neox"}, {DataOrder::kSequential, "sequential"}});
  expect_names<Packing>({{Packing::kConcat, "concat"}, {Packing::kBestFit, "best_fit"}});
  expect_names<Stride>({{Stride::kExact, "exact"}, {Stride::kTorchtitan, "torchtitan"}, {Stride::kNeox, "neox"}});
  expect_names<OnDamage>({{OnDamage::kStop, "stop"}, {OnDamage::kSubstitute, "substitute"}});
}

}  // namespace
}  // namespace hearth::config
