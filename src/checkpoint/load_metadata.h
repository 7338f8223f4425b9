// SPDX-License-Identifier: Apache-2.0
// Reads a checkpoint's `.metadata`, and checks it against hearth.json if that file exists.
#pragma once

#include <optional>

#include "base/file.h"
#include "checkpoint/manifest.h"
#include "formats/dcp.h"

namespace hearth::checkpoint {

// What errors about damage tell the user to do.
inline constexpr const char* kTakeAnother =
    "use another checkpoint of the run; `hearth train` takes the newest good one by itself";

// With a manifest, each item gets its checksum. Throws damaged() if the file is missing or differs from what the
// manifest says.
formats::Metadata load_metadata(const Path& folder, const std::optional<Manifest>& manifest);

}  // namespace hearth::checkpoint
