// SPDX-License-Identifier: Apache-2.0
// Reads an array of spike counts from a .npy file of uint8, [neurons, bins].
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "recordings/spike_array.h"

namespace hearth::recordings {

enum class ArrayFault { kNone, kWrongType, kMalformed, kTooLong, kUnreadable };

struct ReadArray {
  SpikeArray array;  // without labels; empty if there is a fault
  ArrayFault fault = ArrayFault::kNone;
  std::string why;  // the fault, for people: "it has 1 dimensions, ..."; empty for kTooLong
};

// `file` is the whole file. An array of more than `most_cells` counts is kTooLong. Throws user_error for bytes that are
// no .npy file, and damaged() for one that ends inside its header.
ReadArray read_array(std::span<const std::byte> file, int64_t most_cells);

}  // namespace hearth::recordings
