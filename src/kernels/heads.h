// SPDX-License-Identifier: Apache-2.0
// Shared by the two attention kernels: the rows of their operands, and the score of a hidden key.
#pragma once

#include "kernels/kernels.h"
#include "kernels/platform.h"

namespace hearth::kernels {

inline constexpr float kHidden = -3e38f;  // finite: a difference of two is not NaN

template <class T>
__device__ inline T* row_of(const Heads& x, int64_t b, int64_t s, int64_t n) {
  return static_cast<T*>(x.data) + b * x.stride_b + s * x.stride_s + n * x.stride_n;
}

}  // namespace hearth::kernels
