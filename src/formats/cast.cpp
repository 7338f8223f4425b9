// SPDX-License-Identifier: Apache-2.0
#include "formats/cast.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace hearth::formats {
namespace {

float float_of_bfloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t bfloat16_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;  // PyTorch's
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float float_of_float16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1f,
                 fraction = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = static_cast<float>(fraction) * 0x1p-24F;  // subnormal, or zero
  return sign != 0 ? -small : small;
}

uint16_t float16_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);   // NaN
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 and more round to infinity
  // Below the smallest normal number the sum with 0.5 rounds at the right place: its last bit is 2^-24.
  if (magnitude < 0x38800000) {
    const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000));
  }
  const uint32_t rounded = magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

// Element i of an array of T.
template <typename T>
T element(const std::byte* at, size_t i) {
  T value;
  std::memcpy(&value, at + sizeof value * i, sizeof value);
  return value;
}
template <typename T>
void set_element(std::byte* at, size_t i, T value) {
  std::memcpy(at + sizeof value * i, &value, sizeof value);
}

float load(const std::byte* at, DType dtype, size_t i) {
  switch (dtype) {
    case DType::kFloat32:
      return element<float>(at, i);
    case DType::kFloat64:
      return static_cast<float>(element<double>(at, i));
    case DType::kBFloat16:
      return float_of_bfloat16(element<uint16_t>(at, i));
    case DType::kFloat16:
      return float_of_float16(element<uint16_t>(at, i));
    default:
      HEARTH_CHECK(false, "{} is no type of weights", dtype_name(dtype));
  }
}

void store(std::byte* at, DType dtype, size_t i, float value) {
  switch (dtype) {
    case DType::kFloat32:
      return set_element(at, i, value);
    case DType::kFloat64:
      return set_element(at, i, double{value});
    case DType::kBFloat16:
      return set_element(at, i, bfloat16_of(value));
    case DType::kFloat16:
      return set_element(at, i, float16_of(value));
    default:
      HEARTH_CHECK(false, "{} is no type of weights", dtype_name(dtype));
  }
}

// Repeats a number's bits over 64 bits.
constexpr uint64_t repeated(uint64_t bits, int width) {
  return width == 64 ? bits : ~uint64_t{0} / ((uint64_t{1} << width) - 1) * bits;
}

// A number is NaN or infinite if all bits of its exponent are set. Only then does the exponent's lowest bit, added to
// it, carry into the place of the sign. Looks at all numbers of eight bytes at once.
bool has_full_exponent(std::span<const std::byte> values, uint64_t exponent, int width) {
  const uint64_t mask = repeated(exponent, width), lowest = repeated(exponent & -exponent, width),
                 sign = repeated(uint64_t{1} << (width - 1), width);
  uint64_t found = 0;
  const auto look = [&](size_t at, size_t size) {
    uint64_t bits = 0;
    std::memcpy(&bits, values.data() + at, size);
    found |= ((bits & mask) + lowest) & sign;
  };
  const size_t whole = values.size() / 8 * 8;
  for (size_t at = 0; at < whole; at += 8) look(at, 8);
  if (whole < values.size()) look(whole, values.size() - whole);
  return found != 0;
}

}  // namespace

void cast(std::span<const std::byte> in, DType from, DType to, std::vector<std::byte>& out) {
  const size_t count = in.size() / static_cast<size_t>(dtype_size(from));
  out.resize(count * static_cast<size_t>(dtype_size(to)));
  if (from == to) {
    std::memcpy(out.data(), in.data(), in.size());
    return;
  }
  for (size_t i = 0; i < count; ++i) store(out.data(), to, i, load(in.data(), from, i));
}

bool has_nonfinite(std::span<const std::byte> values, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return has_full_exponent(values, 0x7f800000, 32);
    case DType::kFloat64:
      return has_full_exponent(values, 0x7ff0000000000000, 64);
    case DType::kBFloat16:
      return has_full_exponent(values, 0x7f80, 16);
    case DType::kFloat16:
      return has_full_exponent(values, 0x7c00, 16);
    default:
      return false;
  }
}

}  // namespace hearth::formats
