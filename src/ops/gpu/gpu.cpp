// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/gpu.h"

#include <ATen/Context.h>
#include <ATen/ops/_scaled_mm.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/program.h"
#include "base/text.h"
#include "ops/gpu/cublaslt.h"

namespace hearth::ops {
namespace {

constexpr const char* kEntry = "hearth_gpu_kernels";
constexpr std::array kLibraries = {"libhearth_cuda.so", "libhearth_hip.so"};

KernelSet in_use;
// The GPU of this process: the one with its number among the ranks of the host.
struct {
  int64_t local_rank = 0, local_ranks = 1, ranks = 1;
} chosen;

std::vector<Path> places() {
  std::vector<Path> found;
  for (const char* library : kLibraries)
    if (const auto path = beside_program(library)) found.push_back(*path);
  return found;
}

// LibTorch's CUDA operators register themselves when their library is loaded. It is in the folder of libtorch_cpu,
// which this program is linked with.
void load_libtorch(const char* library) {
  if (::dlopen(library, RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  throw user_error("LibTorch cannot use a GPU here", ::dlerror(),
                   "set HEARTH_LIBTORCH to the torch folder of a CUDA wheel that was installed with its dependencies "
                   "(pip install torch), or train with training.device = \"cpu\"");
}

const kernels::Table* load_kernels(const Path& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* entry = library == nullptr ? nullptr : ::dlsym(library, kEntry);
  if (entry == nullptr)
    throw user_error(fmt::format("cannot load {}", path.string()), ::dlerror(), "build Hearth again");
  const auto* table = reinterpret_cast<decltype(&hearth_gpu_kernels)>(entry)();
  if (table->interface != HEARTH_KERNELS_INTERFACE)
    throw user_error(
        fmt::format("{} belongs to another build than this program", path.string()),
        fmt::format("its interface is {:08x}, this program's {:08x}", table->interface, HEARTH_KERNELS_INTERFACE),
        "build Hearth again, and copy the build's bin/ folder as a whole; or train with training.device = \"cpu\"");
  return table;
}

void scaled_product(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& a_scale_M,
                    const at::Tensor& b_NK, const at::Tensor& b_scale_N, Float8Sums sums, bool accumulate) {
  if (out_MN.scalar_type() == at::kFloat)
    return float8_product_in_float32(out_MN, a_MK, a_scale_M, b_NK, b_scale_N, accumulate);
  HEARTH_CHECK(!accumulate);
  at::Tensor result = out_MN;
  at::_scaled_mm_out(result, a_MK, b_NK.t(), a_scale_M.unsqueeze(1), b_scale_N.unsqueeze(0), /*bias=*/{},
                     /*scale_result=*/{}, at::kBFloat16, /*use_fast_accum=*/sums == Float8Sums::kFast);
}

// Takes the first library whose driver reports a device: a build may have both. Only the chosen device is ever set, for
// each one that a process sets has a context of some 500 MiB.
Gpu open() {
  if (chosen.ranks > 1) ::setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);  // read at the driver's start
  const std::vector<Path> found = places();
  if (found.empty())
    throw user_error("this build of Hearth has no GPU kernels", "there is no libhearth_cuda.so in the program's folder",
                     "build again where the CUDA toolkit is installed (nvcc), or train with training.device = \"cpu\"");
  std::vector<std::string> platforms;
  for (const Path& path : found) {
    const kernels::Table* table = load_kernels(path);
    int32_t count = 0;
    kernels::DeviceDescription d{};
    const auto index = static_cast<int32_t>(chosen.local_rank);
    if (table->count_devices(&count) != 0 || count == 0) {
      platforms.emplace_back(table->platform);
      continue;
    }
    if (index >= count)
      throw Error(ExitCode::kHardware,
                  fmt::format("{} ranks on this host, and {} GPU{}", chosen.local_ranks, count, count > 1 ? "s" : ""),
                  "each rank computes on a GPU of its own, and sees all of its host",
                  "start fewer ranks a host, and do not limit a rank to one visible GPU");
    const bool hip = std::string_view(table->platform).starts_with("HIP");
    load_libtorch(hip ? "libtorch_hip.so" : "libtorch_cuda.so");
    c10::impl::getDeviceGuardImpl(at::kCUDA)->setDevice({at::kCUDA, static_cast<at::DeviceIndex>(index)});
    if (table->describe_device(index, &d) != 0) {
      platforms.emplace_back(table->platform);
      continue;
    }
    use_kernels({table, at::kCUDA, scaled_product});
    return {d.name, table->platform, d.memory_bytes, d.free_bytes, d.major, d.minor};
  }
  throw Error(ExitCode::kHardware, "no GPU here",
              fmt::format("no driver reports a device to this process (asked: {})", join(platforms)),
              "see nvidia-smi or rocm-smi, and CUDA_VISIBLE_DEVICES; or train with training.device = \"cpu\"");
}

c10::Stream current_stream(at::Device device) {
  return c10::impl::getDeviceGuardImpl(device.type())->getStream(device);
}

}  // namespace

const Gpu& open_gpu() {
  static std::mutex mutex;
  static std::unique_ptr<Gpu> gpu;
  const std::lock_guard lock(mutex);
  if (!gpu) gpu = std::make_unique<Gpu>(open());
  return *gpu;
}

void choose_gpu(int64_t local_rank, int64_t local_ranks, int64_t ranks) { chosen = {local_rank, local_ranks, ranks}; }

at::Device open_device(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  HEARTH_CHECK(name == "cuda", "device {}", name);
  open_gpu();
  return {at::kCUDA, static_cast<at::DeviceIndex>(chosen.local_rank)};
}

std::string why_no_gpu() {
  try {
    open_gpu();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

void fix_order_of_sums() {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // read at cuBLAS's first use
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // we never read uninitialized memory
}

bool on_gpu(const at::Tensor& tensor) {
  if (in_use.table == nullptr || tensor.device().type() != in_use.device) return false;
  return in_use.device != at::kCPU || tensor.scalar_type() != at::kDouble;
}

const kernels::Table& gpu_kernels() {
  HEARTH_CHECK(in_use.table != nullptr, "open_gpu() was not called");
  return *in_use.table;
}

void* gpu_stream() {
  if (in_use.device == at::kCPU) return nullptr;
  return current_stream(c10::impl::getDeviceGuardImpl(in_use.device)->getDevice()).native_handle();
}

Float8Product gpu_float8_product() { return in_use.float8_product; }

KernelSet use_kernels(const KernelSet& set) {
  HEARTH_CHECK(set.table == nullptr || set.table->interface == HEARTH_KERNELS_INTERFACE);
  return std::exchange(in_use, set);
}

void check_gpu(int code, const char* kernel) {
  if (code == 0) return;
  throw Error(ExitCode::kHardware, fmt::format("the GPU refused {}", kernel), gpu_kernels().error_text(code),
              "see the driver's log (dmesg, nvidia-smi -q); a GPU that fails once often fails again");
}

bool works_ahead(at::Device device) { return in_use.table != nullptr && device.type() == in_use.device; }

void synchronize(at::Device device) {
  if (!device.is_cpu()) current_stream(device).synchronize();
}

double gpu_seconds(at::Device device, const std::function<void()>& work) {
  constexpr auto kWithTime = c10::EventFlag::BACKEND_DEFAULT;  // PyTorch's default has none
  c10::Event begin(device.type(), kWithTime), end(device.type(), kWithTime);
  const c10::Stream stream = current_stream(device);
  begin.record(stream);
  work();
  end.record(stream);
  end.synchronize();
  return 1e-3 * begin.elapsedTime(end);
}

GpuMemory gpu_memory(at::Device device) {
  using Kind = c10::CachingAllocator::StatType;
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  const auto all = static_cast<size_t>(Kind::AGGREGATE);
  return {stats.allocated_bytes[all].current, stats.allocated_bytes[all].peak, stats.reserved_bytes[all].current};
}

}  // namespace hearth::ops
