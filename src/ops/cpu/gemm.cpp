// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/gemm.cpp"
#include <hwy/foreach_target.h>
//
#include <ATen/Parallel.h>

#include <atomic>
#include <type_traits>

#include "ops/cpu/bf16_dot.h"
#include "ops/cpu/gemm-inl.h"
#include "ops/cpu/gemm_cut.h"
#include "ops/cpu/processor.h"
#include "ops/cpu/scratch.h"
#include "ops/cpu/task_queue.h"
#include "plan/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {
namespace {

// Packs panels of the shared operand, from number `panel` on, for the block that begins at k.
template <class T>
void pack_shared_panels(const GemmOperand<T>& x, int64_t K, const GemmStage& s, int64_t k, int64_t panel,
                        int64_t panels) {
  const int64_t begin = s.shared_begin + panel * s.shared_panel_rows;
  const GemmRows rows{begin, std::min(s.shared_end, begin + panels * s.shared_panel_rows)};
  const int64_t depth = std::min(s.depth, s.k_end - k);
  with_gemm_lane<T>(s.pairs, [&]<class Lane>(Lane) HWY_ATTR {
    if (s.shares_a) {
      pack_panels<Lane, kGemmRows>(s.panel(k, panel), x, K, rows, k, depth);
    } else {
      pack_panels<Lane, kGemmColumns>(s.panel(k, panel), x, K, rows, k, depth);
    }
  });
}

template <class Lane, class To>
HWY_INLINE void multiply_any(const float* a, const float* b, int64_t depth, const To& to, int64_t rows, int64_t columns,
                             Ahead& ahead) {
  if (rows >= kGemmRows && columns >= kGemmColumns) {
    multiply_tile<Lane>(a, b, depth, to, ahead);
  } else {
    multiply_edge<Lane>(a, b, depth, to, std::min(kGemmRows, rows), std::min(kGemmColumns, columns), ahead);
  }
}

// Multiplies `rows` of the own operand, packed, by all shared panels. `next` are the thread's rows after these.
template <class Lane, bool kSharesA, class T, class C>
void multiply_rows(const Gemm<T, C>& g, const GemmStage& s, float* own, GemmRows rows, GemmRows next) {
  constexpr int64_t kShared = kSharesA ? kGemmRows : kGemmColumns, kOwn = kSharesA ? kGemmColumns : kGemmRows;
  const GemmOperand<T>& own_operand = kSharesA ? g.b : g.a;
  for (int64_t k = s.k_begin; k < s.k_end; k += s.depth) {
    const int64_t depth = std::min(s.depth, s.k_end - k);
    pack_panels<Lane, kOwn>(own, own_operand, g.K, rows, k, depth);
    const int64_t tiles = s.shared_panels() * ((rows.end - rows.begin + kOwn - 1) / kOwn);
    const bool is_last_of_stage = k + depth == s.k_end;
    const int64_t then_k = is_last_of_stage ? s.k_begin : k + depth;
    Ahead ahead(own_operand, is_last_of_stage ? next : rows, then_k * Lane::kPerLane,
                std::min(s.depth, s.k_end - then_k) * Lane::kPerLane, tiles * ((depth + kGemmStep - 1) / kGemmStep));
    for (int64_t i = s.shared_begin; i < s.shared_end; i += kShared) {
      const int64_t shared_panel = (i - s.shared_begin) / kShared;
      const float* shared = s.panel(k, shared_panel);
      for (int64_t j = rows.begin; j < rows.end; j += kOwn) {
        const float *panel = own + (j - rows.begin) * depth, *a = kSharesA ? shared : panel,
                    *b = kSharesA ? panel : shared;
        const int64_t m = kSharesA ? i : j, n = kSharesA ? j : i;
        C* c = g.c + m * g.stride_c + n;
        if constexpr (std::is_same_v<C, float>) {
          multiply_any<Lane>(a, b, depth, ToFloats{c, g.stride_c, g.accumulate || k > 0}, g.M - m, g.N - n, ahead);
        } else {
          float* sums = s.sums_of(j, shared_panel);
          if (k + depth < s.K) {
            multiply_tile<Lane>(a, b, depth, ToFloats{sums, kGemmColumns, k > 0}, ahead);
          } else {
            multiply_any<Lane>(a, b, depth, ToBfloat16{c, g.stride_c, g.accumulate, k > 0 ? sums : nullptr}, g.M - m,
                               g.N - n, ahead);
          }
        }
      }
    }
  }
}

template <class T, class C>
void multiply(const Gemm<T, C>& g, const GemmStage& s, float* own, GemmRows rows, GemmRows next) {
  with_gemm_lane<T>(s.pairs, [&]<class Lane>(Lane) HWY_ATTR {
    s.shares_a ? multiply_rows<Lane, true>(g, s, own, rows, next) : multiply_rows<Lane, false>(g, s, own, rows, next);
  });
}

}  // namespace

