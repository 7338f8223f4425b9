// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/trace.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <optional>

#include "base/error.h"

namespace hearth::ops {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

// Calls `body`, whose c10::Error becomes ours.
template <class Body>
auto of_kineto(const Body& body) {
  try {
    return body();
  } catch (const c10::Error& e) {
    throw Error(ExitCode::kHardware, "the GPU's work cannot be traced", e.what_without_backtrace(),
                "see whether the driver lets this user profile (NVreg_RestrictProfilingToAdminUsers), and whether "
                "another profiler is attached");
  }
}

std::optional<GpuActivity::Kind> kind_of(const profiler::KinetoEvent& event) {
  switch (static_cast<libkineto::ActivityType>(event.activityType())) {
    case libkineto::ActivityType::CONCURRENT_KERNEL:
      return GpuActivity::Kind::kKernel;
    case libkineto::ActivityType::GPU_MEMCPY:
      return GpuActivity::Kind::kCopy;
    case libkineto::ActivityType::GPU_MEMSET:
      return GpuActivity::Kind::kFill;
    default:  // calls of the runtime, on the host
      return std::nullopt;
  }
}

}  // namespace

GpuTrace::GpuTrace() {
  of_kineto([] {
    const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
    profiler::prepareProfiler(config, {ActivityType::CUDA});
    profiler::enableProfiler(config, {ActivityType::CUDA});
  });
}

GpuTrace::~GpuTrace() {
  try {
    if (is_on_) stop();
  } catch (const Error&) {  // nobody asks for it any more
  }
}

std::vector<GpuActivity> GpuTrace::stop() {
  is_on_ = false;
  return of_kineto([] {
    const auto* guard = c10::impl::getDeviceGuardImpl(at::kCUDA);
    guard->synchronizeDevice(guard->getDevice().index());
    const auto result = profiler::disableProfiler();
    std::vector<GpuActivity> activities;
    for (const profiler::KinetoEvent& event : result->events())
      if (const auto kind = kind_of(event))
        activities.push_back({*kind, event.name(), event.deviceIndex(), event.deviceResourceId(),
                              static_cast<int64_t>(event.startNs()), static_cast<int64_t>(event.endNs())});
    return activities;
  });
}

}  // namespace hearth::ops
