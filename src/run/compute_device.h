// What a run computes on: the CPU or a GPU, opened, and checked against what the run wants of it.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "base/dtype.h"
#include "config/config.h"
#include "ops/gpu/gpu.h"
#include "plan/parameters.h"

namespace hearth::run {

// Opens training.device. Throws Error where it is not there; user_error where it cannot do what the run asks for. With
// numerics.reproducible, work on a GPU takes the same order every time.
at::Device open_compute_device(const config::RunConfig& config);

// numerics.fp8 on this GPU with this model. Throws user_error.
void check_float8(const ops::Gpu& gpu, const config::RunConfig& config, const plan::ModelShape& shape);

// What tensors may take there: the machine's memory, or what is free on the GPU.
int64_t available_memory(at::Device device);

// FLOP/s of large matrix products of this type there, measured once a process (0.1 to 0.2 s).
double gemm_flops(at::Device device, DType dtype, int64_t threads);

// What mfu is a share of: on a GPU the above, on a CPU that of float32, whatever a run computes in.
double peak_flops(at::Device device, DType compute, int64_t threads);

}  // namespace hearth::run
