// SPDX-License-Identifier: Apache-2.0
#include "kernels/step_decision.h"

#include "kernels/entries.h"
#include "kernels/launch.h"

namespace hearth::kernels {
namespace {

__global__ void total_losses_kernel(double* totals_2, const double* sums_A2, int64_t A, int64_t paired) {
  if (threadIdx.x == 0) total_losses(totals_2, sums_A2, A, paired);
}

__global__ void decide_kernel(StepGuard* guard, Decision* decision, const double* totals_2, const double* grad_squares,
                              double z_factor, double max_norm) {
  if (threadIdx.x == 0) decide(*guard, *decision, totals_2, grad_squares, z_factor, max_norm);
}

}  // namespace

int total_losses(void* stream, double* totals_2, const double* sums_A2, int64_t A, int64_t paired) {
  return launch(stream, &total_losses_kernel, 1, kBlockMultiple, totals_2, sums_A2, A, paired);
}

int decide(void* stream, StepGuard* guard, Decision* decision, const double* totals_2, const double* grad_squares,
           double z_factor, double max_norm) {
  return launch(stream, &decide_kernel, 1, kBlockMultiple, guard, decision, totals_2, grad_squares, z_factor, max_norm);
}

}  // namespace hearth::kernels
