// SPDX-License-Identifier: Apache-2.0
// The distance of a tensor from a reference: |ours - reference| / |reference| in the Euclidean norm, in float64.
#pragma once

#include <cmath>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

namespace hearth::test {

// The norm of the difference itself if the reference is all zeros or has no elements.
inline double relative_distance(const at::Tensor& ours, const at::Tensor& reference) {
  const at::Tensor r = reference.to(at::kDouble);
  const double size = r.norm().item<double>(), difference = (ours.to(at::kDouble) - r).norm().item<double>();
  return size > 0 ? difference / size : difference;
}

inline double relative_distance(const std::vector<double>& ours, const std::vector<double>& reference) {
  if (ours.size() != reference.size()) return INFINITY;
  double difference = 0, size = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    difference += (ours[i] - reference[i]) * (ours[i] - reference[i]);
    size += reference[i] * reference[i];
  }
  return std::sqrt(size > 0 ? difference / size : difference);
}

}  // namespace hearth::test
