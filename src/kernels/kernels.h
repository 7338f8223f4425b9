// SPDX-License-Identifier: Apache-2.0
// The GPU kernels, with a C interface: a table of functions of a library that nvcc (libhearth_cuda.so) or hipcc
// (libhearth_hip.so) built. It is loaded when a run asks for a GPU (ops/gpu/gpu.h). The .cu files in this folder are
// one source for both, and include neither ATen nor any other folder of Hearth. Tests compile the same files for the
// host.
//
// Every function enqueues work on `stream` (cudaStream_t or hipStream_t as void*) and returns at once: 0, or a code for
// error_text. All pointers are device memory unless said otherwise; nothing is allocated. Meanings are in the header of
// the same name in ops/. Sums are in float32 or wider. Equal inputs give equal bits: no atomic additions. Element types
// are float32 or bfloat16; statistics, gradients of weights and tables are always float32.
#pragma once

#include <cstdint>

#include "kernels/step_decision.h"

namespace hearth::kernels {

enum class Type : int32_t { kFloat32, kBFloat16 };

// [rows, cols], contiguous columns, `stride` elements from row to row. data null: absent, if allowed.
struct Rows {
  void* data;
  int64_t rows, cols, stride;
};
struct ConstRows {
  const void* data;
  int64_t rows, cols, stride;
};

// [B, S, N, K] with contiguous K; strides in elements.
struct Heads {
  void* data;
  int64_t B, S, N, K;
  int64_t stride_b, stride_s, stride_n;
};

// Which positions of a sequence (of S) the rows of Heads are: the first `length` rows begin at position `first`, the
// others at `second`.
struct Places {
  int64_t S, first, second, length;
};

// plan::NormType, in its order.
enum class NormKind : int32_t { kRmsNorm, kLayerNorm, kNpLayerNorm, kRmsNormNeox, kRmsNorm1p };

// plan::Activation, in its order.
enum class ActivationKind : int32_t { kSilu, kGelu, kGeluTanh, kRelu2, kClampedSwiglu };

// One AdamW update; ops/adamw.h. Values that change from step to step are in device memory, in Decision.
struct AdamWUpdate {
  double lr, beta1, beta2, eps, decay, l2;
  int64_t updates_before;     // the moments' own t is the decision's t minus this
  int32_t transformers_form;  // 1: eps before the bias correction, decay after the update
  Type parameter, moments;    // the gradient is float32
  // If `stochastic`, a bfloat16 parameter and bfloat16 moments draw for element i from Philox(key, first + i), as in
  // ops/adamw.h.
  int32_t stochastic;
  uint32_t key[2];
  uint64_t first;
};

// A device as its driver describes it; host memory.
struct DeviceDescription {
  char name[256];
  int64_t memory_bytes, free_bytes;
  int32_t major, minor;  // compute capability; 9 and 0 for gfx90a
  int32_t multiprocessors;
};

struct Table {
  uint32_t interface;    // a hash of these headers (cmake/InterfaceHash.cmake): other builds' libraries are refused
  const char* platform;  // "CUDA 13.0", "HIP 5.2", "host"
  const char* (*error_text)(int code);
  // Not on a stream: the number of devices (0 without a driver), and the description of device `index`, which becomes
  // the calling thread's device.
  int (*count_devices)(int32_t* count);
  int (*describe_device)(int32_t index, DeviceDescription* description);

  // `first`: the id of the table's first row. Ids outside the table give rows of zeros.
  int (*embedding_forward)(void* stream, Type, Rows x_TD, ConstRows weight_VD, const int32_t* tokens_T, int64_t first);
  // dweight [V, D] float32 += rows of dx, except for ids outside the table. order_T: places sorted by token, equal
  // tokens by place.
  int (*embedding_backward)(void* stream, Type, Rows dweight_VD, ConstRows dx_TD, const int32_t* tokens_T,
                            const int64_t* order_T, int64_t first);

  // With r and h: h = x + r, then y = norm(h); else y = norm(x). size_T; mean_T null for norms without a mean. `heads`
  // rows follow each other without gaps, and strides are between such groups; 1: between rows.
  int (*norm_forward)(void* stream, Type, NormKind, double eps, Rows h_TD, Rows y_TD, float* size_T, float* mean_T,
                      ConstRows x_TD, ConstRows r_TD, int64_t heads, const void* weight_D);
  // dweight_D null with weight_D null. `scratch`: norm_backward_scratch(T, D) floats.
  int (*norm_backward)(void* stream, Type, NormKind, double eps, Rows dx_TD, float* dweight_D, ConstRows dy_TD,
                       ConstRows x_TD, int64_t heads, const float* size_T, const float* mean_T, const void* weight_D,
                       int32_t accumulate, float* scratch);
  int64_t (*norm_backward_scratch)(int64_t T, int64_t D);
  // Norms of rows of which ranks have parts (ops/norm.h). dots = sum of a b w over a row (times its scale);
  // weight_D and scale_T may be null. `scratch`: norm_backward_scratch(T, D) floats.
  int (*norm_part_dots)(void* stream, Type, NormKind, float* dots_T, ConstRows a_TD, ConstRows b_TD,
                        const void* weight_D, const float* scale_T);
  int (*norm_part_forward)(void* stream, Type, NormKind, double eps, int64_t width, Rows y_TD, float* statistics_T,
                           ConstRows x_TD, const void* weight_D);
  int (*norm_part_backward)(void* stream, Type, NormKind, int64_t width, Rows dx_TD, float* dweight_D, ConstRows dy_TD,
                            ConstRows x_TD, const float* statistics_T, const float* dots_T, const void* weight_D,
                            float* scratch);

