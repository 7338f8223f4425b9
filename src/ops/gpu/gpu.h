// The GPU of this process: LibTorch's CUDA half and our kernels (kernels/kernels.h), both loaded when a run asks for a
// GPU. A process that does not ask loads nothing, starts as fast as without, and needs no driver. "CUDA" is what
// LibTorch calls AMD's GPUs, too.
//
// GPU work goes to the current stream of the current device, as ATen's does, and no call here waits for it unless it
// says so.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/kernels.h"

namespace hearth::ops {

struct Gpu {
  std::string name;  // as its driver calls it
  std::string platform;
  int64_t memory_bytes, free_bytes;
  int64_t major, minor;  // compute capability

  bool has_float8() const { return major * 10 + minor >= 89; }
};

// GPU 0 of those that this process sees. Loads on the first call; throws Error (kHardware: no GPU; user_error: a build
// without GPU kernels or a LibTorch without CUDA).
const Gpu& open_gpu();
// "cpu", or "cuda": GPU 0, opened. What training.device and --device say.
at::Device open_device(const std::string& name);
// Why open_gpu() would throw; empty: it would not.
std::string why_no_gpu();

// ATen's sums on a GPU, those of attention among them, take the same order every time from here on, and a little
// longer.
void fix_order_of_sums();

// Whether our GPU kernels do the work on this tensor, after open_gpu().
bool on_gpu(const at::Tensor& tensor);

// The table, and the stream that work goes to. Only after open_gpu().
const kernels::Table& gpu_kernels();
void* gpu_stream();

// out_MN = a_MK b_NK^T of float8, every row of which is to be multiplied with its scale, [M] and [N] in float32.
using Float8Product = void (*)(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& a_scale_M,
                               const at::Tensor& b_NK, const at::Tensor& b_scale_N);
Float8Product gpu_float8_product();

// What does the work on a kind of device: kernels, and the one product that they leave to LibTorch.
struct KernelSet {
  const kernels::Table* table = nullptr;  // null: none
  at::DeviceType device = at::kCUDA;      // kCPU: of float32 and bfloat16 alone, and without a stream
  Float8Product float8_product = nullptr;
};
// From here on `set` does the work; open_gpu() uses it. Returns the set before. Not while another thread computes.
KernelSet use_kernels(const KernelSet& set);
// Throws Error (kHardware) where a kernel's code is not 0.
void check_gpu(int code, const char* kernel);

// Whether work there goes on while the host does something else.
bool works_ahead(at::Device device);

// Waits for all work of the current stream. No effect on a CPU.
void synchronize(at::Device device);

// What ATen's allocator holds on the GPU. `reserved_bytes` must not grow once a training has made two steps.
struct GpuMemory {
  int64_t allocated_bytes = 0, peak_bytes = 0, reserved_bytes = 0;
};
GpuMemory gpu_memory();

}  // namespace hearth::ops
