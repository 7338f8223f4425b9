// SPDX-License-Identifier: Apache-2.0
// Ranks on any hosts as a Group: data go through MPI. MPI only copies. Sums are ours, in pairs of ranks
// (comm/buffers.h), because an MPI library's own reductions are slower (docs/decisions/transports.md).
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "comm/group.h"

namespace hearth::comm {

struct MpiOptions {
  Path object;                        // the shared object (comm/mpi_library.h); empty: the one next to the program
  std::function<double()> timeout_s;  // how long a rank waits for the others in a call
  // When any rank last gave a sign of life, on the steady clock: the waiting time begins again with each sign.
  std::function<double()> sign_s;
  // Called by a rank that has waited longer. MPI does not say which rank is missing, so `hang` has to find out. Does
  // not return.
  std::function<void(const Error& error)> hang;
  // Called before a call that may never return, such as MPI_Init without one of the ranks. The call is watched as long
  // as the result lives.
  std::function<std::shared_ptr<void>(std::string_view call)> watch;
};

// Throws user_error if there is no object or no library, or if MPI's launcher did not start these ranks. Borrows
// `control`. Collective, once a process.
std::unique_ptr<Group> mpi_group(Control& control, const MpiOptions& options);

// Leaves MPI, if this process is in it. Collective. `watch`: as in MpiOptions.
void end_mpi(const std::function<std::shared_ptr<void>(std::string_view call)>& watch);

}  // namespace hearth::comm
