// The checkpoints of a run folder.
#pragma once

#include <cstdint>

#include "base/file.h"

namespace hearth::checkpoint {

// The folder with the step-... folders: RUN/checkpoints, or what RUN/config.toml calls it, or `run` itself. Throws
// user_error if there are no checkpoints.
Path checkpoints_of(const Path& run);

}  // namespace hearth::checkpoint
