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
__global__ void __launch_bounds__(kThreads, 3) cross_entropy_rows_kernel(Rows logits, Row a) {
  const int64_t c = blockIdx.x, V = logits.cols, label = a.labels_C[c];
  T* row = static_cast<T*>(logits.data) + c * logits.stride;
  if (label == kIgnore) {
    if (a.scale_1 != nullptr) {
      Pack<T, W> zeros;
      for (int k = 0; k < W; ++k) zeros.set(k, 0);
      for (int64_t v = static_cast<int64_t>(threadIdx.x) * W; v < V; v += static_cast<int64_t>(blockDim.x) * W)
        store<W>(row + v, zeros);
    }
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

}  // namespace

int cross_entropy(void* stream, Type type, Rows logits_CV, const int32_t* labels_C, const float* weights_C,
                  const double* scale_1, double z_factor, double* scratch, double* sums_2) {
  const int64_t C = logits_CV.rows, V = logits_CV.cols;
  if (C == 0) return 0;
  const Row arguments = {labels_C, weights_C, scale_1, z_factor, scratch, scratch + C};
  const int code = with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const bool aligned = V % kWidth<T> == 0 && is_aligned<T>(logits_CV);
    return with_width<T>(aligned, [&](auto W) {
      const int threads = threads_for(ceil_div(V, W()), kThreads);
      return launch(stream, &cross_entropy_rows_kernel<T, W()>, C, threads, logits_CV, arguments);
    });
  });
  return in_turn(code, [&] { return launch(stream, &sums_kernel, 1, kThreads, scratch, scratch + C, C, sums_2); });
}

}  // namespace hearth::kernels