  // Exact attention for cases that the vendors' kernels do not take (float32, odd head widths): out, lse [B, H, S]
  // float32 and the gradients, which are overwritten, as in ops/attention.h; K up to 256. `places`: of q. starts_N:
  // ascending int32 places in [B * S], including each sequence's first place; null: a sequence is one document.
  // `reach`: as in ops::AttentionMask. `scale`: of the scores; 0: 1 / sqrt(K). `scratch`: attention_scratch(B, S, H)
  // floats, S of q.
  int (*attention_forward)(void* stream, Type, Heads out, float* lse, Heads q, Heads k, Heads v, Places places,
                           int32_t causal, int64_t reach, const int32_t* starts_N, int64_t N, float scale);
  int (*attention_backward)(void* stream, Type, Heads dq, Heads dk, Heads dv, Heads dout, Heads out, const float* lse,
                            Heads q, Heads k, Heads v, Places places, int32_t causal, int64_t reach,
                            const int32_t* starts_N, int64_t N, float scale, float* scratch);
  int64_t (*attention_scratch)(int64_t B, int64_t S, int64_t H);

  // y += bias, in each row.
  int (*add_bias)(void* stream, Type, Rows y_TN, const void* bias_N);
  // sums_N += the sum of the rows of x. `scratch`: add_rows_scratch(T, N) floats.
  int (*add_rows)(void* stream, Type, float* sums_N, ConstRows x_TN, float* scratch);
  int64_t (*add_rows_scratch)(int64_t T, int64_t N);

  // In place. table [positions, K] float32; direction +1 or -1. starts_N as above: positions count from there.
  int (*rope)(void* stream, Type, Heads x, Places places, const float* table, int32_t halves, const int32_t* starts_N,
              int64_t N, float direction);

  // x [T, F], or [T, 2F] with a gate.
  int (*activation_forward)(void* stream, Type, ActivationKind, Rows a_TF, ConstRows x_TN);
  // a_TF absent: not written. dx may be x, a may be da.
  int (*activation_backward)(void* stream, Type, ActivationKind, Rows dx_TN, ConstRows da_TF, ConstRows x_TN,
                             Rows a_TF);

  // sums[0] += the weighted losses, sums[1] += the weighted squares of log sum exp. With scale_1, the gradient
  // overwrites the logits. weights_C null: all 1. `scratch`: 2 * C doubles.
  int (*cross_entropy)(void* stream, Type, Rows logits_CV, const int32_t* labels_C, const float* weights_C,
                       const double* scale_1, double z_factor, double* scratch, double* sums_2);
  // cross_entropy in two halves, for logits of the part of the vocabulary that begins at id `first`. statistics_C2: the
  // part's log sum exp and the label's logit (0 if the label is in another part). statistics_RC2: the same from R
  // ranks.
  int (*cross_entropy_statistics)(void* stream, Type, Rows logits_CV, const int32_t* labels_C, int64_t first,
                                  double* statistics_C2);
  int (*vocabulary_parallel_cross_entropy)(void* stream, Type, Rows logits_CV, const int32_t* labels_C,
                                           const double* statistics_RC2, int64_t R, int64_t first,
                                           const float* weights_C, const double* scale_1, double z_factor,
                                           double* scratch, double* sums_2);

  // out_1[0] += the sum of squares of n elements. `scratch`: sum_of_squares_scratch(n) doubles.
  int (*sum_of_squares)(void* stream, Type, const void* x, int64_t n, double* scratch, double* out_1);
  int64_t (*sum_of_squares_scratch)(int64_t n);

  // parameter, exp_avg and exp_avg_sq [n], of the step's types. `copy`: bfloat16 [n], the float32 parameter rounded to
  // nearest; null: absent. `decision` says whether anything changes, the gradient's scale, and t, the update's number.
  int (*adamw)(void* stream, AdamWUpdate step, const Decision* decision, void* parameter, const float* gradient,
               void* exp_avg, void* exp_avg_sq, void* copy, int64_t n);

  // kernels/step_decision.h, by one thread.
  int (*total_losses)(void* stream, double* totals_2, const double* sums_A2, int64_t A, int64_t paired);
  int (*decide)(void* stream, StepGuard* guard, Decision* decision, const double* totals_2, const double* grad_squares,
                double z_factor, double max_norm);

  // q [B, N, H, K] with caches [B, C, G, K] of `length` filled rows: ops::decode_attention. With rows_B and lengths_B,
  // and N = 1: ops::decode_attention_of_rows; null: query b has cache b, of `length` rows. sinks_H: null for none.
  int (*decode_attention)(void* stream, Type, Heads out, Heads q, Heads k_cache, Heads v_cache, int64_t length,
                          int64_t reach, const int32_t* rows_B, const int32_t* lengths_B, float scale,
                          const float* sinks_H);

  // x [R, C] to float8 e4m3fn with one factor a row: out[r][c] = x[r][c] * (1 / scale[r]), scale[r] = max |x[r]| / 448
  // (at least 1e-12). Transposed: out [C, R], one factor for each column of x. Both at once read x twice, not four
  // times.
  int (*float8_rows)(void* stream, Type, uint8_t* out_RC, float* scale_R, ConstRows x_RC);
  int (*float8_columns)(void* stream, Type, uint8_t* out_CR, float* scale_C, ConstRows x_RC);
  int (*float8_rows_and_columns)(void* stream, Type, uint8_t* rows_RC, float* scale_R, uint8_t* columns_CR,
                                 float* scale_C, ConstRows x_RC);
};

}  // namespace hearth::kernels

// The library's only symbol.
extern "C" const hearth::kernels::Table* hearth_gpu_kernels();
