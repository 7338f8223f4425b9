// SPDX-License-Identifier: Apache-2.0
// One block a row, where heads are rows, too; in backward, one block for several rows in sequence. A thread keeps its
// part of a row in registers: kCount packs of W elements. kCount 0 is for rows that are too long for registers: they
// are read again.
#include "kernels/block.h"
#include "kernels/entries.h"
#include "kernels/launch.h"

namespace hearth::kernels {
namespace {

struct Norm {
  float eps, one;  // `one` is added to weights
  bool is_centred, eps_outside;
  int32_t heads;  // rows that follow each other, for one stride
};

float added_one(NormKind kind) { return kind == NormKind::kRmsNorm1p ? 1 : 0; }

Norm norm_of(NormKind kind, double eps, int64_t heads) {
  return {static_cast<float>(eps), added_one(kind), kind == NormKind::kLayerNorm || kind == NormKind::kNpLayerNorm,
          kind == NormKind::kRmsNormNeox, static_cast<int32_t>(heads)};
}

// The first element of row t of D.
__device__ inline int64_t start_of(const Norm& norm, int64_t t, int64_t stride, int64_t D) {
  return norm.heads == 1 ? t * stride : t / norm.heads * stride + t % norm.heads * D;
}

// body(column, j) for this thread's packs of a row of D; j is below kCount, or 0.
template <int W, int kCount, class Body>
__device__ void for_packs(int64_t D, const Body& body) {
  if constexpr (kCount > 0) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const int64_t col = (static_cast<int64_t>(j) * blockDim.x + threadIdx.x) * W;
      if (col < D) body(col, j);
    }
  } else {
    for (int64_t col = static_cast<int64_t>(threadIdx.x) * W; col < D; col += static_cast<int64_t>(blockDim.x) * W)
      body(col, 0);
  }
}

template <class T, int W, int kCount>
__global__ void __launch_bounds__(1024) norm_forward_kernel(Norm norm, Rows h, Rows y, float* size_T, float* mean_T,
                                                            ConstRows x, ConstRows r, const T* weight) {
  const int64_t t = blockIdx.x, D = x.cols;
  const T* from = static_cast<const T*>(x.data) + start_of(norm, t, x.stride, D);
  const T* residual = r.data == nullptr ? nullptr : static_cast<const T*>(r.data) + start_of(norm, t, r.stride, D);
  T* sum_row = residual == nullptr ? nullptr : static_cast<T*>(h.data) + start_of(norm, t, h.stride, D);
  T* to = static_cast<T*>(y.data) + start_of(norm, t, y.stride, D);
  Pack<T, W> kept[kCount > 0 ? kCount : 1];
  float total = 0, squares = 0;
  for_packs<W, kCount>(D, [&](int64_t col, int j) {
    Pack<T, W> pack = load<W>(from + col);
    if (residual != nullptr) {
      const Pack<T, W> more = load<W>(residual + col);
      for (int k = 0; k < W; ++k) pack.set(k, pack[k] + more[k]);
      store<W>(sum_row + col, pack);
    }
    kept[j] = pack;
    for (int k = 0; k < W; ++k) {
      total += pack[k];
      squares = fmaf(pack[k], pack[k], squares);
    }
  });
  const T* normed = residual != nullptr ? sum_row : from;
  const auto again = [&](int64_t col, int j) { return kCount > 0 ? kept[j] : load<W>(normed + col); };

  float mean = 0;
  if (norm.is_centred) {
    mean = block_sum(total) / static_cast<float>(D);
    squares = 0;
    for_packs<W, kCount>(D, [&](int64_t col, int j) {
      const Pack<T, W> pack = again(col, j);
      for (int k = 0; k < W; ++k) squares = fmaf(pack[k] - mean, pack[k] - mean, squares);
    });
  }
  const float mean_square = block_sum(squares) / static_cast<float>(D);
  const float scale = 1 / (norm.eps_outside ? sqrtf(mean_square) + norm.eps : sqrtf(mean_square + norm.eps));
  if (threadIdx.x == 0) {
    size_T[t] = norm.eps_outside ? sqrtf(mean_square) : scale;
    if (norm.is_centred) mean_T[t] = mean;
  }
  for_packs<W, kCount>(D, [&](int64_t col, int j) {
    Pack<T, W> pack = again(col, j), w;
    if (weight != nullptr) w = load<W>(weight + col);
    for (int k = 0; k < W; ++k) pack.set(k, (pack[k] - mean) * scale * (weight == nullptr ? 1 : w[k] + norm.one));
    store<W>(to + col, pack);
  });
}

struct Backward {
  Norm norm;
  Rows dx;
  ConstRows dy, x;
  const float *size_T, *mean_T;
  float* partial;  // [blocks, D], or null without a weight
  bool accumulate;
};

