// SPDX-License-Identifier: Apache-2.0
// The order between streams of a GPU: the caller computes in one, and a communication stream's thread enqueues in
// another. Marks are c10's events, so that no header of CUDA or HIP is needed. Nothing here waits on the host.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <memory>

namespace hearth::comm {

// A place in a stream: everything that was enqueued before it.
using StreamMark = std::shared_ptr<c10::Event>;

class DeviceOrder {
 public:
  explicit DeviceOrder(c10::Device device) : device_(device) {}

  // Makes the device the calling thread's own. Each thread that uses marks, or only looks at them, must call this
  // first. c10 returns to the thread's device after each call. A thread without a device would open GPU 0, which takes
  // some 500 MiB there.
  void set_device() const;
  // The same; then the calling thread enqueues in a stream of its own. Call it once, in the communication stream's
  // thread.
  void begin_thread() const;
  // Marks the present end of the calling thread's stream.
  StreamMark mark() const;
  // What the calling thread enqueues later runs after the mark.
  void wait_for(const StreamMark& mark) const;
  // cudaStream_t or hipStream_t of the calling thread.
  void* native_stream() const;

 private:
  const c10::Device device_;
};

}  // namespace hearth::comm
