// SPDX-License-Identifier: Apache-2.0
// Where a run folder's checkpoints are, and which one a path means.
#pragma once

#include <optional>

#include "base/file.h"
#include "checkpoint/retain.h"
#include "config/config.h"

namespace hearth::runfolder {

// The folder or store that RUN/config.toml names (checkpoint.folder); RUN/checkpoints without that file. It need not
// exist.
Path checkpoint_folder_of(const Path& run);

// checkpoint_folder_of(run), or `run` itself if that has the step-... folders. Throws user_error if there are no
// checkpoints.
Path checkpoints_of(const Path& run);

// The checkpoint of `folder`: `folder` itself (ours or PyTorch's), or the newest step in it, in the checkpoints of a
// run folder (checkpoint_folder_of), or in torchtitan's checkpoint/ with names like step-7. CHECKPOINTS/step-N without
// the number of a save means step_folder() of that step. Opens no checkpoint. Throws user_error if it finds no
// checkpoint.
Path find_checkpoint(const Path& folder);
// find_checkpoint(), but nullopt in place of the error.
std::optional<Path> checkpoint_in(const Path& folder);

// The rules in a run file about which checkpoints the run keeps.
checkpoint::KeepRules keep_rules(const config::Checkpoint& config);

}  // namespace hearth::runfolder
