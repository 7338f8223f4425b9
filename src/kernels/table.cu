// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels/entries.h"
#include "kernels/launch.h"

namespace hearth::kernels {
namespace {

#define HEARTH_TEXT(number) #number
#define HEARTH_VERSION_TEXT(major, minor) HEARTH_TEXT(major) "." HEARTH_TEXT(minor)

#if defined(__HIPCC__)
constexpr const char* kPlatform = "HIP " HEARTH_VERSION_TEXT(HIP_VERSION_MAJOR, HIP_VERSION_MINOR);
#elif defined(__CUDACC__)
constexpr const char* kPlatform = "CUDA " HEARTH_VERSION_TEXT(__CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__);
#else
constexpr const char* kPlatform = "host";
#endif

}  // namespace

const char* error_text(int code) {
  if (code == 0) return "no error";
  if (code == kTooManyBlocks) return "more blocks than one launch can have";
  if (code == kTooWide) return "heads are wider than 256, the kernel's limit";
#if defined(__HIPCC__)
  return hipGetErrorString(static_cast<hipError_t>(code));
#elif defined(__CUDACC__)
  return cudaGetErrorString(static_cast<cudaError_t>(code));
#else
  return host::error_text();
#endif
}

#if defined(__HIPCC__) || defined(__CUDACC__)

#if defined(__HIPCC__)
#define HEARTH_GPU(name) hip##name
using Properties = hipDeviceProp_t;
#else
#define HEARTH_GPU(name) cuda##name
using Properties = cudaDeviceProp;
#endif

int count_devices(int32_t* count) {
  const auto code = HEARTH_GPU(GetDeviceCount)(count);
  if (code == HEARTH_GPU(Success)) return 0;
  *count = 0;
  (void)HEARTH_GPU(GetLastError)();  // clears it: no driver is a valid answer, and no error of a later launch
  return code == HEARTH_GPU(ErrorNoDevice) || code == HEARTH_GPU(ErrorInsufficientDriver) ? 0 : code;
}

int describe_device(int32_t index, DeviceDescription* description) {
  Properties properties;
  size_t free_bytes = 0, all_bytes = 0;
  const int code = in_turn(
      HEARTH_GPU(GetDeviceProperties)(&properties, index), [&] { return HEARTH_GPU(SetDevice)(index); },
      [&] { return HEARTH_GPU(MemGetInfo)(&free_bytes, &all_bytes); });
  if (code != 0) return code;
  static_assert(sizeof properties.name <= sizeof description->name);
  std::memcpy(description->name, properties.name, sizeof properties.name);
  description->memory_bytes = static_cast<int64_t>(all_bytes);
  description->free_bytes = static_cast<int64_t>(free_bytes);
  description->major = properties.major;
  description->minor = properties.minor;
  description->multiprocessors = properties.multiProcessorCount;
  return 0;
}

#else

int count_devices(int32_t* count) {
  *count = 1;
  return 0;
}

int describe_device(int32_t, DeviceDescription* description) {
  *description = {"host", int64_t{1} << 33, int64_t{1} << 33, 0, 0, 1};
  return 0;
}

#endif

}  // namespace hearth::kernels

extern "C" __attribute__((visibility("default"))) const hearth::kernels::Table* hearth_gpu_kernels() {
  using namespace hearth::kernels;
  static const Table table = {
      .interface = HEARTH_KERNELS_INTERFACE,
      .platform = kPlatform,
      .error_text = error_text,
      .count_devices = count_devices,
      .describe_device = describe_device,
      .embedding_forward = embedding_forward,
      .embedding_backward = embedding_backward,
      .norm_forward = norm_forward,
      .norm_backward = norm_backward,
      .norm_backward_scratch = norm_backward_scratch,
      .norm_part_dots = norm_part_dots,
      .norm_part_forward = norm_part_forward,
      .norm_part_backward = norm_part_backward,
      .attention_forward = attention_forward,
      .attention_backward = attention_backward,
      .attention_scratch = attention_scratch,
      .add_bias = add_bias,
      .add_rows = add_rows,
      .add_rows_scratch = add_rows_scratch,
      .rope = rope,
      .activation_forward = activation_forward,
      .activation_backward = activation_backward,
      .cross_entropy = cross_entropy,
      .cross_entropy_statistics = cross_entropy_statistics,
      .vocabulary_parallel_cross_entropy = vocabulary_parallel_cross_entropy,
      .sum_of_squares = sum_of_squares,
      .sum_of_squares_scratch = sum_of_squares_scratch,
      .adamw = adamw,
      .total_losses = total_losses,
      .decide = decide,
      .decode_attention = decode_attention,
      .float8_rows = float8_rows,
      .float8_columns = float8_columns,
      .float8_rows_and_columns = float8_rows_and_columns,
  };
  return &table;
}
