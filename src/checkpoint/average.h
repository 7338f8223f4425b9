// SPDX-License-Identifier: Apache-2.0
// The mean of checkpoints of one model: weights only, element by element.
//
// Sources: Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", SIAM J. Control Optim. 1992;
// Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", UAI 2018.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "base/file.h"

namespace hearth::checkpoint {

struct AverageInput {
  Path folder;
  double weight = 1;  // above 0 and finite; only the ratios count
};

struct AverageProgress {
  std::atomic<int64_t> done_bytes{0}, all_bytes{0};  // of the inputs' weights
};

struct Averaged {
  int64_t step = 0;  // the largest one of the inputs
  int64_t tensors = 0, bytes = 0;
};

// The name of the inputs' list in Manifest::states. Stored on disk: never change.
inline constexpr const char* kAverageState = "average";

// Local. Writes the mean of `inputs` as a checkpoint `folder`, a new one on a disk or in a store:
//
//   mean = sum of weight * element / sum of the weights
//
// in float64, in the order of the inputs, rounded once to float32. Weights in bfloat16 and float16 are then rounded
// from float32. Memory: a portion of one tensor. Each input's checksums are checked, and every byte of it was read
// back from the disk when this returns.
//
// The input with the largest step gives the rest of hearth.json, without metrics, the guard's state and the optimizer.
// states["average"] lists the inputs. Throws user_error for fewer than two inputs, and for a `folder` that exists. Also
// for inputs without hearth.json, with the same weights, or with other keys of the model, another tokenizer, or other
// names, types or shapes of weights. Throws damaged() for a damaged input.
Averaged average_checkpoints(std::span<const AverageInput> inputs, const Path& folder, AverageProgress& progress);

}  // namespace hearth::checkpoint
