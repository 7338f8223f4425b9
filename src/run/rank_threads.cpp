// SPDX-License-Identifier: Apache-2.0
#include "run/rank_threads.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "comm/join.h"
#include "machine/cores.h"

namespace hearth::run {

RankThreads share_threads(const config::RunConfig& config, int64_t threads, comm::Control& control) {
  const int64_t ranks = control.size();
  if (config.training.threads > 0) return {std::max<int64_t>(1, threads / ranks), threads};
  const std::string mine = machine::core_list();
  const std::vector<std::string> all = control.all_gather("the cores of the ranks", mine);
  const std::set<std::string> different(all.begin(), all.end());
  return {std::max<int64_t>(1, threads / std::count(all.begin(), all.end(), mine)),
          threads * static_cast<int64_t>(different.size())};
}

double share_measured(at::Device device, int64_t cores, int64_t threads, comm::Control& control) {
  const int64_t all = std::max(comm::num_cores(control), cores);
  return device.is_cpu() ? static_cast<double>(std::min(threads, all)) / static_cast<double>(cores)
                         : static_cast<double>(control.size());
}

}  // namespace hearth::run
