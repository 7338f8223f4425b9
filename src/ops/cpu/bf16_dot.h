// SPDX-License-Identifier: Apache-2.0
// Whether bfloat16 products use pairs: dot_pairs of simd-inl.h, one instruction for two products.
#pragma once

#include <optional>

namespace hearth::ops {

// True if the processor has AVX512_BF16. Only then may kernels compiled for AVX-512 (HEARTH_HAS_PAIRS) call dot_pairs.
bool has_bf16_dot();

// True if has_bf16_dot() and pairs are faster than multiply-adds of floats. AMD's pairs are (Zen 4: twice as fast).
// Intel's, from Sapphire Rapids on (known by AVX512_FP16), are half as fast: Intel's units for bfloat16 are AMX.
bool uses_bf16_dot();

// Sets the result of uses_bf16_dot(), if the processor has the instruction. nullopt: the true result again.
void use_bf16_dot_for_test(std::optional<bool> use);

}  // namespace hearth::ops
