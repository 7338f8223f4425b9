// The choices of the run file as enums, each with its names in run files. Checkpoints store the names: never change
// one.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/dtype.h"

namespace hearth::config {

enum class NormType { kRmsNorm, kLayerNorm, kNpLayerNorm, kRmsNormNeox };
enum class RopePairs { kInterleaved, kHalves };
enum class AttentionScope { kWindow, kDocument };
enum class InitLaw { kTorchtitan, kNormal, kScaledNormal, kSmallInit, kWangInit };
enum class ObjectiveKind { kCausalLm, kMaskedLm, kSpikeLm };
enum class OptimizerName { kAdamW, kAdam, kMuon };
enum class OptimizerForm { kTorch, kTransformers };
enum class WeightDecayOn { kMatrices, kAll };
enum class MuonAdjustLrFn { kOriginal, kMatchRmsAdamW };
enum class ScheduleRule { kTorchtitan, kTorchtitan2024, kTorchtitan2025, kNeox, kNeox2023, kTransformers };
enum class DecayType { kLinear, kCosine, kSqrt, kExponential, kConstant, kCosineWithRestarts, kPolynomial };
enum class DeviceKind { kCpu, kCuda };
enum class CommBackend { kAuto, kHost, kMpi, kNccl };
enum class PipelineSchedule { kGPipe, k1F1B, kInterleaved1F1B, kInterleavedZeroBubble };
enum class WeightUnit { kTokens, kDocuments };
enum class WeightRule { kSlots, kNeox };
enum class DataOrder { kShuffle, kNeox, kSequential };
enum class Packing { kConcat, kBestFit };
enum class Stride { kExact, kTorchtitan, kNeox };
enum class OnDamage { kStop, kSubstitute };
enum class AsyncMode { kDisabled, kAsync };
enum class Recompute { kNone, kNorms, kAttention, kBlock, kAuto };
enum class LossAverage { kGlobal, kPerRank };
enum class Policy { kOff, kStop, kSkip, kRewind };

template <class E>
struct NamedChoice {
  E choice;
  std::string_view name;
};

// Every choice of an enum, in the order of docs/config.md. Other types have no choices.
template <class E>
inline constexpr std::nullptr_t kChoices = nullptr;
template <>
inline constexpr NamedChoice<NormType> kChoices<NormType>[] = {{NormType::kRmsNorm, "rmsnorm"},
                                                               {NormType::kLayerNorm, "layernorm"},
                                                               {NormType::kNpLayerNorm, "np_layernorm"},
                                                               {NormType::kRmsNormNeox, "rmsnorm_neox"}};
template <>
inline constexpr NamedChoice<RopePairs> kChoices<RopePairs>[] = {{RopePairs::kInterleaved, "interleaved"},
                                                                 {RopePairs::kHalves, "halves"}};
template <>
inline constexpr NamedChoice<AttentionScope> kChoices<AttentionScope>[] = {{AttentionScope::kWindow, "window"},
                                                                           {AttentionScope::kDocument, "document"}};
template <>
inline constexpr NamedChoice<InitLaw> kChoices<InitLaw>[] = {{InitLaw::kTorchtitan, "torchtitan"},
                                                             {InitLaw::kNormal, "normal"},
                                                             {InitLaw::kScaledNormal, "scaled_normal"},
                                                             {InitLaw::kSmallInit, "small_init"},
                                                             {InitLaw::kWangInit, "wang_init"}};
template <>
inline constexpr NamedChoice<ObjectiveKind> kChoices<ObjectiveKind>[] = {{ObjectiveKind::kCausalLm, "causal_lm"},
                                                                         {ObjectiveKind::kMaskedLm, "masked_lm"},
                                                                         {ObjectiveKind::kSpikeLm, "spike_lm"}};
template <>
inline constexpr NamedChoice<OptimizerName> kChoices<OptimizerName>[] = {
    {OptimizerName::kAdamW, "AdamW"}, {OptimizerName::kAdam, "Adam"}, {OptimizerName::kMuon, "Muon"}};
template <>
inline constexpr NamedChoice<OptimizerForm> kChoices<OptimizerForm>[] = {
    {OptimizerForm::kTorch, "torch"}, {OptimizerForm::kTransformers, "transformers"}};
template <>
inline constexpr NamedChoice<WeightDecayOn> kChoices<WeightDecayOn>[] = {{WeightDecayOn::kMatrices, "matrices"},
                                                                         {WeightDecayOn::kAll, "all"}};
template <>
inline constexpr NamedChoice<MuonAdjustLrFn> kChoices<MuonAdjustLrFn>[] = {
    {MuonAdjustLrFn::kOriginal, "original"}, {MuonAdjustLrFn::kMatchRmsAdamW, "match_rms_adamw"}};
template <>
inline constexpr NamedChoice<ScheduleRule> kChoices<ScheduleRule>[] = {
    {ScheduleRule::kTorchtitan, "torchtitan"},
    {ScheduleRule::kTorchtitan2024, "torchtitan_2024"},
    {ScheduleRule::kTorchtitan2025, "torchtitan_2025"},
    {ScheduleRule::kNeox, "neox"},
    {ScheduleRule::kNeox2023, "neox_2023"},
    {ScheduleRule::kTransformers, "transformers"}};
template <>
inline constexpr NamedChoice<DecayType> kChoices<DecayType>[] = {
    {DecayType::kLinear, "linear"},
    {DecayType::kCosine, "cosine"},
    {DecayType::kSqrt, "sqrt"},
    {DecayType::kExponential, "exponential"},
    {DecayType::kConstant, "constant"},
    {DecayType::kCosineWithRestarts, "cosine_with_restarts"},
    {DecayType::kPolynomial, "polynomial"}};
template <>
inline constexpr NamedChoice<CommBackend> kChoices<CommBackend>[] = {{CommBackend::kAuto, "auto"},
                                                                     {CommBackend::kHost, "host"},
                                                                     {CommBackend::kMpi, "mpi"},
                                                                     {CommBackend::kNccl, "nccl"}};
template <>
inline constexpr NamedChoice<PipelineSchedule> kChoices<PipelineSchedule>[] = {
    {PipelineSchedule::kGPipe, "GPipe"},
    {PipelineSchedule::k1F1B, "1F1B"},
    {PipelineSchedule::kInterleaved1F1B, "Interleaved1F1B"},
    {PipelineSchedule::kInterleavedZeroBubble, "InterleavedZeroBubble"}};
template <>
inline constexpr NamedChoice<DeviceKind> kChoices<DeviceKind>[] = {{DeviceKind::kCpu, "cpu"},
                                                                   {DeviceKind::kCuda, "cuda"}};
template <>
inline constexpr NamedChoice<WeightUnit> kChoices<WeightUnit>[] = {{WeightUnit::kTokens, "tokens"},
                                                                   {WeightUnit::kDocuments, "documents"}};
template <>
inline constexpr NamedChoice<WeightRule> kChoices<WeightRule>[] = {{WeightRule::kSlots, "slots"},
                                                                   {WeightRule::kNeox, "neox"}};
template <>
inline constexpr NamedChoice<DataOrder> kChoices<DataOrder>[] = {
    {DataOrder::kShuffle, "shuffle"}, {DataOrder::kNeox, "neox"}, {DataOrder::kSequential, "sequential"}};
template <>
inline constexpr NamedChoice<Packing> kChoices<Packing>[] = {{Packing::kConcat, "concat"},
                                                             {Packing::kBestFit, "best_fit"}};
template <>
inline constexpr NamedChoice<Stride> kChoices<Stride>[] = {
    {Stride::kExact, "exact"}, {Stride::kTorchtitan, "torchtitan"}, {Stride::kNeox, "neox"}};
template <>
inline constexpr NamedChoice<AsyncMode> kChoices<AsyncMode>[] = {{AsyncMode::kDisabled, "disabled"},
                                                                 {AsyncMode::kAsync, "async"}};
template <>
inline constexpr NamedChoice<OnDamage> kChoices<OnDamage>[] = {{OnDamage::kStop, "stop"},
                                                               {OnDamage::kSubstitute, "substitute"}};
template <>
inline constexpr NamedChoice<Recompute> kChoices<Recompute>[] = {{Recompute::kNone, "none"},
                                                                 {Recompute::kNorms, "norms"},
                                                                 {Recompute::kAttention, "attention"},
                                                                 {Recompute::kBlock, "block"},
                                                                 {Recompute::kAuto, "auto"}};
template <>
inline constexpr NamedChoice<LossAverage> kChoices<LossAverage>[] = {{LossAverage::kGlobal, "global"},
                                                                     {LossAverage::kPerRank, "per_rank"}};
template <>
inline constexpr NamedChoice<Policy> kChoices<Policy>[] = {
    {Policy::kOff, "off"}, {Policy::kStop, "stop"}, {Policy::kSkip, "skip"}, {Policy::kRewind, "rewind"}};
// The element types that a run file may name; dtype_name gives the same names.
template <>
inline constexpr NamedChoice<DType> kChoices<DType>[] = {
    {DType::kFloat32, "float32"}, {DType::kFloat64, "float64"}, {DType::kBFloat16, "bfloat16"}};

template <class E>
concept Choice = !std::is_same_v<std::remove_cv_t<decltype(kChoices<E>)>, std::nullptr_t>;

template <Choice E>
constexpr std::string_view name_of(E choice) {
  for (const auto& named : kChoices<E>) {
    if (named.choice == choice) return named.name;
  }
  return {};
}

// Empty if no choice has the name.
template <Choice E>
constexpr std::optional<E> find_choice(std::string_view name) {
  for (const auto& named : kChoices<E>) {
    if (named.name == name) return named.choice;
  }
  return std::nullopt;
}

}  // namespace hearth::config
