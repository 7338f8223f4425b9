// SPDX-License-Identifier: Apache-2.0
// Everything that this process's GPU does, timed by the GPU's own clock: each kernel, copy and fill of ours, of
// LibTorch and of NCCL. LibTorch's Kineto asks the driver for it (CUPTI on NVIDIA's GPUs, roctracer on AMD's).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hearth::ops {

struct GpuActivity {
  enum class Kind { kKernel, kCopy, kFill };
  Kind kind;
  std::string name;  // a kernel's, with its template arguments; "Memcpy DtoH (Device -> Pinned)"
  int64_t device, stream;
  int64_t begin_ns, end_ns;  // since 1970, on the host's clock as Kineto translates it
};

// Records from here to stop(). The process may have one at a time.
class GpuTrace {
 public:
  // After open_gpu(). Throws Error (kHardware) where the driver refuses, for example to a process without the right to
  // profile.
  GpuTrace();
  ~GpuTrace();
  GpuTrace(const GpuTrace&) = delete;
  GpuTrace& operator=(const GpuTrace&) = delete;

  // Waits for the GPU, ends the recording, and returns what ran since the constructor, in no order. Throws as the
  // constructor does. Call it once.
  std::vector<GpuActivity> stop();

 private:
  bool is_on_ = true;
};

}  // namespace hearth::ops
