// SPDX-License-Identifier: Apache-2.0
// Our matrix products on x86 CPUs, in float32 and bfloat16, by pointers. ops/matmul.h has the three products of a
// linear layer on top of it.
//
// float32: every element of C is a sum over blocks of at most kGemmDepth products, added up in the order of k by fused
// multiply-adds; the blocks' sums are added in their order. K alone decides the blocks, so a result is the same bit for
// bit for any number of threads, and for any instruction set with fused multiply-add.
//
// bfloat16: the same sums in float32, with C rounded once, at the end. Processors that multiply pairs of bfloat16 fast
// (ops/cpu/bf16_dot.h) use blocks of kGemmDepth pairs, each of two neighbours in k. Numbers below 2^-126 then count as
// zero. Other processors widen both factors to float32 as they pack. The same bit for bit for any number of threads.
//
// NaN and infinity propagate. Both operands are packed into panels in scratch memory (ops/cpu/scratch.h). The operand
// with fewer rows takes plan::kGemmSharedFloats at a time, for all threads; the other takes half a second-level cache.
// Sums that end in bfloat16 wait for their next block in plan::kGemmSumFloats more.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace hearth::ops {

// One factor, with K its inner dimension: element (i, k) is data[i * stride + k], or data[k * stride + i].
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

// Chosen with two threads and the shapes of a step: docs/decisions/matrix_products.md.
constexpr int64_t kGemmDepth = 768;

// Any sizes, also 0. Threads: the calling thread's pool.
void gemm(const Gemm<float, float>& product);
void gemm(const Gemm<c10::BFloat16, c10::BFloat16>& product);
void gemm(const Gemm<c10::BFloat16, float>& product);

// True if gemm() is the fastest product of such operands on this machine: an x86 with AVX2 or AVX-512. False for
// bfloat16 on processors with matrix units (AMX), which only oneDNN uses. Constant for the life of the process.
template <class T>
bool gemm_is_preferred();
template <>
bool gemm_is_preferred<float>();
template <>
bool gemm_is_preferred<c10::BFloat16>();

}  // namespace hearth::ops
