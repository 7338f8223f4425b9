// Softmax cross-entropy of one chunk of logits, the gradient written over the logits. The caller walks the tokens in
// chunks (LM head GEMM, this, two gradient GEMMs), so the full logits never exist.
//
// logits [C, V] (rows may be strided); labels [C] int32 or int64, kIgnore where the row does not count; weights [C]
// float32 or undefined (all 1). loss = sum over counted rows of weight * (log sum exp(logits) - logits[label]),
// accumulated in double in the order of the rows. Labels other than kIgnore outside 0 .. V-1 are our bug.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hearth::ops {

inline constexpr int64_t kIgnore = -100;  // torch's ignore_index; data/batch.h has the same

// Returns the loss; logits are only read.
double cross_entropy_forward(const at::Tensor& logits_CV, const at::Tensor& labels_C, const at::Tensor& weights_C = {});

// Returns the loss (not multiplied by scale) and overwrites logits with scale * weight * (softmax - onehot(label));
// zero in rows that do not count. `scale` is usually 1 / (the step's global weight sum).
double cross_entropy_forward_backward(const at::Tensor& logits_CV, const at::Tensor& labels_C, double scale,
                                      const at::Tensor& weights_C = {});

}  // namespace hearth::ops
