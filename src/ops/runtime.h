// SPDX-License-Identifier: Apache-2.0
// Settings that a process makes once, before its first tensor: threads, denormals, malloc. Also its GEMM speed.
//
// Threads. ATen and the kernels here share one OpenMP runtime (LibTorch's libgomp). Its pools belong to the thread that
// opens a parallel region. With R ranks as threads of one process every rank thread has its own pool. Each one calls
// prepare_thread(threads per rank) first; R * threads should not exceed the cores.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "base/dtype.h"

namespace hearth::ops {

// Call once in main(), before any other call of this folder. `threads` is the size of the calling thread's pool (0: the
// number of cores this process may run on). Inter-op threads: 1. Numbers below 1.2e-38 are flushed to zero in all
// threads: tiny gradients would otherwise slow every kernel down tenfold. malloc keeps large blocks, instead of
// returning them to the system and faulting them in again at every step.
void prepare_process(int64_t threads);

// The per-thread part of it, for a thread that is itself a rank. `threads` >= 1.
void prepare_thread(int64_t threads);

// The number of threads in a parallel region that the calling thread starts.
int64_t num_threads();

// The speed of matrix products of this type, in FLOP/s: the best of a few of random numbers. On a CPU: 1024^3 with the
// calling thread's pool, ours and LibTorch's (0.1 to 0.2 s). On a GPU: 8192^3.
double measure_gemm_flops(at::Device device, DType dtype);

}  // namespace hearth::ops
