// SPDX-License-Identifier: Apache-2.0
// The element types of weights, activations, gradients and moments. No memory: parallel, model, optim and `hearth plan`
// use this table.
#pragma once

#include "base/dtype.h"
#include "base/quantity.h"
#include "config/config.h"

namespace hearth::plan {

struct Precision {
  DType masters;    // weights that the optimizer updates and checkpoints store
  DType compute;    // weights in products, activations, and gradients of activations
  DType gradients;  // of the weights, summed over micro-batches and ranks
  DType moments;

  // One type for everything: float32 or float64.
  Precision(DType all) : masters(all), compute(all), gradients(all), moments(all) {}  // NOLINT: a type is a precision
  Precision(DType of_masters, DType of_compute, DType of_gradients, DType of_moments)
      : masters(of_masters), compute(of_compute), gradients(of_gradients), moments(of_moments) {}
};

// The types given by training.dtype, training.mixed_precision_param and optimizer.moments_dtype.
inline Precision precision(const config::RunConfig& config) {
  if (config.training.dtype == DType::kFloat64) return DType::kFloat64;
  return {config.training.dtype, config.training.mixed_precision_param, DType::kFloat32,
          config.optimizer.moments_dtype};
}

// The bytes of a tensor in ops::Arena.
inline int64_t aligned_bytes(int64_t numel, DType dtype) { return round_up(numel * dtype_size(dtype), 64); }

}  // namespace hearth::plan
