// SPDX-License-Identifier: Apache-2.0
#include "ops/step_decision.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "ops/access.h"
#include "ops/gpu/gpu.h"
#include "ops/tensor.h"

namespace hearth::ops {
namespace {

template <class T>
std::span<const std::byte> as_bytes(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(&value, 1));
}

template <class T>
T* as(const at::Tensor& bytes) {
  HEARTH_CHECK(bytes.nbytes() == sizeof(T));
  return static_cast<T*>(bytes.mutable_data_ptr());
}

// A ring of `size` after a push of all `values`: it has the last `size` of them.
at::Tensor ring(const std::vector<double>& values, int64_t size, at::Device device) {
  std::vector<double> kept(static_cast<size_t>(size));
  const auto n = static_cast<int64_t>(values.size());
  for (int64_t i = std::max<int64_t>(0, n - size); i < n; ++i)
    kept[static_cast<size_t>(i % size)] = values[static_cast<size_t>(i)];
  return from_float64(kept, device);
}

bool is_elsewhere(const at::Tensor& tensor) { return !tensor.device().is_cpu(); }

}  // namespace

StepDecision::StepDecision(const GuardRules& rules, at::Device device)
    : rules_(rules), device_(device), decision_(zeros({sizeof(kernels::Decision)}, DType::kUInt8, device)) {
  begin_from({});
}

void StepDecision::begin_from(const GuardState& state) {
  losses_ = ring(state.losses, rules_.window, device_);
  grad_norms_ = ring(state.grad_norms, rules_.window, device_);
  const auto window = [&](const at::Tensor& values, const std::vector<double>& had) {
    return kernels::StepWindow{static_cast<double*>(values.mutable_data_ptr()), rules_.window,
                               static_cast<int64_t>(had.size())};
  };
  const kernels::StepGuard guard{.on_nan = rules_.on_nan,
                                 .on_spike = rules_.on_spike,
                                 .skip_limit = rules_.skip_limit,
                                 .spike_deviations = rules_.spike_deviations,
                                 .losses = window(losses_, state.losses),
                                 .grad_norms = window(grad_norms_, state.grad_norms),
                                 .skipped_in_a_row = state.skipped_in_a_row,
                                 .t = state.t,
                                 .holds = 0};
  guard_ = from_bytes(as_bytes(guard), device_);
}

void StepDecision::total(const at::Tensor& totals_2, const at::Tensor& sums_A2, int64_t paired) const {
  const int64_t A = sums_A2.size(0);
  HEARTH_CHECK(sums_A2.numel() == 2 * A && totals_2.numel() == 2 && A % paired == 0);
  auto* totals = totals_2.mutable_data_ptr<double>();
  const auto* sums = sums_A2.const_data_ptr<double>();
  if (is_elsewhere(totals_2)) {
    check_gpu(gpu_kernels().total_losses(gpu_stream(), totals, sums, A, paired), "total_losses");
  } else {
    kernels::total_losses(totals, sums, A, paired);
  }
}

void StepDecision::decide(const at::Tensor& totals_2, const at::Tensor& grad_squares_1, double z_factor,
                          double max_norm) const {
  HEARTH_CHECK(totals_2.numel() == 2 && grad_squares_1.numel() == 1);
  auto* guard = as<kernels::StepGuard>(guard_);
  auto* decision = as<kernels::Decision>(decision_);
  const auto *totals = totals_2.const_data_ptr<double>(), *squares = grad_squares_1.const_data_ptr<double>();
  if (is_elsewhere(totals_2)) {
    check_gpu(gpu_kernels().decide(gpu_stream(), guard, decision, totals, squares, z_factor, max_norm), "decide");
  } else {
    kernels::decide(*guard, *decision, totals, squares, z_factor, max_norm);
  }
}

at::Tensor decided(int64_t t, double gradient_scale, at::Device device) {
  kernels::Decision decision{};
  decision.t = t;
  decision.gradient_scale = gradient_scale;
  decision.apply = 1;
  return from_bytes(as_bytes(decision), device);
}

kernels::Decision read_decision(const at::Tensor& decision) {
  kernels::Decision result;
  const at::Tensor host = on_host(decision);
  std::memcpy(&result, bytes_of(host).data(), sizeof result);
  return result;
}

}  // namespace hearth::ops
