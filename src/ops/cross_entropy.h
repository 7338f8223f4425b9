// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy of one chunk of logits; the gradient overwrites the logits. The caller goes through the tokens
// in chunks (LM head GEMM, this, two gradient GEMMs), so the full logits never exist.
//
// logits [C, V] (rows may be strided); labels [C] int32, kIgnore in rows that do not count; weights [C] float32 or
// undefined (all 1). loss = sum over counted rows of weight * (log sum exp(logits) - logits[label]), accumulated in
// double in the order of the rows. Labels other than kIgnore outside 0 .. V-1 are our bug (not checked on a GPU). The
// z-loss keeps log sum exp near zero: sum of weight * (log sum exp(logits))^2. The gradient includes it times a factor.
// Source: PaLM, arXiv 2204.02311, section 5 (factor 1e-4).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "plan/parameters.h"

namespace hearth::ops {

inline constexpr int64_t kIgnore = -100;  // torch's ignore_index; data/batch/batch.h has the same number

// The sums, read from their device.
struct CrossEntropy {
  double loss = 0;       // not multiplied by any factor
  double z_squares = 0;  // sum of weight * (log sum exp(logits))^2
};

// sums_2 [2] float64 += (loss, z_squares). Logits are only read.
void cross_entropy_forward(const at::Tensor& sums_2, const at::Tensor& logits_CV, const at::Tensor& labels_C,
                           const at::Tensor& weights_C = {});

// The same, and overwrites logits with the gradient of scale * (loss + z_factor * z_squares), scale * weight * ((1 + 2
// z_factor log sum exp) softmax - onehot(label)); zero in rows that do not count. scale_1 [1] float64 is usually 1 /
// (the step's global weight sum).
void cross_entropy_forward_backward(const at::Tensor& sums_2, const at::Tensor& logits_CV, const at::Tensor& labels_C,
                                    const at::Tensor& scale_1, const at::Tensor& weights_C = {}, double z_factor = 0);

// Where ranks share the vocabulary (arXiv 1909.08053, section 3), each has the logits of its part: [C, V of the part].
// First, for each row: log sum exp of the part, and the label's logit, or 0 if the label is in another part; both 0 in
// rows that do not count. statistics_C2 [C, 2] float64.
void cross_entropy_statistics(const at::Tensor& statistics_C2, const at::Tensor& logits_CV, const at::Tensor& labels_C,
                              plan::VocabularyPart part);
// Then the functions above, from the statistics of all R ranks, [R, C, 2]. Each rank adds the whole vocabulary's sums.
// scale_1 undefined: logits are only read.
void vocabulary_parallel_cross_entropy(const at::Tensor& sums_2, const at::Tensor& logits_CV,
                                       const at::Tensor& labels_C, const at::Tensor& statistics_RC2,
                                       plan::VocabularyPart part, const at::Tensor& scale_1,
                                       const at::Tensor& weights_C = {}, double z_factor = 0);

// Waits for a GPU.
CrossEntropy read_sums(const at::Tensor& sums_2);

}  // namespace hearth::ops
