// SPDX-License-Identifier: Apache-2.0
// Speed, and its share of what the machine can reach.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace hearth::metrics {

struct Throughput {
  double tokens_per_step;  // over all ranks
  double flops_per_token;  // forward and backward, plan::computed_flops_per_token
  double peak_flops;       // per second, over all ranks: the rate of matrix products, as timed

  double tokens_per_second(double step_s) const { return tokens_per_step / step_s; }
  double flops_per_second(double step_s) const { return tokens_per_second(step_s) * flops_per_token; }
  // Model FLOPs utilisation: PaLM (arXiv 2204.02311) appendix B. At most 1: a step above the rate shows that it
  // was timed on a busy machine. A training times it again (metrics/peak_rate.h).
  double mfu(double step_s) const { return std::min(1.0, flops_per_second(step_s) / peak_flops); }
};

// Largest resident set of this process so far.
int64_t peak_memory_bytes();
// Its resident set now.
int64_t resident_memory_bytes();

// Seconds of a clock that never steps back.
double monotonic_seconds();

// Seconds since 1970, in whole milliseconds.
double wall_seconds();

}  // namespace hearth::metrics
