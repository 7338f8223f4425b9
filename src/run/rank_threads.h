// SPDX-License-Identifier: Apache-2.0
// How the ranks of a run share the cores, and the rate of matrix products of all ranks together.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "comm/control.h"
#include "config/config.h"

namespace hearth::run {

struct RankThreads {
  int64_t of_rank, of_run;
};

// Ranks that may use the same cores share them. A launcher may also give each rank cores of its own. `threads`:
// config::cpu_threads of this process. Collective.
RankThreads share_threads(const config::RunConfig& config, int64_t threads, comm::Control& control);

// The factor from the rate that rank 0 measures, with `cores` cores or its GPU, to the rate of the whole run of
// `threads` threads. More threads than cores are no faster. Only rank 0 gets it. Collective.
double share_measured(at::Device device, int64_t cores, int64_t threads, comm::Control& control);

}  // namespace hearth::run
