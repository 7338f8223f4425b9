// Matrix products of our own on x86 CPUs, in float32 and bfloat16. Pointers only; the three products of a linear layer
// on it are ops/matmul.h.
//
// float32: every element of C is a sum over blocks of at most kGemmDepth products, added up in the order of k by fused
// multiply-adds; the blocks' sums are added in their order. Where the blocks lie follows from K alone, so a result is
// the same bit for bit for any number of threads, and for any instruction set with fused multiply-add.
//
// bfloat16: the same sums in float32, with C rounded once, at the end. Where the processor is fast at multiplying pairs
// of bfloat16 (ops/cpu/bf16_dot.h) a block is of kGemmDepth pairs, two neighbours in k at a time, and numbers below
// 2^-126 count as zero; elsewhere both factors are widened to float32 as they are packed. The same bit for bit for any
// number of threads.
//
// NaN and infinity propagate. Both operands are brought into packed panels in scratch memory (ops/cpu/scratch.h):
// plan::kGemmSharedFloats of the operand with fewer rows at a time, for all threads, and what fits half a second-level
// cache of the other. Sums that end in bfloat16 wait for their next block in plan::kGemmSumFloats more.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace hearth::ops {

// One factor, with K its inner dimension: element (i, k) stands at data[i * stride + k], or at data[k * stride + i].
template <class T>
struct GemmOperand {
  const T* data = nullptr;
  int64_t stride = 0;
  bool k_is_contiguous = true;
};

// C(m, n) (+)= sum_k a(m, k) b(n, k), with C(m, n) at c[m * stride_c + n]. C overlaps neither operand.
template <class T, class C>
struct Gemm {
  int64_t M = 0, N = 0, K = 0;
  GemmOperand<T> a, b;
  C* c = nullptr;
  int64_t stride_c = 0;
  bool accumulate = false;
};

// Chosen with two threads at the shapes of a step: docs/decisions/matrix_products_intel.md.
constexpr int64_t kGemmDepth = 768;

// Any sizes, 0 too. Threads: the calling thread's pool.
void gemm(const Gemm<float, float>& product);
void gemm(const Gemm<c10::BFloat16, c10::BFloat16>& product);
void gemm(const Gemm<c10::BFloat16, float>& product);

// True if gemm() of such operands is the product of choice on this machine: an x86 with AVX2 or AVX-512, except in
// bfloat16 one with matrix units (AMX), which only oneDNN uses. Does not change while the process lives.
template <class T>
bool gemm_is_preferred();
template <>
bool gemm_is_preferred<float>();
template <>
bool gemm_is_preferred<c10::BFloat16>();

}  // namespace hearth::ops
