// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of a training as processes of this host, and watches them: `hearth train RUN.toml --ranks N`.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "launch/launched_rank.h"

namespace hearth::launch {

struct LocalEnd {
  int code = 0;                 // for the process that started the ranks
  bool asked_to_leave = false;  // SIGTERM, SIGINT or SIGUSR2 came: the user does not want the ranks again
};

// How long a process may take to end after it was killed, or after another has ended.
constexpr std::chrono::seconds kKillLimit{60};

// Forks `ranks` processes that call rank_main and end with its return value. Call it before this process has threads.
// Passes SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 on to all ranks. Another SIGINT, a second or more after the first, kills
// all ranks at once, and the code is 130. After a rank was killed or failed, the others get a second to end by
// themselves, and are then killed. After one has ended well, the others get `kill_limit`, and a message names ranks
// that need longer. The code is rank 0's if it ended by itself with an error, else the code of the first
// rank with an error. If a rank was killed, the code is kHardware, and a message names that rank. A process that does
// not end within `kill_limit` after SIGKILL is left behind, with a message that names it.
LocalEnd run_local_ranks(int64_t ranks, const std::function<int(const LaunchedRank&)>& rank_main,
                         std::chrono::milliseconds kill_limit = kKillLimit);

}  // namespace hearth::launch
