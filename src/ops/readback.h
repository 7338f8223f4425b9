// A small tensor on its way to the host, which does not wait for it until it asks.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace hearth::ops {

class Readback {
 public:
  // Copies `tensor` as it is when the device's stream gets here; it may change afterwards.
  explicit Readback(const at::Tensor& tensor);
  ~Readback();
  Readback(Readback&&) noexcept;
  Readback& operator=(Readback&&) noexcept;

  // The copy, on the host. Waits until it is there.
  const at::Tensor& wait();

 private:
  struct Copied;  // when a GPU has made the copy
  at::Tensor host_;
  std::unique_ptr<Copied> copied_;
};

}  // namespace hearth::ops
