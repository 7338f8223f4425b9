// SPDX-License-Identifier: Apache-2.0
// Hearth's declarations of cuBLASLt against cuBLASLt's own header.
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define HEARTH_HAS_CUBLASLT_HEADER 1
#endif
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "ops/gpu/cublaslt_api.h"
#include "support/same_call.h"

namespace hearth::ops {
namespace {

#ifdef HEARTH_HAS_CUBLASLT_HEADER

#define HEARTH_SAME(name)                                                                    \
  static_assert(hearth::test::SameCall<decltype(cublaslt::LtFunctions::name),                \
                                       std::add_pointer_t<decltype(cublasLt##name)>>::value, \
                #name)
HEARTH_SAME(Create);
HEARTH_SAME(MatmulDescCreate);
HEARTH_SAME(MatmulDescSetAttribute);
HEARTH_SAME(MatmulDescDestroy);
HEARTH_SAME(MatrixLayoutCreate);
HEARTH_SAME(MatrixLayoutDestroy);
HEARTH_SAME(MatmulPreferenceCreate);
HEARTH_SAME(MatmulPreferenceSetAttribute);
HEARTH_SAME(MatmulPreferenceDestroy);
HEARTH_SAME(MatmulAlgoGetHeuristic);
HEARTH_SAME(Matmul);

using namespace cublaslt;
static_assert(kSuccess == CUBLAS_STATUS_SUCCESS && kSumsInFloat32 == CUBLAS_COMPUTE_32F);
static_assert(kFloat32 == CUDA_R_32F && kFloat8E4m3 == CUDA_R_8F_E4M3 && kTransposed == CUBLAS_OP_T);
static_assert(sizeof kTransposed == sizeof(cublasOperation_t));
static_assert(kFactorForEachRow == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
static_assert(kTransposeA == CUBLASLT_MATMUL_DESC_TRANSA && kFastSums == CUBLASLT_MATMUL_DESC_FAST_ACCUM);
static_assert(kScaleA == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER && kScaleB == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
static_assert(kScaleModeA == CUBLASLT_MATMUL_DESC_A_SCALE_MODE && kScaleModeB == CUBLASLT_MATMUL_DESC_B_SCALE_MODE);
static_assert(kWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kAlignmentC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(kAlignmentD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(Candidate) == sizeof(cublasLtMatmulHeuristicResult_t));
#define HEARTH_SAME_PLACE(ours, theirs) \
  static_assert(offsetof(Candidate, ours) == offsetof(cublasLtMatmulHeuristicResult_t, theirs), #ours)
HEARTH_SAME_PLACE(algorithm, algo);
HEARTH_SAME_PLACE(workspace_bytes, workspaceSize);
HEARTH_SAME_PLACE(status, state);
HEARTH_SAME_PLACE(reserved, reserved);

TEST(CublasltHeader, AgreesWithOurDeclarations) {}  // the assertions above

#else

TEST(CublasltHeader, AgreesWithOurDeclarations) { GTEST_SKIP() << "cublasLt.h is not here"; }

#endif

}  // namespace
}  // namespace hearth::ops
