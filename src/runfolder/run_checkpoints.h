// SPDX-License-Identifier: Apache-2.0
// Which checkpoints a run folder has, and where.
#pragma once

#include <optional>

#include "base/file.h"
#include "checkpoint/retain.h"
#include "config/config.h"

namespace hearth::runfolder {

// The folder or store that RUN/config.toml names (checkpoint.folder); RUN/checkpoints without that file. It need not
// exist.
Path checkpoint_folder_of(const Path& run);

// The same, or `run` itself: the one with step-... folders. Throws user_error if there are no checkpoints.
Path checkpoints_of(const Path& run);

// The checkpoint of `folder`: `folder` itself (ours or PyTorch's), or the newest step in it, in the checkpoints of a
// run folder (checkpoint_folder_of), or in torchtitan's checkpoint/ with names like step-7. For CHECKPOINTS/step-N
// without a number of a save, step_folder() of it. No checkpoint is opened. Throws user_error without one.
Path find_checkpoint(const Path& folder);
// The same, or nothing.
std::optional<Path> checkpoint_in(const Path& folder);

// Which checkpoints a run keeps, by its run file.
checkpoint::KeepRules keep_rules(const config::Checkpoint& config);

}  // namespace hearth::runfolder