// With g = w dy:  dx = r (g - mean(g) - c n mean(g n)) (+ dx), with mean(g) only for norms that subtract the mean, and
// c as in ops/reference.h. The block's part of the weight's gradient, sum of dy n, also stays in registers; for rows
// that are too long it is in the block's row of `partial`.
template <class T, int W, int kCount>
__global__ void __launch_bounds__(512, 1) norm_backward_kernel(Backward a, const T* weight) {
  const int64_t D = a.x.cols;
  float dw[kCount > 0 ? kCount : 1][W] = {};
  float* partial = a.partial == nullptr ? nullptr : a.partial + blockIdx.x * D;
  for (int64_t t = blockIdx.x; t < a.x.rows; t += gridDim.x) {
    const T* dy = static_cast<const T*>(a.dy.data) + start_of(a.norm, t, a.dy.stride, D);
    const T* x = static_cast<const T*>(a.x.data) + start_of(a.norm, t, a.x.stride, D);
    T* dx = static_cast<T*>(a.dx.data) + start_of(a.norm, t, a.dx.stride, D);
    const float size = a.size_T[t], mean = a.norm.is_centred ? a.mean_T[t] : 0;
    const float r = a.norm.eps_outside ? 1 / (size + a.norm.eps) : size;
    const float c = !a.norm.eps_outside ? 1 : size > 0 ? (size + a.norm.eps) / size : 0;

    Pack<T, W> kept_dy[kCount > 0 ? kCount : 1], kept_x[kCount > 0 ? kCount : 1];
    PairOfSums sums = {0, 0};  // of g n, of g
    for_packs<W, kCount>(D, [&](int64_t col, int j) {
      const Pack<T, W> g = kept_dy[j] = load<W>(dy + col), row = kept_x[j] = load<W>(x + col);
      Pack<T, W> w;
      if (weight != nullptr) w = load<W>(weight + col);
      for (int k = 0; k < W; ++k) {
        const float gn = g[k] * ((row[k] - mean) * r), factor = weight == nullptr ? 1 : w[k] + a.norm.one;
        if (kCount > 0) {
          dw[j][k] += gn;
        } else if (partial != nullptr) {
          partial[col + k] = (t == static_cast<int64_t>(blockIdx.x) ? 0 : partial[col + k]) + gn;
        }
        sums.first = fmaf(gn, factor, sums.first);
        sums.second = fmaf(g[k], factor, sums.second);
      }
    });
    sums = block_sum(sums);
    const float along = c * sums.first / static_cast<float>(D);
    const float even = a.norm.is_centred ? sums.second / static_cast<float>(D) : 0;

    for_packs<W, kCount>(D, [&](int64_t col, int j) {
      const Pack<T, W> g = kCount > 0 ? kept_dy[j] : load<W>(dy + col);
      const Pack<T, W> row = kCount > 0 ? kept_x[j] : load<W>(x + col);
      Pack<T, W> w, out;
      if (weight != nullptr) w = load<W>(weight + col);
      if (a.accumulate) out = load<W>(dx + col);
      for (int k = 0; k < W; ++k) {
        const float n = (row[k] - mean) * r, weighted = weight == nullptr ? g[k] : g[k] * (w[k] + a.norm.one);
        out.set(k, fmaf(r, fmaf(-n, along, weighted - even), a.accumulate ? out[k] : 0));
      }
      store<W>(dx + col, out);
    });
  }
  if (kCount > 0 && partial != nullptr) {
    for_packs<W, kCount>(D, [&](int64_t col, int j) {
      Pack<float, W> pack;
      for (int k = 0; k < W; ++k) pack.set(k, dw[j][k]);
      store<W>(partial + col, pack);
    });
  }
}

// More than three packs in backward would not fit the registers of 512 threads.
constexpr int kMostForward = 4, kMostBackward = 3;

// How a row is cut: packs a thread keeps, threads a block. Rows without packs are rare, and are always read again.
struct Cut {
  int count, threads;
};
Cut cut_of(int64_t D, int W, int most_count, int most_threads) {
  const int64_t packs = ceil_div(D, W);
  if (W == 1 || packs > most_count * most_threads) return {0, threads_for(packs, most_threads)};
  if (packs <= 256) return {1, threads_for(packs, 256)};
  if (packs <= 1024) return {2, threads_for(ceil_div(packs, 2), 512)};
  return {most_count, threads_for(ceil_div(packs, most_count), most_threads)};
}

// body(W, count) as integral constants; kMost is the largest count.
template <class T, int kMost, class Body>
int with_cut(int W, Cut cut, const Body& body) {
  constexpr auto kPacks = std::integral_constant<int, kWidth<T>>();
  const auto again = std::integral_constant<int, 0>();
  if (W == 1) return body(std::integral_constant<int, 1>(), again);
  if (cut.count == 1) return body(kPacks, std::integral_constant<int, 1>());
  if (cut.count == 2) return body(kPacks, std::integral_constant<int, 2>());
  if (cut.count == kMost) return body(kPacks, std::integral_constant<int, kMost>());
  return body(kPacks, again);
}

