// SPDX-License-Identifier: Apache-2.0
#include "model/init.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "ops/random_normal.h"

namespace hearth::model {

namespace {

// Elements [first, first + n) of a whole parameter.
void fill_random(float* values, int64_t n, const plan::Parameter& p, RandomKey key, uint64_t first, double bound) {
  ops::fill_normal(values, n, key, first, p.init_std, bound);
}

void fill_random(double* values, int64_t n, const plan::Parameter& p, RandomKey key, uint64_t first, double bound) {
  for (int64_t i = 0; i < n; ++i)
    values[i] = random_truncated_normal(key, first + static_cast<uint64_t>(i), p.init_std, bound);
}

template <typename T>
void fill(T* values, const plan::ParameterPlan& plan, const plan::Unit& unit, plan::Slice slice, uint64_t seed) {
  // The gaps between parameters are padding. The thread that fills a parameter is also the first to touch its memory,
  // because clearing fresh pages takes about as long as filling them.
  int64_t filled_to = slice.begin;
  const auto pad_to = [&](int64_t end) {
    if (end > filled_to) std::fill(values + (filled_to - slice.begin), values + (end - slice.begin), T{0});
    filled_to = std::max(filled_to, end);
  };
  for (int64_t i = 0; i < unit.num_parameters; ++i) {
    const plan::Parameter& p = plan.parameters[static_cast<size_t>(unit.first_parameter + i)];
    const RandomKey key = random_key(seed, "init:" + p.name);
    const double bound =
        p.init == plan::Init::kTruncatedNormal ? p.init_bound : std::numeric_limits<double>::infinity();
    const int64_t begin = std::max(p.offset, slice.begin), end = std::min(p.offset + p.numel, slice.end);
    if (begin >= end) continue;
    pad_to(begin);
    at::parallel_for(begin, end, 16384, [&](int64_t from, int64_t to) {
      if (p.init == plan::Init::kOnes || p.init == plan::Init::kZeros) {
        std::fill_n(values + (from - slice.begin), to - from, p.init == plan::Init::kOnes ? T{1} : T{0});
        return;
      }
      for (const plan::FlatRun& run : plan::flat_runs(p, from - p.offset, to - p.offset))
        fill_random(values + (p.offset + run.begin - slice.begin), run.numel, p, key, static_cast<uint64_t>(run.whole),
                    bound);
    });
    filled_to = end;
  }
  pad_to(slice.end);
}

}  // namespace

void init_unit(const at::Tensor& slice_N, const plan::ParameterPlan& plan, int64_t unit_index, plan::Slice slice,
               uint64_t seed) {
  HEARTH_CHECK(slice_N.numel() == slice.numel() && slice_N.is_contiguous(), "unit {}", unit_index);
  const plan::Unit& unit = plan.units[static_cast<size_t>(unit_index)];
  if (slice_N.scalar_type() == at::kDouble) {
    fill(slice_N.mutable_data_ptr<double>(), plan, unit, slice, seed);
  } else {
    fill(slice_N.mutable_data_ptr<float>(), plan, unit, slice, seed);
  }
}

}  // namespace hearth::model
