// SPDX-License-Identifier: Apache-2.0
#include "machine/cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace hearth::machine {

int64_t available_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max<int64_t>(1, std::thread::hardware_concurrency());
}

std::string core_list() {
  cpu_set_t cores;
  std::string list;
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return list;
  for (size_t core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &cores)) list += (list.empty() ? "" : ",") + std::to_string(core);
  return list;
}

}  // namespace hearth::machine
