// SPDX-License-Identifier: Apache-2.0
// What a node's driver and kernel say about its GPUs: uncorrected memory errors, clocks, messages about faults. Asks
// the programs nvidia-smi and dmesg if they are in PATH, and reads the files of amdgpu. Changes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"

namespace hearth::bench {

struct GpuHealth {
  int64_t memory_errors = -1;  // uncorrected, of all GPUs since the driver's start; -1: not known
  double least_mhz = 0;        // the clock of the slowest GPU now; 0: not known
  double top_mhz = 0;          // the lowest of the GPUs' highest clocks; 0: not known
  std::string slowed{};        // "GPU 3: hardware slowdown"; empty: no GPU is slowed down, or not known
  bool says_slowed = false;    // nvidia-smi said whether GPUs are slowed down
  int64_t faults = -1;         // kernel messages about faulty GPUs in the last day; -1: they cannot be read
  std::string fault{};         // the newest of them, "Xid 79"
  bool operator==(const GpuHealth&) const = default;
};

// Reads all of it. `system` is the root of amdgpu's files: /sys.
GpuHealth read_gpu_health(const Path& system = "/sys");

// The parts of read_gpu_health, from the programs' output. Lines "index, errors, clock, highest clock, slowdown,
// slowdown by heat" of nvidia-smi; "[N/A]" is not known.
void add_nvidia_lines(std::string_view lines, GpuHealth& health);
// The kernel's messages. Counts the Xids of faulty hardware (NVIDIA, "XID Errors": 48, 64, 74, 79, 95, 119, 120) that
// are at most a day older than `uptime_s`. Other Xids come from faulty programs.
void add_kernel_messages(std::string_view messages, double uptime_s, GpuHealth& health);

}  // namespace hearth::bench
