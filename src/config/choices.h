// SPDX-License-Identifier: Apache-2.0
// The choices of the run file as enums. choice_names() gives the names of an enum's values in run files, in their
// order. docs/config.md lists them in this order, too. Checkpoints store the names: never change one.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace hearth::config {

template <std::convertible_to<std::string_view>... Texts>
constexpr std::array<std::string_view, sizeof...(Texts)> choices(Texts... texts) {
  return {texts...};
}

enum class NormType { kRmsNorm, kLayerNorm, kNpLayerNorm, kRmsNormNeox, kRmsNorm1p };
constexpr auto choice_names(NormType) {
  return choices("rmsnorm", "layernorm", "np_layernorm", "rmsnorm_neox", "rmsnorm_1p");
}
enum class RopePairs { kInterleaved, kHalves };
constexpr auto choice_names(RopePairs) { return choices("interleaved", "halves"); }
// How rotary frequencies are scaled. kLlama3 is the default, and a factor of 1 scales nothing.
enum class RopeType { kLlama3, kDefault, kLinear, kYarn, kLongRope };
constexpr auto choice_names(RopeType) { return choices("llama3", "default", "linear", "yarn", "longrope"); }
enum class AttentionScope { kWindow, kDocument };
constexpr auto choice_names(AttentionScope) { return choices("window", "document"); }
enum class InitLaw { kTorchtitan, kNormal, kScaledNormal, kSmallInit, kWangInit };
constexpr auto choice_names(InitLaw) {
  return choices("torchtitan", "normal", "scaled_normal", "small_init", "wang_init");
}
enum class ObjectiveKind { kCausalLm, kMaskedLm, kSpikeLm, kMaskedDiffusion };
constexpr auto choice_names(ObjectiveKind) { return choices("causal_lm", "masked_lm", "spike_lm", "masked_diffusion"); }
enum class OptimizerName { kAdamW, kAdam, kMuon };
constexpr auto choice_names(OptimizerName) { return choices("AdamW", "Adam", "Muon"); }
enum class OptimizerForm { kTorch, kTransformers };
constexpr auto choice_names(OptimizerForm) { return choices("torch", "transformers"); }
enum class WeightDecayOn { kMatrices, kAll };
constexpr auto choice_names(WeightDecayOn) { return choices("matrices", "all"); }
enum class MuonAdjustLrFn { kOriginal, kMatchRmsAdamW };
constexpr auto choice_names(MuonAdjustLrFn) { return choices("original", "match_rms_adamw"); }
enum class ScheduleRule { kTorchtitan, kTorchtitan2024, kTorchtitan2025, kNeox, kNeox2023, kTransformers };
constexpr auto choice_names(ScheduleRule) {
  return choices("torchtitan", "torchtitan_2024", "torchtitan_2025", "neox", "neox_2023", "transformers");
}
enum class DecayType { kLinear, kCosine, kSqrt, kExponential, kConstant, kCosineWithRestarts, kPolynomial };
constexpr auto choice_names(DecayType) {
  return choices("linear", "cosine", "sqrt", "exponential", "constant", "cosine_with_restarts", "polynomial");
}
enum class DeviceKind { kCpu, kCuda };
constexpr auto choice_names(DeviceKind) { return choices("cpu", "cuda"); }
enum class CommBackend { kAuto, kHost, kMpi, kNccl };
constexpr auto choice_names(CommBackend) { return choices("auto", "host", "mpi", "nccl"); }
enum class PipelineSchedule { kGPipe, k1F1B, kInterleaved1F1B, kInterleavedZeroBubble };
constexpr auto choice_names(PipelineSchedule) {
  return choices("GPipe", "1F1B", "Interleaved1F1B", "InterleavedZeroBubble");
}
enum class WeightUnit { kTokens, kDocuments };
constexpr auto choice_names(WeightUnit) { return choices("tokens", "documents"); }
enum class WeightRule { kSlots, kNeox };
constexpr auto choice_names(WeightRule) { return choices("slots", "neox"); }
enum class DataOrder { kShuffle, kNeox, kSequential };
constexpr auto choice_names(DataOrder) { return choices("shuffle", "neox", "sequential"); }
enum class Packing { kConcat, kBestFit };
constexpr auto choice_names(Packing) { return choices("concat", "best_fit"); }
enum class Stride { kExact, kTorchtitan, kNeox };
constexpr auto choice_names(Stride) { return choices("exact", "torchtitan", "neox"); }
enum class OnDamage { kStop, kSubstitute };
constexpr auto choice_names(OnDamage) { return choices("stop", "substitute"); }
enum class AsyncMode { kDisabled, kAsync };
constexpr auto choice_names(AsyncMode) { return choices("disabled", "async"); }
enum class RecomputeChoice { kNone, kNorms, kAttention, kBlock, kAuto };
constexpr auto choice_names(RecomputeChoice) { return choices("none", "norms", "attention", "block", "auto"); }
// Which products of a linear layer numerics.fp8 computes in float8: all, or all except the weight's gradient.
enum class Fp8Recipe { kRowwise, kRowwiseHpWgrad };
constexpr auto choice_names(Fp8Recipe) { return choices("rowwise", "rowwise_hp_wgrad"); }
enum class LossAverage { kGlobal, kPerRank };
constexpr auto choice_names(LossAverage) { return choices("global", "per_rank"); }
enum class Policy { kOff, kStop, kSkip, kRewind };
constexpr auto choice_names(Policy) { return choices("off", "stop", "skip", "rewind"); }
// The element types that a run file may name: the first values of DType. dtype_name gives the same names.
constexpr auto choice_names(DType) { return choices("float32", "float64", "bfloat16"); }

template <class E>
concept Choice = requires(E choice) {
  choice_names(choice);
};

// Empty if no choice has the number.
template <Choice E>
constexpr std::string_view name_of(E choice) {
  const auto names = choice_names(choice);
  const auto number = static_cast<size_t>(choice);
  return number < names.size() ? names[number] : std::string_view();
}

// Empty if no choice has the name.
template <Choice E>
constexpr std::optional<E> find_choice(std::string_view name) {
  const auto names = choice_names(E{});
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace hearth::config
