// SPDX-License-Identifier: Apache-2.0
// The GPU of this process: LibTorch's CUDA half and our kernels (kernels/kernels.h), both loaded when a run asks for a
// GPU. Other processes load nothing, start as fast as without GPU support, and need no driver. LibTorch calls AMD's
// GPUs "CUDA", too.
//
// GPU work goes to the current stream of the current device, as ATen's does. Calls do not wait for it unless they say
// so.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/kernels.h"

namespace hearth::ops {

struct Gpu {
  std::string name;  // the driver's name for it
  std::string platform;
  int64_t memory_bytes, free_bytes;  // free: after the driver and the libraries have taken theirs
  int64_t major, minor;              // compute capability

  bool has_float8() const { return major * 10 + minor >= 89; }
  // Products of float8 that are written or added to float32 (ops/gpu/cublaslt.h): only Hopper has a factor for each
  // row.
  bool has_float8_sums() const { return major == 9; }
};

// Chooses GPU number `local_rank` of this host for the process; without a call it is number 0. Call it before
// open_gpu(). With several ranks all GPU code is loaded before the first kernel runs, which makes the start slower. The
// driver loads missing code only while the GPU is idle, and a GPU that waits for another rank is never idle.
void choose_gpu(int64_t local_rank, int64_t local_ranks, int64_t ranks);

// The process's GPU. Loads everything on the first call, and makes the GPU the calling thread's device. Throws Error
// (kHardware: no GPU, or fewer than ranks; user_error: a build without GPU kernels or a LibTorch without CUDA).
const Gpu& open_gpu();
// "cpu", or "cuda": the process's GPU, opened. The values of training.device and --device.
at::Device open_device(const std::string& name);
// The reason why open_gpu() would throw; empty if it would succeed.
std::string why_no_gpu();

// Gives ATen's sums on a GPU, including attention's, a fixed order from now on. They take a little longer.
void fix_order_of_sums();

// Whether our GPU kernels compute with this tensor, after open_gpu().
bool on_gpu(const at::Tensor& tensor);

// The kernels' table, and the calling thread's stream on its device. Only after open_gpu().
const kernels::Table& gpu_kernels();
void* gpu_stream();

// How a product of float8 is added up. Tensor cores keep about 14 bits of a sum. kFast: they add the whole depth, and
// equal terms lose 2 % at a depth of 8,192 and 7 % at 28,672 (bench/results/gpu_20261128_h200.md). kExact: they add 128
// terms at a time, and these sums are added in float32.
enum class Float8Sums { kFast, kExact };
// out_MN = a_MK b_NK^T of float8, or out_MN += that, with every row multiplied by its scale, [M] and [N] in float32.
// `out` is bfloat16, which is only written, or float32, whose sums are exact.
using Float8Product = void (*)(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& a_scale_M,
                               const at::Tensor& b_NK, const at::Tensor& b_scale_N, Float8Sums sums, bool accumulate);
Float8Product gpu_float8_product();

// The implementation for a kind of device: kernels, and the one product that they leave to LibTorch.
struct KernelSet {
  const kernels::Table* table = nullptr;  // null: no kernels
  at::DeviceType device = at::kCUDA;      // kCPU: for float32 and bfloat16 only, and without a stream
  Float8Product float8_product = nullptr;
};
// Makes open_gpu() and all computation use `set` from now on. Returns the previous set. Do not call it while another
// thread computes.
KernelSet use_kernels(const KernelSet& set);
// Throws Error (kHardware) if a kernel's code is not 0.
void check_gpu(int code, const char* kernel);

// Whether the device works while the host does something else.
bool works_ahead(at::Device device);

// Waits for all work of the current stream. No effect on a CPU.
void synchronize(at::Device device);

// Seconds between the GPU's beginning and end of what `work` enqueues in the current stream, by its own clock. Waits.
double gpu_seconds(at::Device device, const std::function<void()>& work);

// The memory of ATen's allocator on this GPU. `reserved_bytes` must not grow after a training's first two steps.
struct GpuMemory {
  int64_t allocated_bytes = 0, peak_bytes = 0, reserved_bytes = 0;
};
GpuMemory gpu_memory(at::Device device);

}  // namespace hearth::ops
