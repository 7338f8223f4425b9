// Whether products of bfloat16 go by pairs (dot_pairs of simd-inl.h), one instruction for two of them.
#pragma once

#include <optional>

namespace hearth::ops {

// True if the processor has AVX512_BF16: then kernels compiled for AVX-512 (HEARTH_HAS_PAIRS) may call dot_pairs.
bool has_bf16_dot();

// True if it has, and pairs are faster than multiply-adds of floats. They are on AMD's (Zen 4: twice as fast), and half
// as fast on Intel's from Sapphire Rapids on (told by AVX512_FP16), whose units for bfloat16 are AMX.
bool uses_bf16_dot();

// What uses_bf16_dot() says from now on, if the processor has the instruction; nullopt: the truth again.
void use_bf16_dot_for_test(std::optional<bool> use);

}  // namespace hearth::ops
