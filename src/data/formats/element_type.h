// SPDX-License-Identifier: Apache-2.0
// Element types of stored arrays.
#pragma once

#include <cstdint>

namespace hearth::data {

// Stored on disk: never renumber.
enum class ElementType : uint32_t {
  kU8 = 1,
  kU16 = 2,
  kU32 = 3,
  kU64 = 4,
  kI8 = 5,
  kI16 = 6,
  kI32 = 7,
  kI64 = 8,
  kF32 = 9,
  kF64 = 10
};

// The element type of uint8_t, uint32_t and uint64_t.
template <typename T>
inline constexpr ElementType element_type_of = sizeof(T) == 1   ? ElementType::kU8
                                               : sizeof(T) == 4 ? ElementType::kU32
                                                                : ElementType::kU64;

}  // namespace hearth::data
