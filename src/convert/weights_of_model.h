// SPDX-License-Identifier: Apache-2.0
// Compares tensors with the parameters that a model has.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "convert/kind.h"
#include "mesh/tensor_box.h"

namespace hearth::convert {

// Why tensors cannot be the model's weights. Names are as in the files.
struct WeightProblems {
  std::vector<std::string> missing;    // "NAME: missing"
  std::vector<std::string> unfitting;  // "NAME: float32 [8], expected [16]"
  std::vector<std::string> unknown;    // "NAME: the model has no such weight"

  bool empty() const { return missing.empty() && unfitting.empty() && unknown.empty(); }
  std::vector<std::string> all() const;
  // The first problems of each list, so that many missing weights do not hide the unknown ones.
  std::string summary() const;
};

// `tensors` have Hearth's names, and `names` says whose names the files have. Training state is no weight, and "model."
// before a name does not count.
WeightProblems weight_problems(const config::Model& model, std::span<const mesh::TensorInfo> tensors, Kind names);

}  // namespace hearth::convert