// Enough blocks to fill a GPU with the threads for a row of D.
int64_t backward_blocks(int64_t T, int64_t D) {
  const int64_t full = kFullGrid * 128 / threads_for(ceil_div(D, 8), 512);
  return T < full ? T : full;
}

}  // namespace

int norm_forward(void* stream, Type type, NormKind kind, double eps, Rows h_TD, Rows y_TD, float* size_T, float* mean_T,
                 ConstRows x_TD, ConstRows r_TD, int64_t heads, const void* weight_D) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const auto* weight = static_cast<const T*>(weight_D);
    const bool aligned = x_TD.cols % kWidth<T> == 0 && is_aligned<T>(x_TD) && is_aligned<T>(y_TD) &&
                         is_aligned(weight) && (r_TD.data == nullptr || (is_aligned<T>(r_TD) && is_aligned<T>(h_TD)));
    const int width = aligned ? kWidth<T> : 1;
    const Cut cut = cut_of(x_TD.cols, width, kMostForward, 1024);
    return with_cut<T, kMostForward>(width, cut, [&](auto W, auto count) {
      return launch(stream, &norm_forward_kernel<T, W(), count()>, x_TD.rows, cut.threads, norm_of(kind, eps, heads),
                    h_TD, y_TD, size_T, mean_T, x_TD, r_TD, weight);
    });
  });
}

int64_t norm_backward_scratch(int64_t T, int64_t D) { return backward_blocks(T, D) * D; }

int norm_backward(void* stream, Type type, NormKind kind, double eps, Rows dx_TD, float* dweight_D, ConstRows dy_TD,
                  ConstRows x_TD, int64_t heads, const float* size_T, const float* mean_T, const void* weight_D,
                  int32_t accumulate, float* scratch) {
  const int64_t T = x_TD.rows, D = x_TD.cols, blocks = backward_blocks(T, D);
  const bool has_weight = weight_D != nullptr;
  const Backward arguments = {norm_of(kind, eps, heads),      dx_TD,          dy_TD, x_TD, size_T, mean_T,
                              has_weight ? scratch : nullptr, accumulate != 0};
  const int code = with_type(type, [&](auto zero) {
    using Value = decltype(zero);
    const auto* weight = static_cast<const Value*>(weight_D);
    const bool aligned = D % kWidth<Value> == 0 && is_aligned<Value>(x_TD) && is_aligned<Value>(dy_TD) &&
                         is_aligned<Value>(dx_TD) && is_aligned(weight) && is_aligned(scratch);
    const int width = aligned ? kWidth<Value> : 1;
    const Cut cut = cut_of(D, width, kMostBackward, 512);
    return with_cut<Value, kMostBackward>(width, cut, [&](auto W, auto count) {
      return launch(stream, &norm_backward_kernel<Value, W(), count()>, blocks, cut.threads, arguments, weight);
    });
  });
  if (code != 0 || !has_weight || T == 0) return code;
  return add_partial_rows(stream, dweight_D, scratch, blocks, D);
}

