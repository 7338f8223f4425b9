// The element types of weights, activations, gradients and moments. No memory: parallel, model, optim and `hearth plan`
// use this table.
#pragma once

#include "base/dtype.h"
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
Precision precision(const config::RunConfig& config);

}  // namespace hearth::plan
