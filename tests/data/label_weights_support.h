// SPDX-License-Identifier: Apache-2.0
// The rows of label_weights_reference.py, and the weights in a dataset.
#pragma once

#include <string>
#include <vector>

#include "arrow_support.h"
#include "corpus_folder.h"

namespace hearth::data {

// The files, written once for all tests of this process, and their content as JSON.
struct WeightRows {
  test::ScratchFolder folder;
  std::string json = run_oracle("formats/label_weights_reference.py", "write " + folder.path().string());
};
inline const WeightRows& weight_rows() {
  static const WeightRows written;
  return written;
}

inline std::vector<float> all_weights(const Split& split) {
  std::vector<float> weights(static_cast<size_t>(split.tokens()));
  split.read_weights(0, weights);
  return weights;
}

// Joins a JSON list of lists.
template <typename T, typename Json>
std::vector<T> joined(const Json& lists) {
  std::vector<T> all;
  for (const auto& list : lists)
    for (const auto& value : list) all.push_back(value.template get<T>());
  return all;
}

}  // namespace hearth::data
