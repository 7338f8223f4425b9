// SPDX-License-Identifier: Apache-2.0
// From tensors to the GPU kernels' arguments, checked. Only for the .cpp files of ops/.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <type_traits>

#include "base/error.h"
#include "ops/gpu/gpu.h"
#include "plan/context_parallel.h"
#include "plan/parameters.h"

namespace hearth::ops::gpu {

inline kernels::Type type_of(const at::Tensor& tensor) {
  HEARTH_CHECK(tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16, "no GPU kernel for {}",
               c10::toString(tensor.scalar_type()));
  return tensor.scalar_type() == at::kFloat ? kernels::Type::kFloat32 : kernels::Type::kBFloat16;
}

// [rows, cols] with contiguous rows, of the type that the call names. Undefined: absent.
inline kernels::ConstRows rows(const at::Tensor& x, kernels::Type type) {
  if (!x.defined()) return {};
  HEARTH_CHECK(x.dim() == 2 && (x.size(1) <= 1 || x.stride(1) == 1) && type_of(x) == type);
  return {x.const_data_ptr(), x.size(0), x.size(1), x.stride(0)};
}

inline kernels::Rows mutable_rows(const at::Tensor& x, kernels::Type type) {
  const kernels::ConstRows r = rows(x, type);
  return {x.defined() ? x.mutable_data_ptr() : nullptr, r.rows, r.cols, r.stride};
}

inline kernels::Heads heads(const at::Tensor& x, kernels::Type type) {
  HEARTH_CHECK(x.dim() == 4 && (x.size(3) <= 1 || x.stride(3) == 1) && type_of(x) == type);
  return {x.mutable_data_ptr(), x.size(0), x.size(1), x.size(2), x.size(3), x.stride(0), x.stride(1), x.stride(2)};
}

inline kernels::NormKind kind_of(const plan::Norm& norm) { return static_cast<kernels::NormKind>(norm.type); }
static_assert(static_cast<int>(plan::NormType::kRmsNorm) == static_cast<int>(kernels::NormKind::kRmsNorm) &&
              static_cast<int>(plan::NormType::kLayerNorm) == static_cast<int>(kernels::NormKind::kLayerNorm) &&
              static_cast<int>(plan::NormType::kNpLayerNorm) == static_cast<int>(kernels::NormKind::kNpLayerNorm) &&
              static_cast<int>(plan::NormType::kRmsNormNeox) == static_cast<int>(kernels::NormKind::kRmsNormNeox) &&
              static_cast<int>(plan::NormType::kRmsNorm1p) == static_cast<int>(kernels::NormKind::kRmsNorm1p));

inline kernels::Places places(const plan::Chunks& positions, int64_t S) {
  return {S, positions.first, positions.second, positions.length};
}

template <class T>
T* pointer(const at::Tensor& x) {
  if (!x.defined()) return nullptr;
  using Value = std::remove_const_t<T>;
  HEARTH_CHECK(x.is_contiguous() && x.scalar_type() == c10::CppTypeToScalarType<Value>::value);
  if constexpr (std::is_const_v<T>) {
    return x.const_data_ptr<Value>();
  } else {
    return x.mutable_data_ptr<Value>();
  }
}

// Scratch memory on the device of `like`, from ATen's caching allocator, which reuses it in stream order.
template <class T>
at::Tensor scratch(int64_t numel, const at::Tensor& like) {
  return at::empty({numel}, like.options().dtype(c10::CppTypeToScalarType<T>::value));
}

}  // namespace hearth::ops::gpu
