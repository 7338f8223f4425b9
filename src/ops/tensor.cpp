// SPDX-License-Identifier: Apache-2.0
#include "ops/tensor.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>
#include <sys/mman.h>

#include <cerrno>

#include "base/error.h"

namespace hearth::ops {
namespace {

constexpr int64_t kAlignment = 64;  // a cache line, an AVX-512 vector
constexpr int64_t kHugePage = 2 * 1024 * 1024;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Zero pages at a multiple of kHugePage; each is backed by memory when first written.
at::Tensor huge_pages(int64_t size_bytes) {
  const auto length = static_cast<size_t>(round_up(size_bytes, kHugePage) + kHugePage);
  void* mapping = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    throw system_error(fmt::format("cannot allocate {} MiB", size_bytes >> 20), errno,
                       "lower training.local_batch_size, training.seq_len or the size of the model");
  }
  const auto address = reinterpret_cast<uintptr_t>(mapping);
  const uintptr_t aligned = (address + kHugePage - 1) / kHugePage * kHugePage;
  auto* data = reinterpret_cast<void*>(aligned);
  ::madvise(data, length - (aligned - address), MADV_HUGEPAGE);  // only a hint: small pages work as well
  return at::from_blob(
      data, {size_bytes}, [mapping, length](void*) { ::munmap(mapping, length); },
      at::TensorOptions().dtype(at::kByte));
}

}  // namespace

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return at::kFloat;
    case DType::kFloat64:
      return at::kDouble;
    case DType::kBFloat16:
      return at::kBFloat16;
    case DType::kFloat16:
      return at::kHalf;
    case DType::kInt64:
      return at::kLong;
    case DType::kInt32:
      return at::kInt;
    case DType::kInt16:
      return at::kShort;
    case DType::kInt8:
      return at::kChar;
    case DType::kUInt8:
      return at::kByte;
    case DType::kBool:
      return at::kBool;
  }
  HEARTH_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

DType dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DType::kFloat32;
    case at::kDouble:
      return DType::kFloat64;
    case at::kBFloat16:
      return DType::kBFloat16;
    case at::kHalf:
      return DType::kFloat16;
    case at::kLong:
      return DType::kInt64;
    case at::kInt:
      return DType::kInt32;
    case at::kShort:
      return DType::kInt16;
    case at::kChar:
      return DType::kInt8;
    case at::kByte:
      return DType::kUInt8;
    case at::kBool:
      return DType::kBool;
    default:
      HEARTH_CHECK(false, "no name for element type {}", c10::toString(tensor.scalar_type()));
  }
}

at::Tensor empty(at::IntArrayRef shape, DType dtype, at::Device device) {
  return at::empty(shape, at::TensorOptions().dtype(scalar_type(dtype)).device(device));
}

at::Tensor zeros(at::IntArrayRef shape, DType dtype, at::Device device) {
  return at::zeros(shape, at::TensorOptions().dtype(scalar_type(dtype)).device(device));
}

at::Tensor view_as(const at::Tensor& flat, int64_t offset, at::IntArrayRef shape) {
  return flat.narrow(0, offset, c10::multiply_integers(shape)).view(shape);
}

at::Tensor view_as(const at::Tensor& bytes, int64_t offset_bytes, at::IntArrayRef shape, DType dtype) {
  const int64_t size_bytes = c10::multiply_integers(shape) * dtype_size(dtype);
  return bytes.narrow(0, offset_bytes, size_bytes).view(scalar_type(dtype)).view(shape);
}

namespace {

template <class T>
at::Tensor from_values(std::span<const T> values, at::ScalarType type, at::Device device) {
  const auto n = static_cast<int64_t>(values.size());
  const at::Tensor host = at::empty({n}, at::TensorOptions().dtype(type).pinned_memory(!device.is_cpu()));
  std::copy(values.begin(), values.end(), static_cast<T*>(host.mutable_data_ptr()));
  if (device.is_cpu()) return host;
  // Pinned memory is reused only after the copy: its allocator ensures it.
  const at::Tensor tensor = at::empty({n}, at::TensorOptions().dtype(type).device(device));
  tensor.copy_(host, /*non_blocking=*/true);
  return tensor;
}

}  // namespace

