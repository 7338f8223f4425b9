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
  auto add = [&](Activation which, std::string_view name, std::vector<int64_t> shape, int64_t copies) {
    HEARTH_CHECK(static_cast<size_t>(which) == plan.buffers.size(), "activation {} out of order", name);
    int64_t numel = 1;
    for (const int64_t size : shape) numel *= size;
    const int64_t bytes = round_up(numel * dtype_size(dtype), kAlignmentBytes);
    // A shared buffer is `copies` copies at the same place.
    plan.buffers.push_back({name, std::move(shape), copies, plan.total_bytes, training ? bytes : 0});
    plan.total_bytes += training ? bytes * copies : bytes;
  };
  const int64_t gradient = training ? 1 : 0;  // T = 0 rows where no backward runs
  using enum Activation;
  add(kStream, "stream", {T, s.D}, s.L + 1);
  add(kAttentionRstd, "attention_rstd", {T}, s.L);
  add(kAttentionInput, "attention_input", {T, s.D}, s.L);
  add(kQkv, "qkv", {T, qkv}, s.L);
  add(kAttention, "attention", {T, s.H * s.K}, s.L);
  add(kLogSumExp, "log_sum_exp", {B, s.H, S}, s.L);
  add(kMiddle, "middle", {T, s.D}, s.L);
  add(kFeedForwardRstd, "feed_forward_rstd", {T}, s.L);
  add(kFeedForwardInput, "feed_forward_input", {T, s.D}, s.L);
  add(kGateUp, "gate_up", {T, 2 * s.F}, s.L);
  add(kGated, "gated", {T, s.F}, s.L);
  add(kFinalInput, "final_input", {T, s.D}, 1);
  add(kFinalRstd, "final_rstd", {T}, 1);
  add(kBranch, "branch", {T, s.D}, 1);
  add(kLogits, "logits", {C, s.V}, 1);
  add(kStreamGradient, "stream_gradient", {gradient * T, s.D}, 1);
  add(kInputGradient, "input_gradient", {gradient * T, s.D}, 1);
  add(kQkvGradient, "qkv_gradient", {gradient * T, qkv}, 1);
  add(kAttentionGradient, "attention_gradient", {gradient * T, s.H * s.K}, 1);
  add(kGatedGradient, "gated_gradient", {gradient * T, s.F}, 1);
  return plan;
}

}  // namespace hearth::plan
