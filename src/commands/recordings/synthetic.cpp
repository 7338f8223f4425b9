// SPDX-License-Identifier: Apache-2.0
#include "recordings/synthetic.h"
#include "commands/commands.h"

namespace hearth::commands {

int data_synthetic(CommandLine& line) {
  Path out;
  int64_t rows = 0;
  uint64_t seed = 0;
  line.option("--rows N", &rows, within(1, 1000000), "arrays to make").required();
  line.option("--seed S", &seed, "seed of the random counts");
  line.option("--out DIR", &out, "folder to make").required();
  if (!line.parse()) return 0;
  recordings::write_synthetic_spikes(out, seed, rows);
  fmt::print("wrote {} to {}; next: hearth data build --tokenizer spikes --out DATA {}\n", counted(rows, "array"),
             out.string(), out.string());
  return 0;
}

}  // namespace hearth::commands
