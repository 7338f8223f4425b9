// SPDX-License-Identifier: Apache-2.0
// The device that a run computes on, the CPU or a GPU. It is opened and checked against the run's needs.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "comm/control.h"
#include "config/config.h"
#include "ops/gpu/gpu.h"
#include "plan/parameters.h"

namespace hearth::run {

// Opens training.device. Throws Error if it does not exist; user_error if it cannot do what the configuration requires.
// With numerics.reproducible, a GPU adds in a fixed order, which is a little slower.
at::Device open_compute_device(const config::RunConfig& config);

// The device of one of several ranks: the GPU with its number among the ranks of its host, or the CPU. Throws as
// ops::open_device does, on all ranks. Collective.
at::Device open_rank_device(comm::Control& control, const std::string& name);

// Checks whether this GPU and this model can use numerics.fp8. Throws user_error.
void check_float8(const ops::Gpu& gpu, const config::RunConfig& config, const plan::ModelShape& shape);

// The memory available for tensors on the device: the machine's memory, or the GPU's free memory.
int64_t available_memory(at::Device device);

// FLOP/s of large matrix products of this type on the device. Measured once per process (0.1 to 0.2 s).
double gemm_flops(at::Device device, DType dtype, int64_t threads);

// The rate at which mfu is 1: gemm_flops of `compute`, or on a CPU of float32 if that is faster.
double peak_flops(at::Device device, DType compute, int64_t threads);
// The same, measured again at each call, with the calling thread's pool.
double peak_flops_now(at::Device device, DType compute);

}  // namespace hearth::run
