// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/flash_backward.cpp"
#include <hwy/foreach_target.h>
//
#include <cmath>

#include "ops/access.h"
#include "ops/cpu/bf16_dot.h"
#include "ops/cpu/flash_attention.h"
#include "ops/cpu/flash_blocks-inl.h"
#include "ops/cpu/scratch.h"
#include "ops/cpu/task_queue.h"
#include "plan/scratch.h"

#ifndef HEARTH_OPS_BACKWARD_CUT
#define HEARTH_OPS_BACKWARD_CUT
namespace hearth::ops {

// See plan::AttentionCut. `partial` is [num_tasks, 2, rows, width], used only with more than one chunk.
struct BackwardCut {
  plan::AttentionCut sizes;
  int64_t heads, chunks, num_tasks;
  bool pairs = uses_bf16_dot();
  float* partial = nullptr;
  template <class T>
  explicit BackwardCut(const FlashBackward<T>& t)
      : sizes{t.q.B, t.k.S, t.q.N, t.k.N, t.q.K, t.q.S},
        heads(t.q.B * t.k.N),
        chunks(sizes.backward_chunks()),
        num_tasks(heads * chunks) {}
};

}  // namespace hearth::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {
namespace {

constexpr int64_t kMaxTogether = plan::AttentionCut::kMaxTogether, kQueryFloats = plan::AttentionCut::kQueryFloats;

// A tile's p and ds in float32, kTileRows keys by kTileColumns queries. With one float a lane they are in `scores`.
template <class Lane>
struct TileScores {
  float *p, *ds;
  static constexpr int64_t stride = Lane::kRounds ? kTileColumns : kBlockQueries;
  const Scores& scores;
  int64_t j, column;

  TileScores(float* own, const Scores& s, int64_t key, int64_t query) : scores(s), j(key), column(query) {
    p = Lane::kRounds ? own : scores.p + j * kBlockQueries + column;
    ds = Lane::kRounds ? own + kTileRows * kTileColumns : scores.ds + j * kBlockQueries + column;
  }
  HWY_INLINE void round() const {
    if constexpr (Lane::kRounds) {
      constexpr int64_t kStride = Lane::lanes(kBlockQueries);
      const int64_t at = j * kStride + column / Lane::kPerLane;
      Lane::round_along(scores.p + at, kStride, p);
      Lane::round_along(scores.ds + at, kStride, ds);
      Lane::round_down(scores.ds_down + j / Lane::kPerLane * kBlockQueries + column, kBlockQueries, ds);
    }
  }
};

// scores.p = 2^(K q - lse) and scores.ds = p * (V dout - delta), for one panel's queries and the keys that at least one
// of them sees.
template <class Lane>
HWY_INLINE void score(const QueryBlock& x, int64_t panel, const KeyValue& kv, int64_t K, int64_t j0, int64_t count,
                      const Scores& scores) {
  const F32 d;
  const VisibleRange& span = x.spans[panel];
  const int64_t column = panel * kTileColumns, depth = Lane::lanes(K), stride = kv.width / Lane::kPerLane;
  const int64_t first = std::max<int64_t>(0, span.begin_min - j0) / kTileRows * kTileRows;
  const int64_t last = std::min(count, span.end_max - j0);
  const float *lse = x.lse + column, *delta = x.delta + column;
  const V32 scale = hn::Set(d, kLog2E * x.scale);
  HWY_ALIGN float own[2 * kTileRows * kTileColumns];
  for (int64_t j = first; j < last; j += kTileRows) {
    const bool hides = span.hides_some(j0 + j, j0 + j + kTileRows);
    const TileScores<Lane> to(own, scores, j, column);
    tile<Lane, kTileVectors, StorageOrder::kRows>(
        kv.keys + (j0 + j) * stride, stride, x.q_t + column, kBlockQueries, depth, [&](int r, int v, V32 s) HWY_ATTR {
          const V32 l = hn::LoadU(d, lse + v * kLanes);
          V32 p = exp2(d, Lane::kScalesQueries ? hn::Sub(s, l) : hn::MulSub(s, scale, l));
          if (hides) {
            const int64_t i = column + v * kLanes;
            p = hn::IfThenElseZero(sees(d, j0 + j + r, x.begin + i, x.end + i), p);
          }
          hn::StoreU(p, d, to.p + r * to.stride + v * kLanes);
        });
    tile<Lane, kTileVectors, StorageOrder::kRows>(kv.values + (j0 + j) * stride, stride, x.dout_t + column,
                                                  kBlockQueries, depth, [&](int r, int v, V32 dp) HWY_ATTR {
                                                    const int64_t at = r * to.stride + v * kLanes;
                                                    const V32 centred = hn::Sub(dp, hn::LoadU(d, delta + v * kLanes));
                                                    hn::StoreU(hn::Mul(hn::LoadU(d, to.p + at), centred), d,
                                                               to.ds + at);
                                                  });
    to.round();
  }
}

HWY_INLINE void add_to(float* sum, V32 x) {
  const F32 d;
  hn::StoreU(hn::Add(hn::LoadU(d, sum), x), d, sum);
}

// dv += p dout and dk += ds q, each row summed over the queries that see a key of its tile.
template <class Lane>
HWY_INLINE void add_key_gradients(const QueryBlock& x, const KeyValue& kv, int64_t j0, int64_t count,
                                  const Scores& scores) {
  constexpr int64_t kStride = Lane::lanes(kBlockQueries);
  const int64_t width = kv.width, vectors = width / kLanes;
  int64_t first = 0, last = 0;
  for (int64_t j = 0; j < count; j += kTileRows) {
    while (first < x.count && x.end[first] <= static_cast<float>(j0 + j)) ++first;
    while (last < x.count && x.begin[last] < static_cast<float>(j0 + j + kTileRows)) ++last;
    if (first >= last) continue;
    const int64_t begin = first / Lane::kPerLane, depth = Lane::lanes(last) - begin;
    const int64_t at = j * kStride + begin, row = (j0 + j) * width;
    tile_row<Lane, StorageOrder::kRows>(scores.p + at, kStride, x.dout + begin * width, width, depth, vectors,
                                        [&](int r, int64_t k, V32 s)
                                            HWY_ATTR { add_to(kv.dv + row + r * width + k, s); });
    tile_row<Lane, StorageOrder::kRows>(scores.ds + at, kStride, x.q + begin * width, width, depth, vectors,
                                        [&](int r, int64_t k, V32 s)
                                            HWY_ATTR { add_to(kv.dk + row + r * width + k, s); });
  }
}

// dq += ds^T K, each row summed over the keys that a query of its tile sees.
template <class Lane>
HWY_INLINE void add_query_gradient(const QueryBlock& x, const KeyValue& kv, int64_t j0, int64_t count,
                                   const Scores& scores) {
  const int64_t width = kv.width;
  for (int64_t i = 0; i < x.count; i += kTileRows) {
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(x.begin[i]) - j0);
    const int64_t last = std::min(count, static_cast<int64_t>(x.end[i + kTileRows - 1]) - j0);
    if (first >= last) continue;
    const int64_t begin = first / Lane::kPerLane, depth = Lane::lanes(last) - begin;
    tile_row<Lane, StorageOrder::kColumns>(
        scores.ds_down + begin * kBlockQueries + i, kBlockQueries, kv.keys_down + (j0 / Lane::kPerLane + begin) * width,
        width, depth, width / kLanes, [&](int r, int64_t k, V32 s) HWY_ATTR { add_to(x.dq + (i + r) * width + k, s); });
  }
}

