// SPDX-License-Identifier: Apache-2.0
// Attention in tiles of queries and keys, kept in shared memory as float32, after FlashAttention-2 (arXiv 2307.08691):
// for cases that the vendors' kernels do not take. One thread adds up each sum, without atomics. One kernel computes
// the gradients of keys and values, another those of queries, and both recompute the scores.
//
// 256 threads, kPerRow of them for each of kRows rows of a tile. A group of kPerRow / kRows threads computes a score.
// In a row of the result each thread has every kPerRow-th column in its registers.
#include "kernels/documents.h"
#include "kernels/entries.h"
#include "kernels/heads.h"
#include "kernels/launch.h"

namespace hearth::kernels {
namespace {

template <int kMaxK>
struct Tile {
  static constexpr int kRows = 2048 / kMaxK, kPerRow = kThreads / kRows, kCols = kMaxK / kPerRow;
  using Values = float[kRows][kMaxK + 1];  // an odd stride: rows start in different banks
  using Scores = float[kRows][kRows + 1];
};

struct Attention {
  Heads out, q, k, v, dq, dk, dv, dout;
  float *lse, *delta;  // [B, H, rows of q]
  Places places;       // of q
  Documents documents;
  bool causal;
  int64_t reach;  // positions that a query sees to each side
  float scale;
};

// A thread's part of a tile.
template <int kMaxK>
struct Stand {
  int row = static_cast<int>(threadIdx.x) / Tile<kMaxK>::kPerRow;
  int lane = static_cast<int>(threadIdx.x) % Tile<kMaxK>::kPerRow;
  int other = lane % Tile<kMaxK>::kRows;  // a row of the other tile: this thread computes its score ...
  int part = lane / Tile<kMaxK>::kRows;   // ... over this part of the head's elements
};

// tile[i] = factor * x[first + i], 0 from row `end` on.
template <class T, int kMaxK>
__device__ void load_tile(typename Tile<kMaxK>::Values& tile, const Heads& x, int64_t b, int64_t n, int64_t first,
                          int64_t end, float factor) {
  const Stand<kMaxK> me;
  const bool is_there = first + me.row < end;
  const T* from = row_of<const T>(x, b, is_there ? first + me.row : 0, n);
  for (int k = me.lane; k < static_cast<int>(x.K); k += Tile<kMaxK>::kPerRow)
    tile[me.row][k] = is_there ? factor * to_float(from[k]) : 0;
}

// The product of this thread's row of `a` with its row of `b`. All threads that share it get the sum.
template <int kMaxK>
__device__ float product(const typename Tile<kMaxK>::Values& a, const typename Tile<kMaxK>::Values& b, int K) {
  using Shape = Tile<kMaxK>;
  const Stand<kMaxK> me;
  float sum = 0;
#pragma unroll 4
  for (int k = me.part; k < K; k += Shape::kPerRow / Shape::kRows) sum = fmaf(a[me.row][k], b[me.other][k], sum);
  for (int distance = Shape::kRows; distance < Shape::kPerRow; distance *= 2) sum += shuffle_xor(sum, distance);
  return sum;
}

// sums += this thread's row of `scores` times its columns of `values`.
template <int kMaxK>
__device__ void add_rows(float (&sums)[Tile<kMaxK>::kCols], const typename Tile<kMaxK>::Scores& scores,
                         const typename Tile<kMaxK>::Values& values, int K) {
  using Shape = Tile<kMaxK>;
  const Stand<kMaxK> me;
#pragma unroll
  for (int i = 0; i < Shape::kRows; ++i) {
    const float score = scores[me.row][i];
#pragma unroll
    for (int c = 0; c < Shape::kCols; ++c) {
      const int k = me.lane + c * Shape::kPerRow;
      if (k < K) sums[c] = fmaf(score, values[i][k], sums[c]);
    }
  }
}

template <class T, int kMaxK>
__device__ void store_row(const Heads& x, int64_t b, int64_t s, int64_t n, const float (&sums)[Tile<kMaxK>::kCols],
                          float factor) {
  T* to = row_of<T>(x, b, s, n);
#pragma unroll
  for (int c = 0; c < Tile<kMaxK>::kCols; ++c) {
    const int k = Stand<kMaxK>().lane + c * Tile<kMaxK>::kPerRow;
    if (k < static_cast<int>(x.K)) to[k] = rounded<T>(factor * sums[c]);
  }
}

// The keys that row s of the queries of sequence b sees, as positions in the sequence.
__device__ inline PlaceRange keys_of(const Attention& a, int64_t b, int64_t s) {
  const int64_t S = a.places.S, position = position_of(a.places, s);
  const PlaceRange document = document_of(a.documents, b * S + position);
  const int64_t begin = document.begin - b * S, first = position - a.reach;
  const int64_t end = document.end - b * S, last = position + (a.causal ? 0 : a.reach);
  return {first > begin ? first : begin, last + 1 < end ? last + 1 : end};
}

// The rows of queries of sequence b that see key j.
__device__ inline PlaceRange queries_of(const Attention& a, int64_t b, int64_t j) {
  const int64_t S = a.places.S;
  const PlaceRange document = document_of(a.documents, b * S + j);
  const int64_t begin = document.begin - b * S, first = j - (a.causal ? 0 : a.reach);
  const int64_t end = document.end - b * S, last = j + a.reach;
  return {rows_below(a.places, a.q.S, first > begin ? first : begin),
          rows_below(a.places, a.q.S, last + 1 < end ? last + 1 : end)};
}

// A block's work: a tile of sequence b and head n. The longest rows of a causal mask come first.
struct Task {
  int64_t b, n, first, end;  // positions [first, end)
};
template <int kMaxK>
__device__ Task task_of(int64_t N, int64_t S) {
  const int64_t tiles = (S + Tile<kMaxK>::kRows - 1) / Tile<kMaxK>::kRows, index = blockIdx.x;
  const int64_t first = (tiles - 1 - index % tiles) * Tile<kMaxK>::kRows;
  const int64_t end = first + Tile<kMaxK>::kRows;
  return {index / tiles / N, index / tiles % N, first, end < S ? end : S};
}

template <class T, int kMaxK>
__global__ void __launch_bounds__(kThreads, 2) attention_forward_kernel(Attention a) {
  using Shape = Tile<kMaxK>;
  __shared__ typename Shape::Values q, k, v;
  __shared__ typename Shape::Scores scores;
  const Stand<kMaxK> me;
  const Task task = task_of<kMaxK>(a.q.N, a.q.S);
  const int K = static_cast<int>(a.q.K);
  const int64_t g = task.n / (a.q.N / a.k.N), s = task.first + me.row;
  const bool is_there = s < task.end;
  const PlaceRange keys = is_there ? keys_of(a, task.b, s) : PlaceRange{0, 0};
  const int64_t first_key = keys_of(a, task.b, task.first).begin, end_key = keys_of(a, task.b, task.end - 1).end;

  load_tile<T, kMaxK>(q, a.q, task.b, task.n, task.first, task.end, a.scale);
  float sums[Shape::kCols] = {}, largest = kHidden, total = 0;
  for (int64_t j = first_key; j < end_key; j += Shape::kRows) {
    __syncthreads();
    load_tile<T, kMaxK>(k, a.k, task.b, g, j, end_key, 1);
    load_tile<T, kMaxK>(v, a.v, task.b, g, j, end_key, 1);
    __syncthreads();
    const float score = product<kMaxK>(q, k, K);
    const bool sees = j + me.other >= keys.begin && j + me.other < keys.end;
    float top = sees ? score : kHidden;
    for (int distance = 1; distance < Shape::kRows; distance *= 2) top = fmaxf(top, shuffle_xor(top, distance));
    top = fmaxf(top, largest);
    const float p = sees ? expf(score - top) : 0, shrink = expf(largest - top);
    float sum = p;
    for (int distance = 1; distance < Shape::kRows; distance *= 2) sum += shuffle_xor(sum, distance);
    total = total * shrink + sum;
    largest = top;
    if (me.part == 0) scores[me.row][me.other] = p;
    for (int c = 0; c < Shape::kCols; ++c) sums[c] *= shrink;
    __syncthreads();
    add_rows<kMaxK>(sums, scores, v, K);
  }
  if (!is_there) return;
  store_row<T, kMaxK>(a.out, task.b, s, task.n, sums, 1 / total);
  if (me.lane == 0) a.lse[(task.b * a.q.N + task.n) * a.q.S + s] = largest + logf(total);
}

// delta = sum of dout * out over each row, by 32 threads.
template <class T>
__global__ void __launch_bounds__(kThreads) delta_kernel(Attention a) {
  const int64_t S = a.out.S, N = a.out.N, rows = a.out.B * S * N;
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  const int64_t b = row / (N * S), n = row / S % N, s = row % S;
  float sum = 0;
  if (row < rows) {
    const T *out = row_of<const T>(a.out, b, s, n), *dout = row_of<const T>(a.dout, b, s, n);
    for (int64_t k = threadIdx.x % 32; k < a.out.K; k += 32) sum = fmaf(to_float(out[k]), to_float(dout[k]), sum);
  }
  for (int distance = 1; distance < 32; distance *= 2) sum += shuffle_xor(sum, distance);
  if (row < rows && threadIdx.x % 32 == 0) a.delta[row] = sum;
}

template <class T, int kMaxK>
__global__ void __launch_bounds__(kThreads, 2) queries_kernel(Attention a) {
  using Shape = Tile<kMaxK>;
  __shared__ typename Shape::Values q, dout, k, v;
  __shared__ typename Shape::Scores slopes;
  const Stand<kMaxK> me;
  const Task task = task_of<kMaxK>(a.q.N, a.q.S);
  const int K = static_cast<int>(a.q.K);
  const int64_t g = task.n / (a.q.N / a.k.N), s = task.first + me.row;
  const bool is_there = s < task.end;
  const PlaceRange keys = is_there ? keys_of(a, task.b, s) : PlaceRange{0, 0};
  const int64_t first_key = keys_of(a, task.b, task.first).begin, end_key = keys_of(a, task.b, task.end - 1).end;
  const int64_t at = (task.b * a.q.N + task.n) * a.q.S + s;
  const float lse = is_there ? a.lse[at] : 0, delta = is_there ? a.delta[at] : 0;

  load_tile<T, kMaxK>(q, a.q, task.b, task.n, task.first, task.end, a.scale);
  load_tile<T, kMaxK>(dout, a.dout, task.b, task.n, task.first, task.end, 1);
  float sums[Shape::kCols] = {};
  for (int64_t j = first_key; j < end_key; j += Shape::kRows) {
    __syncthreads();
    load_tile<T, kMaxK>(k, a.k, task.b, g, j, end_key, 1);
    load_tile<T, kMaxK>(v, a.v, task.b, g, j, end_key, 1);
    __syncthreads();
    const float score = product<kMaxK>(q, k, K), towards = product<kMaxK>(dout, v, K);
    const bool sees = j + me.other >= keys.begin && j + me.other < keys.end;
    if (me.part == 0) slopes[me.row][me.other] = sees ? expf(score - lse) * (towards - delta) : 0;
    __syncthreads();
    add_rows<kMaxK>(sums, slopes, k, K);
  }
  if (is_there) store_row<T, kMaxK>(a.dq, task.b, s, task.n, sums, a.scale);
}

// Here rows are keys. The loop runs over the queries that see at least one of them, for all heads of the group.
template <class T, int kMaxK>
__global__ void __launch_bounds__(kThreads, 2) keys_kernel(Attention a) {
  using Shape = Tile<kMaxK>;
  __shared__ typename Shape::Values q, dout, k, v;
  __shared__ typename Shape::Scores weights, slopes;
  const Stand<kMaxK> me;
  const Task task = task_of<kMaxK>(a.k.N, a.k.S);
  const int K = static_cast<int>(a.q.K);
  const int64_t group = a.q.N / a.k.N, j = task.first + me.row;
  const PlaceRange seen = j < task.end ? queries_of(a, task.b, j) : PlaceRange{0, 0};
  const int64_t first_query = queries_of(a, task.b, task.first).begin;
  const int64_t end_query = queries_of(a, task.b, task.end - 1).end;

  load_tile<T, kMaxK>(k, a.k, task.b, task.n, task.first, task.end, 1);
  load_tile<T, kMaxK>(v, a.v, task.b, task.n, task.first, task.end, 1);
  float dk[Shape::kCols] = {}, dv[Shape::kCols] = {};
  for (int64_t n = task.n * group; n < (task.n + 1) * group; ++n) {
    for (int64_t s = first_query; s < end_query; s += Shape::kRows) {
      __syncthreads();
      load_tile<T, kMaxK>(q, a.q, task.b, n, s, end_query, a.scale);
      load_tile<T, kMaxK>(dout, a.dout, task.b, n, s, end_query, 1);
      __syncthreads();
      const float score = product<kMaxK>(k, q, K), towards = product<kMaxK>(v, dout, K);
      const int64_t query = s + me.other;
      if (me.part == 0) {
        const bool sees = query >= seen.begin && query < seen.end;
        const int64_t at = (task.b * a.q.N + n) * a.q.S + query;
        const float p = sees ? expf(score - a.lse[at]) : 0;
        weights[me.row][me.other] = p;
        slopes[me.row][me.other] = sees ? p * (towards - a.delta[at]) : 0;
      }
      __syncthreads();
      add_rows<kMaxK>(dv, weights, dout, K);
      add_rows<kMaxK>(dk, slopes, q, K);
    }
  }
  if (j >= task.end) return;
  store_row<T, kMaxK>(a.dk, task.b, j, task.n, dk, 1);
  store_row<T, kMaxK>(a.dv, task.b, j, task.n, dv, 1);
}

template <int kMaxK>
int64_t num_tasks(const Heads& x) {
  return x.B * x.N * ceil_div(x.S, Tile<kMaxK>::kRows);
}

// body(the kernels' largest head width) as an integral constant.
template <class Body>
int with_max_width(int64_t K, const Body& body) {
  if (K > 256) return kTooWide;
  return K > 128 ? body(std::integral_constant<int, 256>()) : body(std::integral_constant<int, 128>());
}

Attention arguments_of(const Heads& q, const Places& places, int32_t causal, int64_t reach, const int32_t* starts_N,
                       int64_t N, float scale) {
  Attention arguments = {};
  arguments.q = q;
  arguments.places = places;
  arguments.documents = {N > 0 ? starts_N : nullptr, N, places.S};
  arguments.causal = causal != 0;
  arguments.reach = reach < 0 ? places.S : reach;
  arguments.scale = scale > 0 ? scale : 1 / sqrtf(static_cast<float>(q.K));
  return arguments;
}

}  // namespace

int attention_forward(void* stream, Type type, Heads out, float* lse, Heads q, Heads k, Heads v, Places places,
                      int32_t causal, int64_t reach, const int32_t* starts_N, int64_t N, float scale) {
  Attention arguments = arguments_of(q, places, causal, reach, starts_N, N, scale);
  arguments.out = out;
  arguments.k = k;
  arguments.v = v;
  arguments.lse = lse;
  return with_type(type, [&](auto zero) {
    return with_max_width(q.K, [&](auto max) {
      return launch(stream, &attention_forward_kernel<decltype(zero), max()>, num_tasks<max()>(q), kThreads, arguments);
    });
  });
}

int64_t attention_scratch(int64_t B, int64_t S, int64_t H) { return B * S * H; }

int attention_backward(void* stream, Type type, Heads dq, Heads dk, Heads dv, Heads dout, Heads out, const float* lse,
                       Heads q, Heads k, Heads v, Places places, int32_t causal, int64_t reach, const int32_t* starts_N,
                       int64_t N, float scale, float* scratch) {
  Attention arguments = arguments_of(q, places, causal, reach, starts_N, N, scale);
  arguments.out = out;
  arguments.k = k;
  arguments.v = v;
  arguments.dq = dq;
  arguments.dk = dk;
  arguments.dv = dv;
  arguments.dout = dout;
  arguments.lse = const_cast<float*>(lse);  // only the forward writes it
  arguments.delta = scratch;
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    return with_max_width(q.K, [&](auto max) {
      const int64_t delta_blocks = ceil_div(q.B * q.S * q.N, kThreads / 32);
      return in_turn(
          launch(stream, &delta_kernel<T>, delta_blocks, kThreads, arguments),
          [&] { return launch(stream, &queries_kernel<T, max()>, num_tasks<max()>(q), kThreads, arguments); },
          [&] { return launch(stream, &keys_kernel<T, max()>, num_tasks<max()>(k), kThreads, arguments); });
    });
  });
}

}  // namespace hearth::kernels
