// SPDX-License-Identifier: Apache-2.0
// The emulated device as LibTorch sees it: devices, streams and events.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <map>

#include "support/emulated/memory.h"
#include "support/emulated/queues.h"

namespace hearth::test {
namespace emulated {
namespace {

constexpr int kDevices = 16;

thread_local int device_of_thread = 0;
thread_local std::map<int, int64_t> streams_of_thread;

Queue* queue_of(const c10::Stream& stream) {
  return Queues::all().queue(stream.device_index(), static_cast<int64_t>(stream.id()));
}

// As cudaEvent_t: what it marks changes with each record.
struct Event {
  std::shared_ptr<Mark> mark;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return current_device(); }
  // As c10's for CUDA: a device that is set already is not set again. Setting one makes its context.
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() < 0 || device.index() == device_of_thread) return;
    device_of_thread = device.index();
    Queues::all().device_was_set(device_of_thread);
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  c10::Stream getStream(c10::Device device) const override {
    const c10::Device of = device.has_index() ? device : current_device();
    return c10::Stream(c10::Stream::UNSAFE, of, current_stream(of.index()));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, Queues::all().new_stream());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    streams_of_thread[stream.device_index()] = static_cast<int64_t>(stream.id());
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return queue_of(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    return Queues::all().query(Queues::all().mark(queue_of(stream)));
  }
  void synchronizeStream(const c10::Stream& stream) const override { Queues::all().synchronize(queue_of(stream)); }

  // c10's events of CUDA set their device for each of these calls, and then the one before.
  void destroyEvent(void* event, const c10::DeviceIndex device) const noexcept override {
    const c10::Device before = exchangeDevice({c10::kPrivateUse1, device});
    delete static_cast<Event*>(event);
    setDevice(before);
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    const c10::Device before = exchangeDevice(stream.device());
    if (*event == nullptr) *event = new Event;
    static_cast<Event*>(*event)->mark = Queues::all().mark(queue_of(stream));
    setDevice(before);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    const c10::Device before = exchangeDevice(stream.device());
    Queues::all().wait_for(queue_of(stream), static_cast<Event*>(event)->mark);
    setDevice(before);
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || Queues::all().query(static_cast<Event*>(event)->mark);
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) Queues::all().synchronize(static_cast<Event*>(event)->mark);
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_memory(); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

const bool registered = [] {
  c10::register_privateuse1_backend("emulated");  // pinned memory is of the accelerator that is registered
  c10::SetAllocator(c10::kPrivateUse1, device_memory());
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace

c10::Device current_device() { return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(device_of_thread)}; }
int64_t current_stream(int device) { return streams_of_thread[device]; }

}  // namespace emulated

EmulatedDevice::EmulatedDevice(uint64_t seed, Fault fault) { emulated::Queues::all().begin(seed, fault); }
EmulatedDevice::~EmulatedDevice() { emulated::Queues::all().begin(0, Fault::kNone); }

at::Device EmulatedDevice::of_rank(int64_t rank) {
  const at::Device device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(rank));
  c10::impl::getDeviceGuardImpl(c10::kPrivateUse1)->setDevice(device);
  return device;
}

int64_t EmulatedDevice::threads_on_several_devices() { return emulated::Queues::all().threads_on_several_devices(); }

}  // namespace hearth::test
