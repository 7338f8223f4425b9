// The device of a run: the CPU or a GPU, opened and checked against the run's needs.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "base/dtype.h"
#include "config/config.h"
#include "ops/gpu/gpu.h"
#include "plan/parameters.h"

namespace hearth::run {

// Opens training.device. Throws Error if the device does not exist, user_error if it lacks a feature that the run
// needs. With numerics.reproducible, work on a GPU takes the same order every time.
at::Device open_compute_device(const config::RunConfig& config);

// numerics.fp8 on this GPU with this model. Throws user_error.
void check_float8(const ops::Gpu& gpu, const config::RunConfig& config, const plan::ModelShape& shape);

// Bytes for tensors: the machine's memory, or the free memory of the GPU.
int64_t available_memory(at::Device device);

// FLOP/s of large matrix products of this type there, measured once a process (0.1 to 0.2 s).
double gemm_flops(at::Device device, DType dtype, int64_t threads);

// The rate for mfu: on a GPU the rate above; on a CPU always the rate of float32 products.
double peak_flops(at::Device device, DType compute, int64_t threads);

}  // namespace hearth::run
