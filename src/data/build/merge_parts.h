// SPDX-License-Identifier: Apache-2.0
// Merges the parts of a build into one dataset.
#pragma once

#include "base/file.h"
#include "data/shard/manifest.h"

namespace hearth::data {

// `folder` holds the output of `hearth data build --part I/N` for every I. Writes manifest.json and removes the parts'
// own manifests; the folder is then byte for byte what a single build makes. Throws user_error if a part is missing, or
// if the parts' text or options differ, damaged() for a shard that is missing or cut.
DatasetManifest merge_parts(const Path& folder);

}  // namespace hearth::data
