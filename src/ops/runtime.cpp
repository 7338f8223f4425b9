// SPDX-License-Identifier: Apache-2.0
#include "ops/runtime.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "machine/cores.h"
#include "ops/gpu/gpu.h"
#include "ops/matmul.h"
#include "ops/tensor.h"

namespace hearth::ops {
namespace {

// glibc returns freed blocks above a threshold to the system, and the next step faults every page in again. 32 MiB is
// the largest threshold that it accepts. Setting it also fixes it.
void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_TOP_PAD, 16 << 20);
#endif
}

}  // namespace

void prepare_process(int64_t threads) {
  keep_freed_memory();
  at::set_num_interop_threads(1);
  prepare_thread(threads > 0 ? threads : machine::available_cores());
}

void prepare_thread(int64_t threads) {
  HEARTH_CHECK(threads >= 1);
  at::init_num_threads();  // ATen's per-thread default first, or it would overwrite ours
  at::set_num_threads(static_cast<int>(threads));
  // Every thread of the pool gets one item, including the calling thread.
  at::parallel_for(0, threads, 1, [](int64_t, int64_t) { at::globalContext().setFlushDenormal(true); });
}

int64_t num_threads() { return at::get_num_threads(); }

double measure_gemm_flops(at::Device device, DType dtype) {
  const int64_t size = device.is_cpu() ? 1024 : 8192;
  const at::Tensor x = empty({size, size}, dtype, device), w = empty({size, size}, dtype, device);
  for (const at::Tensor& factor : {x, w}) factor.uniform_(-1, 1);  // zeros take less power: a GPU would run faster
  const at::Tensor out = empty({size, size}, dtype, device);
  double best_s = 1e30;
  const auto measure = [&](const auto& product) {
    const auto start = std::chrono::steady_clock::now();
    product();
    synchronize(device);
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best_s = std::min(best_s, s);
    return s;
  };
  // The first of each product starts the pool. Every training waits for this before its first step: three more, and
  // then others only while they are quick.
  double total_s = 0;
  for (int i = 0; i < 4 || (i < 8 && total_s < 0.1); ++i) {
    total_s += measure([&] { matmul(out, x, w); });
    if (device.is_cpu()) total_s += measure([&] { aten::matmul(out, x, w); });
  }
  return 2 * std::pow(static_cast<double>(size), 3) / best_s;
}

}  // namespace hearth::ops
