// SPDX-License-Identifier: Apache-2.0
// One block a query, in tiles of kThreads keys. For scores each thread has one key; for the sums of values it has some
// columns of every n-th key.
#include "kernels/block.h"
#include "kernels/entries.h"
#include "kernels/heads.h"
#include "kernels/launch.h"

namespace hearth::kernels {
namespace {

constexpr int kMaxK = 256;

struct Decode {
  Heads out, q, k, v;
  int64_t length, reach;
  const int32_t *rows_B, *lengths_B;
  float scale;
  const float* sinks_H;
};

template <class T, int W>
__global__ void __launch_bounds__(kThreads) decode_kernel(Decode a) {
  __shared__ float q[kMaxK], p[kThreads], parts[kThreads][W + 1];
  const int64_t H = a.q.N, N = a.q.S, item = blockIdx.x;
  const int64_t b = item / (H * N), h = item / N % H, i = item % N, g = h / (H / a.k.N);
  const int64_t cache = a.rows_B == nullptr ? b : a.rows_B[b];
  const int64_t length = a.lengths_B == nullptr ? a.length - N + i + 1 : a.lengths_B[b];
  const int K = static_cast<int>(a.q.K), packs = K / W, num_parts = kThreads / packs;
  const int me = static_cast<int>(threadIdx.x), part = me / packs, col = me % packs * W;
  if (me < K) q[me] = a.scale * to_float(row_of<const T>(a.q, b, i, h)[me]);
  __syncthreads();

  // A sink is a score whose value is zero.
  float sums[W] = {}, largest = a.sinks_H == nullptr ? kHidden : a.sinks_H[h], total = a.sinks_H == nullptr ? 0 : 1;
  const int64_t begin = a.reach >= 0 && length - 1 > a.reach ? length - 1 - a.reach : 0;
  for (int64_t first = begin; first < length; first += kThreads) {
    const int count = static_cast<int>(length - first < kThreads ? length - first : kThreads);
    float score = kHidden;
    if (me < count) {
      const T* key = row_of<const T>(a.k, cache, first + me, g);
      score = 0;
      for (int k = 0; k < K; k += W) {
        const Pack<T, W> pack = load<W>(key + k);
#pragma unroll
        for (int e = 0; e < W; ++e) score = fmaf(q[k + e], pack[e], score);
      }
    }
    const float top = fmaxf(largest, block_max(score)), shrink = expf(largest - top);
    const float weight = me < count ? expf(score - top) : 0;
    largest = top;
    total = total * shrink + block_sum(weight);
    p[me] = weight;  // the previous sums are complete: block_sum synchronized all threads
    __syncthreads();
    for (int e = 0; e < W; ++e) sums[e] *= shrink;
    if (part < num_parts) {
#pragma unroll 4
      for (int j = part; j < count; j += num_parts) {
        const Pack<T, W> pack = load<W>(row_of<const T>(a.v, cache, first + j, g) + col);
#pragma unroll
        for (int e = 0; e < W; ++e) sums[e] = fmaf(p[j], pack[e], sums[e]);
      }
    }
  }
  for (int e = 0; e < W; ++e) parts[me][e] = sums[e];
  __syncthreads();
  if (me >= packs) return;
  Pack<T, W> out;
#pragma unroll
  for (int e = 0; e < W; ++e) {
    float sum = 0;
    for (int j = 0; j < num_parts; ++j) sum += parts[j * packs + me][e];
    out.set(e, sum / total);
  }
  store<W>(row_of<T>(a.out, b, i, h) + col, out);
}

template <class T>
bool heads_aligned(const Heads& x) {
  const auto* data = static_cast<const T*>(x.data);
  return is_aligned(data, x.stride_b) && is_aligned(data, x.stride_s) && is_aligned(data, x.stride_n);
}

}  // namespace

int decode_attention(void* stream, Type type, Heads out, Heads q, Heads k_cache, Heads v_cache, int64_t length,
                     int64_t reach, const int32_t* rows_B, const int32_t* lengths_B, float scale,
                     const float* sinks_H) {
  if (q.K > kMaxK) return kTooWide;
  const float factor = scale > 0 ? scale : 1 / sqrtf(static_cast<float>(q.K));
  const Decode arguments = {out, q, k_cache, v_cache, length, reach, rows_B, lengths_B, factor, sinks_H};
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const bool aligned =
        q.K % kWidth<T> == 0 && heads_aligned<T>(out) && heads_aligned<T>(k_cache) && heads_aligned<T>(v_cache);
    return with_width<T>(
        aligned, [&](auto W) { return launch(stream, &decode_kernel<T, W()>, q.B * q.N * q.S, kThreads, arguments); });
  });
}

}  // namespace hearth::kernels
