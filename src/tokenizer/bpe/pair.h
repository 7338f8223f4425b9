// SPDX-License-Identifier: Apache-2.0
// A pair of token ids as one number: pairs in the order of their numbers are in the order of their ids.
#pragma once

#include <cstdint>

namespace hearth::tokenizer {

using Pair = uint64_t;
constexpr Pair pair_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }
constexpr uint32_t left_of(Pair pair) { return static_cast<uint32_t>(pair >> 32); }
constexpr uint32_t right_of(Pair pair) { return static_cast<uint32_t>(pair); }

}  // namespace hearth::tokenizer
