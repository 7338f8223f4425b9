// A float32 matrix product of our own, for CPUs on which MKL's is slow. Pointers only; the three products of a linear
// layer on it are ops/matmul.h.
//
// Every element of C is a sum over blocks of at most kGemmDepth products, added up in the order of k by fused
// multiply-adds; the blocks' sums are added in their order. Where the blocks lie follows from K alone, so a result is
// the same bit for bit for any number of threads, and for any instruction set with fused multiply-add. NaN and infinity
// propagate. Both operands are brought into packed panels in scratch memory (ops/scratch.h): plan::kGemmSharedFloats of
// the operand with fewer rows at a time, for all threads, and what fits half a second-level cache of the other.
#pragma once

#include <cstdint>

namespace hearth::ops {

// One factor, with K its inner dimension: element (i, k) stands at data[i * stride + k], or at data[k * stride + i].
struct GemmOperand {
  const float* data = nullptr;
  int64_t stride = 0;
  bool k_is_contiguous = true;
};

// C(m, n) (+)= sum_k a(m, k) b(n, k), with C(m, n) at c[m * stride_c + n]. C overlaps neither operand.
struct Gemm {
  int64_t M = 0, N = 0, K = 0;
  GemmOperand a, b;
  float* c = nullptr;
  int64_t stride_c = 0;
  bool accumulate = false;
};

// Chosen on a Zen 4 with two threads, at the shapes of a step: docs/decisions.md.
constexpr int64_t kGemmDepth = 512;

// Any sizes, 0 too. Threads: the calling thread's pool.
void gemm(const Gemm& product);

// True if gemm() is the product of choice on this machine: an x86 with AVX2 or AVX-512 that Intel did not make. MKL
// takes its AVX-512 kernels on Intel's alone. Does not change while the process lives.
bool gemm_is_faster_than_mkl();

}  // namespace hearth::ops
