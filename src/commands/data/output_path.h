// Where commands write what is not a dataset of ours.
#pragma once

#include <vector>

#include "base/file.h"

namespace hearth::commands {

// Throws user_error where output of one of these files, or one folder as save_to_disk makes it, would write over
// something: files are replaced by name if `overwrite`, of folders only those that an export made, or nobody wrote
// into. Makes the folder around it.
void prepare_output_files(const std::vector<Path>& files, bool overwrite);
void prepare_output_folder(const Path& folder, bool overwrite);

}  // namespace hearth::commands
