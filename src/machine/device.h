// SPDX-License-Identifier: Apache-2.0
// Memory and speed of devices by name: a run can be planned for a machine that is not here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace hearth::machine {

// Bytes per second that one device can send to others, in one direction, from the data sheets. 0: not known.
struct Links {
  double package_bytes_s = 0;  // to the other die of its package; 0: there is no other die
  double node_bytes_s = 0;     // to the other devices of its node together
  double fabric_bytes_s = 0;   // its share of the node's network
};

// One accelerator (for MI250X one of its two dies, a GCD, as programs see them), or this machine's CPU.
struct Device {
  std::string_view name;
  int64_t memory_bytes;
  int64_t per_node;  // devices in a usual node; 1 for a CPU
  // FLOP/s that large matrix products reach, not the data sheet's peak; 0: not known.
  double bfloat16_flops, float32_flops;
  std::string_view source;    // where the rates come from
  double memory_bytes_s = 0;  // speed of its own memory, from the data sheet
  Links links = {};

  double gemm_flops(DType compute) const {
    return compute == DType::kBFloat16 ? bfloat16_flops : compute == DType::kFloat32 ? float32_flops : 0;
  }
};

// Named devices. The rates are stas00/ml-engineering's measurements (compute/accelerator), if it has any. Links are
// those of common nodes: DGX A100 (8 x 200 Gb/s), DGX H100 and H200, and MI300X (8 x 400 Gb/s), Frontier (4 x 200 Gb/s
// for 8 GCDs; a GCD's links to other packages have 50 GB/s each).
std::span<const Device> devices();
std::string device_names();  // "A100, H100, ..."
// Finds a device by its name or an alias ("mi250x", "A100-SXM4-80GB"). Case, blanks, dashes and the maker's name do not
// matter. Null: the table has no such device.
const Device* find_device(std::string_view name);
bool names_this_machine(std::string_view name);         // "cpu", "this CPU"
std::string nearest_device(std::string_view mistyped);  // the most similar name; empty: none is similar

// This machine. Its memory is what a process may use: physical memory, or a control group's limit
// (machine/control_group.h). Its rates are not known.
Device this_machine();

}  // namespace hearth::machine
