// Output paths of commands that do not write a dataset of ours.
#pragma once

#include <vector>

#include "base/file.h"

namespace hearth::commands {

// Throws user_error if the output would overwrite something: these files, or a folder in the layout of save_to_disk.
// With `overwrite`, a file may replace a file, and a folder may replace an empty one or an earlier export. Makes the
// parent folder.
void prepare_output_files(const std::vector<Path>& files, bool overwrite);
void prepare_output_folder(const Path& folder, bool overwrite);

}  // namespace hearth::commands
