// SPDX-License-Identifier: Apache-2.0
// Makes this process one rank of a training.
#pragma once

#include <functional>
#include <memory>

#include "comm/group.h"
#include "comm/process_control.h"
#include "config/config.h"

namespace hearth::comm {

// A rank's number among the ranks of its host, and how many there are. Collective.
struct LocalPlace {
  int64_t rank = 0, size = 1;
};
LocalPlace local_place(Control& control);

// The number of cores, on all hosts, that the ranks may use: for rank 0; 0 on the others. Collective.
int64_t num_cores(Control& control);

// What a run needs from the transport of its tensors.
struct TransferNeeds {
  at::Device device = at::kCPU;
  bool ordered = true;        // sums in pairs of ranks (comm/group.h): slower with NCCL, and always so on CPUs
  bool splits_apart = false;  // a group may be split with a stream of its own (comm/nccl_group.h)
};
// The needs of a run.
TransferNeeds transfers_of(const config::RunConfig& config, at::Device device);

// Makes the group of all ranks, as [comm] says: in one host's memory (comm/host_group.h), through MPI
// (comm/mpi_group.h) or through NCCL (comm/nccl_group.h). A rank throws if it waits for another rank's tensor longer
// than the last Control::set_timeout(); train_timeout_seconds holds before that. Collective; once.
using MakeGroup = std::function<std::unique_ptr<Group>(const config::Comm& options, const TransferNeeds& transfers)>;

// Meets the other ranks and runs `body`; its return value is the exit code. If `body` throws on any rank, or a process
// dies, rank 0 prints the error and all processes end with its exit code. Throws only if the ranks do not meet.
int run_as_rank(const Membership& membership, const std::function<int(Control&, const MakeGroup&)>& body);

}  // namespace hearth::comm
