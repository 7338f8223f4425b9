// `hearth bench gemm`: checks its options, then becomes `hearth-train`.
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/run/options.h"

namespace hearth::commands {

std::optional<config::BenchGemmOptions> bench_gemm_options(CommandLine& line) {
  config::BenchGemmOptions options;
  line.option("--device", "NAME", &options.device, "the device: cpu, or cuda for a GPU").choices({"cpu", "cuda"});
  line.option("--dtype", "NAME", &options.dtype, "of both factors and the product")
      .choices({"float32", "bfloat16", "float64"});
  line.option("--threads", "N", &options.threads, "CPU threads; 0 means all it may use").range(0, 4096);
  line.flag("--json", &options.json, "print one JSON object");
  if (!line.parse()) return std::nullopt;
  return options;
}

int bench_gemm(CommandLine& line) {
  if (!bench_gemm_options(line)) return 0;
  become_hearth_train(line);
}

}  // namespace hearth::commands
