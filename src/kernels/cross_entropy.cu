// SPDX-License-Identifier: Apache-2.0
// One block a row of logits. The first pass over the row finds its maximum and the sum of exp(x - maximum) together:
// each thread keeps both for its elements, and rescales its sum when the maximum rises (arXiv 1805.02867). The second
// pass writes the gradient.
#include <cfloat>

#include "kernels/block.h"
#include "kernels/entries.h"
#include "kernels/launch.h"

namespace hearth::kernels {
namespace {

constexpr int32_t kIgnore = -100;  // ops/cross_entropy.h
constexpr int kInFlight = 4;       // packs that a thread loads before it uses the first

struct Row {
  const int32_t* labels_C;
  const float* weights_C;
  const double* scale_1;
  double z_factor;
  double *losses_C, *squares_C;
};

// body(pack, column) for each of this thread's packs of the row.
template <int W, class T, class Body>
__device__ void for_packs(const T* row, int64_t V, const Body& body) {
  const int64_t step = static_cast<int64_t>(blockDim.x) * W;
  for (int64_t begin = static_cast<int64_t>(threadIdx.x) * W; begin < V; begin += kInFlight * step) {
    Pack<T, W> packs[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (begin + i * step < V) packs[i] = load<W>(row + begin + i * step);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (begin + i * step < V) body(packs[i], begin + i * step);
    }
  }
}

struct Softmax {
  float largest;
  double total;  // sum of exp(x - largest); NaN if a logit is NaN or +infinity
};

template <class T, int W>
__device__ Softmax softmax_of(const T* row, int64_t V) {
  float largest = -FLT_MAX, sum = 0;  // finite: a difference of two is not NaN
  for_packs<W>(row, V, [&](const Pack<T, W>& pack, int64_t) {
    float top = pack[0];
#pragma unroll
    for (int k = 1; k < W; ++k) top = fmaxf(top, pack[k]);
    if (top > largest) {
      sum *= expf(largest - top);
      largest = top;
    }
#pragma unroll
    for (int k = 0; k < W; ++k) sum += expf(pack[k] - largest);
  });
  const float row_largest = block_max(largest);
  return {row_largest, block_sum(static_cast<double>(sum * expf(largest - row_largest)))};
}

template <class T, int W>
__device__ void zero_row(T* row, int64_t V) {
  Pack<T, W> zeros;
  for (int k = 0; k < W; ++k) zeros.set(k, 0);
  for (int64_t v = static_cast<int64_t>(threadIdx.x) * W; v < V; v += static_cast<int64_t>(blockDim.x) * W)
    store<W>(row + v, zeros);
}

template <class T, int W>
__global__ void __launch_bounds__(kThreads, 3) cross_entropy_rows_kernel(Rows logits, Row a) {
  const int64_t c = blockIdx.x, V = logits.cols, label = a.labels_C[c];
  T* row = static_cast<T*>(logits.data) + c * logits.stride;
  if (label == kIgnore) {
    if (a.scale_1 != nullptr) zero_row<T, W>(row, V);
    if (threadIdx.x == 0) a.losses_C[c] = a.squares_C[c] = 0;
    return;
  }
  const double at_label = static_cast<double>(to_float(row[label]));
  const Softmax softmax = softmax_of<T, W>(row, V);
  // A row of -infinity only has a sum of 0, which is not a distribution.
  const double total = softmax.total > 0 ? softmax.total : static_cast<double>(__uint_as_float(0x7FC00000u));
  const auto largest = static_cast<double>(softmax.largest);
  const double z = largest + log(total), weight = a.weights_C == nullptr ? 1 : static_cast<double>(a.weights_C[c]);
  if (threadIdx.x == 0) {
    a.losses_C[c] = weight * (z - at_label);
    a.squares_C[c] = weight * z * z;
  }
  if (a.scale_1 == nullptr) return;

  const double factor = *a.scale_1 * weight, growth = 1 + 2 * a.z_factor * z;
  const auto scale = static_cast<float>(factor * growth / total);
  for_packs<W>(row, V, [&](Pack<T, W> pack, int64_t v) {
#pragma unroll
    for (int k = 0; k < W; ++k) pack.set(k, expf(pack[k] - softmax.largest) * scale);
    store<W>(row + v, pack);
  });
  __syncthreads();
  if (threadIdx.x == 0) {
    row[label] = rounded<T>(static_cast<float>(factor * (growth * (exp(at_label - largest) / total) - 1)));
  }
}

template <class T, int W>
__global__ void __launch_bounds__(kThreads, 3)
    statistics_kernel(Rows logits, const int32_t* labels_C, int64_t first, double* statistics_C2) {
  const int64_t c = blockIdx.x, V = logits.cols, label = labels_C[c] - first;
  const T* row = static_cast<const T*>(logits.data) + c * logits.stride;
  double z = 0, at_label = 0;
  if (labels_C[c] != kIgnore) {
    const Softmax softmax = softmax_of<T, W>(row, V);
    const double total = softmax.total > 0 ? softmax.total : static_cast<double>(__uint_as_float(0x7FC00000u));
    z = static_cast<double>(softmax.largest) + log(total);
    if (label >= 0 && label < V) at_label = static_cast<double>(to_float(row[label]));
  }
  if (threadIdx.x != 0) return;
  statistics_C2[2 * c] = z;
  statistics_C2[2 * c + 1] = at_label;
}

// The statistics of a row over the whole vocabulary; each thread computes them.
struct WholeRow {
  double z = 0, at_label = 0;
};
__device__ WholeRow whole_row(const double* statistics_RC2, int64_t R, int64_t C, int64_t c) {
  double largest = -DBL_MAX, total = 0, at_label = 0;
  for (int64_t r = 0; r < R; ++r) {
    const double* of = statistics_RC2 + 2 * (r * C + c);
    largest = of[0] > largest ? of[0] : largest;
    at_label += of[1];
  }
  for (int64_t r = 0; r < R; ++r) total += exp(statistics_RC2[2 * (r * C + c)] - largest);
  return {largest + log(total), at_label};
}

template <class T, int W>
__global__ void __launch_bounds__(kThreads, 3)
    vocabulary_parallel_kernel(Rows logits, Row a, const double* statistics_RC2, int64_t R, int64_t first) {
  const int64_t c = blockIdx.x, V = logits.cols, label = a.labels_C[c] - first;
  T* row = static_cast<T*>(logits.data) + c * logits.stride;
  if (a.labels_C[c] == kIgnore) {
    if (a.scale_1 != nullptr) zero_row<T, W>(row, V);
    if (threadIdx.x == 0) a.losses_C[c] = a.squares_C[c] = 0;
    return;
  }
  const auto [z, at_label] = whole_row(statistics_RC2, R, logits.rows, c);
  const double weight = a.weights_C == nullptr ? 1 : static_cast<double>(a.weights_C[c]);
  if (threadIdx.x == 0) {
    a.losses_C[c] = weight * (z - at_label);
    a.squares_C[c] = weight * z * z;
  }
  if (a.scale_1 == nullptr) return;

  const double factor = *a.scale_1 * weight, growth = 1 + 2 * a.z_factor * z;
  const auto shift = static_cast<float>(z);
  const auto scale = static_cast<float>(factor * growth * exp(static_cast<double>(shift) - z));
  for_packs<W>(row, V, [&](Pack<T, W> pack, int64_t v) {
#pragma unroll
    for (int k = 0; k < W; ++k) pack.set(k, expf(pack[k] - shift) * scale);
    store<W>(row + v, pack);
  });
  __syncthreads();
  if (threadIdx.x == 0 && label >= 0 && label < V) {
    row[label] = rounded<T>(static_cast<float>(factor * (growth * exp(at_label - z) - 1)));
  }
}

// sums[0] += the losses, sums[1] += the squares. Runs as one block.
__global__ void __launch_bounds__(kThreads)
    sums_kernel(const double* losses_C, const double* squares_C, int64_t C, double* sums_2) {
  double loss = 0, square = 0;
  for (int64_t c = threadIdx.x; c < C; c += kThreads) {
    loss += losses_C[c];
    square += squares_C[c];
  }
  loss = block_sum(loss);
  square = block_sum(square);
  if (threadIdx.x == 0) {
    sums_2[0] += loss;
    sums_2[1] += square;
  }
}

// Calls body(zero, W, threads) with the element type, the width of a pack and the block's size for these rows.
template <class Body>
int on_rows(Type type, Rows logits_CV, const Body& body) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const bool aligned = logits_CV.cols % kWidth<T> == 0 && is_aligned<T>(logits_CV);
    return with_width<T>(aligned,
                         [&](auto W) { return body(zero, W, threads_for(ceil_div(logits_CV.cols, W()), kThreads)); });
  });
}

}  // namespace

