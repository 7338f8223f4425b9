// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/flash_forward.cpp"
#include <hwy/foreach_target.h>
//
#include <cmath>

#include "ops/access.h"
#include "ops/cpu/bf16_dot.h"
#include "ops/cpu/flash-inl.h"
#include "ops/cpu/flash_attention.h"
#include "ops/cpu/scratch.h"
#include "ops/cpu/task_queue.h"
#include "plan/scratch.h"

#ifndef HEARTH_OPS_FORWARD_CUT
#define HEARTH_OPS_FORWARD_CUT
namespace hearth::ops {

// See plan::AttentionCut.
constexpr int64_t kTaskQueries = plan::AttentionCut::kTaskQueries;

struct ForwardCut {
  int64_t heads, positions, blocks, num_tasks;
  bool pairs = uses_bf16_dot();
  template <class T>
  explicit ForwardCut(const FlashForward<T>& t)
      : heads(t.q.N / t.k.N % 2 == 0 ? 2 : 1),
        positions(kTaskQueries / heads),
        blocks((t.q.S + positions - 1) / positions),
        num_tasks(t.q.B * (t.q.N / heads) * blocks) {}
};

}  // namespace hearth::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {
namespace {

constexpr int64_t kBlockKeys = plan::AttentionCut::kForwardKeys;
static_assert(kTaskQueries % kTileColumns == 0 && kTileColumns <= plan::AttentionCut::kTileColumns &&
              kTileColumns >= plan::AttentionCut::kFewestTileColumns && kLanes <= plan::AttentionCut::kLanes &&
              kTileRows <= plan::AttentionCut::kTileRows);

// kTileColumns queries of one head, with their state between blocks of keys.
struct Panel {
  int64_t h, s, count;
  float scale;  // from the product of a query and a key to a score
  VisibleRange span;
  float *q_t, *out;                            // [lanes of K, kTileColumns]; [kTileColumns, width] unnormalised
  float *begin, *end, *largest, *sum, *decay;  // [kTileColumns]; scores are powers of 2
  // [kTileColumns]: the sum of the outputs' weights. It differs from `sum` if weights are rounded. Divided by it, an
  // output is a mean whose rounded weights add up to 1. The backward's delta then agrees with it.
  float* weight;
};

// The factor from the product of a query and a key to a score.
float scale(int64_t K, float given) { return given > 0 ? kLog2E * given : kLog2E / std::sqrt(static_cast<float>(K)); }

template <class Lane, class T>
Panel start_panel(const FlashForward<T>& t, int64_t b, int64_t h, int64_t s, int64_t width, Parts& parts) {
  Panel p{};
  p.h = h, p.s = s, p.count = std::min(kTileColumns, t.q.S - s);
  p.scale = scale(t.q.K, t.scale);
  const int64_t K = t.q.K;
  p.q_t = parts.take(Lane::lanes(K) * kTileColumns);
  p.out = parts.take(kTileColumns * width);
  for (float** part : {&p.begin, &p.end, &p.largest, &p.sum, &p.decay}) *part = parts.take(kTileColumns);
  p.weight = Lane::kRounds ? parts.take(kTileColumns) : p.sum;
  p.span = load_visible(p.begin, p.end, kTileColumns, t.visible + b * t.q.S + s, p.count);
  Lane::pack_columns(p.q_t, kTileColumns, FlashRows<T>{t.q.at(b, s, h), t.q.stride_s, p.count, K, p.scale});
  std::fill_n(p.out, kTileColumns * width, 0.0f);
  std::fill_n(p.largest, kTileColumns, kHidden);
  std::fill_n(p.sum, kTileColumns, 0.0f);
  std::fill_n(p.weight, kTileColumns, 0.0f);
  return p;
}

// scores [n, kTileColumns] = K q, scaled, for rows first .. last of a block that begins with key j0. Raises p.largest
// to their maximum and sets p.decay, the factor for earlier sums.
template <class Lane>
HWY_INLINE void score(const Panel& p, float* scores, const float* keys, int64_t width, int64_t K, int64_t j0,
                      int64_t first, int64_t last) {
  const F32 d;
  const int64_t stride = width / Lane::kPerLane;
  const V32 factor = hn::Set(d, p.scale);
  V32 largest[kTileVectors];
  for (int v = 0; v < kTileVectors; ++v) largest[v] = hn::LoadU(d, p.largest + v * kLanes);
  for (int64_t j = first; j < last; j += kTileRows) {
    const bool hides = p.span.hides_some(j0 + j, j0 + j + kTileRows);
    tile<Lane, kTileVectors, StorageOrder::kRows>(
        keys + j * stride, stride, p.q_t, kTileColumns, Lane::lanes(K), [&](int r, int v, V32 x) HWY_ATTR {
          if constexpr (!Lane::kScalesQueries) x = hn::Mul(x, factor);
          if (hides) {
            x = hn::IfThenElse(sees(d, j0 + j + r, p.begin + v * kLanes, p.end + v * kLanes), x, hn::Set(d, kHidden));
          }
          hn::StoreU(x, d, scores + (j + r) * kTileColumns + v * kLanes);
          largest[v] = hn::Max(largest[v], x);
        });
  }
  for (int v = 0; v < kTileVectors; ++v) {
    hn::StoreU(exp2(d, hn::Sub(hn::LoadU(d, p.largest + v * kLanes), largest[v])), d, p.decay + v * kLanes);
    hn::StoreU(largest[v], d, p.largest + v * kLanes);
  }
}

// scores = 2^(scores - largest), and their sums. A lane overwrites the first of its scores.
template <class Lane>
HWY_INLINE void exponentiate(const Panel& p, float* scores, int64_t first, int64_t last) {
  const F32 d;
  for (int v = 0; v < kTileVectors; ++v) {
    const V32 largest = hn::LoadU(d, p.largest + v * kLanes);
    V32 sum = hn::Zero(d), weight = hn::Zero(d);
    for (int64_t j = first; j < last; j += Lane::kPerLane) {
      float* x = scores + j * kTileColumns + v * kLanes;
      V32 e[Lane::kPerLane];
#pragma GCC unroll 2
      for (int r = 0; r < Lane::kPerLane; ++r) {
        e[r] = exp2(d, hn::Sub(hn::LoadU(d, x + r * kTileColumns), largest));
        sum = hn::Add(sum, e[r]);
      }
      const V32 lane = Lane::unit_of(e);
      hn::StoreU(lane, d, x);
      if constexpr (Lane::kRounds) weight = Lane::add_product(weight, lane, Lane::ones());
    }
    const V32 decay = hn::LoadU(d, p.decay + v * kLanes);
    const auto add = [&](float* total, V32 x)
                         HWY_ATTR { hn::StoreU(hn::MulAdd(hn::LoadU(d, total), decay, x), d, total); };
    add(p.sum + v * kLanes, sum);
    if constexpr (Lane::kRounds) add(p.weight + v * kLanes, weight);
  }
}

// Adds the block's `count` keys from j0 on to the panel's queries.
template <class Lane>
HWY_INLINE void attend(const Panel& p, float* scores, const float* keys, const float* values, int64_t width, int64_t K,
                       int64_t j0, int64_t count) {
  const F32 d;
  const int64_t first = std::max<int64_t>(0, p.span.begin_min - j0) / kTileRows * kTileRows;
  const int64_t last = round_up(std::min(count, p.span.end_max - j0), kTileRows);
  if (first >= last) return;
  score<Lane>(p, scores, keys, width, K, j0, first, last);
  exponentiate<Lane>(p, scores, first, last);
  for (int64_t i = 0; i < kTileColumns; i += kTileRows) {
    tile_row<Lane, StorageOrder::kColumns>(
        scores + first * kTileColumns + i, Lane::kPerLane * kTileColumns, values + first / Lane::kPerLane * width,
        width, (last - first) / Lane::kPerLane, width / kLanes, [&](int r, int64_t k, V32 x) HWY_ATTR {
          float* out = p.out + (i + r) * width + k;
          const V32 decay = hn::Set(d, p.decay[i + r]);
          hn::StoreU(hn::MulAdd(hn::LoadU(d, out), decay, x), d, out);
        });
  }
}

template <class T>
void finish_panel(const FlashForward<T>& t, int64_t b, const Panel& p, int64_t width) {
  const F32 d;
  for (int64_t i = 0; i < p.count; ++i) {
    const V32 factor = hn::Set(d, 1 / p.weight[i]);
    T* out = t.out.at(b, p.s + i, p.h);
    for_lanes(d, t.out.K, [&](int64_t k, int64_t n) HWY_ATTR {
      store(hn::Mul(hn::LoadU(d, p.out + i * width + k), factor), d, out + k, n);
    });
    t.lse[(b * t.q.N + p.h) * t.q.S + p.s + i] = kLn2 * p.largest[i] + std::log(p.sum[i]);
  }
}

template <class Lane, class T>
void forward_task(const FlashForward<T>& t, const ForwardCut& cut, int64_t task) {
  constexpr int64_t kMaxPanels = kTaskQueries / kTileColumns;
  const int64_t K = t.q.K, Q = t.q.S, width = round_up(K, kLanes);
  // The last positions first: with a causal mask they take longest.
  const int64_t pairs = t.q.N / cut.heads, block = cut.blocks - 1 - task / (t.q.B * pairs);
  const int64_t b = task % (t.q.B * pairs) / pairs, h0 = task % pairs * cut.heads, g = h0 / (t.q.N / t.k.N);

  const plan::AttentionCut sizes{t.q.B, t.k.S, t.q.N, t.k.N, K, Q};
  Parts parts{thread_scratch<float>(Scratch::kTask, sizes.forward_task_floats())};
  Panel panels[kMaxPanels];
  int64_t num_panels = 0, begin = t.k.S, end = 0;
  const int64_t s0 = block * cut.positions, s1 = std::min(Q, s0 + cut.positions);
  for (int64_t h = h0; h < h0 + cut.heads; ++h) prefetch(t.q.at(b, s0, h), t.q.stride_s, s1 - s0, K);
  for (int64_t h = h0; h < h0 + cut.heads; ++h) {
    for (int64_t s = s0; s < s1; s += kTileColumns) {
      const Panel& p = panels[num_panels++] = start_panel<Lane>(t, b, h, s, width, parts);
      begin = std::min(begin, p.span.begin_min);
      end = std::max(end, p.span.end_max);
    }
  }
  constexpr int64_t kBlockLanes = kBlockKeys / Lane::kPerLane;
  float *keys = parts.take(kBlockLanes * width), *values = parts.take(kBlockLanes * width);
  float* scores = parts.take(kBlockKeys * kTileColumns);
  for (int64_t j0 = begin; j0 < end; j0 += kBlockKeys) {
    const int64_t count = std::min(kBlockKeys, end - j0), rows = round_up(count, kTileRows);
    Lane::pack_along(keys, rows, width, FlashRows<T>{t.k.at(b, j0, g), t.k.stride_s, count, K});
    Lane::pack_down(values, rows, width, FlashRows<T>{t.v.at(b, j0, g), t.v.stride_s, count, K});
    const int64_t next = j0 + kBlockKeys, share = (std::min(kBlockKeys, end - next) + num_panels - 1) / num_panels;
    for (int64_t i = 0; i < num_panels; ++i) {
      const int64_t first = std::min(end, next + i * share), n = std::min(share, end - first);
      prefetch(t.k.at(b, first, g), t.k.stride_s, n, K);
      prefetch(t.v.at(b, first, g), t.v.stride_s, n, K);
      attend<Lane>(panels[i], scores, keys, values, width, K, j0, count);
    }
  }
  for (int64_t i = 0; i < num_panels; ++i) finish_panel(t, b, panels[i], width);
}

}  // namespace

void forward_task_float32(const FlashForward<float>& t, const ForwardCut& cut, int64_t task) {
  forward_task<FlashFloats>(t, cut, task);
}
void forward_task_bfloat16(const FlashForward<c10::BFloat16>& t, const ForwardCut& cut, int64_t task) {
  with_lane<c10::BFloat16>(cut.pairs, [&]<class Lane>(Lane) HWY_ATTR { forward_task<Lane>(t, cut, task); });
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(forward_task_float32);
HWY_EXPORT(forward_task_bfloat16);

void flash_forward(const FlashForward<float>& t) {
  const ForwardCut cut(t);
  const auto kernel = HWY_DYNAMIC_DISPATCH(forward_task_float32);
  run_tasks(cut.num_tasks, [&](int64_t task) { kernel(t, cut, task); });
}

void flash_forward(const FlashForward<c10::BFloat16>& t) {
  const ForwardCut cut(t);
  const auto kernel = HWY_DYNAMIC_DISPATCH(forward_task_bfloat16);
  run_tasks(cut.num_tasks, [&](int64_t task) { kernel(t, cut, task); });
}

}  // namespace hearth::ops
#endif
