// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process, for tests and benchmarks. A training's ranks are processes (comm/join.h).
#pragma once

#include <functional>

#include "comm/group.h"

namespace hearth::comm {

// The default of `grace_s` below: how long the other ranks may take to notice a failure.
inline constexpr double kGraceSeconds = 60;

// Runs `body` once per rank, each in its own thread (size 1: in this thread). Returns when all have ended. Rethrows the
// first exception of any rank; the other ranks then throw Aborted from their waits. A rank that waits longer than
// timeout_s for the others throws an Error (exit code 4), which names the operation and the missing ranks.
//
// A thread cannot be stopped from outside. If a rank failed and another is still busy (not waiting in a collective)
// after grace_s, the process prints the message to stderr and ends with exit code 4.
//
// The body sets its own threads (ops::prepare_thread): OpenMP keeps one pool for each thread that opens a parallel
// region, so R ranks of T threads each use R * T cores.
void run_ranks(int64_t size, double timeout_s, const std::function<void(Group&)>& body, double grace_s = kGraceSeconds);

}  // namespace hearth::comm
