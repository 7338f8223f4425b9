// Where commands write what is not a dataset of ours.
#pragma once

#include <string>

#include "base/file.h"

namespace hearth::commands {

// Throws user_error where output in format `to` ("bin-idx", "save-to-disk", "jsonl") would write over something: files
// are replaced by name if `overwrite`, of folders only those that an export made, or nobody wrote into. Makes the
// folder around it.
void prepare_output(const std::string& to, const Path& out, bool overwrite);

}  // namespace hearth::commands
