// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's functions, as far as Hearth calls them. The library is one of LibTorch's CUDA half and is found there at
// run time (ops/gpu/cublaslt.cpp), so a build needs no toolkit; tests/ops/cublaslt_header_test.cpp compares these
// declarations with cuBLASLt's header. Names without the prefix "cublasLt". Source: cublasLt.h of CUDA 12.9 and 13.0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hearth::ops::cublaslt {

using Handle = struct Context*;
using Product = struct ProductDescription*;      // cublasLtMatmulDesc_t
using MatrixLayout = struct LayoutDescription*;  // cublasLtMatrixLayout_t
using Preference = struct PreferenceSettings*;   // cublasLtMatmulPreference_t

inline constexpr int kSuccess = 0;                    // CUBLAS_STATUS_SUCCESS
inline constexpr int kSumsInFloat32 = 68;             // CUBLAS_COMPUTE_32F
inline constexpr int kFloat32 = 0, kFloat8E4m3 = 28;  // cudaDataType
inline constexpr int32_t kTransposed = 1;             // CUBLAS_OP_T
inline constexpr int32_t kFactorForEachRow = 3;       // CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F, since 12.9
// cublasLtMatmulDescAttributes_t, cublasLtMatmulPreferenceAttributes_t
inline constexpr int kTransposeA = 3, kScaleA = 17, kScaleB = 18, kFastSums = 25, kScaleModeA = 31, kScaleModeB = 32;
inline constexpr int kWorkspaceBytes = 1, kAlignmentC = 7, kAlignmentD = 8;

struct Algorithm {
  uint64_t data[8];
};
// cublasLtMatmulHeuristicResult_t
struct Candidate {
  Algorithm algorithm;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

// Results are kSuccess or an error; `stream` is a cudaStream_t. Matrices are [rows, cols] with contiguous columns, `ld`
// elements from one to the next.
struct LtFunctions {
  int (*Create)(Handle* handle);
  int (*MatmulDescCreate)(Product* product, int sums, int factor_type);
  int (*MatmulDescSetAttribute)(Product product, int attribute, const void* value, size_t bytes);
  int (*MatmulDescDestroy)(Product product);
  int (*MatrixLayoutCreate)(MatrixLayout* layout, int type, uint64_t rows, uint64_t cols, int64_t ld);
  int (*MatrixLayoutDestroy)(MatrixLayout layout);
  int (*MatmulPreferenceCreate)(Preference* preference);
  int (*MatmulPreferenceSetAttribute)(Preference preference, int attribute, const void* value, size_t bytes);
  int (*MatmulPreferenceDestroy)(Preference preference);
  int (*MatmulAlgoGetHeuristic)(Handle handle, Product product, MatrixLayout a, MatrixLayout b, MatrixLayout c,
                                MatrixLayout d, Preference preference, int most, Candidate* candidates, int* found);
  int (*Matmul)(Handle handle, Product product, const void* alpha, const void* a, MatrixLayout a_layout, const void* b,
                MatrixLayout b_layout, const void* beta, const void* c, MatrixLayout c_layout, void* d,
                MatrixLayout d_layout, const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                void* stream);
};

}  // namespace hearth::ops::cublaslt
