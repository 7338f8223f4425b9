// SPDX-License-Identifier: Apache-2.0
// Checks another program's weights as far as their format allows, without converting them: for `hearth verify`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/kind.h"
#include "convert/transfer.h"

namespace hearth::convert {

struct WeightsCheck {
  int64_t files = 0, tensors = 0, bytes = 0;
  std::vector<std::string> problems;   // what, and why
  std::vector<std::string> checked;    // of the format: "headers", "CRC-32s"
  std::vector<std::string> unchecked;  // what the format does not let one check
};

// Reads every byte of the weights. The result has all problems of all files: damage, and what Hearth does not
// understand. Other errors, such as a failing disk, are thrown. `found` is neither kNative nor kDcp nor kTorchtitan.
WeightsCheck verify_weights(const FoundWeights& found, ConvertProgress& progress);

}  // namespace hearth::convert