at::Tensor from_int32(std::span<const int32_t> values, at::Device device) {
  return from_values(values, at::kInt, device);
}
at::Tensor from_int64(std::span<const int64_t> values, at::Device device) {
  return from_values(values, at::kLong, device);
}
at::Tensor from_float32(std::span<const float> values, at::Device device) {
  return from_values(values, at::kFloat, device);
}
at::Tensor from_float64(std::span<const double> values, at::Device device) {
  return from_values(values, at::kDouble, device);
}
at::Tensor from_bytes(std::span<const std::byte> values, at::Device device) {
  return from_values(values, at::kByte, device);
}

std::vector<double> to_doubles(const at::Tensor& tensor) {
  const at::Tensor doubles = empty(tensor.sizes(), DType::kFloat64);
  doubles.copy_(tensor);
  return {doubles.const_data_ptr<double>(), doubles.const_data_ptr<double>() + tensor.numel()};
}

std::vector<int64_t> to_int64s(const at::Tensor& tensor) {
  const at::Tensor here = empty(tensor.sizes(), DType::kInt64);
  here.copy_(tensor);
  return {here.const_data_ptr<int64_t>(), here.const_data_ptr<int64_t>() + tensor.numel()};
}

void copy_(const at::Tensor& dst, const at::Tensor& src) {
  HEARTH_CHECK(dst.sizes() == src.sizes());
  dst.copy_(src);
}

void zero_(const at::Tensor& dst) { dst.zero_(); }

void sum_copies(const at::Tensor& dst, const at::Tensor& src) { dst.copy_(src.sum(/*dim=*/{2}, /*keepdim=*/true)); }

void add_(const at::Tensor& dst, const at::Tensor& src) {
  HEARTH_CHECK(dst.sizes() == src.sizes() && dst.scalar_type() == src.scalar_type());
  dst.add_(src);
}

void scale(const at::Tensor& dst, const at::Tensor& src, double factor) {
  HEARTH_CHECK(dst.sizes() == src.sizes() && dst.scalar_type() == src.scalar_type());
  at::Tensor to = dst;
  at::mul_out(to, src, at::native::wrapped_scalar_tensor(factor));
}

void scale_rows_(const at::Tensor& matrix, const at::Tensor& factors) {
  HEARTH_CHECK(matrix.dim() == 2 && factors.numel() == matrix.size(0));
  matrix.mul_(factors.view({-1, 1}));
}

at::Tensor on_device(const at::Tensor& tensor, at::Device device) {
  if (tensor.device().type() == device.type()) return tensor;
  const at::Tensor there = empty(tensor.sizes(), dtype_of(tensor), device);
  there.copy_(tensor);
  return there;
}

at::Tensor on_host(const at::Tensor& tensor) { return on_device(tensor, at::kCPU); }

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  HEARTH_CHECK(tensor.is_contiguous() && tensor.device().is_cpu());
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

Arena::Arena(int64_t capacity_bytes, at::Device device)
    : bytes_(device.is_cpu() ? huge_pages(capacity_bytes) : zeros({capacity_bytes}, DType::kUInt8, device)),
      capacity_(capacity_bytes) {}

Arena Arena::host_memory_for(at::Device device, int64_t capacity_bytes) {
  if (device.is_cpu()) return Arena(capacity_bytes);
  return Arena(at::empty({capacity_bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true)));
}

int64_t Arena::bytes_for(at::IntArrayRef shape, DType dtype) {
  return round_up(c10::multiply_integers(shape) * dtype_size(dtype), kAlignment);
}

at::Tensor Arena::take(at::IntArrayRef shape, DType dtype) {
  const int64_t size_bytes = bytes_for(shape, dtype);
  HEARTH_CHECK(used_ + size_bytes <= capacity_, "arena of {} bytes: {} used, {} more asked for", capacity_, used_,
               size_bytes);
  const at::Tensor bytes = bytes_.narrow(0, used_, c10::multiply_integers(shape) * dtype_size(dtype));
  used_ += size_bytes;
  return bytes.view(scalar_type(dtype)).view(shape);
}

void Arena::rewind(int64_t mark) {
  HEARTH_CHECK(mark >= 0 && mark <= used_);
  used_ = mark;
}

}  // namespace hearth::ops
