// The parts of a build become one dataset.
#pragma once

#include "base/file.h"
#include "data/shard/manifest.h"

namespace hearth::data {

// `folder` holds what `hearth data build --part I/N` left there for every I. Writes manifest.json and removes the
// parts' own manifests; the folder then is, byte for byte, what a single build makes. Throws user_error where a part is
// missing or the parts were made from different text or with different options, damaged() for a shard that is missing
// or cut.
Manifest merge_parts(const Path& folder);

}  // namespace hearth::data
