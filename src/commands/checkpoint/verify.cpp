#include "checkpoint/verify.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/quantity.h"
#include "commands/commands.h"

namespace hearth::commands {

int verify(CommandLine& line) {
  Path folder;
  line.positional("CHECKPOINT", &folder, "folder of one step, RUN/checkpoints/step-...");
  if (!line.parse()) return 0;

  const checkpoint::Verification found = checkpoint::verify_checkpoint(folder);
  if (!found.problems.empty()) {
    for (const std::string& problem : found.problems) log_error("damaged: {}", problem);
    throw damaged(
        fmt::format("{} is damaged: {}", folder.string(),
                    found.problems.size() == 1 ? "1 problem" : fmt::format("{} problems", found.problems.size())),
        {}, "use another checkpoint of the run; `hearth train` takes the newest good one by itself");
  }
  const std::string contents =
      fmt::format("{} tensors in {} items, {}", found.tensors, found.items, format_bytes(found.bytes));
  if (found.has_manifest) {
    fmt::print("{}: good. Every checksum is right: {}, .metadata and hearth.json\n", folder.string(), contents);
  } else {
    fmt::print(
        "{}: structure good: {}. There is no hearth.json (PyTorch wrote it), so there are no checksums of ours to "
        "check; "
        "the zip files' own CRC-32s are right\n",
        folder.string(), contents);
  }
  return 0;
}

}  // namespace hearth::commands
