// What a process sets once, before its first tensor: threads, denormals, malloc; and how fast its GEMM is.
//
// Threads. ATen and the kernels here share one OpenMP runtime (LibTorch's libgomp), whose pools belong to the thread
// that opens a parallel region. With R ranks as threads of one process every rank thread has its own pool, so each one
// calls prepare_thread(threads per rank) first; R * threads should not exceed the cores.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "base/dtype.h"

namespace hearth::ops {

// Call once in main(), before any other call of this folder. `threads` is the size of the calling thread's pool (0: the
// number of cores this process may run on). Inter-op threads: 1. Numbers below 1.2e-38 are flushed to zero in all
// threads: dying gradients would otherwise slow every kernel down tenfold. Large blocks are kept by malloc instead of
// being returned to the system and faulted in again at every step.
void prepare_process(int64_t threads);

// The part of the above that is per thread; for a thread that is itself a rank. `threads` >= 1.
void prepare_thread(int64_t threads);

// Threads a parallel region started by the calling thread uses.
int64_t num_threads();

// What matrix products of this type reach, in FLOP/s: the best of a few of random numbers, on a CPU of 1024^3 with the
// calling thread's pool, ours and LibTorch's (0.1 to 0.2 s), on a GPU of 8192^3.
double measure_gemm_flops(at::Device device, DType dtype);

}  // namespace hearth::ops
