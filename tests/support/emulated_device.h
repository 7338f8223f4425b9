// SPDX-License-Identifier: Apache-2.0
// A device that works while the host does something else, for tests without a GPU: LibTorch's PrivateUse1, whose
// memory is the host's. Its streams run late and in an order that a seed chooses, any that the events allow. Blocks
// that are freed are filled with 0xFF when their stream gets there. So a wait, a mark or a buffer that is missing in
// the program shows as wrong numbers. docs/decisions/emulated_device.md says what it cannot show.
//
// The library also is NCCL for ranks that are threads, on these streams (comm/nccl_group.h).
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "kernels/kernels.h"

namespace hearth::test {

// What the device does wrong, to show that a suite would notice the same fault in the program.
enum class Fault {
  kNone,
  kNoWaitForTheCaller,     // a communication stream does not wait for what the caller enqueued before the call
  kNoWaitForTheTransfer,   // the caller's stream does not wait for a call's end
  kMarkOfTheWrongStream,   // the end of a call is marked in the caller's stream
  kFreedForAnotherStream,  // a communication stream's block is used again when the caller's stream gets there
  kNoSynchronize,          // the host reads before the device has written
};

// One at a time. Seed 0 runs everything at once and in order.
class EmulatedDevice {
 public:
  explicit EmulatedDevice(uint64_t seed, Fault fault = Fault::kNone);
  ~EmulatedDevice();  // runs what is left
  EmulatedDevice(const EmulatedDevice&) = delete;

  // The device of a rank; makes it the calling thread's.
  static at::Device of_rank(int64_t rank);
  // The library's file, for NcclOptions.
  static std::string nccl_library();
  // Host threads that have set more than one device. Where a rank is a process, each would have a context there.
  static int64_t threads_on_several_devices();
  // The kernels of `table`, each a step of the stream that it is given. One table a process.
  static const kernels::Table* late(const kernels::Table* table);
};

}  // namespace hearth::test
