// SPDX-License-Identifier: Apache-2.0
#include "ops/readback.h"

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace hearth::ops {

struct Readback::Copied {
  c10::Event event;
};

Readback::Readback(const at::Tensor& tensor) {
  const bool is_here = tensor.device().is_cpu();
  host_ = at::empty(tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type()).pinned_memory(!is_here));
  host_.copy_(tensor, /*non_blocking=*/true);
  if (is_here) return;
  const at::Device device = tensor.device();
  copied_ = std::make_unique<Copied>(Copied{c10::Event(device.type())});
  copied_->event.record(c10::impl::getDeviceGuardImpl(device.type())->getStream(device));
}

Readback::~Readback() = default;
Readback::Readback(Readback&&) noexcept = default;
Readback& Readback::operator=(Readback&&) noexcept = default;

const at::Tensor& Readback::wait() {
  if (copied_) copied_->event.synchronize();
  copied_.reset();
  return host_;
}

}  // namespace hearth::ops
