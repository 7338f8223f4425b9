// SPDX-License-Identifier: Apache-2.0
// `.metadata` of a checkpoint, checked against hearth.json where that is there.
#pragma once

#include <optional>

#include "base/file.h"
#include "checkpoint/manifest.h"
#include "formats/dcp.h"

namespace hearth::checkpoint {

// The fix of errors about damage.
inline constexpr const char* kTakeAnother =
    "use another checkpoint of the run; `hearth train` takes the newest good one by itself";

// With a manifest, each item gets its checksum. Throws damaged() if the file is missing or not what the manifest says.
formats::Metadata load_metadata(const Path& folder, const std::optional<Manifest>& manifest);

}  // namespace hearth::checkpoint
