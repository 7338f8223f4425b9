// SPDX-License-Identifier: Apache-2.0
// The memory of the emulated device, and pinned memory: both are the host's. Freed blocks are filled with 0xFF, in the
// order of the stream that they belong to, and serve the same stream again at once.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace hearth::test::emulated {

c10::DeviceAllocator* device_memory();
c10::Allocator* pinned_memory();
bool is_pinned(const void* data);
// A copy that is under way uses the pinned block of `data`: it is kept until `use_ends`. No effect on other memory.
void use_begins(const void* data);
void use_ends(const void* data);  // within a step

// The calling thread's device and its current stream there.
c10::Device current_device();
int64_t current_stream(int device);

}  // namespace hearth::test::emulated
