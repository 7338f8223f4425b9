#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/flash_backward.cpp"
#include <hwy/foreach_target.h>
//
#include <cmath>

#include "ops/access.h"
#include "ops/flash-inl.h"
#include "ops/flash_attention.h"
#include "ops/scratch.h"
#include "ops/task_queue.h"
#include "plan/scratch.h"

#ifndef HEARTH_OPS_BACKWARD_CUT
#define HEARTH_OPS_BACKWARD_CUT
namespace hearth::ops {

// See plan::AttentionCut. `partial` is [num_tasks, 2, rows, width], where there is more than one chunk.
struct BackwardCut {
  plan::AttentionCut sizes;
  int64_t heads, chunks, num_tasks;
  float* partial = nullptr;
  template <class T>
  explicit BackwardCut(const FlashBackward<T>& t)
      : sizes{t.q.B, t.q.S, t.q.N, t.k.N, t.q.K},
        heads(t.q.B * t.k.N),
        chunks(sizes.backward_chunks()),
        num_tasks(heads * chunks) {}
};

}  // namespace hearth::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {
namespace {

constexpr int64_t kBlockKeys = plan::AttentionCut::kBackwardKeys;
constexpr int64_t kBlockQueries = round_up(64, kTileColumns);
constexpr int64_t kPanels = kBlockQueries / kTileColumns;
constexpr int64_t kMaxTogether = plan::AttentionCut::kMaxTogether, kQueryFloats = plan::AttentionCut::kQueryFloats;
static_assert(kBlockQueries <= plan::AttentionCut::kBlockQueries && kLanes <= plan::AttentionCut::kLanes &&
              kTileRows <= plan::AttentionCut::kTileRows);

// The sequence of one key/value head, [rows, width] each, and the sums of its gradients.
struct KeyValue {
  int64_t rows, width;
  float *keys, *values, *dk, *dv;
};

// kBlockQueries queries of one head.
struct QueryBlock {
  int64_t h, s, count;
  Span spans[kPanels];
  float *q_t, *dout_t;   // [K, kBlockQueries], q scaled to powers of 2
  float *q, *dout, *dq;  // [kBlockQueries, width], q scaled
  float *lse, *delta;    // [kBlockQueries], lse in powers of 2; delta = rowsum(dout * out)
  float *begin, *end;    // [kBlockQueries]
  int64_t begin_min() const { return spans[0].begin_min; }
  int64_t end_max() const { return spans[kPanels - 1].end_max; }
};

// [kBlockKeys, kBlockQueries]: the softmax, and the gradient of the scores.
struct Scores {
  float *p, *ds;
};

QueryBlock take_query_block(int64_t K, int64_t width, Parts& parts) {
  QueryBlock x{};
  for (float** part : {&x.q_t, &x.dout_t}) *part = parts.take(K * kBlockQueries);
  for (float** part : {&x.q, &x.dout, &x.dq}) *part = parts.take(kBlockQueries * width);
  for (float** part : {&x.lse, &x.delta, &x.begin, &x.end}) *part = parts.take(kBlockQueries);
  return x;
}

template <class T>
void load_query_block(QueryBlock& x, const FlashBackward<T>& t, int64_t b, int64_t h, int64_t s, int64_t width) {
  const F32 d;
  const int64_t S = t.q.S, K = t.q.K;
  x.h = h, x.s = s, x.count = std::min(kBlockQueries, S - s);
  const float scale = 1 / std::sqrt(static_cast<float>(K));
  const T *q = t.q.at(b, s, h), *dout = t.dout.at(b, s, h);
  pack_columns(x.q_t, kBlockQueries, q, t.q.stride_s, x.count, K, kLog2E * scale);
  pack_columns(x.dout_t, kBlockQueries, dout, t.dout.stride_s, x.count, K, 1);
  pack_rows(x.q, kBlockQueries, width, q, t.q.stride_s, x.count, K, scale);
  pack_rows(x.dout, kBlockQueries, width, dout, t.dout.stride_s, x.count, K, 1);
  std::fill_n(x.dq, kBlockQueries * width, 0.0f);
  const VisibleKeys* visible = t.visible + b * S + s;
  for (int64_t i = 0; i < kPanels; ++i) {
    // A panel without queries sees what the last query sees: its results are multiplied by zeros.
    const int64_t first = std::min(i * kTileColumns, x.count - 1), n = std::min(kTileColumns, x.count - first);
    x.spans[i] = load_visible(x.begin + i * kTileColumns, x.end + i * kTileColumns, kTileColumns, visible + first, n);
  }
  for (int64_t i = 0; i < kBlockQueries; ++i) {
    V32 dot = hn::Zero(d);
    if (i < x.count) {
      const T* out = t.out.at(b, s + i, h);
      for_lanes(d, K, [&](int64_t k, int64_t n) HWY_ATTR {
        dot = hn::MulAdd(load(d, out + k, n), hn::LoadU(d, x.dout + i * width + k), dot);
      });
    }
    x.delta[i] = sum(d, dot);
    x.lse[i] = i < x.count ? kLog2E * t.lse[(b * t.q.N + h) * S + s + i] : 0;
  }
}

// scores.p = 2^(K q - lse) and scores.ds = p * (V dout - delta), for the queries of one panel and the keys that one of
// them sees.
HWY_INLINE void score(const QueryBlock& x, int64_t panel, const KeyValue& kv, int64_t K, int64_t j0, int64_t count,
                      const Scores& scores) {
  const F32 d;
  const Span& span = x.spans[panel];
  const int64_t column = panel * kTileColumns;
  const int64_t first = std::max<int64_t>(0, span.begin_min - j0) / kTileRows * kTileRows;
  const int64_t last = std::min(count, span.end_max - j0);
  for (int64_t j = first; j < last; j += kTileRows) {
    const bool hides = span.hides_some(j0 + j, j0 + j + kTileRows);
    const float* lse = x.lse + column;
    tile<kTileVectors, Layout::kRows>(kv.keys + (j0 + j) * kv.width, kv.width, x.q_t + column, kBlockQueries, K,
                                      [&](int r, int v, V32 s) HWY_ATTR {
                                        V32 p = exp2(d, hn::Sub(s, hn::LoadU(d, lse + v * kLanes)));
                                        if (hides) {
                                          const int64_t i = column + v * kLanes;
                                          p = hn::IfThenElseZero(sees(d, j0 + j + r, x.begin + i, x.end + i), p);
                                        }
                                        hn::StoreU(p, d, scores.p + (j + r) * kBlockQueries + column + v * kLanes);
                                      });
  }
  for (int64_t j = first; j < last; j += kTileRows) {
    const float* delta = x.delta + column;
    tile<kTileVectors, Layout::kRows>(kv.values + (j0 + j) * kv.width, kv.width, x.dout_t + column, kBlockQueries, K,
                                      [&](int r, int v, V32 dp) HWY_ATTR {
                                        const int64_t at = (j + r) * kBlockQueries + column + v * kLanes;
                                        const V32 centred = hn::Sub(dp, hn::LoadU(d, delta + v * kLanes));
                                        hn::StoreU(hn::Mul(hn::LoadU(d, scores.p + at), centred), d, scores.ds + at);
                                      });
  }
}

HWY_INLINE void add_to(float* sum, V32 x) {
  const F32 d;
  hn::StoreU(hn::Add(hn::LoadU(d, sum), x), d, sum);
}

// dv += p dout and dk += ds q, each row from those queries that see one of its tile's keys.
HWY_INLINE void add_key_gradients(const QueryBlock& x, const KeyValue& kv, int64_t j0, int64_t count,
                                  const Scores& scores) {
  const int64_t width = kv.width, vectors = width / kLanes;
  int64_t first = 0, last = 0;
  for (int64_t j = 0; j < count; j += kTileRows) {
    while (first < x.count && x.end[first] <= static_cast<float>(j0 + j)) ++first;
    while (last < x.count && x.begin[last] < static_cast<float>(j0 + j + kTileRows)) ++last;
    if (first >= last) continue;
    const int64_t at = j * kBlockQueries + first, row = (j0 + j) * width;
    tile_row<Layout::kRows>(scores.p + at, kBlockQueries, x.dout + first * width, width, last - first, vectors,
                            [&](int r, int64_t k, V32 s) HWY_ATTR { add_to(kv.dv + row + r * width + k, s); });
    tile_row<Layout::kRows>(scores.ds + at, kBlockQueries, x.q + first * width, width, last - first, vectors,
                            [&](int r, int64_t k, V32 s) HWY_ATTR { add_to(kv.dk + row + r * width + k, s); });
  }
}

// dq += ds^T K, each row from those keys that one of its tile's queries sees.
HWY_INLINE void add_query_gradient(const QueryBlock& x, const KeyValue& kv, int64_t j0, int64_t count,
                                   const Scores& scores) {
  const int64_t width = kv.width;
  for (int64_t i = 0; i < x.count; i += kTileRows) {
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(x.begin[i]) - j0);
    const int64_t last = std::min(count, static_cast<int64_t>(x.end[i + kTileRows - 1]) - j0);
    if (first >= last) continue;
    tile_row<Layout::kColumns>(scores.ds + first * kBlockQueries + i, kBlockQueries, kv.keys + (j0 + first) * width,
                               width, last - first, width / kLanes,
                               [&](int r, int64_t k, V32 s) HWY_ATTR { add_to(x.dq + (i + r) * width + k, s); });
  }
}