// Adds the terms of keys j0 .. j0 + count for a block of queries. count may be below 1.
template <class Lane>
HWY_INLINE void attend(const QueryBlock& x, const KeyValue& kv, int64_t K, int64_t j0, int64_t count,
                       const Scores& scores) {
  if (count <= 0 || j0 + kBlockKeys <= x.begin_min()) return;
  for (int64_t panel = 0; panel < kPanels; ++panel) score<Lane>(x, panel, kv, K, j0, count, scores);
  add_key_gradients<Lane>(x, kv, j0, count, scores);
  add_query_gradient<Lane>(x, kv, j0, count, scores);
}

// dst[s] = factor * (the sum of `parts` blocks, `apart` floats apart).
template <class T>
HWY_INLINE void write_rows(T* dst, int64_t stride, const float* rows, int64_t width, int64_t count, int64_t K,
                           float factor, int64_t parts = 1, int64_t apart = 0) {
  const F32 d;
  const V32 f = hn::Set(d, factor);
  for (int64_t s = 0; s < count; ++s) {
    for_lanes(d, K, [&](int64_t k, int64_t n) HWY_ATTR {
      const float* part = rows + s * width + k;
      V32 sum = hn::LoadU(d, part);
      for (int64_t i = 1; i < parts; ++i) sum = hn::Add(sum, hn::LoadU(d, part + i * apart));
      store(hn::Mul(sum, f), d, dst + s * stride + k, n);
    });
  }
}

