// Ranks on any hosts as a Group: data go through MPI. Only copies do: sums are ours, in pairs of ranks as everywhere
// (comm/buffers.h), and an MPI library's own reductions are slower (docs/decisions/mpi.md).
#pragma once

#include <memory>

#include "base/file.h"
#include "comm/group.h"

namespace hearth::comm {

// `object`: the shared object (comm/mpi_library.h); empty: the one next to the program. A rank that waits longer than
// timeout_s for the others throws an Error (kHardware). Throws user_error if there is no object or no library, or if
// MPI's launcher did not start these ranks. Borrows `control`. Collective, once a process.
std::unique_ptr<Group> mpi_group(Control& control, const Path& object, double timeout_s);

// Leaves MPI, if this process is in it. Collective.
void end_mpi();

}  // namespace hearth::comm