// Keys j0 .. j0 + count, count perhaps below 1, meet a block of queries.
HWY_INLINE void attend(const QueryBlock& x, const KeyValue& kv, int64_t K, int64_t j0, int64_t count,
                       const Scores& scores) {
  if (count <= 0 || j0 + kBlockKeys <= x.begin_min()) return;
  for (int64_t panel = 0; panel < kPanels; ++panel) score(x, panel, kv, K, j0, count, scores);
  add_key_gradients(x, kv, j0, count, scores);
  add_query_gradient(x, kv, j0, count, scores);
}

// dst[s] = factor * (the sum of `parts` blocks that lie `apart` floats apart).
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

template <class T>
void backward_task(const FlashBackward<T>& t, const BackwardCut& cut, int64_t task) {
  const int64_t K = t.q.K, S = t.q.S, group = t.q.N / t.k.N, width = round_up(K, kLanes), rows = round_up(S, kTileRows);
  const int64_t chunk = cut.chunks - 1 - task / cut.heads, head = task % cut.heads, b = head / t.k.N, g = head % t.k.N;
  const int64_t per_block = kBlockQueries * (2 * K + 3 * width + 4) + 9 * 16;
  const int64_t together = std::clamp<int64_t>(kQueryFloats / per_block, 1, kMaxTogether);
  Parts parts{thread_scratch<float>(Scratch::kTask, cut.sizes.backward_task_floats())};
  QueryBlock blocks[kMaxTogether];
  for (int64_t i = 0; i < together; ++i) blocks[i] = take_query_block(K, width, parts);
  const Scores scores{parts.take(kBlockKeys * kBlockQueries), parts.take(kBlockKeys * kBlockQueries)};
  KeyValue kv{rows, width, parts.take(rows * width), parts.take(rows * width), nullptr, nullptr};
  Parts sums = cut.chunks == 1 ? parts : Parts{cut.partial + (head * cut.chunks + chunk) * 2 * rows * width};
  kv.dk = sums.take(rows * width);
  kv.dv = sums.take(rows * width);
  pack_rows(kv.keys, rows, width, t.k.at(b, 0, g), t.k.stride_s, S, K, 1);
  pack_rows(kv.values, rows, width, t.v.at(b, 0, g), t.v.stride_s, S, K, 1);
  std::fill_n(kv.dk, 2 * rows * width, 0.0f);

  // Blocks of queries in the order of their positions, the heads of the group side by side.
  const int64_t units = (S + kBlockQueries - 1) / kBlockQueries * group, last_unit = (chunk + 1) * units / cut.chunks;
  for (int64_t unit = chunk * units / cut.chunks; unit < last_unit; unit += together) {
    const int64_t num_blocks = std::min(together, last_unit - unit);
    for (int64_t i = 0; i < num_blocks; ++i) {
      const int64_t h = g * group + (unit + i) % group, s = (unit + i) / group * kBlockQueries;
      load_query_block(blocks[i], t, b, h, s, width);
    }
    const int64_t begin = blocks[0].begin_min() / kTileRows * kTileRows, end = blocks[num_blocks - 1].end_max();
    for (int64_t j0 = begin; j0 < end; j0 += kBlockKeys) {
      for (int64_t i = 0; i < num_blocks; ++i) {
        attend(blocks[i], kv, K, j0, std::min(kBlockKeys, blocks[i].end_max() - j0), scores);
      }
    }
    for (int64_t i = 0; i < num_blocks; ++i) {
      const QueryBlock& x = blocks[i];
      write_rows(t.dq.at(b, x.s, x.h), t.dq.stride_s, x.dq, width, x.count, K, 1 / std::sqrt(static_cast<float>(K)));
    }
  }
  if (cut.chunks > 1) return;
  write_rows(t.dk.at(b, 0, g), t.dk.stride_s, kv.dk, width, S, K, 1);
  write_rows(t.dv.at(b, 0, g), t.dv.stride_s, kv.dv, width, S, K, 1);
}