template <class Lane, class T>
void backward_task(const FlashBackward<T>& t, const BackwardCut& cut, int64_t task) {
  const int64_t K = t.q.K, S = t.k.S, group = t.q.N / t.k.N, width = round_up(K, kLanes), rows = round_up(S, kTileRows);
  const int64_t chunk = cut.chunks - 1 - task / cut.heads, head = task % cut.heads, b = head / t.k.N, g = head % t.k.N;
  const int64_t together = std::clamp<int64_t>(kQueryFloats / query_block_floats<Lane>(K, width), 1, kMaxTogether);
  Parts parts{thread_scratch<float>(Scratch::kTask, cut.sizes.backward_task_floats())};
  QueryBlock blocks[kMaxTogether];
  for (int64_t i = 0; i < together; ++i) blocks[i] = take_query_block<Lane>(K, width, parts);
  const Scores scores = take_scores<Lane>(parts);
  KeyValue kv = load_key_value<Lane>(t, b, g, rows, width, parts);
  Parts sums = cut.chunks == 1 ? parts : Parts{cut.partial + (head * cut.chunks + chunk) * 2 * rows * width};
  kv.dk = sums.take(rows * width);
  kv.dv = sums.take(rows * width);
  std::fill_n(kv.dk, 2 * rows * width, 0.0f);

  // Blocks of queries in the order of their positions; the heads of a group follow each other.
  const int64_t items = div_ceil(t.q.S, kBlockQueries) * group, last_item = (chunk + 1) * items / cut.chunks;
  for (int64_t item = chunk * items / cut.chunks; item < last_item; item += together) {
    const int64_t num_blocks = std::min(together, last_item - item);
    for (int64_t i = 0; i < num_blocks; ++i) {
      const int64_t h = g * group + (item + i) % group, s = (item + i) / group * kBlockQueries;
      load_query_block<Lane>(blocks[i], t, b, h, s, width);
    }
    const int64_t begin = blocks[0].begin_min() / kTileRows * kTileRows, end = blocks[num_blocks - 1].end_max();
    for (int64_t j0 = begin; j0 < end; j0 += kBlockKeys) {
      for (int64_t i = 0; i < num_blocks; ++i) {
        attend<Lane>(blocks[i], kv, K, j0, std::min(kBlockKeys, blocks[i].end_max() - j0), scores);
      }
    }
    for (int64_t i = 0; i < num_blocks; ++i) {
      const QueryBlock& x = blocks[i];
      write_rows(t.dq.at(b, x.s, x.h), t.dq.stride_s, x.dq, width, x.count, K, x.scale);
    }
  }
  if (cut.chunks > 1) return;
  write_rows(t.dk.at(b, 0, g), t.dk.stride_s, kv.dk, width, S, K, key_gradient_scale<Lane>(K, t.scale));
  write_rows(t.dv.at(b, 0, g), t.dv.stride_s, kv.dv, width, S, K, 1);
}

// Sums rows first .. last of dk and dv of one head from the parts.
template <class Lane, class T>
void join_parts(const FlashBackward<T>& t, const BackwardCut& cut, int64_t head, int64_t first, int64_t last) {
  const int64_t K = t.q.K, width = round_up(K, kLanes), size = round_up(t.k.S, kTileRows) * width;
  const int64_t b = head / t.k.N, g = head % t.k.N;
  const float* part = cut.partial + head * cut.chunks * 2 * size + first * width;
  write_rows(t.dk.at(b, first, g), t.dk.stride_s, part, width, last - first, K, key_gradient_scale<Lane>(K, t.scale),
             cut.chunks, 2 * size);
  write_rows(t.dv.at(b, first, g), t.dv.stride_s, part + size, width, last - first, K, 1, cut.chunks, 2 * size);
}

}  // namespace

void backward_task_float32(const FlashBackward<float>& t, const BackwardCut& cut, int64_t task) {
  backward_task<FlashFloats>(t, cut, task);
}
void backward_task_bfloat16(const FlashBackward<c10::BFloat16>& t, const BackwardCut& cut, int64_t task) {
  with_lane<c10::BFloat16>(cut.pairs, [&]<class Lane>(Lane) HWY_ATTR { backward_task<Lane>(t, cut, task); });
}
void join_parts_float32(const FlashBackward<float>& t, const BackwardCut& cut, int64_t head, int64_t first,
                        int64_t last) {
  join_parts<FlashFloats>(t, cut, head, first, last);
}
void join_parts_bfloat16(const FlashBackward<c10::BFloat16>& t, const BackwardCut& cut, int64_t head, int64_t first,
                         int64_t last) {
  with_lane<c10::BFloat16>(cut.pairs, [&]<class Lane>(Lane) HWY_ATTR { join_parts<Lane>(t, cut, head, first, last); });
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(backward_task_float32);
HWY_EXPORT(backward_task_bfloat16);
HWY_EXPORT(join_parts_float32);
HWY_EXPORT(join_parts_bfloat16);

namespace {

template <class T, class Task, class Join>
void run(const FlashBackward<T>& t, const Task& task, const Join& join) {
  BackwardCut cut(t);
  if (cut.chunks > 1) cut.partial = thread_scratch<float>(Scratch::kShared, cut.sizes.backward_shared_floats());
  run_tasks(cut.num_tasks, [&](int64_t i) { task(t, cut, i); });
  if (cut.chunks == 1) return;
  constexpr int64_t kRows = 256;
  const int64_t pieces = div_ceil(t.k.S, kRows);
  run_tasks(cut.heads * pieces, [&](int64_t i) {
    const int64_t first = i % pieces * kRows;
    join(t, cut, i / pieces, first, std::min(t.k.S, first + kRows));
  });
}

}  // namespace

void flash_backward(const FlashBackward<float>& t) {
  run(t, HWY_DYNAMIC_DISPATCH(backward_task_float32), HWY_DYNAMIC_DISPATCH(join_parts_float32));
}

void flash_backward(const FlashBackward<c10::BFloat16>& t) {
  run(t, HWY_DYNAMIC_DISPATCH(backward_task_bfloat16), HWY_DYNAMIC_DISPATCH(join_parts_bfloat16));
}

}  // namespace hearth::ops
#endif