// Rows of which ranks have parts: one block a row; in backward one block for several rows, as above.
namespace {

constexpr int kPartThreads = 512;

template <class T>
__device__ const T* row_of(const ConstRows& rows, int64_t t) {
  return static_cast<const T*>(rows.data) + t * rows.stride;
}

// body(column) for this thread's packs of a row of D.
template <int W, class Body>
__device__ void for_columns(int64_t D, const Body& body) {
  for (int64_t col = static_cast<int64_t>(threadIdx.x) * W; col < D; col += static_cast<int64_t>(blockDim.x) * W)
    body(col);
}

template <class T, int W>
__global__ void __launch_bounds__(kPartThreads)
    part_dots_kernel(float one, float* dots_T, ConstRows a, ConstRows b, const T* weight, const float* scale_T) {
  const int64_t t = blockIdx.x;
  const T *left = row_of<T>(a, t), *right = row_of<T>(b, t);
  float sum = 0;
  for_columns<W>(a.cols, [&](int64_t col) {
    const Pack<T, W> l = load<W>(left + col), r = load<W>(right + col);
    Pack<T, W> w;
    if (weight != nullptr) w = load<W>(weight + col);
    for (int k = 0; k < W; ++k) sum = fmaf(l[k] * r[k], weight == nullptr ? 1 : w[k] + one, sum);
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) dots_T[t] = scale_T == nullptr ? sum : sum * scale_T[t];
}

template <class T, int W>
__global__ void __launch_bounds__(kPartThreads)
    part_forward_kernel(float one, float eps, float width, Rows y, float* statistics_T, ConstRows x, const T* weight) {
  const int64_t t = blockIdx.x;
  const float r = 1 / sqrtf(statistics_T[t] / width + eps);
  __syncthreads();  // all threads have read the sum
  if (threadIdx.x == 0) statistics_T[t] = r;
  const T* from = row_of<T>(x, t);
  T* to = static_cast<T*>(y.data) + t * y.stride;
  for_columns<W>(x.cols, [&](int64_t col) {
    Pack<T, W> pack = load<W>(from + col);
    const Pack<T, W> w = load<W>(weight + col);
    for (int k = 0; k < W; ++k) pack.set(k, pack[k] * r * (w[k] + one));
    store<W>(to + col, pack);
  });
}

// A thread always has the same columns: its row of `partial` [blocks, D] needs no other thread.
template <class T, int W>
__global__ void __launch_bounds__(kPartThreads)
    part_backward_kernel(float one, float width, Rows dx, ConstRows dy, ConstRows x, const float* statistics_T,
                         const float* dots_T, const T* weight, float* partial) {
  float* dw = partial + blockIdx.x * x.cols;
  for (int64_t t = blockIdx.x; t < x.rows; t += gridDim.x) {
    const float r = statistics_T[t], along = dots_T[t] / width;
    const T *gradient = row_of<T>(dy, t), *row = row_of<T>(x, t);
    T* to = static_cast<T*>(dx.data) + t * dx.stride;
    for_columns<W>(x.cols, [&](int64_t col) {
      const Pack<T, W> g = load<W>(gradient + col), v = load<W>(row + col), w = load<W>(weight + col);
      Pack<T, W> out;
      for (int k = 0; k < W; ++k) {
        const float n = v[k] * r;
        dw[col + k] = (t == static_cast<int64_t>(blockIdx.x) ? 0 : dw[col + k]) + g[k] * n;
        out.set(k, r * fmaf(-n, along, g[k] * (w[k] + one)));
      }
      store<W>(to + col, out);
    });
  }
}

// body(zero, W): the element type, and the width of an access to all of `rows` and the weight.
template <class Body, class... R>
int with_packs(Type type, int64_t D, const void* weight, const Body& body, const R&... rows) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const bool aligned =
        D % kWidth<T> == 0 && is_aligned(static_cast<const T*>(weight)) && (is_aligned<T>(rows) && ...);
    return with_width<T>(aligned, [&](auto W) { return body(zero, W); });
  });
}

int threads_of(int64_t D, int W) { return threads_for(ceil_div(D, W), kPartThreads); }

}  // namespace

int norm_part_dots(void* stream, Type type, NormKind kind, float* dots_T, ConstRows a_TD, ConstRows b_TD,
                   const void* weight_D, const float* scale_T) {
  const auto body = [&](auto zero, auto W) {
    using T = decltype(zero);
    return launch(stream, &part_dots_kernel<T, W()>, a_TD.rows, threads_of(a_TD.cols, W()), added_one(kind), dots_T,
                  a_TD, b_TD, static_cast<const T*>(weight_D), scale_T);
  };
  return with_packs(type, a_TD.cols, weight_D, body, a_TD, b_TD);
}

int norm_part_forward(void* stream, Type type, NormKind kind, double eps, int64_t width, Rows y_TD, float* statistics_T,
                      ConstRows x_TD, const void* weight_D) {
  const auto body = [&](auto zero, auto W) {
    using T = decltype(zero);
    return launch(stream, &part_forward_kernel<T, W()>, x_TD.rows, threads_of(x_TD.cols, W()), added_one(kind),
                  static_cast<float>(eps), static_cast<float>(width), y_TD, statistics_T, x_TD,
                  static_cast<const T*>(weight_D));
  };
  return with_packs(type, x_TD.cols, weight_D, body, y_TD, x_TD);
}

int norm_part_backward(void* stream, Type type, NormKind kind, int64_t width, Rows dx_TD, float* dweight_D,
                       ConstRows dy_TD, ConstRows x_TD, const float* statistics_T, const float* dots_T,
                       const void* weight_D, float* scratch) {
  const int64_t T = x_TD.rows, D = x_TD.cols, blocks = norm_backward_scratch(T, D) / (D > 0 ? D : 1);
  const auto body = [&](auto zero, auto W) {
    using Value = decltype(zero);
    return launch(stream, &part_backward_kernel<Value, W()>, blocks, threads_of(D, W()), added_one(kind),
                  static_cast<float>(width), dx_TD, dy_TD, x_TD, statistics_T, dots_T,
                  static_cast<const Value*>(weight_D), scratch);
  };
  const int code = with_packs(type, D, weight_D, body, dx_TD, dy_TD, x_TD);
  return code != 0 || T == 0 ? code : add_partial_rows(stream, dweight_D, scratch, blocks, D);
}

}  // namespace hearth::kernels
