#include "model/init.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace hearth::model {

namespace {

double initial_value(const plan::Parameter& p, RandomKey key, uint64_t index) {
  switch (p.init) {
    case plan::Init::kOnes:
      return 1;
    case plan::Init::kNormal:
      return p.init_std * random_normal(key, index);
    case plan::Init::kTruncatedNormal:
      break;
  }
  // Rejection: draw number `attempt` of this position, until one lies inside the bounds.
  for (uint64_t attempt = 0;; ++attempt) {
    const double value = p.init_std * random_normal(key, index, attempt);
    if (std::abs(value) <= p.init_bound) return value;
  }
}

template <typename T>
void fill(T* values, const plan::ParameterPlan& plan, const plan::Unit& unit, plan::Slice slice, uint64_t seed) {
  std::fill_n(values, slice.numel(), T{0});
  for (int64_t i = 0; i < unit.num_parameters; ++i) {
    const plan::Parameter& p = plan.parameters[static_cast<size_t>(unit.first_parameter + i)];
    const RandomKey key = random_key(seed, "init:" + p.name);
    const int64_t begin = std::max(p.offset, slice.begin), end = std::min(p.offset + p.numel, slice.end);
    at::parallel_for(begin, std::max(begin, end), 16384, [&](int64_t from, int64_t to) {
      for (int64_t at = from; at < to; ++at) {
        values[at - slice.begin] = static_cast<T>(initial_value(p, key, static_cast<uint64_t>(at - p.offset)));
      }
    });
  }
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
