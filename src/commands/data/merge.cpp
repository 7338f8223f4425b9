// SPDX-License-Identifier: Apache-2.0
// `hearth data merge`: the parts of a build, or several datasets, become one.
#include "commands/commands.h"
#include "commands/data/split_rows.h"
#include "data/build/merge_datasets.h"
#include "data/build/merge_parts.h"

namespace hearth::commands {
namespace {

void merge_into(const std::vector<Path>& folders, const Path& out, bool overwrite) {
  if (out.has_parent_path()) make_folders(out.parent_path());
  const data::MergeResult result = data::merge_datasets(folders, out, overwrite);
  print_split_rows(result.manifest);
  for (const std::string& note : result.notes) fmt::print("{}\n", note);
  if (result.was_complete)
    fmt::print("{} is complete already: nothing to do\n", out.string());
  else
    fmt::print("shared with the original datasets (hard links): {}; copied: {}\n",
               counted(result.shards_linked, "shard"), result.shards_copied);
}

}  // namespace

int data_merge(CommandLine& line) {
  std::vector<Path> folders;
  Path out;
  bool overwrite = false;
  line.positional("DIR", &folders,
                  "one: the --out of every `hearth data build --part I/N`; several: datasets, merged in this order");
  line.option("--out DIR", &out, "of several datasets: folder to make");
  line.flag("--overwrite", &overwrite, "of several datasets: replace a dataset that is there");
  if (!line.parse()) return 0;
  if (folders.size() > 1 && out.empty())
    throw user_error("several datasets become a new one", fmt::format("{} are given", folders.size()),
                     "say where: --out DIR; or name one folder, to merge the parts of a build in it");
  if (folders.size() == 1 && (!out.empty() || overwrite))
    throw user_error(fmt::format("{} goes with several datasets", out.empty() ? "--overwrite" : "--out"),
                     "the parts of a build are merged where they are", "name another dataset, or leave it out");
  if (folders.size() > 1)
    merge_into(folders, out, overwrite);
  else
    print_split_rows(data::merge_parts(folders.front()));
  return 0;
}

}  // namespace hearth::commands
