#include "plan/activations.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace hearth::plan {

ActivationPlan activation_plan(const ModelShape& s, int64_t B, int64_t S, DType dtype, int64_t loss_chunk_tokens,
                               bool training) {
  constexpr int64_t kAlignmentBytes = 64;
  const int64_t T = B * S, qkv = (s.H + 2 * s.G) * s.K, C = std::min(T, loss_chunk_tokens);
  ActivationPlan plan;
  auto add = [&](Activation which, std::string_view name, std::vector<int64_t> shape, int64_t copies, DType of) {
    HEARTH_CHECK(static_cast<size_t>(which) == plan.buffers.size(), "activation {} out of order", name);
    int64_t numel = 1;
    for (const int64_t size : shape) numel *= size;
    const int64_t bytes = round_up(numel * dtype_size(of), kAlignmentBytes);
    // A shared buffer is `copies` copies at the same place.
    plan.buffers.push_back({name, std::move(shape), of, copies, plan.total_bytes, training ? bytes : 0});
    plan.total_bytes += training ? bytes * copies : bytes;
  };
  const int64_t N = is_centred(s.norm.type) ? 2 : 1;
  const DType exact = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
  const int64_t gradient = training ? 1 : 0;  // T = 0 rows where no backward runs
  using enum Activation;
  add(kStream, "stream", {T, s.D}, s.L + 1, dtype);
  add(kAttentionStatistics, "attention_statistics", {N, T}, s.L, exact);
  add(kAttentionInput, "attention_input", {T, s.D}, s.L, dtype);
  add(kQkv, "qkv", {T, qkv}, s.L, dtype);
  add(kAttention, "attention", {T, s.H * s.K}, s.L, dtype);
  add(kLogSumExp, "log_sum_exp", {B, s.H, S}, s.L, exact);
  add(kMiddle, "middle", {T, s.D}, s.L, dtype);
  add(kFeedForwardStatistics, "feed_forward_statistics", {N, T}, s.L, exact);
  add(kFeedForwardInput, "feed_forward_input", {T, s.D}, s.L, dtype);
  add(kGateUp, "gate_up", {T, 2 * s.F}, s.L, dtype);
  add(kGated, "gated", {T, s.F}, s.L, dtype);
  add(kFinalInput, "final_input", {T, s.D}, 1, dtype);
  add(kFinalStatistics, "final_statistics", {N, T}, 1, exact);
  add(kBranch, "branch", {T, s.D}, 1, dtype);
  add(kLogits, "logits", {C, s.V}, 1, dtype);
  const int64_t sparse = s.causal ? 0 : C;  // masked language modelling counts a part of the positions
  add(kHeadInput, "head_input", {sparse, s.D}, 1, dtype);
  add(kHeadGradient, "head_gradient", {gradient * sparse, s.D}, 1, dtype);
  add(kStreamGradient, "stream_gradient", {gradient * T, s.D}, 1, dtype);
  add(kInputGradient, "input_gradient", {gradient * T, s.D}, 1, dtype);
  add(kQkvGradient, "qkv_gradient", {gradient * T, qkv}, 1, dtype);
  add(kAttentionGradient, "attention_gradient", {gradient * T, s.H * s.K}, 1, dtype);
  add(kGatedGradient, "gated_gradient", {gradient * T, s.F}, 1, dtype);
  return plan;
}

}  // namespace hearth::plan
