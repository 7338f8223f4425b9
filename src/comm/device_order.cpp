// SPDX-License-Identifier: Apache-2.0
#include "comm/device_order.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace hearth::comm {
namespace {

const c10::impl::DeviceGuardImplInterface& of(c10::Device device) {
  return *c10::impl::getDeviceGuardImpl(device.type());
}

}  // namespace

void DeviceOrder::set_device() const { of(device_).setDevice(device_); }

void DeviceOrder::begin_thread() const {
  set_device();
  of(device_).exchangeStream(of(device_).getStreamFromGlobalPool(device_, /*isHighPriority=*/true));
}

StreamMark DeviceOrder::mark() const {
  auto event = std::make_shared<c10::Event>(device_.type());
  event->record(of(device_).getStream(device_));
  return event;
}

void DeviceOrder::wait_for(const StreamMark& mark) const { mark->block(of(device_).getStream(device_)); }

void* DeviceOrder::native_stream() const { return of(device_).getStream(device_).native_handle(); }

}  // namespace hearth::comm