// Rows first .. last of dk and dv of one head from the parts.
template <class T>
void join_parts(const FlashBackward<T>& t, const BackwardCut& cut, int64_t head, int64_t first, int64_t last) {
  const int64_t K = t.q.K, width = round_up(K, kLanes), size = round_up(t.q.S, kTileRows) * width;
  const int64_t b = head / t.k.N, g = head % t.k.N;
  const float* part = cut.partial + head * cut.chunks * 2 * size + first * width;
  write_rows(t.dk.at(b, first, g), t.dk.stride_s, part, width, last - first, K, 1, cut.chunks, 2 * size);
  write_rows(t.dv.at(b, first, g), t.dv.stride_s, part + size, width, last - first, K, 1, cut.chunks, 2 * size);
}

}  // namespace

void backward_task_float32(const FlashBackward<float>& t, const BackwardCut& cut, int64_t task) {
  backward_task(t, cut, task);
}
void backward_task_bfloat16(const FlashBackward<c10::BFloat16>& t, const BackwardCut& cut, int64_t task) {
  backward_task(t, cut, task);
}
void join_parts_float32(const FlashBackward<float>& t, const BackwardCut& cut, int64_t head, int64_t first,
                        int64_t last) {
  join_parts(t, cut, head, first, last);
}
void join_parts_bfloat16(const FlashBackward<c10::BFloat16>& t, const BackwardCut& cut, int64_t head, int64_t first,
                         int64_t last) {
  join_parts(t, cut, head, first, last);
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
  const int64_t pieces = (t.q.S + kRows - 1) / kRows;
  run_tasks(cut.heads * pieces, [&](int64_t i) {
    const int64_t first = i % pieces * kRows;
    join(t, cut, i / pieces, first, std::min(t.q.S, first + kRows));
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
