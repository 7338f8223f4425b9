// SPDX-License-Identifier: Apache-2.0
// The options of `hearth bench comm`.
#include "commands/torch_options.h"

namespace hearth::commands {

std::optional<config::BenchCommOptions> bench_comm_options(CommandLine& line) {
  config::BenchCommOptions options;
  line.option("--ranks N", &options.ranks, within(1, 4096),
              "processes to start on this host; without it, those that srun, mpirun or torchrun started, or two");
  line.option("--mib N", &options.mib, within(1, 1 << 20),
              "size of the tensor on each rank, all shards together, in MiB");
  line.option("--repeats N", &options.repeats, within(1, 100000), "timed calls of each operation");
  line.option("--backend NAME", &options.backend, one_of({"auto", "host", "mpi", "nccl"}),
              "how tensors go: comm.backend");
  line.option("--nccl-library FILE", &options.library, "comm.nccl_library");
  line.option("--device NAME", &options.device, one_of({"cpu", "cuda"}),
              "where the tensors are; \"cuda\": a GPU for each rank, through NCCL");
  line.flag("--json", &options.json, "print one JSON object");
  if (!line.parse()) return std::nullopt;
  return options;
}

}  // namespace hearth::commands
