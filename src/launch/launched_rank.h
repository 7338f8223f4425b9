// SPDX-License-Identifier: Apache-2.0
// This process as a rank of a training, as its launcher says.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace hearth::launch {

struct LaunchedRank {
  int64_t rank = 0, size = 1;
  std::string launcher;     // "srun", "mpirun", "torchrun", "hearth"; for messages
  std::string address;      // where rank 0 listens (comm/socket.h): "unix:NAME" or "tcp:HOST:PORT,PORT,..."
  std::string key;          // identifies this start: equal on its ranks, different for each start. Not a secret
  bool supervised = false;  // by `hearth train --ranks` (launch/local_ranks.h)
};

// An environment variable; nullopt if it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// The rank that the environment describes. If several of these launchers are nested, the innermost one counts.
//   torchrun   RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//   mpirun     OMPI_COMM_WORLD_RANK, ... (Open MPI), or PMI_RANK, PMI_SIZE, ... (MPICH)
//   srun       SLURM_PROCID, SLURM_STEP_NUM_TASKS, ...
// nullopt without a launcher. A launcher that started a single process also gives a rank. Ranks of one host meet by a
// name in Linux's abstract namespace. Ranks of several hosts meet at MASTER_ADDR:MASTER_PORT; under srun the defaults
// are the step's first host, and one of eight ports made of the job's number. The key is made of variables that the
// launcher gives to all ranks, so it also works if a script starts each rank. Throws user_error for variables that are
// not numbers, or that contradict each other.
std::optional<LaunchedRank> launched_rank_in(const Environment& environment);
std::optional<LaunchedRank> launched_rank_in_environment();

}  // namespace hearth::launch
