// What a step runs on: memory and speed of machines by name, so that a run can be planned for one that is not here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace hearth::machine {

// One accelerator (of MI250X one of its two dies, a GCD, as programs see them), or this machine's CPU.
struct Device {
  std::string_view name;
  int64_t memory_bytes;
  int64_t per_node;  // as such machines are built; 1: a CPU
  // What large matrix products reach, FLOP/s, not the data sheet's peak; 0: not known.
  double bfloat16_flops, float32_flops;
  std::string_view source;  // of the rate

  double gemm_flops(DType compute) const {
    return compute == DType::kBFloat16 ? bfloat16_flops : compute == DType::kFloat32 ? float32_flops : 0;
  }
};

// Named devices; the rates are those that stas00/ml-engineering measured (compute/accelerator), where it has them.
std::span<const Device> devices();
std::string device_names();  // "A100, H100, ..."
// By its name, or another that is in use ("mi250x", "A100-SXM4-80GB"), in any case, with blanks, dashes or neither,
// with or without the maker's; null: the table has no such device.
const Device* find_device(std::string_view name);
bool names_this_machine(std::string_view name);         // "cpu", "this CPU"
std::string nearest_device(std::string_view mistyped);  // the one probably meant; empty: like none

// This machine: what memory a process may use here (physical, or a control group's limit: machine/control_group.h). Its
// rates are not known.
Device this_machine();

}  // namespace hearth::machine
