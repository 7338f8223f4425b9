#include "ops/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gemm.cpp"
#include <hwy/foreach_target.h>
//
#include <ATen/Parallel.h>

#include <atomic>

#include "ops/gemm-inl.h"
#include "ops/gemm_cut.h"
#include "ops/scratch.h"
#include "ops/task_queue.h"
#include "plan/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {
namespace {

// `rows` of the own operand, packed, against all that is shared; `next` is what this thread does afterwards.
template <bool kSharesA>
void multiply_rows(const GemmStage& s, float* own, GemmRows rows, GemmRows next) {
  constexpr int64_t kShared = kSharesA ? kGemmRows : kGemmColumns, kOwn = kSharesA ? kGemmColumns : kGemmRows;
  const Gemm& g = *s.product;
  for (int64_t k = s.k_begin; k < s.k_end; k += s.depth) {
    const int64_t depth = std::min(s.depth, s.k_end - k);
    const bool accumulate = g.accumulate || k > 0;
    const auto [begin, end] = rows;
    pack_panels<kOwn>(own, s.own_operand(), begin, end, k, depth);
    const int64_t tiles = s.shared_panels() * ((end - begin + kOwn - 1) / kOwn);
    const bool is_last = k + depth == s.k_end;
    const GemmRows then = is_last ? next : rows;
    const int64_t then_k = is_last ? s.k_begin : k + depth;
    Ahead ahead(s.own_operand(), then.begin, then.end, then_k, std::min(s.depth, s.k_end - then_k),
                tiles * ((depth + kGemmStep - 1) / kGemmStep));
    for (int64_t i = s.shared_begin; i < s.shared_end; i += kShared) {
      const float* shared = s.panel(k, (i - s.shared_begin) / kShared);
      for (int64_t j = begin; j < end; j += kOwn) {
        const float *panel = own + (j - begin) * depth, *a = kSharesA ? shared : panel, *b = kSharesA ? panel : shared;
        const int64_t m = kSharesA ? i : j, n = kSharesA ? j : i;
        float* c = g.c + m * g.stride_c + n;
        if (m + kGemmRows <= g.M && n + kGemmColumns <= g.N) {
          multiply_tile(a, b, depth, c, g.stride_c, accumulate, ahead);
        } else {
          multiply_edge(a, b, depth, c, g.stride_c, accumulate, std::min(kGemmRows, g.M - m),
                        std::min(kGemmColumns, g.N - n), ahead);
        }
      }
    }
  }
}

}  // namespace

GemmTile gemm_tile() { return {kGemmRows, kGemmColumns}; }

// Panels of the shared operand, from the panel-th on, of the block that begins at k.
void gemm_pack(const GemmStage& s, int64_t k, int64_t panel, int64_t panels) {
  const int64_t begin = s.shared_begin + panel * s.shared_panel_rows;
  const int64_t end = std::min(s.shared_end, begin + panels * s.shared_panel_rows);
  const int64_t depth = std::min(s.depth, s.k_end - k);
  if (s.shares_a) {
    pack_panels<kGemmRows>(s.panel(k, panel), s.product->a, begin, end, k, depth);
  } else {
    pack_panels<kGemmColumns>(s.panel(k, panel), s.product->b, begin, end, k, depth);
  }
}

void gemm_multiply(const GemmStage& s, float* own, GemmRows rows, GemmRows next) {
  s.shares_a ? multiply_rows<true>(s, own, rows, next) : multiply_rows<false>(s, own, rows, next);
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace hearth::ops {

HWY_EXPORT(gemm_tile);
HWY_EXPORT(gemm_pack);
HWY_EXPORT(gemm_multiply);

namespace {

int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }

void pack_shared(const GemmStage& s) {
  const auto pack = HWY_DYNAMIC_DISPATCH(gemm_pack);
  const int64_t together = std::max<int64_t>(1, 128 / s.shared_panel_rows);
  const int64_t groups = ceil_div(s.shared_panels(), together), blocks = ceil_div(s.k_end - s.k_begin, s.depth);
  run_tasks(groups * blocks, [&](int64_t task) {
    const int64_t panel = task % groups * together;
    pack(s, s.k_begin + task / groups * s.depth, panel, std::min(together, s.shared_panels() - panel));
  });
}

// Threads take rows as they get free, fewer at a time towards the end, so that they end together. Results do not depend
// on who takes what.
void multiply(const GemmStage& s, int64_t own_rows, int64_t own_panel_rows) {
  const auto kernel = HWY_DYNAMIC_DISPATCH(gemm_multiply);
  const int64_t threads = at::get_num_threads(), panels = ceil_div(own_rows, own_panel_rows);
  const int64_t most = std::max<int64_t>(1, plan::kGemmOwnFloats / (s.depth * own_panel_rows));
  std::atomic<int64_t> next_panel = 0;
  const auto take = [&] {
    int64_t begin = next_panel, count = 0;
    do {
      count = std::min(panels - begin, std::clamp<int64_t>((panels - begin) / (4 * threads), 1, most));
    } while (!next_panel.compare_exchange_weak(begin, begin + count));
    return GemmRows{std::min(own_rows, begin * own_panel_rows), std::min(own_rows, (begin + count) * own_panel_rows)};
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

bool made_by_intel() {
#if HWY_ARCH_X86
  unsigned highest = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0, &highest, &b, &c, &d) != 0 && b == signature_INTEL_ebx;
#else
  return false;
#endif
}

}  // namespace

void gemm(const Gemm& g) {
  if (g.M == 0 || g.N == 0) return;
  if (g.K == 0) {
    for (int64_t m = 0; m < g.M && !g.accumulate; ++m) std::fill_n(g.c + m * g.stride_c, g.N, 0.0f);
    return;
  }
  const GemmTile tile = HWY_DYNAMIC_DISPATCH(gemm_tile)();
  GemmStage s{};
  s.product = &g;
  s.shares_a = g.M < g.N;
  s.shared_panel_rows = s.shares_a ? tile.rows : tile.columns;
  s.depth = ceil_div(g.K, ceil_div(g.K, kGemmDepth));
  const int64_t own_panel_rows = s.shares_a ? tile.columns : tile.rows;
  const int64_t shared_rows = s.shares_a ? g.M : g.N, own_rows = s.shares_a ? g.N : g.M;
  // A stage has as many rows as fit with one block of K, then as many blocks.
  const int64_t panels =
      std::min(ceil_div(shared_rows, s.shared_panel_rows), plan::kGemmSharedFloats / (s.depth * s.shared_panel_rows));
  const int64_t stage_rows = panels * s.shared_panel_rows;
  const int64_t stage_blocks = std::min(ceil_div(g.K, s.depth), plan::kGemmSharedFloats / (stage_rows * s.depth));
  s.shared = thread_scratch<float>(Scratch::kShared, plan::kGemmSharedFloats);
  for (s.shared_begin = 0; s.shared_begin < shared_rows; s.shared_begin = s.shared_end) {
    s.shared_end = std::min(shared_rows, s.shared_begin + stage_rows);
    for (s.k_begin = 0; s.k_begin < g.K; s.k_begin = s.k_end) {
      s.k_end = std::min(g.K, s.k_begin + stage_blocks * s.depth);
      pack_shared(s);
      multiply(s, own_rows, own_panel_rows);
    }
  }
}

bool gemm_is_faster_than_mkl() {
  static const bool is = !made_by_intel() && (hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3)) != 0;
  return is;
}

}  // namespace hearth::ops
#endif
