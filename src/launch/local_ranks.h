// Starts the ranks of a training as processes of this host, and watches them: `hearth train RUN.toml --ranks N`.
#pragma once

#include <cstdint>
#include <functional>

#include "launch/place.h"

namespace hearth::launch {

// Forks `ranks` processes that call rank_main and end with its return value. Call it before this process has threads.
// SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 go on to all ranks. When a rank was killed or failed, the others get a second to
// end by themselves, and are killed then. Returns the exit code: that of rank 0 if it ended by itself with an error,
// else that of the first rank with one; kHardware if a rank was killed, with a message that names it.
int run_local_ranks(int64_t ranks, const std::function<int(const Place&)>& rank_main);

}  // namespace hearth::launch
