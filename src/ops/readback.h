// SPDX-License-Identifier: Apache-2.0
// An asynchronous copy of a small tensor to the host. The host waits only when it asks for the copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace hearth::ops {

class Readback {
 public:
  // Enqueues the copy. It has the tensor's content at this point of the device's stream; the tensor may change
  // afterwards.
  explicit Readback(const at::Tensor& tensor);
  ~Readback();
  Readback(Readback&&) noexcept;
  Readback& operator=(Readback&&) noexcept;

  // The copy, on the host. Waits until it is complete.
  const at::Tensor& wait();

 private:
  struct Copied;  // marks the end of a GPU's copy
  at::Tensor host_;
  std::unique_ptr<Copied> copied_;
};

}  // namespace hearth::ops
