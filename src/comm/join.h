// A process as one rank of a training.
#pragma once

#include <functional>
#include <memory>

#include "comm/group.h"
#include "comm/process_control.h"

namespace hearth::comm {

// Makes the group of all ranks. A rank that waits longer than timeout_s for another's tensor throws. Collective; once.
// Ranks on several hosts are refused: NCCL and MPI are not there yet.
using MakeGroup = std::function<std::unique_ptr<Group>(double timeout_s)>;

// Meets the other ranks and runs `body`; its return value is the exit code. If `body` throws on any rank, or a process
// dies, rank 0 prints the error and all processes end with its exit code. Throws only if the ranks do not meet.
int run_as_rank(const Membership& membership, const std::function<int(Control&, const MakeGroup&)>& body);

}  // namespace hearth::comm
