// SPDX-License-Identifier: Apache-2.0
// `hearth config import`: a run file of another trainer as one of ours.
#include "config/import/import.h"

#include "commands/commands.h"

namespace hearth::commands {

int config_import(CommandLine& line) {
  std::vector<Path> files;
  Path out;
  std::string from;
  config::ImportOptions options;
  bool no_layout = false;
  line.positional("FILE", &files,
                  "the run's files, or its command as bash prints it; several are read as one, and - is stdin");
  line.option("--out RUN.toml", &out, "the file to make; without it, the text is printed");
  line.option("--from KIND", &from, one_of(config::dialect_names()),
              "the kind of the files; without it, their keys say it");
  line.option("--ranks N", &options.ranks, within(1, 1 << 24), "GPUs of the training, where the files do not say it");
  line.flag("--no-layout", &no_layout, "leave out degrees of parallelism and micro-batches");
  line.option("--leave-out KEY", &options.leave_out, "a key of the files that is not imported, though it matters");
  if (!line.parse()) return 0;
  options.layout = !no_layout;
  if (!out.empty() && path_exists(out))
    throw user_error(fmt::format("{} exists", out.string()), "an import does not replace a file",
                     "give another name, or remove the file");
  const config::Imported run = config::import_run(files, from, options, "hearth config import");
  if (out.empty()) {
    fmt::print("{}", run.text);
    return 0;
  }
  write_file_atomic(out, run.text);
  fmt::print("{}: {}, from {} of {}\n", out.string(), counted(run.num_keys, "key"), run.num_foreign_keys, run.dialect);
  fmt::print(
      "{}",
      format_rows(
          {{"next", fmt::format("read its comments, make the datasets that it names, then `hearth config check {}`",
                                out.string())}}));
  return 0;
}

}  // namespace hearth::commands
