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
// Throws Error (kHardware) where a kernel's code is not 0.
void check_gpu(int code, const char* kernel);

// Whether work there goes on while the host does something else: on a GPU, emulated or not.
bool works_ahead(at::Device device);

// Waits for all work of the current stream. No effect on a CPU.
void synchronize(at::Device device);

// What ATen's allocator holds on the GPU. `reserved_bytes` must not grow once a training has made two steps.
struct GpuMemory {
  int64_t allocated_bytes = 0, peak_bytes = 0, reserved_bytes = 0;
};
GpuMemory gpu_memory();

// Tests: while it lives, float32 and bfloat16 tensors of the CPU go to `table`, the kernels compiled for the host.
class EmulatedGpu {
 public:
  explicit EmulatedGpu(const kernels::Table& table);
  ~EmulatedGpu();
  EmulatedGpu(const EmulatedGpu&) = delete;
};

}  // namespace hearth::ops
