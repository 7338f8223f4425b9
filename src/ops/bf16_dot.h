// Whether this CPU multiplies pairs of bfloat16 in one instruction: dot_pairs of simd-inl.h.
#pragma once

namespace hearth::ops {

// True if the processor has AVX512_BF16: then kernels compiled for AVX-512 (HEARTH_HAS_PAIRS) may call dot_pairs.
bool has_bf16_dot();

// From now on has_bf16_dot() is false (or, again, what the processor says): kernels on AVX-512 without the instruction.
void hide_bf16_dot_for_test(bool hide);

}  // namespace hearth::ops