int cross_entropy(void* stream, Type type, Rows logits_CV, const int32_t* labels_C, const float* weights_C,
                  const double* scale_1, double z_factor, double* scratch, double* sums_2) {
  const int64_t C = logits_CV.rows;
  if (C == 0) return 0;
  const Row arguments = {labels_C, weights_C, scale_1, z_factor, scratch, scratch + C};
  const int code = on_rows(type, logits_CV, [&](auto zero, auto W, int threads) {
    return launch(stream, &cross_entropy_rows_kernel<decltype(zero), W()>, C, threads, logits_CV, arguments);
  });
  return in_turn(code, [&] { return launch(stream, &sums_kernel, 1, kThreads, scratch, scratch + C, C, sums_2); });
}

int cross_entropy_statistics(void* stream, Type type, Rows logits_CV, const int32_t* labels_C, int64_t first,
                             double* statistics_C2) {
  if (logits_CV.rows == 0) return 0;
  return on_rows(type, logits_CV, [&](auto zero, auto W, int threads) {
    return launch(stream, &statistics_kernel<decltype(zero), W()>, logits_CV.rows, threads, logits_CV, labels_C, first,
                  statistics_C2);
  });
}

int vocabulary_parallel_cross_entropy(void* stream, Type type, Rows logits_CV, const int32_t* labels_C,
                                      const double* statistics_RC2, int64_t R, int64_t first, const float* weights_C,
                                      const double* scale_1, double z_factor, double* scratch, double* sums_2) {
  const int64_t C = logits_CV.rows;
  if (C == 0) return 0;
  const Row arguments = {labels_C, weights_C, scale_1, z_factor, scratch, scratch + C};
  const int code = on_rows(type, logits_CV, [&](auto zero, auto W, int threads) {
    return launch(stream, &vocabulary_parallel_kernel<decltype(zero), W()>, C, threads, logits_CV, arguments,
                  statistics_RC2, R, first);
  });
  return in_turn(code, [&] { return launch(stream, &sums_kernel, 1, kThreads, scratch, scratch + C, C, sums_2); });
}

}  // namespace hearth::kernels
