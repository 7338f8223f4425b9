// `hearth bench comm`: checks its options, then becomes `hearth-train`.
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/run/options.h"

namespace hearth::commands {

std::optional<config::BenchCommOptions> bench_comm_options(CommandLine& line) {
  config::BenchCommOptions options;
  line.option("--ranks", "N", &options.ranks,
              "processes to start on this host; without it, those that srun, mpirun or torchrun started, or two")
      .range(1, 4096);
  line.option("--mib", "N", &options.mib, "size of the tensor on each rank, all shards together, in MiB")
      .range(1, 1 << 20);
  line.option("--repeats", "N", &options.repeats, "timed calls of each operation").range(1, 100000);
  line.option("--backend", "NAME", &options.backend, "how tensors go: comm.backend")
      .choices({"auto", "host", "mpi", "nccl"});
  line.option("--nccl-library", "FILE", &options.library, "comm.nccl_library");
  line.option("--device", "NAME", &options.device, "where the tensors are; \"cuda\": a GPU for each rank, through NCCL")
      .choices({"cpu", "cuda"});
  line.flag("--json", &options.json, "print one JSON object");
  if (!line.parse()) return std::nullopt;
  return options;
}

int bench_comm(CommandLine& line) {
  if (!bench_comm_options(line)) return 0;
  become_hearth_train(line);
}

}  // namespace hearth::commands
