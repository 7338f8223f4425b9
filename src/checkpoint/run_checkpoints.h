// Where the checkpoints of a run folder are.
#pragma once

#include <cstdint>

#include "base/file.h"

namespace hearth::checkpoint {

// The folder or store that RUN/config.toml names (checkpoint.folder); RUN/checkpoints without that file. It need not
// exist.
Path checkpoint_folder_of(const Path& run);

// The same, or `run` itself: the one with step-... folders. Throws user_error if there are no checkpoints.
Path checkpoints_of(const Path& run);

}  // namespace hearth::checkpoint
