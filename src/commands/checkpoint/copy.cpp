// SPDX-License-Identifier: Apache-2.0
#include "base/copy_tree.h"
#include "checkpoint/step_folder.h"
#include "commands/commands.h"
#include "commands/progress_line.h"

namespace hearth::commands {

int copy(CommandLine& line) {
  Path from, to;
  line.positional("FROM", &from, "folder of a checkpoint, a dataset or an export, on a disk or s3://BUCKET/FOLDER");
  line.positional("TO", &to, "the folder's copy, on a disk or s3://BUCKET/FOLDER");
  if (!line.parse()) return 0;
  // A step of a store, without the number of its save.
  const auto step = checkpoint::parse_step_name(from.filename().string());
  if (step && step->number == checkpoint::SaveNumber{} && !path_exists(from))
    from = checkpoint::step_folder(from.parent_path(), step->step);
  const Stopwatch clock;
  CopyProgress progress;
  const CopyResult result =
      with_progress([&] { return bytes_bar("copying", progress.done_bytes, progress.all_bytes, clock.seconds()); },
                    [&] { return copy_tree(from, to, progress); });
  fmt::print("{}: {}, {}, read back and equal, in {}", to.string(), counted(result.files, "file"),
             format_bytes(result.bytes), format_duration(clock.seconds()));
  if (result.there > 0) fmt::print("; {} were there already", result.there);
  fmt::print("\n");
  return 0;
}

}  // namespace hearth::commands
