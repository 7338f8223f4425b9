// SPDX-License-Identifier: Apache-2.0
// Scratch memory of a task of attention's backward: the keys and values of one head, blocks of its queries, and the
// scores of both. Included once per instruction set (see simd-inl.h).
#if defined(HEARTH_OPS_FLASH_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEARTH_OPS_FLASH_BLOCKS_INL_H_
#undef HEARTH_OPS_FLASH_BLOCKS_INL_H_
#else
#define HEARTH_OPS_FLASH_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "ops/cpu/flash-inl.h"
#include "ops/cpu/flash_attention.h"
#include "plan/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

constexpr int64_t kBlockKeys = plan::AttentionCut::kBackwardKeys;
constexpr int64_t kBlockQueries = round_up(64, kTileColumns);
constexpr int64_t kPanels = kBlockQueries / kTileColumns;
static_assert(kBlockQueries <= plan::AttentionCut::kBlockQueries && kLanes <= plan::AttentionCut::kLanes &&
              kTileRows <= plan::AttentionCut::kTileRows);

// The sequence of one key/value head, and its summed gradients, [rows, width].
struct KeyValue {
  int64_t rows, width;
  float *keys, *values;  // lanes along the width
  float* keys_down;      // lanes down the rows
  float *dk, *dv;
};

// kBlockQueries queries of one head.
struct QueryBlock {
  int64_t h, s, count;
  float scale;  // of the scores
  VisibleRange spans[kPanels];
  float *q_t, *dout_t;  // [lanes of K, kBlockQueries]
  float *q, *dout;      // lanes down the rows, [lanes of kBlockQueries, width]
  float* dq;            // [kBlockQueries, width]
  float *lse, *delta;   // [kBlockQueries], lse in powers of 2; delta = rowsum(dout * out)
  float *begin, *end;   // [kBlockQueries]
  int64_t begin_min() const { return spans[0].begin_min; }
  int64_t end_max() const { return spans[kPanels - 1].end_max; }
};

// The softmax and the gradient of the scores, of kBlockKeys by kBlockQueries.
struct Scores {
  float *p, *ds;   // lanes of queries: [kBlockKeys, lanes of kBlockQueries]
  float* ds_down;  // lanes of keys: [lanes of kBlockKeys, kBlockQueries]
};

template <class Lane>
int64_t query_block_floats(int64_t K, int64_t width) {
  return 2 * Lane::lanes(K) * kBlockQueries + (2 * Lane::lanes(kBlockQueries) + kBlockQueries) * width +
         4 * kBlockQueries + 9 * 16;
}

template <class Lane>
QueryBlock take_query_block(int64_t K, int64_t width, Parts& parts) {
  QueryBlock x{};
  for (float** part : {&x.q_t, &x.dout_t}) *part = parts.take(Lane::lanes(K) * kBlockQueries);
  for (float** part : {&x.q, &x.dout}) *part = parts.take(Lane::lanes(kBlockQueries) * width);
  x.dq = parts.take(kBlockQueries * width);
  for (float** part : {&x.lse, &x.delta, &x.begin, &x.end}) *part = parts.take(kBlockQueries);
  return x;
}

template <class Lane>
Scores take_scores(Parts& parts) {
  Scores scores{};
  scores.p = parts.take(kBlockKeys * Lane::lanes(kBlockQueries));
  scores.ds = parts.take(kBlockKeys * Lane::lanes(kBlockQueries));
  scores.ds_down = Lane::kPerLane == 1 ? scores.ds : parts.take(Lane::lanes(kBlockKeys) * kBlockQueries);
  return scores;
}

// The factor of the sum in `dk`: 1 if the queries were scaled before.
template <class Lane>
float key_gradient_scale(int64_t K, float given) {
  return Lane::kScalesQueries ? 1 : score_scale(K, given);
}

template <class Lane, class T>
KeyValue load_key_value(const FlashBackward<T>& t, int64_t b, int64_t g, int64_t rows, int64_t width, Parts& parts) {
  KeyValue kv{};
  kv.rows = rows, kv.width = width;
  const FlashRows<T> keys{t.k.at(b, 0, g), t.k.stride_s, t.k.S, t.k.K};
  for (float** part : {&kv.keys, &kv.values}) *part = parts.take(rows * width / Lane::kPerLane);
  Lane::pack_along(kv.keys, rows, width, keys);
  Lane::pack_along(kv.values, rows, width, FlashRows<T>{t.v.at(b, 0, g), t.v.stride_s, t.v.S, t.v.K});
  kv.keys_down = kv.keys;
  if constexpr (Lane::kPerLane > 1) {
    kv.keys_down = parts.take(rows * width / Lane::kPerLane);
    Lane::pack_down(kv.keys_down, rows, width, keys);
  }
  return kv;
}

template <class Lane, class T>
void load_query_block(QueryBlock& x, const FlashBackward<T>& t, int64_t b, int64_t h, int64_t s, int64_t width) {
  const F32 d;
  const int64_t S = t.q.S, K = t.q.K;
  x.h = h, x.s = s, x.count = std::min(kBlockQueries, S - s);
  x.scale = score_scale(K, t.scale);
  prefetch(t.q.at(b, s, h), t.q.stride_s, x.count, K);
  prefetch(t.dout.at(b, s, h), t.dout.stride_s, x.count, K);
  prefetch(t.out.at(b, s, h), t.out.stride_s, x.count, K);
  FlashRows<T> q{t.q.at(b, s, h), t.q.stride_s, x.count, K, kLog2E * x.scale};
  const FlashRows<T> dout{t.dout.at(b, s, h), t.dout.stride_s, x.count, K};
  Lane::pack_columns(x.q_t, kBlockQueries, q);
  Lane::pack_columns(x.dout_t, kBlockQueries, dout);
  q.factor = x.scale;
  Lane::pack_down(x.q, kBlockQueries, width, q);
  Lane::pack_down(x.dout, kBlockQueries, width, dout);
  std::fill_n(x.dq, kBlockQueries * width, 0.0f);
  const VisibleKeys* visible = t.visible + b * S + s;
  for (int64_t i = 0; i < kPanels; ++i) {
    // A panel without queries sees the last query's keys: its results are multiplied by zeros.
    const int64_t first = std::min(i * kTileColumns, x.count - 1), n = std::min(kTileColumns, x.count - first);
    x.spans[i] = load_visible(x.begin + i * kTileColumns, x.end + i * kTileColumns, kTileColumns, visible + first, n);
  }
  for (int64_t i = 0; i < kBlockQueries; ++i) {
    V32 dot = hn::Zero(d);
    if (i < x.count) {
      const T *out = t.out.at(b, s + i, h), *dout_i = t.dout.at(b, s + i, h);
      for_lanes(d, K, [&](int64_t k, int64_t n) HWY_ATTR {
        dot = hn::MulAdd(load(d, out + k, n), load(d, dout_i + k, n), dot);
      });
    }
    x.delta[i] = sum(d, dot);
    x.lse[i] = i < x.count ? kLog2E * t.lse[(b * t.q.N + h) * S + s + i] : 0;
  }
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