GemmTile gemm_tile() { return {kGemmRows, kGemmColumns, HEARTH_HAS_PAIRS}; }

void gemm_pack_f32(const GemmOperand<float>& x, int64_t K, const GemmStage& s, int64_t k, int64_t panel,
                   int64_t panels) {
  pack_shared_panels(x, K, s, k, panel, panels);
}
void gemm_pack_bf16(const GemmOperand<c10::BFloat16>& x, int64_t K, const GemmStage& s, int64_t k, int64_t panel,
                    int64_t panels) {
  pack_shared_panels(x, K, s, k, panel, panels);
}

void gemm_multiply_f32(const Gemm<float, float>& g, const GemmStage& s, float* own, GemmRows rows, GemmRows next) {
  multiply(g, s, own, rows, next);
}
void gemm_multiply_bf16(const Gemm<c10::BFloat16, c10::BFloat16>& g, const GemmStage& s, float* own, GemmRows rows,
                        GemmRows next) {
  multiply(g, s, own, rows, next);
}
void gemm_multiply_bf16_f32(const Gemm<c10::BFloat16, float>& g, const GemmStage& s, float* own, GemmRows rows,
                            GemmRows next) {
  multiply(g, s, own, rows, next);
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace hearth::ops {

HWY_EXPORT(gemm_tile);
HWY_EXPORT(gemm_pack_f32);
HWY_EXPORT(gemm_pack_bf16);
HWY_EXPORT(gemm_multiply_f32);
HWY_EXPORT(gemm_multiply_bf16);
HWY_EXPORT(gemm_multiply_bf16_f32);

namespace {

int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Packs panels of x for all threads: pack(x, K, stage, k, panel, panels).
template <class T, class Pack>
void pack_shared(const GemmOperand<T>& x, int64_t K, const GemmStage& s, const Pack& pack) {
  const int64_t together = std::max<int64_t>(1, 128 / s.shared_panel_rows);
  const int64_t groups = ceil_div(s.shared_panels(), together), blocks = ceil_div(s.k_end - s.k_begin, s.depth);
  run_tasks(groups * blocks, [&](int64_t task) {
    const int64_t panel = task % groups * together;
    pack(x, K, s, s.k_begin + task / groups * s.depth, panel, std::min(together, s.shared_panels() - panel));
  });
}

// kernel(stage, own, rows, next) for all rows of the stage's own operand. Free threads take the next rows, fewer at a
// time towards the end, to end together. Results do not depend on which thread takes which rows.
template <class Kernel>
void multiply(const GemmStage& s, const Kernel& kernel) {
  const int64_t threads = at::get_num_threads(), panels = ceil_div(s.own_end - s.own_begin, s.own_panel_rows);
  const int64_t most = std::max<int64_t>(1, plan::kGemmOwnFloats / (s.depth * s.own_panel_rows));
  std::atomic<int64_t> next_panel = 0;
  const auto take = [&] {
    int64_t begin = next_panel, count = 0;
    do {
      count = std::min(panels - begin, std::clamp<int64_t>((panels - begin) / (2 * threads), 1, most));
    } while (!next_panel.compare_exchange_weak(begin, begin + count));
    const auto row = [&](int64_t panel) { return std::min(s.own_end, s.own_begin + panel * s.own_panel_rows); };
    return GemmRows{row(begin), row(begin + count)};
  };
  at::parallel_for(0, std::min(panels, threads), 1, [&](int64_t, int64_t) {
    float* own = thread_scratch<float>(Scratch::kTask, plan::kGemmOwnFloats);
    for (GemmRows rows = take(); rows.begin < rows.end;) {
      const GemmRows next = take();
      kernel(s, own, rows, next);
      rows = next;
    }
  });
}

// The size of a stage: as many shared rows as fit with one block of K, then as many blocks as fit.
struct StageSize {
  int64_t shared_rows, k, own_rows;
};

StageSize stage_size(const GemmStage& s, int64_t shared_rows, int64_t own_rows, bool keeps_sums) {
  const int64_t panels =
      std::min(ceil_div(shared_rows, s.shared_panel_rows), plan::kGemmSharedFloats / (s.depth * s.shared_panel_rows));
  const int64_t rows = panels * s.shared_panel_rows;
  const int64_t blocks = std::min(ceil_div(s.K, s.depth), plan::kGemmSharedFloats / (rows * s.depth));
  if (!keeps_sums) return {rows, blocks * s.depth, own_rows};
  const int64_t own_panels = plan::kGemmSumFloats / (rows * s.own_panel_rows);
  return {rows, blocks * s.depth, own_panels * s.own_panel_rows};
}

template <class T, class C, class Pack, class Multiply>
void run(const Gemm<T, C>& g, const Pack& pack, const Multiply& multiply_kernel) {
  if (g.M == 0 || g.N == 0) return;
  if (g.K == 0) {
    for (int64_t m = 0; m < g.M && !g.accumulate; ++m) std::fill_n(g.c + m * g.stride_c, g.N, C(0));
    return;
  }
  const GemmTile tile = HWY_DYNAMIC_DISPATCH(gemm_tile)();
  GemmStage s{};
  s.shares_a = g.M < g.N;
  s.pairs = std::is_same_v<T, c10::BFloat16> && tile.may_pair && uses_bf16_dot();
  s.K = s.pairs ? ceil_div(g.K, 2) : g.K;
  s.depth = ceil_div(s.K, ceil_div(s.K, kGemmDepth));
  s.shared_panel_rows = s.shares_a ? tile.rows : tile.columns;
  s.own_panel_rows = s.shares_a ? tile.columns : tile.rows;
  const int64_t shared_rows = s.shares_a ? g.M : g.N, own_rows = s.shares_a ? g.N : g.M;
  const bool keeps_sums = !std::is_same_v<C, float> && s.depth < s.K;
  const StageSize size = stage_size(s, shared_rows, own_rows, keeps_sums);
  s.shared = thread_scratch<float>(Scratch::kShared, plan::gemm_shared_floats(keeps_sums));
  s.sums = s.shared + plan::kGemmSharedFloats;
  for (s.own_begin = 0; s.own_begin < own_rows; s.own_begin = s.own_end) {
    s.own_end = std::min(own_rows, s.own_begin + size.own_rows);
    for (s.shared_begin = 0; s.shared_begin < shared_rows; s.shared_begin = s.shared_end) {
      s.shared_end = std::min(shared_rows, s.shared_begin + size.shared_rows);
      for (s.k_begin = 0; s.k_begin < s.K; s.k_begin = s.k_end) {
        s.k_end = std::min(s.K, s.k_begin + size.k);
        pack_shared(s.shares_a ? g.a : g.b, g.K, s, pack);
        multiply(s, [&](const GemmStage& stage, float* own, GemmRows rows, GemmRows next) {
          multiply_kernel(g, stage, own, rows, next);
        });
      }
    }
  }
}

}  // namespace

void gemm(const Gemm<float, float>& g) {
  run(g, HWY_DYNAMIC_DISPATCH(gemm_pack_f32), HWY_DYNAMIC_DISPATCH(gemm_multiply_f32));
}

void gemm(const Gemm<c10::BFloat16, c10::BFloat16>& g) {
  run(g, HWY_DYNAMIC_DISPATCH(gemm_pack_bf16), HWY_DYNAMIC_DISPATCH(gemm_multiply_bf16));
}

void gemm(const Gemm<c10::BFloat16, float>& g) {
  run(g, HWY_DYNAMIC_DISPATCH(gemm_pack_bf16), HWY_DYNAMIC_DISPATCH(gemm_multiply_bf16_f32));
}

template <>
bool gemm_is_preferred<float>() {
  static const bool is = (hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3)) != 0;
  return is;
}

template <>
bool gemm_is_preferred<c10::BFloat16>() {
  static const bool is = gemm_is_preferred<float>() && !processor().amx_bf16;
  return is;
}

}  // namespace hearth::ops
#endif
